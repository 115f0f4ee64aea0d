// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "hairpin/result.hpp"
#include "maps/layout.h"

namespace hairpin::test {

struct BytesLess {
  template <typename T>
  bool operator()(const T& a, const T& b) const {
    if constexpr (std::is_integral_v<T>) {
      return a < b;
    } else {
      return std::memcmp(&a, &b, sizeof(T)) < 0;
    }
  }
};

/// A map in memory with Table's interface. `on_write` hears of every single write after it was made; false ends the
/// writing process: that write and all later ones fail.
template <typename Key, typename Value>
class FakeTable {
 public:
  using Write = std::function<bool(const Key& key, const Value* before, const Value* after)>;

  explicit FakeTable(std::uint32_t max_entries, bool array = false) : max_entries_{max_entries}, array_{array} {}

  Result<void> put_all(std::span<const Key> keys, std::span<const Value> values) const {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (auto done = put(keys[i], values[i]); !done) return done;
    }
    return {};
  }

  Result<void> put(const Key& key, const Value& value) const {
    const auto found = entries.find(key);
    if (found == entries.end() && entries.size() >= max_entries_) return fail("write map", "full");
    if constexpr (std::is_integral_v<Key>) {
      if (array_ && key >= max_entries_) return fail("write map", "out of range");
    }
    const Value before = found == entries.end() ? Value{} : found->second;
    const bool existed = found != entries.end();
    if (stopped && *stopped) return fail("write map", "killed");
    entries[key] = value;
    return told(on_write(key, existed ? &before : nullptr, &value));
  }

  Result<bool> erase(const Key& key) const {
    const auto found = entries.find(key);
    if (found == entries.end()) return false;
    if (stopped && *stopped) return fail("erase from map", "killed");
    const Value before = found->second;
    entries.erase(found);
    if (auto done = told(on_write(key, &before, nullptr)); !done) return fail(done.error());
    return true;
  }

  [[nodiscard]] Result<std::vector<std::pair<Key, Value>>> read_all() const {
    return std::vector<std::pair<Key, Value>>{entries.begin(), entries.end()};
  }

  [[nodiscard]] std::uint32_t max_entries() const { return max_entries_; }

  mutable std::map<Key, Value, BytesLess> entries;
  Write on_write = [](const Key&, const Value*, const Value*) { return true; };
  bool* stopped = nullptr;

 private:
  [[nodiscard]] Result<void> told(bool go_on) const {
    if (go_on) return {};
    if (stopped) *stopped = true;
    return fail("write map", "killed");
  }

  std::uint32_t max_entries_;
  bool array_;
};

/// The maps that the reconciler writes, sized as the loader sizes them.
struct FakeMaps {
  FakeMaps(std::uint32_t max_services, std::uint32_t max_backends)
      : frontends{2 * (max_services + max_backends)},
        services{max_services},
        slots{2 * max_backends, true},
        backends{max_backends + 1, true},
        names{max_services} {}

  FakeTable<hp_addr, hp_gate> frontends;
  FakeTable<hp_frontend, hp_service> services;
  FakeTable<std::uint32_t, hp_slot> slots;
  FakeTable<std::uint32_t, hp_backend> backends;
  FakeTable<std::uint32_t, hp_name> names;
};

}  // namespace hairpin::test
