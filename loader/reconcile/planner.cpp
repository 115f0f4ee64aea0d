// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "loader/reconcile/planner.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <set>

namespace hairpin {

namespace {

constexpr std::uint32_t kMaxEndpoints = (1U << HP_SLOT_COUNT_BITS) - 1;
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

std::size_t size_of(const Plan& plan) {
  return plan.names.size() + plan.backends.size() + plan.slots.size() + plan.gate.size() + plan.services.size() +
         plan.services_gone.size() + plan.gate_less.size() + plan.gate_gone.size() + plan.backends_gone.size() +
         plan.names_gone.size();
}

PortChange change(PortChange::Kind kind, const ServicePort& port) {
  return {kind, port.service, port.port_name, port.frontends, port.endpoints.size()};
}

}  // namespace

Planner::Planner(const Contents& contents)
    : backends_{contents.backends},
      max_services_{contents.max_services},
      backend_uses_(contents.backends.size()),
      slot_room_{0, static_cast<std::uint32_t>(contents.slots.size())},
      backend_room_{1, static_cast<std::uint32_t>(contents.backends.size())},
      found_slots_{contents.slots} {
  for (const auto& [address, gate] : contents.gate) gate_[address] = gate.roles;
  for (const auto& [frontend, service] : contents.services) {
    services_[frontend] = service;
    next_service_ = std::max(next_service_, service.service + 1);
    if (hp_slots_count(service.slots) == 0) continue;
    found_ranges_.insert(service.slots);
    slot_room_.occupy(hp_slots_base(service.slots), hp_slots_count(service.slots));
    generation_ = std::max(generation_, hp_slots_generation(service.slots));
  }
  for (const auto& [id, name] : contents.names) {
    names_[id] = std::string{name.name, strnlen(name.name, sizeof name.name)};
    ids_[names_[id]] = id;
    next_service_ = std::max(next_service_, id + 1);
  }
  for (std::uint32_t index = 1; index < backends_.size(); ++index) {
    hp_backend identity = backends_[index];
    if (identity.state == HP_BACKEND_FREE) continue;
    identity.state = 0;
    identity.epoch = 0;
    next_service_ = std::max(next_service_, identity.service + 1);
    backend_room_.occupy(index, 1);
    backend_by_identity_.emplace(identity, index);
  }
}

Planner::PortKey Planner::key_of(const ServicePort& port) {
  const Frontend& frontend = port.frontends.front();
  return {port.service, port.port_name, frontend.address.family(), frontend.protocol};
}

hp_backend Planner::identity_of(std::uint32_t service, const Endpoint& endpoint, Protocol protocol) {
  hp_backend identity{};
  identity.address = endpoint.address.raw();
  identity.port = htons(endpoint.port);
  identity.protocol = static_cast<std::uint8_t>(protocol);
  identity.service = service;
  return identity;
}

Plan Planner::plan(const Desired& desired, Clock::time_point now, Changes& changes) {
  Plan plan;
  std::set<PortKey> wanted;
  for (const auto& port : desired) {
    auto key = key_of(port);
    const auto before = placed_.find(key);
    const Placed* placed = before == placed_.end() ? nullptr : &before->second;
    if (placed == nullptr || placed->port != port) {
      if (auto why = why_not(port, placed, now); !why.empty()) {
        changes.refused.push_back({port.service, port.port_name, std::move(why)});
      } else {
        const std::size_t size = size_of(plan);
        const auto kind = placed != nullptr || services_.contains(raw(port.frontends.front()))
                              ? PortChange::Kind::kChanged
                              : PortChange::Kind::kAdded;
        place(key, port, plan, now);
        if (size_of(plan) != size) changes.ports.push_back(change(kind, port));
      }
    }
    wanted.insert(std::move(key));
  }
  for (auto placed = placed_.begin(); placed != placed_.end();) {
    if (wanted.contains(placed->first)) {
      ++placed;
      continue;
    }
    changes.ports.push_back(change(PortChange::Kind::kRemoved, placed->second.port));
    retire(placed->first, placed->second, plan, now);
    placed = placed_.erase(placed);
  }
  if (adopting_) remove_leftovers(plan, changes, now);
  changes.wrote = !plan.empty();
  return plan;
}

/// Checked before anything is decided, so that a service port is never half in.
std::string Planner::why_not(const ServicePort& port, const Placed* before, Clock::time_point now) {
  const auto endpoints = port.endpoints.size();
  if (endpoints > kMaxEndpoints) {
    return "it has " + std::to_string(endpoints) + " endpoints, at most " + std::to_string(kMaxEndpoints) +
           " are possible";
  }
  std::size_t frontends = services_.size();
  for (const auto& frontend : port.frontends) frontends += services_.contains(raw(frontend)) ? 0 : 1;
  if (frontends > max_services_) return "no room for another frontend (limits.services)";
  const bool same_endpoints = before != nullptr && before->port.endpoints == port.endpoints;
  if (!backend_room_.has(count_new_backends(port), now) ||
      (!same_endpoints && endpoints > 0 && !slot_room_.fits(static_cast<std::uint32_t>(endpoints), now))) {
    return "no room for its endpoints (limits.backends)";
  }
  return {};
}

std::uint32_t Planner::count_new_backends(const ServicePort& port) const {
  const auto id = ids_.find(port.service);
  if (id == ids_.end()) return static_cast<std::uint32_t>(port.endpoints.size() + port.draining.size());
  const Protocol protocol = port.frontends.front().protocol;
  const auto is_new = [&](const Endpoint& endpoint) {
    return !backend_by_identity_.contains(identity_of(id->second, endpoint, protocol));
  };
  return static_cast<std::uint32_t>(std::ranges::count_if(port.endpoints, is_new) +
                                    std::ranges::count_if(port.draining, is_new));
}

/// Uses of the new are counted before those of the old are given up, so that what both need stays.
void Planner::place(const PortKey& key, const ServicePort& port, Plan& plan, Clock::time_point now) {
  const auto found = placed_.find(key);
  const Placed* before = found == placed_.end() ? nullptr : &found->second;

  Placed placed{.port = port, .service = service_id(port.service, plan)};
  ++name_uses_[placed.service];
  placed.backends = use_backends(placed.service, port, port.endpoints, false, plan, now);
  placed.draining = use_backends(placed.service, port, port.draining, true, plan, now);
  placed.slots = slots_for(placed, before, plan, now);
  for (const auto* endpoints : {&port.endpoints, &port.draining}) {
    for (const auto& endpoint : *endpoints) {
      ++address_uses_[endpoint.address].as_endpoint;
      settle_gate(endpoint.address, plan);
    }
  }
  for (const auto& frontend : port.frontends) {
    ++address_uses_[frontend.address].as_frontend;
    settle_gate(frontend.address, plan);
    owner_[raw(frontend)] = key;
    set_service(
        frontend,
        {.slots = placed.slots, .service = placed.service, .kind = static_cast<std::uint8_t>(frontend.kind), .pad = {}},
        plan);
  }

  if (before == nullptr) {
    placed_.emplace(key, std::move(placed));
    return;
  }
  Placed old = std::exchange(found->second, std::move(placed));
  if (old.slots == found->second.slots) old.slots = 0;
  std::erase_if(old.port.frontends, [&](const Frontend& frontend) {
    const bool stays = std::ranges::find(port.frontends, frontend) != port.frontends.end();
    if (stays) --address_uses_[frontend.address].as_frontend;
    return stays;
  });
  retire(key, old, plan, now);
}

void Planner::retire(const PortKey& key, const Placed& placed, Plan& plan, Clock::time_point now) {
  for (const auto& frontend : placed.port.frontends) {
    // Another port may have taken the frontend over in the same plan.
    const auto owner = owner_.find(raw(frontend));
    if (owner != owner_.end() && owner->second == key) {
      plan.services_gone.push_back(owner->first);
      services_.erase(owner->first);
      owner_.erase(owner);
    }
    --address_uses_[frontend.address].as_frontend;
    settle_gate(frontend.address, plan);
  }
  for (const auto* endpoints : {&placed.port.endpoints, &placed.port.draining}) {
    for (const auto& endpoint : *endpoints) {
      --address_uses_[endpoint.address].as_endpoint;
      settle_gate(endpoint.address, plan);
    }
  }
  for (const auto* backends : {&placed.backends, &placed.draining}) {
    for (const auto index : *backends) stop_using_backend(index, plan, now);
  }
  free_slots(placed.slots, now);
  stop_using_name(placed.service, plan);
}

/// What an earlier process left, by dying or by being of another opinion.
void Planner::remove_leftovers(Plan& plan, Changes& changes, Clock::time_point now) {
  std::map<std::string, PortChange> gone;
  for (auto entry = services_.begin(); entry != services_.end();) {
    const auto& [frontend, service] = *entry;
    if (owner_.contains(frontend)) {
      ++entry;
      continue;
    }
    const auto name = names_.find(service.service);
    const std::string& text = name == names_.end() ? std::string{"?"} : name->second;
    auto& port = gone[text];
    port.kind = PortChange::Kind::kRemoved;
    port.service = text;
    port.frontends.push_back(cooked(frontend, service));
    plan.services_gone.push_back(frontend);
    entry = services_.erase(entry);
  }
  for (auto& [name, port] : gone) changes.ports.push_back(std::move(port));

  std::vector<hp_addr> addresses;
  addresses.reserve(gate_.size());
  for (const auto& [address, roles] : gate_) addresses.push_back(address);
  for (const auto& address : addresses) settle_gate(Address{address}, plan);
  for (std::uint32_t index = 1; index < backends_.size(); ++index) {
    if (backends_[index].state != HP_BACKEND_FREE && backend_uses_[index] == 0) {
      ++backend_uses_[index];
      stop_using_backend(index, plan, now);
    }
  }
  std::vector<std::uint32_t> unused;
  for (const auto& [id, name] : names_) {
    if (!name_uses_.contains(id)) unused.push_back(id);
  }
  for (const auto id : unused) {
    ++name_uses_[id];
    stop_using_name(id, plan);
  }
  for (const auto slots : found_ranges_) free_slots(slots, now);
  found_ranges_.clear();
  found_slots_ = {};
  adopting_ = false;
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
                                                 const std::vector<Endpoint>& endpoints, bool draining, Plan& plan,
                                                 Clock::time_point now) {
  std::vector<std::uint32_t> indexes;
  indexes.reserve(endpoints.size());
  for (const auto& endpoint : endpoints) {
    const auto index =
        backend_index(service, endpoint, port.frontends.front().protocol, draining || endpoint.terminating, plan, now);
    ++backend_uses_[index];
    indexes.push_back(index);
  }
  return indexes;
}

std::uint32_t Planner::backend_index(std::uint32_t service, const Endpoint& endpoint, Protocol protocol,
                                     bool terminating, Plan& plan, Clock::time_point now) {
  const hp_backend identity = identity_of(service, endpoint, protocol);
  const auto state = static_cast<std::uint8_t>(terminating ? HP_BACKEND_TERMINATING : HP_BACKEND_ACTIVE);
  auto known = backend_by_identity_.find(identity);
  if (known == backend_by_identity_.end()) {
    const auto index = backend_room_.take(1, now);
    hp_backend& fresh = backends_.at(index.value());  // why_not() has counted
    const std::uint32_t epoch = fresh.epoch;
    fresh = identity;
    fresh.epoch = epoch;
    known = backend_by_identity_.emplace(identity, *index).first;
  } else if (backends_.at(known->second).state == state) {
    return known->second;
  }
  backends_.at(known->second).state = state;
  plan.backends.emplace_back(known->second, backends_.at(known->second));
  return known->second;
}

void Planner::stop_using_backend(std::uint32_t index, Plan& plan, Clock::time_point now) {
  if (--backend_uses_.at(index) > 0) return;
  hp_backend& backend = backends_.at(index);
  hp_backend identity = backend;
  identity.state = 0;
  identity.epoch = 0;
  // Of two elements with one identity, which only a crash can leave, the map knows one.
  if (const auto known = backend_by_identity_.find(identity);
      known != backend_by_identity_.end() && known->second == index) {
    backend_by_identity_.erase(known);
  }
  backend.state = HP_BACKEND_FREE;
  ++backend.epoch;
  plan.backends_gone.emplace_back(index, backend);
  backend_room_.give_back(index, 1, now);
}

void Planner::stop_using_name(std::uint32_t service, Plan& plan) {
  const auto uses = name_uses_.find(service);
  if (--uses->second > 0) return;
  name_uses_.erase(uses);
  ids_.erase(names_.at(service));
  names_.erase(service);
  plan.names_gone.push_back(service);
}

std::uint64_t Planner::slots_for(const Placed& placed, const Placed* before, Plan& plan, Clock::time_point now) {
  const auto count = static_cast<std::uint32_t>(placed.backends.size());
  if (count == 0) return hp_slots_pack(0, 0, 0);
  if (before != nullptr && before->backends == placed.backends) return before->slots;
  if (adopting_) {
    const auto found = services_.find(raw(placed.port.frontends.front()));
    if (found != services_.end() && found_holds(found->second.slots, placed.backends)) {
      found_ranges_.erase(found->second.slots);
      return found->second.slots;
    }
  }
  const auto base = slot_room_.take(count, now);
  generation_ = (generation_ + 1) % kGenerations;
  for (std::uint32_t i = 0; i < count; ++i) {
    plan.slots.emplace_back(base.value() + i, hp_slot{.backend = placed.backends[i], .generation = generation_});
  }
  return hp_slots_pack(*base, count, generation_);
}

bool Planner::found_holds(std::uint64_t slots, const std::vector<std::uint32_t>& backends) const {
  if (!found_ranges_.contains(slots) || hp_slots_count(slots) != backends.size()) return false;
  const std::uint32_t base = hp_slots_base(slots);
  if (base + backends.size() > found_slots_.size()) return false;
  for (std::size_t i = 0; i < backends.size(); ++i) {
    const hp_slot& slot = found_slots_[base + i];
    if (slot.backend != backends[i] || slot.generation != hp_slots_generation(slots)) return false;
  }
  return true;
}

void Planner::free_slots(std::uint64_t slots, Clock::time_point now) {
  slot_room_.give_back(hp_slots_base(slots), hp_slots_count(slots), now);
}

/// Makes the gate's entry what the address's uses ask for. Roles are added at once and taken away at the end.
void Planner::settle_gate(const Address& address, Plan& plan) {
  const auto uses = address_uses_.find(address);
  std::uint32_t roles = 0;
  if (uses != address_uses_.end()) {
    if (uses->second.as_frontend > 0) roles |= HP_ROLE_FRONTEND;
    if (uses->second.as_endpoint > 0) roles |= HP_ROLE_ENDPOINT;
    if (roles == 0) address_uses_.erase(uses);
  }
  const auto entry = gate_.find(address.raw());
  const std::uint32_t before = entry == gate_.end() ? 0 : entry->second;
  if (roles == before) return;
  if (roles == 0) {
    plan.gate_gone.push_back(address.raw());
    gate_.erase(entry);
    return;
  }
  const bool more = (roles & ~before) != 0;
  (more ? plan.gate : plan.gate_less).emplace_back(address.raw(), hp_gate{.roles = roles});
  gate_[address.raw()] = roles;
}

void Planner::set_service(const Frontend& frontend, const hp_service& service, Plan& plan) {
  const hp_frontend key = raw(frontend);
  const auto entry = services_.find(key);
  if (entry != services_.end() && BytesEqual{}(entry->second, service)) return;
  services_[key] = service;
  plan.services.emplace_back(key, service);
}

}  // namespace hairpin
