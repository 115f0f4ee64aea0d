// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "hairpin/fd.hpp"
#include "hairpin/result.hpp"
#include "maps/map_handle.hpp"

namespace hairpin {

/// A typed view of a BPF map: owns a descriptor, not the map. Every call is one system call or one batch of them, and
/// what it returns is a copy.
template <typename Key, typename Value>
class Table {
  // Compared and hashed by their bytes in the kernel: no padding may hide in a key, and none is worth copying in a
  // value.
  static_assert(std::has_unique_object_representations_v<Key>);
  static_assert(std::has_unique_object_representations_v<Value>);

 public:
  Table() = default;

  /// Error::code is ENOENT where nothing is pinned. A map of other key or value sizes is refused.
  static Result<Table> open(const std::filesystem::path& pin) {
    auto handle = MapHandle::open(pin, sizeof(Key), sizeof(Value));
    if (!handle) return fail(std::move(handle).error());
    return Table{std::move(*handle)};
  }

  [[nodiscard]] Result<std::optional<Value>> find(const Key& key) const {
    Value value;
    auto found = handle_.find(&key, &value);
    if (!found) return fail(std::move(found).error());
    return *found ? std::optional<Value>{value} : std::nullopt;
  }

  /// Adds or replaces.
  Result<void> put(const Key& key, const Value& value) const { return handle_.put(&key, &value); }

  /// The same for many; keys and values go together by position.
  Result<void> put_all(std::span<const Key> keys, std::span<const Value> values) const {
    return handle_.put_all(keys.data(), values.data(), keys.size());
  }

  /// False where there was no such key.
  Result<bool> erase(const Key& key) const { return handle_.erase(&key); }

  /// Everything that was there throughout; what comes or goes meanwhile may be in it or not, nothing is in it twice.
  [[nodiscard]] Result<std::vector<std::pair<Key, Value>>> read_all() const {
    auto raw = handle_.read_all();
    if (!raw) return fail(std::move(raw).error());
    std::vector<std::pair<Key, Value>> entries(raw->count);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      std::memcpy(&entries[i].first, raw->keys.data() + i * sizeof(Key), sizeof(Key));
      std::memcpy(&entries[i].second, raw->values.data() + i * sizeof(Value), sizeof(Value));
    }
    return entries;
  }

  [[nodiscard]] std::uint32_t max_entries() const { return handle_.max_entries(); }

 private:
  explicit Table(MapHandle handle) : handle_{std::move(handle)} {}

  MapHandle handle_;
};

/// A typed view of a BPF queue.
template <typename Value>
class Queue {
 public:
  Queue() = default;

  static Result<Queue> open(const std::filesystem::path& pin) {
    auto handle = MapHandle::open(pin, 0, sizeof(Value));
    if (!handle) return fail(std::move(handle).error());
    return Queue{std::move(*handle)};
  }

  Result<void> push(const Value& value) const { return handle_.put(nullptr, &value); }

  /// Nothing where the queue is empty.
  Result<std::optional<Value>> pop() const {
    Value value;
    auto popped = handle_.pop(&value);
    if (!popped) return fail(std::move(popped).error());
    return *popped ? std::optional<Value>{value} : std::nullopt;
  }

  [[nodiscard]] std::uint32_t max_entries() const { return handle_.max_entries(); }

 private:
  explicit Queue(MapHandle handle) : handle_{std::move(handle)} {}

  MapHandle handle_;
};

/// A typed view of a per-CPU array of 64-bit counters.
class Counters {
 public:
  Counters() = default;

  static Result<Counters> open(const std::filesystem::path& pin);

  /// Each counter's sum over all CPUs, by index.
  [[nodiscard]] Result<std::vector<std::uint64_t>> read_all() const;

  [[nodiscard]] std::uint32_t max_entries() const { return handle_.max_entries(); }

 private:
  explicit Counters(MapHandle handle) : handle_{std::move(handle)} {}

  MapHandle handle_;
};

}  // namespace hairpin
