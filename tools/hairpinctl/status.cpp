// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include <cerrno>
#include <iostream>

#include "hairpin/agent_lock.hpp"
#include "hairpin/links.hpp"
#include "loader/identity.hpp"
#include "maps/catalogue.hpp"
#include "maps/decode.hpp"
#include "tools/hairpinctl/context.hpp"

namespace hairpin::ctl {

namespace {

constexpr std::uint32_t kOnly = 0;

/// What is on the interfaces, asked of the hooks and not of any list of ours.
Result<Json> interfaces() {
  auto links = list_links();
  if (!links) return fail(std::move(links).error());
  Json found = Json::array();
  for (const auto& hook : all_hooks()) {
    for (const auto& link : *links) {
      auto attachments = hook->list(link.ifindex);
      if (!attachments) return fail(std::move(attachments).error());
      bool ingress = false;
      bool egress = false;
      for (const auto& attachment : *attachments) {
        if (!is_ours(attachment.program_id)) continue;
        (attachment.direction == Direction::kIngress ? ingress : egress) = true;
      }
      if (!ingress && !egress) continue;
      found.push_back({{"name", link.name},
                       {"ifindex", link.ifindex},
                       {"hook", to_string(hook->kind())},
                       {"ingress", ingress},
                       {"egress", egress}});
    }
  }
  return found;
}

Result<Json> map_levels(const Maps& maps) {
  Json levels = Json::array();
  for (const auto& map : catalogue()) {
    auto entries = map.entries(maps);
    if (!entries) return fail(std::move(entries).error());
    levels.push_back({{"name", map.name}, {"entries", *entries}, {"maxEntries", map.max_entries(maps)}});
  }
  return levels;
}

Json agent(const hp_config& config, const std::filesystem::path& bpffs) {
  const bool running = AgentLock::held(bpffs);
  return {{"running", running},
          {"pid", running ? Json(config.agent_pid) : Json(nullptr)},
          {"synced", running && config.agent_synced != 0}};
}

Json nothing(const std::filesystem::path& bpffs) {
  return {{"loaded", false},
          {"mode", ""},
          {"version", HAIRPIN_VERSION},
          {"bpffs", bpffs.string()},
          {"interfaces", Json::array()},
          {"maps", Json::array()},
          {"agent", {{"running", AgentLock::held(bpffs)}, {"pid", nullptr}, {"synced", false}}}};
}

Result<Json> describe(const Dataplane& dataplane) {
  auto config = dataplane.maps().config.find(kOnly);
  if (!config) return fail(std::move(config).error());
  auto attached = interfaces();
  if (!attached) return attached;
  auto levels = map_levels(dataplane.maps());
  if (!levels) return levels;
  auto settings = dataplane.settings();
  if (!settings) return fail(std::move(settings).error());
  Json programs = Json::array();
  for (const Direction direction : {Direction::kIngress, Direction::kEgress}) {
    auto id = dataplane.program_id(direction);
    if (!id) return fail(std::move(id).error());
    programs.push_back({{"name", program_name(*id)}, {"id", *id}});
  }
  const hp_config values = config->value_or(hp_config{});
  return Json{{"loaded", true},
              {"mode", mode_name(values.mode)},
              {"version", HAIRPIN_VERSION},
              {"layoutVersion", values.layout_version},
              {"bpffs", dataplane.bpffs().string()},
              {"programs", programs},
              {"features", {{"tcx", tcx_supported()}, {"redirect", settings->redirect_peer != 0 ? "peer" : "egress"}}},
              {"interfaces", *attached},
              {"maps", *levels},
              {"agent", agent(values, dataplane.bpffs())}};
}

void print_table(const Json& document, bool colour) {
  const auto& agent = document["agent"];
  std::cout << "loaded      " << document["bpffs"].get<std::string>() << ", layout " << document["layoutVersion"]
            << ", version " << document["version"].get<std::string>() << '\n'
            << "mode        " << document["mode"].get<std::string>() << '\n'
            << "agent       ";
  if (agent["running"].get<bool>()) {
    std::cout << "running, pid " << agent["pid"] << (agent["synced"].get<bool>() ? ", synced\n" : ", not synced yet\n");
  } else {
    std::cout << "not running; the dataplane works on with what it has\n";
  }
  std::cout << "redirect    " << document["features"]["redirect"].get<std::string>() << "\n\n";

  Grid interfaces{{"INTERFACE", "INDEX", "HOOK", "FROM POD", "TO POD"}};
  const auto there = [](const Json& value) { return value.get<bool>() ? "attached" : "MISSING"; };
  for (const auto& link : document["interfaces"]) {
    interfaces.add({link["name"].get<std::string>(), link["ifindex"].dump(), link["hook"].get<std::string>(),
                    there(link["ingress"]), there(link["egress"])});
  }
  if (interfaces.empty()) {
    std::cout << "no interface is attached\n";
  } else {
    interfaces.print(std::cout, colour);
  }
  std::cout << '\n';
  Grid maps{{"MAP", "ENTRIES", "OF"}};
  for (const auto& map : document["maps"]) {
    maps.add({map["name"].get<std::string>(), map["entries"].dump(), map["maxEntries"].dump()});
  }
  maps.print(std::cout, colour);
}

int status(const Context& context) {
  auto dataplane = Dataplane::open(context.bpffs());
  if (!dataplane) {
    if (dataplane.error().code != ENOENT) return Context::complain(dataplane.error());
    context.print(nothing(context.bpffs()), [] {});
    return Context::complain(dataplane.error(), kNotLoaded);
  }
  auto document = describe(*dataplane);
  if (!document) return Context::complain(document.error());
  context.print(*document, [&] { print_table(*document, context.colour()); });
  return kDone;
}

}  // namespace

void add_status(CLI::App& app, Command& command) {
  add_command(app, "status", "Mode, programs, attached interfaces, map fill levels, agent", "hairpinctl status -o json")
      ->callback([&command] { command = status; });
}

}  // namespace hairpin::ctl
