// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include <iostream>
#include <memory>

#include "maps/catalogue.hpp"
#include "tools/hairpinctl/context.hpp"

namespace hairpin::ctl {

namespace {

using Names = std::vector<std::string>;

int list(const Context& context, Dataplane& dataplane) {
  Json maps = Json::array();
  Grid grid{{"MAP", "ENTRIES", "OF", "PURPOSE"}};
  for (const auto& map : catalogue()) {
    auto entries = map.entries(dataplane.maps());
    if (!entries) return Context::complain(entries.error());
    const auto max_entries = map.max_entries(dataplane.maps());
    maps.push_back({{"name", map.name}, {"entries", *entries}, {"maxEntries", max_entries}, {"purpose", map.purpose}});
    grid.add({std::string{map.name}, std::to_string(*entries), std::to_string(max_entries), std::string{map.purpose}});
  }
  context.print({{"maps", maps}}, [&] { grid.print(std::cout, context.colour()); });
  return kDone;
}

/// One element in one line: KEY=VALUE, nested objects with a dot.
void flatten(const Json& value, const std::string& prefix, std::string& line) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) flatten(member, prefix.empty() ? key : prefix + "." + key, line);
    return;
  }
  if (!line.empty()) line += "  ";
  line += (prefix.empty() ? "" : prefix + "=") + (value.is_string() ? value.get<std::string>() : value.dump());
}

void print_table(const Json& maps) {
  for (const auto& [name, elements] : maps.items()) {
    std::cout << name << " (" << elements.size() << ")\n";
    for (const auto& element : elements) {
      std::string line;
      flatten(element, "", line);
      std::cout << "  " << printable(line) << '\n';
    }
  }
}

int dump(const Names& names, const Context& context, Dataplane& dataplane) {
  std::vector<const MapDescription*> wanted;
  for (const auto& name : names) {
    const auto* map = find_map(name);
    if (map == nullptr) {
      std::string known;
      for (const auto& each : catalogue()) known += (known.empty() ? "" : ", ") + std::string{each.name};
      return Context::complain({"dump map " + name, "there is no such map", "there are " + known, 0}, kWrongInput);
    }
    wanted.push_back(map);
  }
  if (wanted.empty()) {
    for (const auto& map : catalogue()) wanted.push_back(&map);
  }
  Json maps = Json::object();
  for (const auto* map : wanted) {
    auto elements = map->dump(dataplane.maps());
    if (!elements) return Context::complain(elements.error());
    maps[std::string{map->name}] = std::move(*elements);
  }
  context.print({{"maps", maps}}, [&] { print_table(maps); });
  return kDone;
}

}  // namespace

void add_map(CLI::App& app, Command& command) {
  auto* map = add_command(app, "map", "Look into the maps", "hairpinctl map dump services");
  map->require_subcommand(1);
  add_command(*map, "list", "Every map, its size and what it is for", "hairpinctl map list")->callback([&command] {
    command = [](const Context& context) {
      return context.with_dataplane([&](Dataplane& dataplane) { return list(context, dataplane); });
    };
  });
  auto names = std::make_shared<Names>();
  auto* dump_command =
      add_command(*map, "dump", "What is in the maps, decoded", "hairpinctl map dump services flows -o json");
  dump_command->add_option("NAME", *names, "Only these maps");
  dump_command->callback([&command, names] {
    command = [names](const Context& context) {
      return context.with_dataplane([&](Dataplane& dataplane) { return dump(*names, context, dataplane); });
    };
  });
}

}  // namespace hairpin::ctl
