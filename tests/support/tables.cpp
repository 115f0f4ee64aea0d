// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "tests/support/tables.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <stdexcept>

namespace hairpin::test {
namespace {

constexpr std::uint32_t kGenerations = 1U << HP_SLOT_GENERATION_BITS;

hp_frontend key_of(std::uint8_t protocol, const Socket& frontend) {
  return {.address = frontend.address.raw(), .port = htons(frontend.port), .protocol = protocol, .pad = 0};
}

}  // namespace

hp_tuple tuple_of(std::uint8_t protocol, const Socket& from, const Socket& to, std::uint32_t ifindex) {
  return {.src = from.address.raw(),
          .dst = to.address.raw(),
          .sport = htons(from.port),
          .dport = htons(to.port),
          .ifindex = ifindex,
          .protocol = protocol,
          .pad = {}};
}

hp_tuple reverse_of(const hp_tuple& tuple) {
  hp_tuple other = tuple;
  other.src = tuple.dst;
  other.dst = tuple.src;
  other.sport = tuple.dport;
  other.dport = tuple.sport;
  return other;
}

Socket source_of(const hp_tuple& tuple) { return {Address{tuple.src}, ntohs(tuple.sport)}; }

Socket destination_of(const hp_tuple& tuple) { return {Address{tuple.dst}, ntohs(tuple.dport)}; }

std::string describe(const hp_tuple& tuple) {
  return fmt::format("{} {} > {} on {}", tuple.protocol == HP_TCP ? "TCP" : "UDP", source_of(tuple).to_string(),
                     destination_of(tuple).to_string(), tuple.ifindex);
}

std::uint32_t Tables::backend(std::uint32_t service, std::uint8_t protocol, const Socket& endpoint) {
  for (std::uint32_t i = 1; i < backends.size(); ++i) {
    const hp_backend& known = backends[i];
    if (known.service == service && known.protocol == protocol && known.port == htons(endpoint.port) &&
        Address{known.address} == endpoint.address)
      return i;
  }
  backends.push_back({.address = endpoint.address.raw(),
                      .port = htons(endpoint.port),
                      .protocol = protocol,
                      .state = HP_BACKEND_ACTIVE,
                      .service = service,
                      .epoch = 1});
  roles[endpoint.address.raw()] |= HP_ROLE_ENDPOINT;
  return static_cast<std::uint32_t>(backends.size() - 1);
}

void Tables::serve(std::uint8_t protocol, const Socket& frontend, const std::vector<Socket>& endpoints) {
  roles[frontend.address.raw()] |= HP_ROLE_FRONTEND;
  services[key_of(protocol, frontend)] = {
      .slots = hp_slots_pack(0, 0, 0), .service = ++last_service_, .kind = HP_KIND_CLUSTER_IP, .pad = {}};
  replace(protocol, frontend, endpoints);
}

void Tables::replace(std::uint8_t protocol, const Socket& frontend, const std::vector<Socket>& endpoints) {
  hp_service& changed = service(protocol, frontend);
  const std::uint32_t generation = (hp_slots_generation(changed.slots) + 1) % kGenerations;
  const auto base = static_cast<std::uint32_t>(slots.size());
  for (const Socket& endpoint : endpoints)
    slots.push_back({.backend = backend(changed.service, protocol, endpoint), .generation = generation});
  changed.slots = hp_slots_pack(base, static_cast<std::uint32_t>(endpoints.size()), generation);
}

void Tables::remove(std::uint8_t protocol, const Socket& frontend) { services.erase(key_of(protocol, frontend)); }

void Tables::raise_epoch(const Socket& endpoint) {
  for (hp_backend& known : backends)
    if (Address{known.address} == endpoint.address && known.port == htons(endpoint.port)) ++known.epoch;
}

void Tables::spoil_slots(std::uint8_t protocol, const Socket& frontend) {
  const hp_service& spoilt = service(protocol, frontend);
  const std::uint32_t base = hp_slots_base(spoilt.slots);
  for (std::uint32_t i = 0; i < hp_slots_count(spoilt.slots); ++i) slots.at(base + i).generation ^= 1;
}

bool Tables::has(std::uint8_t protocol, const Socket& frontend) const {
  return services.contains(key_of(protocol, frontend));
}

hp_service& Tables::service(std::uint8_t protocol, const Socket& frontend) {
  const auto found = services.find(key_of(protocol, frontend));
  if (found == services.end()) throw std::logic_error{"no service " + frontend.to_string()};
  return found->second;
}

}  // namespace hairpin::test
