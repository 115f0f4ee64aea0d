// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hairpin/fd.hpp"
#include "hairpin/result.hpp"

namespace hairpin {

/// The untyped half of Table, Queue and Counters: keys and values are bytes of the map's own sizes.
class MapHandle {
 public:
  struct Entries {
    std::size_t count = 0;
    std::vector<std::uint8_t> keys;
    std::vector<std::uint8_t> values;
  };

  MapHandle() = default;

  static Result<MapHandle> open(const std::filesystem::path& pin, std::size_t key_size, std::size_t value_size);

  Result<bool> find(const void* key, void* value) const;
  Result<void> put(const void* key, const void* value) const;
  Result<void> put_all(const void* keys, const void* values, std::size_t count) const;
  Result<bool> erase(const void* key) const;
  Result<bool> pop(void* value) const;
  [[nodiscard]] Result<Entries> read_all() const;

  [[nodiscard]] std::uint32_t max_entries() const { return max_entries_; }

 private:
  [[nodiscard]] Error error(const char* what, int code) const;
  [[nodiscard]] Result<Entries> read_one_by_one() const;

  Fd fd_;
  std::string name_;
  std::uint32_t key_size_ = 0;
  std::uint32_t value_size_ = 0;
  std::uint32_t max_entries_ = 0;
};

}  // namespace hairpin
