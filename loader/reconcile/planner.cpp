// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "loader/reconcile/planner.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <tuple>

namespace hairpin {

namespace {

constexpr std::uint32_t kMaxEndpoints = (1U << HP_SLOT_COUNT_BITS) - 1;
constexpr std::uint32_t kMaxSlots = 1U << HP_SLOT_BASE_BITS;
constexpr std::uint32_t kGenerations = 1U << HP_SLOT_GENERATION_BITS;

hp_frontend raw(const Frontend& frontend) {
  hp_frontend key{};
  key.address = frontend.address.raw();
  key.port = htons(frontend.port);
  key.protocol = static_cast<std::uint8_t>(frontend.protocol);
  return key;
}

Frontend cooked(const hp_frontend& key, const hp_service& service) {
  return {.address = Address{key.address},
          .port = ntohs(key.port),
          .protocol = static_cast<Protocol>(key.protocol),
          .kind = static_cast<FrontendKind>(service.kind)};
}

hp_name raw_name(const std::string& name) {
  hp_name value{};
  // Kubernetes' names fit (see HP_NAME_SIZE); others are cut.
  std::memcpy(value.name, name.data(), std::min(name.size(), sizeof value.name - 1));
  return value;
}

/// What makes a backend this one and no other, whatever becomes of its state.
hp_backend identity_of(std::uint32_t service, const Endpoint& endpoint, Protocol protocol) {
  hp_backend identity{};
  identity.address = endpoint.address.raw();
  identity.port = htons(endpoint.port);
  identity.protocol = static_cast<std::uint8_t>(protocol);
  identity.service = service;
  return identity;
}

hp_backend identity_of(hp_backend backend) {
  backend.state = 0;
  backend.epoch = 0;
  return backend;
}

Protocol protocol_of(const ServicePort& port) { return port.frontends.front().protocol; }

PortChange change(PortChange::Kind kind, const ServicePort& port) {
  return {kind, port.service, port.port_name, port.frontends, port.endpoints.size()};
}

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

std::strong_ordering Planner::PortOrder::compare(const ServicePort& a, const ServicePort& b) {
  if (const auto order = a.service <=> b.service; order != 0) return order;
  if (const auto order = a.port_name <=> b.port_name; order != 0) return order;
  const auto rest = [](const ServicePort& port) {
    const Frontend& first = port.frontends.front();
    return std::tuple{first.address.family(), first.protocol, first.port};
  };
  return rest(a) <=> rest(b);
}

Planner::Planner(const Contents& contents)
    : backends_{contents.backends},
      max_services_{contents.max_services},
      max_names_{contents.max_names},
      backend_uses_(contents.backends.size()),
      gate_{contents},
      slot_room_{0, std::min(kMaxSlots, static_cast<std::uint32_t>(contents.slots.size()))},
      backend_room_{1, static_cast<std::uint32_t>(contents.backends.size())},
      found_slots_{contents.slots} {
  for (const auto& [frontend, service] : contents.services) {
    services_[frontend] = service;
    next_service_ = std::max(next_service_, service.service + 1);
    const std::uint32_t base = hp_slots_base(service.slots);
    const std::uint32_t count = hp_slots_count(service.slots);
    if (count == 0 || base + count > found_slots_.size() || found_ranges_.contains(service.slots)) continue;
    // Two that overlap are no work of ours: neither adopted nor used again.
    if (slot_room_.occupy(base, count)) found_ranges_.insert(service.slots);
    generation_ = std::max(generation_, hp_slots_generation(service.slots));
  }
  for (const auto& [id, name] : contents.names) {
    names_[id] = std::string{name.name, strnlen(name.name, sizeof name.name)};
    ids_[names_[id]] = id;
    next_service_ = std::max(next_service_, id + 1);
  }
  for (std::uint32_t index = 1; index < backends_.size(); ++index) {
    const hp_backend& backend = backends_[index];
    if (backend.state == HP_BACKEND_FREE) continue;
    next_service_ = std::max(next_service_, backend.service + 1);
    backend_room_.occupy(index, 1);
    backend_by_identity_.emplace(identity_of(backend), index);
  }
}

Plan Planner::plan(const Desired& desired, Clock::time_point now, Changes& changes) {
  Work work{.now = now};
  compare(desired, work);
  reserve(work);
  place_changed(work, changes);
  for (const auto& node : work.superseded) give_up(node.key(), node.mapped(), work);
  for (const auto& node : work.removed) {
    changes.ports.push_back(change(PortChange::Kind::kRemoved, node.key()));
    give_up(node.key(), node.mapped(), work);
  }
  if (adopting_) give_up_found(work, changes);
  settle(work);
  changes.wrote = !work.plan.empty();
  return std::move(work.plan);
}

/// Walks both lists side by side. This is all there is to do for what has not changed, so it is quick.
void Planner::compare(const Desired& desired, Work& work) {
  std::vector<const ServicePort*> sorted;
  sorted.reserve(desired.size());
  bool is_sorted = true;
  for (const auto& port : desired) {
    is_sorted = is_sorted && (sorted.empty() || PortOrder::compare(*sorted.back(), port) < 0);
    sorted.push_back(&port);
  }
  if (!is_sorted) {
    std::ranges::stable_sort(sorted, [](const auto* a, const auto* b) { return PortOrder::compare(*a, *b) < 0; });
    const auto twice =
        std::ranges::unique(sorted, [](const auto* a, const auto* b) { return PortOrder::compare(*a, *b) == 0; });
    sorted.erase(twice.begin(), twice.end());
  }

  auto placed = placed_.begin();
  const auto remove = [&] { work.removed.push_back(placed_.extract(placed++)); };
  for (const auto* port : sorted) {
    auto order = std::strong_ordering::greater;
    while (placed != placed_.end() && (order = PortOrder::compare(placed->first, *port)) < 0) remove();
    if (placed == placed_.end() || order > 0) {
      work.changed.push_back(port);
      continue;
    }
    const ServicePort& before = placed->first;
    if (before.endpoints != port->endpoints || before.draining != port->draining ||
        before.frontends != port->frontends) {
      work.changed.push_back(port);
    }
    ++placed;
  }
  while (placed != placed_.end()) remove();
}

/// Tables that grow step by step are most of the work of a first plan.
void Planner::reserve(const Work& work) {
  std::size_t frontends = 0;
  std::size_t endpoints = 0;
  for (const auto* port : work.changed) {
    frontends += port->frontends.size();
    endpoints += port->endpoints.size() + port->draining.size();
  }
  if (endpoints < backend_by_identity_.size()) return;
  services_.reserve(services_.size() + frontends);
  owner_.reserve(owner_.size() + frontends);
  backend_by_identity_.reserve(backend_by_identity_.size() + endpoints);
  gate_.reserve(frontends + endpoints);
}

void Planner::place_changed(Work& work, Changes& changes) {
  for (const auto* port : work.changed) {
    const auto before = placed_.find(*port);
    const bool is_placed = before != placed_.end();
    if (auto why = why_not(*port, is_placed ? &before->second : nullptr, work.now); !why.empty()) {
      changes.refused.push_back({port->service, port->port_name, port->frontends, std::move(why)});
      if (const auto found = is_placed ? std::nullopt : as_found(*port)) place(*found, work);
      continue;
    }
    const bool is_new = !is_placed && found_service(*port) == nullptr;
    if (place(*port, work)) {
      changes.ports.push_back(change(is_new ? PortChange::Kind::kAdded : PortChange::Kind::kChanged, *port));
    }
  }
}

/// Checked before anything is decided, so that a service port is never half in.
std::string Planner::why_not(const ServicePort& port, const Place* before, Clock::time_point now) {
  if (port.endpoints.size() > kMaxEndpoints) {
    return "it has " + std::to_string(port.endpoints.size()) + " endpoints, at most " + std::to_string(kMaxEndpoints) +
           " are possible";
  }
  const auto is_new = [&](const Frontend& frontend) { return !services_.contains(raw(frontend)); };
  const auto frontends = services_.size() + static_cast<std::size_t>(std::ranges::count_if(port.frontends, is_new));
  if (frontends > max_services_) return "no room for another frontend (limits.services)";
  if (!ids_.contains(port.service) && names_.size() >= max_names_) {
    return "no room for another service (limits.services)";
  }
  const auto known = known_backends(port, port.endpoints);
  const auto draining = known_backends(port, port.draining);
  const auto unknown = port.endpoints.size() + port.draining.size() - known.size() - draining.size();
  const bool has_slots =
      port.endpoints.empty() || (known.size() == port.endpoints.size() && slots_of(port, known, before));
  if (!backend_room_.has(static_cast<std::uint32_t>(unknown), now) ||
      (!has_slots && !slot_room_.fits(static_cast<std::uint32_t>(port.endpoints.size()), now))) {
    return "no room for its endpoints (limits.backends)";
  }
  return {};
}

/// What the maps were found to have of a service port that can't be put in as it is wanted, if that is whole.
std::optional<ServicePort> Planner::as_found(const ServicePort& port) const {
  const hp_service* service = found_service(port);
  const auto id = ids_.find(port.service);
  if (service == nullptr || id == ids_.end() || service->service != id->second) return std::nullopt;
  ServicePort found{
      .service = port.service, .port_name = port.port_name, .frontends = {}, .endpoints = {}, .draining = {}};
  for (const auto& frontend : port.frontends) {
    if (services_.contains(raw(frontend)) && !owner_.contains(raw(frontend))) found.frontends.push_back(frontend);
  }
  std::vector<std::uint32_t> backends;
  for (std::uint32_t i = 0; i < hp_slots_count(service->slots); ++i) {
    const std::size_t slot = hp_slots_base(service->slots) + i;
    const std::uint32_t index = slot < found_slots_.size() ? found_slots_[slot].backend : 0;
    if (index == 0 || index >= backends_.size() || backends_[index].state == HP_BACKEND_FREE) return std::nullopt;
    const hp_backend& backend = backends_[index];
    backends.push_back(index);
    found.endpoints.push_back({.address = Address{backend.address},
                               .port = ntohs(backend.port),
                               .terminating = backend.state == HP_BACKEND_TERMINATING});
  }
  if (!backends.empty() &&
      (known_backends(port, found.endpoints) != backends || !found_holds(service->slots, backends))) {
    return std::nullopt;
  }
  for (const auto* endpoints : {&port.endpoints, &port.draining}) {
    for (auto endpoint : *endpoints) {
      const auto known = known_backends(port, {endpoint});
      if (known.empty() || std::ranges::find(backends, known.front()) != backends.end()) continue;
      endpoint.terminating = true;
      found.draining.push_back(endpoint);
    }
  }
  return found;
}

/// Uses only are counted, here and in give_up(); settle() decides what becomes of what they are uses of. Returns
/// whether the maps have the port in another way now.
bool Planner::place(const ServicePort& port, Work& work) {
  const auto found = placed_.find(port);
  const Place* before = found == placed_.end() ? nullptr : &found->second;
  bool is_change = before != nullptr || !ids_.contains(port.service);

  Place place{.id = next_place_++, .service = service_id(port.service, work.plan)};
  ++name_uses_[place.service];
  place.backends = use_backends(place.service, port, port.endpoints, work);
  place.draining = use_backends(place.service, port, port.draining, work);
  const auto slots = slots_of(port, place.backends, before);
  if (slots) found_ranges_.erase(*slots);
  place.slots = slots ? *slots : take_slots(place.backends, work);
  is_change = is_change || !slots;

  for (const auto* endpoints : {&port.endpoints, &port.draining}) {
    const auto& indexes = endpoints == &port.endpoints ? place.backends : place.draining;
    for (std::size_t i = 0; i < endpoints->size(); ++i) {
      const Endpoint& endpoint = endpoints->at(i);
      const auto state = endpoint.terminating ? HP_BACKEND_TERMINATING : HP_BACKEND_ACTIVE;
      is_change = is_change || backends_.at(indexes[i]).state != state;
      gate_.use(endpoint.address, HP_ROLE_ENDPOINT);
    }
  }
  for (const auto& frontend : port.frontends) {
    gate_.use(frontend.address, HP_ROLE_FRONTEND);
    const hp_frontend key = raw(frontend);
    const hp_service service{
        .slots = place.slots, .service = place.service, .kind = static_cast<std::uint8_t>(frontend.kind), .pad = {}};
    owner_[key] = place.id;
    const auto [entry, is_new] = services_.try_emplace(key, service);
    if (!is_new && BytesEqual{}(entry->second, service)) continue;
    entry->second = service;
    work.plan.services.emplace_back(key, service);
    is_change = true;
  }

  if (before != nullptr) {
    auto old = placed_.extract(found);
    if (old.mapped().slots == place.slots) old.mapped().slots = 0;  // not given up
    work.superseded.push_back(std::move(old));
  }
  placed_.emplace(port, std::move(place));
  return is_change;
}

void Planner::give_up(const ServicePort& port, const Place& place, Work& work) {
  for (const auto& frontend : port.frontends) {
    const auto owner = owner_.find(raw(frontend));
    if (owner != owner_.end() && owner->second == place.id) {
      work.plan.services_gone.push_back(owner->first);
      services_.erase(owner->first);
      owner_.erase(owner);
    }
    gate_.leave(frontend.address, HP_ROLE_FRONTEND);
  }
  for (const auto* endpoints : {&port.endpoints, &port.draining}) {
    const auto& indexes = endpoints == &port.endpoints ? place.backends : place.draining;
    for (std::size_t i = 0; i < endpoints->size(); ++i) {
      const Endpoint& endpoint = endpoints->at(i);
      gate_.leave(endpoint.address, HP_ROLE_ENDPOINT);
      BackendUses& uses = backend_uses_.at(indexes[i]);
      --uses.all;
      if (!endpoint.terminating) --uses.active;
    }
    append(work.backends, indexes);
  }
  free_slots(place.slots, work.now);
  --name_uses_[place.service];
  work.names.push_back(place.service);
}

/// What an earlier process left, by dying or by being of another opinion.
void Planner::give_up_found(Work& work, Changes& changes) {
  std::map<std::string, PortChange> gone;
  for (auto entry = services_.begin(); entry != services_.end();) {
    const auto& [frontend, service] = *entry;
    if (owner_.contains(frontend)) {
      ++entry;
      continue;
    }
    const auto name = names_.find(service.service);
    const std::string text = name == names_.end() ? "?" : name->second;
    auto& port = gone[text];
    port.kind = PortChange::Kind::kRemoved;
    port.service = text;
    port.frontends.push_back(cooked(frontend, service));
    work.plan.services_gone.push_back(frontend);
    entry = services_.erase(entry);
  }
  for (auto& [name, port] : gone) {
    std::ranges::sort(port.frontends);
    changes.ports.push_back(std::move(port));
  }
  for (std::uint32_t index = 1; index < backends_.size(); ++index) {
    if (backends_[index].state != HP_BACKEND_FREE) work.backends.push_back(index);
  }
  for (const auto& [id, name] : names_) work.names.push_back(id);
  for (const auto slots : found_ranges_) free_slots(slots, work.now);
  found_ranges_.clear();
  found_slots_ = {};
  adopting_ = false;
}

void Planner::settle(Work& work) {
  gate_.settle(work.plan, work.now);
  for (const auto index : work.backends) settle_backend(index, work);
  for (const auto service : work.names) settle_name(service, work.plan);
}

void Planner::settle_backend(std::uint32_t index, Work& work) {
  const BackendUses& uses = backend_uses_.at(index);
  hp_backend& backend = backends_.at(index);
  if (uses.all > 0) {
    const auto state = static_cast<std::uint8_t>(uses.active > 0 ? HP_BACKEND_ACTIVE : HP_BACKEND_TERMINATING);
    if (backend.state == state) return;
    backend.state = state;
    work.plan.backends.emplace_back(index, backend);
    return;
  }
  if (backend.state == HP_BACKEND_FREE) return;
  // Of two elements with one identity, which are no work of ours, one is known by it.
  if (const auto known = backend_by_identity_.find(identity_of(backend));
      known != backend_by_identity_.end() && known->second == index) {
    backend_by_identity_.erase(known);
  }
  backend.state = HP_BACKEND_FREE;
  ++backend.epoch;
  work.plan.backends_gone.emplace_back(index, backend);
  backend_room_.give_back(index, 1, work.now);
}

void Planner::settle_name(std::uint32_t service, Plan& plan) {
  const auto uses = name_uses_.find(service);
  if (uses != name_uses_.end()) {
    if (uses->second > 0) return;
    name_uses_.erase(uses);
  }
  const auto name = names_.find(service);
  if (name == names_.end()) return;
  if (const auto id = ids_.find(name->second); id != ids_.end() && id->second == service) ids_.erase(id);
  names_.erase(name);
  plan.names_gone.push_back(service);
}

std::uint32_t Planner::service_id(const std::string& name, Plan& plan) {
  const auto known = ids_.find(name);
  if (known != ids_.end()) return known->second;
  const std::uint32_t id = next_service_++;
  ids_[name] = id;
  names_[id] = name;
  plan.names.emplace_back(id, raw_name(name));
  return id;
}

std::vector<std::uint32_t> Planner::use_backends(std::uint32_t service, const ServicePort& port,
                                                 const std::vector<Endpoint>& endpoints, Work& work) {
  std::vector<std::uint32_t> indexes;
  indexes.reserve(endpoints.size());
  for (const auto& endpoint : endpoints) {
    const hp_backend identity = identity_of(service, endpoint, protocol_of(port));
    const auto [known, is_new] = backend_by_identity_.try_emplace(identity, 0);
    if (is_new) {
      known->second = backend_room_.take(1, work.now).value();  // why_not() has counted
      hp_backend& fresh = backends_.at(known->second);
      const std::uint32_t epoch = fresh.epoch;
      fresh = identity;  // free until it is settled
      fresh.epoch = epoch;
    }
    BackendUses& uses = backend_uses_.at(known->second);
    ++uses.all;
    if (!endpoint.terminating) ++uses.active;
    indexes.push_back(known->second);
  }
  append(work.backends, indexes);
  return indexes;
}

/// Those of the endpoints that have a backend, in their order.
std::vector<std::uint32_t> Planner::known_backends(const ServicePort& port,
                                                   const std::vector<Endpoint>& endpoints) const {
  std::vector<std::uint32_t> known;
  const auto id = ids_.find(port.service);
  if (id == ids_.end()) return known;
  known.reserve(endpoints.size());
  for (const auto& endpoint : endpoints) {
    const auto backend = backend_by_identity_.find(identity_of(id->second, endpoint, protocol_of(port)));
    if (backend != backend_by_identity_.end()) known.push_back(backend->second);
  }
  return known;
}

/// The slots that hold these backends for the port already, if any do.
std::optional<std::uint64_t> Planner::slots_of(const ServicePort& port, const std::vector<std::uint32_t>& backends,
                                               const Place* before) const {
  if (backends.empty()) return hp_slots_pack(0, 0, 0);
  if (before != nullptr && before->backends == backends) return before->slots;
  const hp_service* found = found_service(port);
  if (found != nullptr && found_holds(found->slots, backends)) return found->slots;
  return std::nullopt;
}

std::uint64_t Planner::take_slots(const std::vector<std::uint32_t>& backends, Work& work) {
  const auto count = static_cast<std::uint32_t>(backends.size());
  const std::uint32_t base = slot_room_.take(count, work.now).value();  // why_not() has looked
  generation_ = (generation_ + 1) % kGenerations;
  for (std::uint32_t i = 0; i < count; ++i) {
    work.plan.slots.emplace_back(base + i, hp_slot{.backend = backends[i], .generation = generation_});
  }
  return hp_slots_pack(base, count, generation_);
}

/// The first of the port's entries that was found at the start and is nobody's yet.
const hp_service* Planner::found_service(const ServicePort& port) const {
  if (!adopting_) return nullptr;
  for (const auto& frontend : port.frontends) {
    const auto found = services_.find(raw(frontend));
    if (found != services_.end() && !owner_.contains(found->first)) return &found->second;
  }
  return nullptr;
}

bool Planner::found_holds(std::uint64_t slots, const std::vector<std::uint32_t>& backends) const {
  if (!found_ranges_.contains(slots) || hp_slots_count(slots) != backends.size()) return false;
  const std::uint32_t base = hp_slots_base(slots);
  for (std::size_t i = 0; i < backends.size(); ++i) {
    const hp_slot& slot = found_slots_.at(base + i);
    if (slot.backend != backends[i] || slot.generation != hp_slots_generation(slots)) return false;
  }
  return true;
}

void Planner::free_slots(std::uint64_t slots, Clock::time_point now) {
  slot_room_.give_back(hp_slots_base(slots), hp_slots_count(slots), now);
}

}  // namespace hairpin
