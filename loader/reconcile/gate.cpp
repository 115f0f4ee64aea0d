// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "loader/reconcile/gate.hpp"

#include <algorithm>

#include "hairpin/dataplane.hpp"

namespace hairpin {

static_assert(kRolesRest >= IdleLimits{}.tcp_established);

/// What is in use never takes more than there can be frontends and backends; the rest of the map is for what rests.
Gate::Gate(const Contents& contents)
    : max_idle_{contents.max_gate -
                std::min(contents.max_gate,
                         contents.max_services + static_cast<std::uint32_t>(contents.backends.size()) - 1)} {
  for (const auto& [key, gate] : contents.gate) {
    const Address address{key};
    entries_[address].roles = gate.roles;
    touched_.push_back(address);
  }
}

void Gate::reserve(std::size_t more) { entries_.reserve(entries_.size() + more); }

void Gate::use(const Address& address, hp_role role) {
  ++entries_[address].uses_as(role);
  touched_.push_back(address);
}

void Gate::leave(const Address& address, hp_role role) {
  --entries_[address].uses_as(role);
  touched_.push_back(address);
}

void Gate::settle(Plan& plan, Clock::time_point now) {
  for (const auto& address : touched_) settle(address, plan, now);
  touched_.clear();
  wake(plan, now);
}

/// Roles are added at once and rest when nobody uses them any more.
void Gate::settle(const Address& address, Plan& plan, Clock::time_point now) {
  const auto found = entries_.find(address);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  const std::uint32_t used = entry.used_roles();
  const bool was_idle = entry.idle();
  if ((used & ~entry.roles) != 0) {
    entry.roles |= used;
    plan.gate.emplace_back(address.raw(), hp_gate{.roles = entry.roles});
  }
  const std::uint32_t resting = entry.roles & ~used;
  if ((resting & ~entry.resting) != 0) {
    entry.since = now;
    resting_.push_back({now, address});
  }
  entry.resting = resting;
  if (entry.idle() && !was_idle) ++idle_;
  if (!entry.idle() && was_idle) --idle_;
  if (entry.roles == 0) entries_.erase(found);
}

void Gate::wake(Plan& plan, Clock::time_point now) {
  while (!resting_.empty() && (now - resting_.front().since >= kRolesRest || idle_ > max_idle_)) {
    const auto [since, address] = resting_.front();
    resting_.pop_front();
    const auto found = entries_.find(address);
    if (found == entries_.end()) continue;
    Entry& entry = found->second;
    if (entry.resting == 0 || entry.since != since) continue;
    if (entry.idle()) {
      plan.gate_gone.push_back(address.raw());
      entries_.erase(found);
      --idle_;
    } else {
      entry.roles &= ~entry.resting;
      entry.resting = 0;
      plan.gate_less.emplace_back(address.raw(), hp_gate{.roles = entry.roles});
    }
  }
}

}  // namespace hairpin
