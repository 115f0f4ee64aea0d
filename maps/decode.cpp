// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "maps/decode.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <map>
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
    // Of a service that is changing, see update().
    if (index >= all_slots.size() || all_slots[index].second.generation != hp_slots_generation(slots)) continue;
    const std::uint32_t backend = all_slots[index].second.backend;
    if (backend < backends.size()) endpoints.push_back(endpoint_view(backends[backend].second));
  }
  return endpoints;
}

using Terminating = std::unordered_map<std::uint32_t, std::vector<hp_backend>>;  // by service id

Terminating terminating(const std::vector<std::pair<std::uint32_t, hp_backend>>& backends) {
  Terminating found;
  for (const auto& [index, backend] : backends) {
    if (backend.state == HP_BACKEND_TERMINATING) found[backend.service].push_back(backend);
  }
  return found;
}

/// Those of the service's backends with the frontend's protocol and family that stand in no slot.
std::vector<EndpointView> draining(const ServiceView& view, std::uint32_t service, const Terminating& all) {
  std::vector<EndpointView> endpoints;
  const auto backends = all.find(service);
  if (backends == all.end()) return endpoints;
  for (const auto& backend : backends->second) {
    const EndpointView endpoint = endpoint_view(backend);
    if (backend.protocol != view.protocol || endpoint.at.address.family() != view.frontend.address.family()) continue;
    const bool in_use = std::ranges::any_of(view.endpoints, [&](const EndpointView& other) {
      return other.at.address == endpoint.at.address && other.at.port == endpoint.at.port;
    });
    if (!in_use) endpoints.push_back(endpoint);
  }
  return endpoints;
}

struct BytesLess {
  bool operator()(const hp_frontend& a, const hp_frontend& b) const { return std::memcmp(&a, &b, sizeof a) < 0; }
};

using Views = std::map<hp_frontend, ServiceView, BytesLess>;
using Services = std::map<hp_frontend, hp_service, BytesLess>;

Result<Services> read_service_entries(const Maps& maps) {
  auto entries = maps.services.read_all();
  if (!entries) return fail(std::move(entries).error());
  return Services{entries->begin(), entries->end()};
}

bool same(const Services& before, const hp_frontend& frontend, const hp_service& service) {
  const auto entry = before.find(frontend);
  return entry != before.end() && std::memcmp(&entry->second, &service, sizeof service) == 0;
}

/// Looks at every service once more. Slots and backends that are given up stay as they are for a while, so what is
/// read between two equal readings of a service belongs to it. Returns whether every service was equal; of those that
/// were not, an earlier view stays.
Result<bool> update(const Maps& maps, const Names& names, Views& views) {
  auto before = read_service_entries(maps);
  if (!before) return fail(std::move(before).error());
  auto slots = maps.slots.read_all();
  if (!slots) return fail(std::move(slots).error());
  auto backends = maps.backends.read_all();
  if (!backends) return fail(std::move(backends).error());
  auto after = read_service_entries(maps);
  if (!after) return fail(std::move(after).error());

  const auto leaving = terminating(*backends);
  std::erase_if(views, [&](const auto& entry) { return !after->contains(entry.first); });
  bool all = true;
  for (const auto& [frontend, service] : *after) {
    const bool is_same = same(*before, frontend, service);
    all = all && is_same;
    if (!is_same && views.contains(frontend)) continue;
    ServiceView view{.service = name_of(names, service.service),
                     .frontend = at(frontend.address, frontend.port),
                     .protocol = frontend.protocol,
                     .kind = service.kind,
                     .endpoints = behind(service.slots, *slots, *backends),
                     .draining = {}};
    view.draining = draining(view, service.service, leaving);
    views.insert_or_assign(frontend, std::move(view));
  }
  return all;
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
  constexpr int kAttempts = 5;  // then a service that changes all the time is shown as it was in one of them
  Views by_frontend;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto names = read_names(maps);
    if (!names) return fail(std::move(names).error());
    auto all = update(maps, *names, by_frontend);
    if (!all) return fail(std::move(all).error());
    if (*all) break;
  }
  std::vector<ServiceView> views;
  views.reserve(by_frontend.size());
  for (auto& [frontend, view] : by_frontend) views.push_back(std::move(view));
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
