// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "maps/decode.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <tuple>
#include <unordered_map>

namespace hairpin {

namespace {

struct Reason {
  const char* name;
  const char* text;
};

constexpr std::array kReasons{
#define HP_REASON(enumerator, name, text) Reason{name, text},
#include "maps/reasons.def"
#undef HP_REASON
};

using Names = std::unordered_map<std::uint32_t, std::string>;

Result<Names> read_names(const Maps& maps) {
  auto entries = maps.names.read_all();
  if (!entries) return fail(std::move(entries).error());
  Names names;
  for (const auto& [id, name] : *entries) names[id] = std::string{name.name, strnlen(name.name, sizeof name.name)};
  return names;
}

std::string name_of(const Names& names, std::uint32_t id) {
  const auto name = names.find(id);
  return name == names.end() ? "?" : name->second;
}

AddressPort at(const hp_addr& address, __be16 port) { return {Address{address}, ntohs(port)}; }

EndpointView endpoint_view(const hp_backend& backend) { return {at(backend.address, backend.port), backend.state}; }

std::vector<EndpointView> behind(std::uint64_t slots, const std::vector<std::pair<std::uint32_t, hp_slot>>& all_slots,
                                 const std::vector<std::pair<std::uint32_t, hp_backend>>& backends) {
  std::vector<EndpointView> endpoints;
  for (std::uint32_t i = 0; i < hp_slots_count(slots); ++i) {
    const std::size_t index = hp_slots_base(slots) + i;
    // The maps are read one after the other: a slot may be of a later generation than the service.
    if (index >= all_slots.size() || all_slots[index].second.generation != hp_slots_generation(slots)) continue;
    const std::uint32_t backend = all_slots[index].second.backend;
    if (backend < backends.size()) endpoints.push_back(endpoint_view(backends[backend].second));
  }
  return endpoints;
}

/// Those of the service's backends with the frontend's protocol and family that stand in no slot.
std::vector<EndpointView> draining(const ServiceView& view, std::uint32_t service,
                                   const std::vector<std::pair<std::uint32_t, hp_backend>>& backends) {
  std::vector<EndpointView> endpoints;
  for (const auto& [index, backend] : backends) {
    if (backend.state != HP_BACKEND_TERMINATING || backend.service != service || backend.protocol != view.protocol) {
      continue;
    }
    const EndpointView endpoint = endpoint_view(backend);
    if (endpoint.at.address.family() != view.frontend.address.family()) continue;
    const bool in_use = std::ranges::any_of(view.endpoints, [&](const EndpointView& other) {
      return other.at.address == endpoint.at.address && other.at.port == endpoint.at.port;
    });
    if (!in_use) endpoints.push_back(endpoint);
  }
  return endpoints;
}

TupleView tuple_view(const hp_tuple& tuple) { return {at(tuple.src, tuple.sport), at(tuple.dst, tuple.dport)}; }

std::uint64_t monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

std::chrono::seconds since(std::uint64_t then, std::uint64_t now) {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::nanoseconds{now > then ? now - then : 0});
}

}  // namespace

const char* protocol_name(std::uint8_t protocol) {
  switch (protocol) {
    case HP_TCP:
      return "TCP";
    case HP_UDP:
      return "UDP";
    default:
      return "?";
  }
}

const char* kind_name(std::uint8_t kind) { return kind == HP_KIND_CLUSTER_IP ? "ClusterIP" : "?"; }

const char* backend_state_name(std::uint8_t state) {
  switch (state) {
    case HP_BACKEND_FREE:
      return "free";
    case HP_BACKEND_ACTIVE:
      return "active";
    case HP_BACKEND_TERMINATING:
      return "terminating";
    default:
      return "?";
  }
}

const char* flow_state_name(std::uint8_t state) {
  switch (state) {
    case HP_FLOW_FREE:
      return "free";
    case HP_FLOW_OPENING:
      return "opening";
    case HP_FLOW_NEW:
      return "new";
    case HP_FLOW_ESTABLISHED:
      return "established";
    case HP_FLOW_CLOSING:
      return "closing";
    default:
      return "?";
  }
}

const char* mode_name(std::uint32_t mode) { return mode == HP_MODE_ENABLED ? "enabled" : "?"; }

const char* reason_name(std::size_t reason) { return reason < kReasons.size() ? kReasons.at(reason).name : "?"; }

const char* reason_text(std::size_t reason) { return reason < kReasons.size() ? kReasons.at(reason).text : "?"; }

std::string AddressPort::to_string() const {
  const bool brackets = address.family() == Family::kIpv6;
  return (brackets ? "[" + address.to_string() + "]" : address.to_string()) + ":" + std::to_string(port);
}

Result<std::vector<ServiceView>> read_services(const Maps& maps) {
  auto names = read_names(maps);
  if (!names) return fail(std::move(names).error());
  auto services = maps.services.read_all();
  if (!services) return fail(std::move(services).error());
  auto slots = maps.slots.read_all();
  if (!slots) return fail(std::move(slots).error());
  auto backends = maps.backends.read_all();
  if (!backends) return fail(std::move(backends).error());

  std::vector<ServiceView> views;
  for (const auto& [frontend, service] : *services) {
    ServiceView view{.service = name_of(*names, service.service),
                     .frontend = at(frontend.address, frontend.port),
                     .protocol = frontend.protocol,
                     .kind = service.kind,
                     .endpoints = behind(service.slots, *slots, *backends),
                     .draining = {}};
    view.draining = draining(view, service.service, *backends);
    views.push_back(std::move(view));
  }
  std::ranges::sort(views, {}, [](const ServiceView& view) {
    return std::tuple{view.service, view.frontend.address, view.frontend.port, view.protocol};
  });
  return views;
}

Result<std::vector<FlowView>> read_flows(const Maps& maps) {
  auto names = read_names(maps);
  if (!names) return fail(std::move(names).error());
  auto flows = maps.flows.read_all();
  if (!flows) return fail(std::move(flows).error());
  const std::uint64_t now = monotonic_now();
  std::vector<FlowView> views;
  for (const auto& [index, flow] : *flows) {
    if (flow.state < HP_FLOW_NEW) continue;
    const hp_tuple& request = flow.tuple[HP_REQUEST];
    views.push_back({.service = flow.service == 0 ? "" : name_of(*names, flow.service),
                     .protocol = request.protocol,
                     .state = flow.state,
                     .hairpin = (flow.flags & HP_FLOW_HAIRPIN) != 0,
                     .ifindex = request.ifindex,
                     .request = tuple_view(request),
                     .reply = tuple_view(flow.tuple[HP_REPLY]),
                     .age = since(flow.opened, now),
                     .idle = since(flow.last_used, now)});
  }
  std::ranges::stable_sort(views, {}, &FlowView::age);
  return views;
}

}  // namespace hairpin
