// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include <iostream>
#include <memory>

#include "hairpin/manifests.hpp"
#include "hairpin/reconcile.hpp"
#include "loader/cluster/resolve.hpp"
#include "tools/hairpinctl/context.hpp"

namespace hairpin::ctl {

namespace {

struct Options {
  std::string file;
  bool dry_run = false;
};

Json to_json(const PortChange& change) {
  Json frontends = Json::array();
  for (const auto& frontend : change.frontends) {
    frontends.push_back({{"address", frontend.address.to_string()},
                         {"port", frontend.port},
                         {"protocol", to_string(frontend.protocol)},
                         {"kind", to_string(frontend.kind)}});
  }
  return {{"service", change.service},
          {"portName", change.port_name},
          {"change", to_string(change.kind)},
          {"frontends", frontends},
          {"endpoints", change.endpoints}};
}

Json to_json(const Changes& changes, const std::vector<std::string>& warnings, bool dry_run) {
  Json ports = Json::array();
  for (const auto& change : changes.ports) ports.push_back(to_json(change));
  Json refused = Json::array();
  for (const auto& refusal : changes.refused) {
    refused.push_back({{"service", refusal.service}, {"portName", refusal.port_name}, {"why", refusal.why}});
  }
  return {{"dryRun", dry_run}, {"changes", ports}, {"refused", refused}, {"warnings", warnings}};
}

int apply(const Options& options, const Context& context, Dataplane& dataplane) {
  const auto snapshot = options.file == "-" ? read_manifests_from_stdin() : read_manifests(options.file);
  if (!snapshot) return Context::complain(snapshot.error(), kWrongInput);
  const auto resolved = cluster::resolve(*snapshot);
  auto reconciler = Reconciler::create(dataplane.maps());
  if (!reconciler) return Context::complain(reconciler.error());
  auto changes =
      options.dry_run ? Result<Changes>{reconciler->preview(resolved.desired)} : reconciler->apply(resolved.desired);
  if (!changes) return Context::complain(changes.error());

  for (const auto& refusal : changes->refused) std::cerr << "hairpinctl: " << printable(describe(refusal)) << '\n';
  context.print(to_json(*changes, resolved.warnings, options.dry_run), [&] {
    for (const auto& warning : resolved.warnings) std::cerr << "hairpinctl: " << printable(warning) << '\n';
    for (const auto& change : changes->ports) std::cout << printable(describe(change)) << '\n';
    if (changes->ports.empty() && changes->refused.empty()) std::cout << "nothing to change\n";
    if (options.dry_run) std::cout << "dry run: nothing was written\n";
  });
  return changes->refused.empty() ? kDone : kFailed;
}

}  // namespace

void add_apply(CLI::App& app, Command& command) {
  auto options = std::make_shared<Options>();
  auto* apply_command = add_command(app, "apply", "Make services and endpoints equal to these manifests, once",
                                    "kubectl get services,endpointslices -A -o yaml | hairpinctl apply -f -");
  apply_command
      ->add_option("-f,--filename", options->file, "A file or folder of Kubernetes YAML or JSON; -: standard input")
      ->required();
  apply_command->add_flag("--dry-run", options->dry_run, "Say what would change, write nothing");
  apply_command->callback([&command, options] {
    command = [options](const Context& context) {
      return context.with_dataplane([&](Dataplane& dataplane) { return apply(*options, context, dataplane); });
    };
  });
}

}  // namespace hairpin::ctl
