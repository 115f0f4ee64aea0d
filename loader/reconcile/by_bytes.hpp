// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <string_view>
#include <type_traits>
#include <unordered_map>

namespace hairpin {

/// Map keys are compared by their bytes, as the kernel does.
struct BytesHash {
  template <typename Key>
  std::size_t operator()(const Key& key) const {
    static_assert(std::has_unique_object_representations_v<Key>);
    return std::hash<std::string_view>{}({reinterpret_cast<const char*>(&key), sizeof key});
  }
};

struct BytesEqual {
  template <typename Key>
  bool operator()(const Key& a, const Key& b) const {
    static_assert(std::has_unique_object_representations_v<Key>);
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
};

template <typename Key, typename Value>
using ByBytes = std::unordered_map<Key, Value, BytesHash, BytesEqual>;

}  // namespace hairpin
