// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <arpa/inet.h>

#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "maps/layout.h"

namespace hairpin {

enum class Family : std::uint8_t { kIpv4, kIpv6 };

/// An IPv4 or IPv6 address in the form the maps hold it: 16 bytes in network order, IPv4 mapped (RFC 4291, 2.5.5.2).
class Address {
 public:
  Address() = default;
  explicit Address(const hp_addr& raw) : raw_{raw} {}

  /// Reads "10.0.0.1" or "fd00::1"; nothing for anything else (no zones, no prefixes, no host names). The mapped form
  /// "::ffff:10.0.0.1" is refused: it would be a second spelling of an IPv4 address.
  static std::optional<Address> parse(std::string_view text);

  [[nodiscard]] Family family() const;
  [[nodiscard]] std::string to_string() const;
  [[nodiscard]] const hp_addr& raw() const { return raw_; }

  friend bool operator==(const Address& a, const Address& b) {
    return std::memcmp(&a.raw_, &b.raw_, sizeof a.raw_) == 0;
  }
  friend std::strong_ordering operator<=>(const Address& a, const Address& b) {
    return std::memcmp(&a.raw_, &b.raw_, sizeof a.raw_) <=> 0;
  }

 private:
  hp_addr raw_{};
};

}  // namespace hairpin

template <>
struct std::hash<hairpin::Address> {
  std::size_t operator()(const hairpin::Address& address) const noexcept {
    return std::hash<std::string_view>{}({reinterpret_cast<const char*>(&address.raw()), sizeof address.raw()});
  }
};
