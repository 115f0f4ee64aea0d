// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "maps/catalogue.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <vector>

namespace hairpin {

namespace {

using Json = nlohmann::ordered_json;

Json to_json(const AddressPort& at) { return {{"address", at.address.to_string()}, {"port", at.port}}; }

Json to_json(const hp_addr& address, __be16 port) { return to_json(AddressPort{Address{address}, ntohs(port)}); }

Json to_json(const EndpointView& endpoint) {
  Json json = to_json(endpoint.at);
  json["state"] = backend_state_name(endpoint.state);
  return json;
}

Json to_json(const TupleView& tuple) {
  return {{"source", to_json(tuple.source)}, {"destination", to_json(tuple.destination)}};
}

Json to_json(const hp_tuple& tuple) {
  return {{"source", to_json(tuple.src, tuple.sport)},
          {"destination", to_json(tuple.dst, tuple.dport)},
          {"protocol", protocol_name(tuple.protocol)},
          {"ifindex", tuple.ifindex}};
}

// ---- one function a map: an element as JSON ------------------------------------------------------------------------

Json to_json(const hp_addr& address, const hp_gate& gate) {
  Json roles = Json::array();
  if (gate.roles & HP_ROLE_FRONTEND) roles.push_back("frontend");
  if (gate.roles & HP_ROLE_ENDPOINT) roles.push_back("endpoint");
  return {{"address", Address{address}.to_string()}, {"roles", roles}};
}

Json to_json(std::uint32_t index, const hp_slot& slot) {
  return {{"index", index}, {"backend", slot.backend}, {"generation", slot.generation}};
}

Json to_json(std::uint32_t index, const hp_backend& backend) {
  Json json{{"index", index}};
  json.update(to_json(backend.address, backend.port));
  json["protocol"] = protocol_name(backend.protocol);
  json["state"] = backend_state_name(backend.state);
  json["serviceId"] = backend.service;
  json["epoch"] = backend.epoch;
  return json;
}

Json to_json(const hp_tuple& tuple, const hp_flow_ref& ref) {
  Json json = to_json(tuple);
  json["flow"] = ref.flow >> 1;
  json["direction"] = (ref.flow & 1) == HP_REPLY ? "reply" : "request";
  return json;
}

Json to_json(const hp_tuple& reply, const hp_direct& /*direct*/) { return to_json(reply); }

Json to_json(std::uint32_t ifindex, const hp_interface& interface) {
  Json chunks = Json::array();
  for (std::uint32_t i = 0; i < interface.chunk_count && i < HP_CHUNKS_PER_POD; ++i) {
    chunks.push_back(interface.chunks[i]);
  }
  return {{"ifindex", ifindex}, {"bridge", interface.bridge}, {"chunks", chunks}};
}

Json to_json(std::uint32_t /*key*/, const hp_config& config) {
  return {{"layoutVersion", config.layout_version},
          {"mode", mode_name(config.mode)},
          {"seed", config.seed},
          {"agentPid", config.agent_pid},
          {"agentSynced", config.agent_synced != 0}};
}

Json to_json(std::uint32_t id, const hp_name& name) {
  return {{"serviceId", id}, {"service", std::string{name.name, strnlen(name.name, sizeof name.name)}}};
}

// ---- what of an array map counts as there
// ----------------------------------------------------------------------------

template <typename Key, typename Value>
bool present(const Key& /*key*/, const Value& /*value*/) {
  return true;
}
bool present(const std::uint32_t& /*index*/, const hp_backend& backend) { return backend.state != HP_BACKEND_FREE; }

// ---- the three things that the catalogue knows of a map
// ---------------------------------------------------------------

template <auto Member>
std::uint32_t max_entries(const Maps& maps) {
  return (maps.*Member).max_entries();
}

template <auto Member>
Result<std::size_t> count(const Maps& maps) {
  auto entries = (maps.*Member).read_all();
  if (!entries) return fail(std::move(entries).error());
  return static_cast<std::size_t>(
      std::ranges::count_if(*entries, [](const auto& entry) { return present(entry.first, entry.second); }));
}

template <auto Member>
Result<Json> dump(const Maps& maps) {
  auto entries = (maps.*Member).read_all();
  if (!entries) return fail(std::move(entries).error());
  Json array = Json::array();
  for (const auto& [key, value] : *entries) {
    if (present(key, value)) array.push_back(to_json(key, value));
  }
  return array;
}

template <auto Read>
Result<Json> dump_views(const Maps& maps) {
  auto views = Read(maps);
  if (!views) return fail(std::move(views).error());
  Json array = Json::array();
  for (const auto& view : *views) array.push_back(to_json(view));
  return array;
}

/// Slots that were given up keep what they held until they are used again: those count that some frontend leads to.
Result<std::vector<std::pair<std::uint32_t, hp_slot>>> used_slots(const Maps& maps) {
  auto services = maps.services.read_all();
  if (!services) return fail(std::move(services).error());
  auto slots = maps.slots.read_all();
  if (!slots) return fail(std::move(slots).error());
  std::vector<bool> used(slots->size());
  for (const auto& [frontend, service] : *services) {
    const std::size_t base = hp_slots_base(service.slots);
    for (std::size_t i = base; i < base + hp_slots_count(service.slots) && i < used.size(); ++i) used[i] = true;
  }
  std::erase_if(*slots, [&](const auto& entry) { return !used.at(entry.first); });
  return slots;
}

Result<std::size_t> count_slots(const Maps& maps) {
  auto slots = used_slots(maps);
  if (!slots) return fail(std::move(slots).error());
  return slots->size();
}

Result<Json> dump_slots(const Maps& maps) {
  auto slots = used_slots(maps);
  if (!slots) return fail(std::move(slots).error());
  Json array = Json::array();
  for (const auto& [index, slot] : *slots) array.push_back(to_json(index, slot));
  return array;
}

Result<std::size_t> count_flows(const Maps& maps) {
  auto flows = read_flows(maps);
  if (!flows) return fail(std::move(flows).error());
  return flows->size();
}

/// A queue shows its elements only to who takes them: the free chunks are those that no interface has.
Result<std::vector<std::uint32_t>> free_chunks(const Maps& maps) {
  auto interfaces = maps.interfaces.read_all();
  if (!interfaces) return fail(std::move(interfaces).error());
  std::array<bool, HP_CHUNKS> taken{};
  for (const auto& [ifindex, interface] : *interfaces) {
    for (std::uint32_t i = 0; i < interface.chunk_count && i < HP_CHUNKS_PER_POD; ++i) {
      if (interface.chunks[i] < HP_CHUNKS) taken.at(interface.chunks[i]) = true;
    }
  }
  std::vector<std::uint32_t> free;
  for (std::uint32_t chunk = 0; chunk < HP_CHUNKS; ++chunk) {
    if (!taken.at(chunk)) free.push_back(chunk);
  }
  return free;
}

Result<std::size_t> count_chunks(const Maps& maps) {
  auto free = free_chunks(maps);
  if (!free) return fail(std::move(free).error());
  return free->size();
}

Result<Json> dump_chunks(const Maps& maps) {
  auto free = free_chunks(maps);
  if (!free) return fail(std::move(free).error());
  return Json(*free);
}

Result<std::size_t> count_counters(const Maps& maps) { return maps.counters.max_entries(); }

Result<Json> dump_counters(const Maps& maps) {
  auto sums = maps.counters.read_all();
  if (!sums) return fail(std::move(sums).error());
  Json array = Json::array();
  for (std::size_t reason = 0; reason < sums->size(); ++reason) {
    array.push_back({{"reason", reason_name(reason)}, {"text", reason_text(reason)}, {"count", (*sums)[reason]}});
  }
  return array;
}

constexpr std::array kCatalogue{
    MapDescription{"frontends", "addresses that are looked at: frontends' and endpoints'",
                   max_entries<&Maps::frontends>, count<&Maps::frontends>, dump<&Maps::frontends>},
    MapDescription{"tuples", "which flow a packet belongs to", max_entries<&Maps::tuples>, count<&Maps::tuples>,
                   dump<&Maps::tuples>},
    MapDescription{"flows", "live flows: both tuples, state, endpoint", max_entries<&Maps::flows>, count_flows,
                   dump_views<read_flows>},
    MapDescription{"services", "frontends and the endpoints behind them", max_entries<&Maps::services>,
                   count<&Maps::services>, dump_views<read_services>},
    MapDescription{"slots", "the endpoints of each frontend, by index", max_entries<&Maps::slots>, count_slots,
                   dump_slots},
    MapDescription{"backends", "endpoints, each as one service has it", max_entries<&Maps::backends>,
                   count<&Maps::backends>, dump<&Maps::backends>},
    MapDescription{"direct", "connections straight to an endpoint, by their replies", max_entries<&Maps::direct>,
                   count<&Maps::direct>, dump<&Maps::direct>},
    MapDescription{"interfaces", "pods' veths and their shares of the flow table", max_entries<&Maps::interfaces>,
                   count<&Maps::interfaces>, dump<&Maps::interfaces>},
    MapDescription{"chunks", "parts of the flow table that no pod has", max_entries<&Maps::chunks>, count_chunks,
                   dump_chunks},
    MapDescription{"counters", "packets dropped or refused, by reason", max_entries<&Maps::counters>, count_counters,
                   dump_counters},
    MapDescription{"config", "layout version, mode, the agent's state", max_entries<&Maps::config>,
                   count<&Maps::config>, dump<&Maps::config>},
    MapDescription{"names", "services' names, for people", max_entries<&Maps::names>, count<&Maps::names>,
                   dump<&Maps::names>},
};

}  // namespace

Json to_json(const ServiceView& view) {
  Json frontend = to_json(view.frontend);
  frontend["protocol"] = protocol_name(view.protocol);
  frontend["kind"] = kind_name(view.kind);
  Json endpoints = Json::array();
  for (const auto& endpoint : view.endpoints) endpoints.push_back(to_json(endpoint));
  Json draining = Json::array();
  for (const auto& endpoint : view.draining) draining.push_back(to_json(endpoint));
  return {{"service", view.service},
          {"frontend", frontend},
          {"hairpin", true},
          {"endpoints", endpoints},
          {"draining", draining}};
}

Json to_json(const FlowView& view) {
  return {{"service", view.service},
          {"protocol", protocol_name(view.protocol)},
          {"state", flow_state_name(view.state)},
          {"hairpin", view.hairpin},
          {"ifindex", view.ifindex},
          {"request", to_json(view.request)},
          {"reply", to_json(view.reply)},
          {"age", view.age.count()},
          {"idle", view.idle.count()}};
}

std::span<const MapDescription> catalogue() { return kCatalogue; }

const MapDescription* find_map(std::string_view name) {
  const auto* const found = std::ranges::find(kCatalogue, name, &MapDescription::name);
  return found == kCatalogue.end() ? nullptr : found;
}

}  // namespace hairpin
