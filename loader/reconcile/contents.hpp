// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "hairpin/result.hpp"
#include "maps/layout.h"

// What the reconciler reads from the maps and writes to them. Both are templates over the maps, Maps or anything that
// looks like it, so that the order of the writes can be tested one by one.

namespace hairpin {

/// What the service maps hold, as read, and how much they can.
struct Contents {
  std::vector<std::pair<hp_addr, hp_gate>> gate;
  std::vector<std::pair<hp_frontend, hp_service>> services;
  std::vector<hp_slot> slots;        ///< by index, all of them
  std::vector<hp_backend> backends;  ///< by index, all of them
  std::vector<std::pair<std::uint32_t, hp_name>> names;
  std::uint32_t max_gate = 0;
  std::uint32_t max_services = 0;
  std::uint32_t max_names = 0;
};

/// The writes that turn contents into what is desired. In this order, each member before the next, any part of them
/// leaves every service whole: first what nothing leads to yet, then the switch, then what nothing leads to any more.
/// No key stands in two members that would undo each other.
struct Plan {
  std::vector<std::pair<std::uint32_t, hp_name>> names;
  std::vector<std::pair<std::uint32_t, hp_backend>> backends;
  std::vector<std::pair<std::uint32_t, hp_slot>> slots;
  std::vector<std::pair<hp_addr, hp_gate>> gate;             ///< further roles, those that rest included
  std::vector<std::pair<hp_frontend, hp_service>> services;  ///< the switch
  std::vector<hp_frontend> services_gone;
  std::vector<std::pair<hp_addr, hp_gate>> gate_less;  ///< roles that are left, where others have rested long enough
  std::vector<hp_addr> gate_gone;
  std::vector<std::pair<std::uint32_t, hp_backend>> backends_gone;  ///< epoch raised: ends the flows to them
  std::vector<std::uint32_t> names_gone;

  [[nodiscard]] bool empty() const {
    return names.empty() && backends.empty() && slots.empty() && gate.empty() && services.empty() &&
           services_gone.empty() && gate_less.empty() && gate_gone.empty() && backends_gone.empty() &&
           names_gone.empty();
  }
};

namespace contents {

template <typename Table, typename Value>
Result<void> read_array(const Table& table, std::vector<Value>& into) {
  auto entries = table.read_all();
  if (!entries) return fail(std::move(entries).error());
  into.resize(table.max_entries());
  for (const auto& [index, value] : *entries) into.at(index) = value;
  return {};
}

template <typename Table, typename Entries>
Result<void> read_hash(const Table& table, Entries& into) {
  auto entries = table.read_all();
  if (!entries) return fail(std::move(entries).error());
  into = std::move(*entries);
  return {};
}

template <typename Table, typename Key, typename Value>
Result<void> put_all(const Table& table, const std::vector<std::pair<Key, Value>>& entries) {
  std::vector<Key> keys;
  std::vector<Value> values;
  keys.reserve(entries.size());
  values.reserve(entries.size());
  for (const auto& [key, value] : entries) {
    keys.push_back(key);
    values.push_back(value);
  }
  return table.put_all(keys, values);
}

template <typename Table, typename Key>
Result<void> erase_all(const Table& table, const std::vector<Key>& keys) {
  for (const auto& key : keys) {
    if (auto erased = table.erase(key); !erased) return fail(std::move(erased).error());
  }
  return {};
}

}  // namespace contents

template <typename Maps>
Result<Contents> read_contents(const Maps& maps) {
  Contents read;
  read.max_gate = maps.frontends.max_entries();
  read.max_services = maps.services.max_entries();
  read.max_names = maps.names.max_entries();
  if (auto done = contents::read_hash(maps.frontends, read.gate); !done) return fail(std::move(done).error());
  if (auto done = contents::read_hash(maps.services, read.services); !done) return fail(std::move(done).error());
  if (auto done = contents::read_array(maps.slots, read.slots); !done) return fail(std::move(done).error());
  if (auto done = contents::read_array(maps.backends, read.backends); !done) return fail(std::move(done).error());
  if (auto done = contents::read_hash(maps.names, read.names); !done) return fail(std::move(done).error());
  return read;
}

template <typename Maps>
Result<void> write(const Plan& plan, const Maps& maps) {
  using namespace contents;
  if (auto done = put_all(maps.names, plan.names); !done) return done;
  if (auto done = put_all(maps.backends, plan.backends); !done) return done;
  if (auto done = put_all(maps.slots, plan.slots); !done) return done;
  if (auto done = put_all(maps.frontends, plan.gate); !done) return done;
  if (auto done = put_all(maps.services, plan.services); !done) return done;
  if (auto done = erase_all(maps.services, plan.services_gone); !done) return done;
  if (auto done = put_all(maps.frontends, plan.gate_less); !done) return done;
  if (auto done = erase_all(maps.frontends, plan.gate_gone); !done) return done;
  if (auto done = put_all(maps.backends, plan.backends_gone); !done) return done;
  return erase_all(maps.names, plan.names_gone);
}

}  // namespace hairpin
