// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include <algorithm>
#include <iostream>
#include <memory>

#include "hairpin/links.hpp"
#include "tools/hairpinctl/context.hpp"

namespace hairpin::ctl {

namespace {

struct Options {
  std::vector<std::string> interfaces;
  bool all = false;
};

Result<std::vector<Link>> choose(const Options& options, const Config& config) {
  auto links = list_links();
  if (!links) return links;
  std::vector<Link> chosen;
  if (options.all) {
    std::ranges::copy_if(*links, std::back_inserter(chosen),
                         [&](const Link& link) { return is_pod(link) && matches(config.pods, link.name); });
    return chosen;
  }
  for (const auto& name : options.interfaces) {
    const auto link = std::ranges::find(*links, name, &Link::name);
    if (link == links->end()) return fail("attach to " + name, "there is no such interface");
    if (!is_pod(*link)) {
      return fail("attach to " + name,
                  "it is not a pod's: only veths whose other end is in another network namespace are");
    }
    chosen.push_back(*link);
  }
  return chosen;
}

int attach(const Options& options, const Context& context, Dataplane& dataplane) {
  auto links = choose(options, context.config());
  if (!links) return Context::complain(links.error(), kWrongInput);
  const auto hook = make_hook(context.config().hook);
  Json attached = Json::array();
  int status = kDone;
  for (const auto& link : *links) {
    if (auto done = dataplane.attach(link, *hook); !done) {
      status = Context::complain(done.error());
      continue;
    }
    attached.push_back({{"name", link.name}, {"ifindex", link.ifindex}, {"hook", to_string(hook->kind())}});
  }
  context.print({{"attached", attached}}, [&] {
    for (const auto& link : attached) {
      std::cout << printable(link["name"].get<std::string>()) << ": attached (" << to_string(hook->kind()) << ")\n";
    }
    if (attached.empty() && status == kDone) std::cout << "no pod's interface here\n";
  });
  return status;
}

}  // namespace

void add_attach(CLI::App& app, Command& command) {
  auto options = std::make_shared<Options>();
  auto* attach_command =
      add_command(app, "attach", "Attach to these veths, or to every pod's", "hairpinctl attach --all");
  auto* names = attach_command->add_option("IFACE", options->interfaces, "Names of veths' host-side ends");
  auto* all = attach_command->add_flag("--all", options->all, "Every pod's veth, by the config's patterns");
  names->excludes(all);
  attach_command->callback([&command, options] {
    if (!options->all && options->interfaces.empty()) throw CLI::ValidationError("attach", "name interfaces, or --all");
    command = [options](const Context& context) {
      return context.with_dataplane([&](Dataplane& dataplane) { return attach(*options, context, dataplane); });
    };
  });
}

}  // namespace hairpin::ctl
