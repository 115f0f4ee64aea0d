// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include <iostream>
#include <memory>

#include "hairpin/agent_lock.hpp"
#include "hairpin/cleanup.hpp"
#include "tools/hairpinctl/context.hpp"

namespace hairpin::ctl {

namespace {

struct Options {
  std::vector<std::string> interfaces;
  bool all = false;
  bool dry_run = false;
};

Json to_json(const Removed& removed) {
  return {{"kind", removed.kind}, {"name", removed.name}, {"where", removed.where}};
}

Json to_json(const CleanupReport& report) {
  Json removed = Json::array();
  for (const auto& each : report.removed) removed.push_back(to_json(each));
  Json failed = Json::array();
  for (const auto& each : report.failed) {
    Json entry = to_json(each.object);
    entry["why"] = each.error.to_string();
    failed.push_back(std::move(entry));
  }
  return {{"removed", removed},
          {"failed", failed},
          {"left", {{"programs", report.left.programs}, {"pins", report.left.pins}, {"qdiscs", report.left.qdiscs}}}};
}

void print_table(const CleanupReport& report, bool dry_run) {
  for (const auto& each : report.removed) {
    std::cout << (dry_run ? "would remove " : "removed ") << each.kind << ' ' << printable(each.name) << " ("
              << printable(each.where) << ")\n";
  }
  if (report.removed.empty() && report.failed.empty()) std::cout << "nothing to remove\n";
  std::cout << report.left.programs << " programs, " << report.left.pins << " pins, " << report.left.qdiscs
            << " qdiscs " << (dry_run ? "there\n" : "left\n");
}

int detach(const Options& options, const Context& context) {
  if (AgentLock::held(context.bpffs()) && !options.dry_run) {
    std::cerr << "hairpinctl: detach: an agent is running on " << context.bpffs().string()
              << ", and will attach to pods again as they change (stop it first)\n";
  }
  const CleanupOptions cleanup{.bpffs = context.bpffs(), .dry_run = options.dry_run};
  auto report =
      options.all ? Result<CleanupReport>{detach_all(cleanup)} : detach_interfaces(options.interfaces, cleanup);
  if (!report) return Context::complain(report.error(), kWrongInput);
  for (const auto& each : report->failed) Context::complain(each.error);
  context.print(to_json(*report), [&] { print_table(*report, options.dry_run); });
  return report->failed.empty() && (options.dry_run || report->left.nothing()) ? kDone : kFailed;
}

}  // namespace

void add_detach(CLI::App& app, Command& command) {
  auto options = std::make_shared<Options>();
  auto* detach_command = add_command(app, "detach", "Remove programs from these veths, or everything of Hairpin's",
                                     "hairpinctl detach --all");
  auto* names = detach_command->add_option("IFACE", options->interfaces, "Names of veths' host-side ends");
  auto* all =
      detach_command->add_flag("--all", options->all, "Programs, links, qdiscs, maps and pins, from everywhere");
  names->excludes(all);
  detach_command->add_flag("--dry-run", options->dry_run, "Say what would be removed, remove nothing");
  detach_command->callback([&command, options] {
    if (!options->all && options->interfaces.empty()) throw CLI::ValidationError("detach", "name interfaces, or --all");
    command = [options](const Context& context) { return detach(*options, context); };
  });
}

}  // namespace hairpin::ctl
