// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "maps/address.hpp"

#include <array>

namespace hairpin {

namespace {

constexpr __be32 kMappedPrefix = __builtin_bswap32(0xffff);  // not htonl: no initialisation at start

}  // namespace

std::optional<Address> Address::parse(std::string_view text) {
  if (text.contains('\0')) return std::nullopt;  // would end the text early
  const std::string copy{text};                  // inet_pton wants a zero byte at the end
  Address address;
  if (inet_pton(AF_INET, copy.c_str(), &address.raw_.word[3]) == 1) {
    address.raw_.word[2] = kMappedPrefix;
    return address;
  }
  if (inet_pton(AF_INET6, copy.c_str(), &address.raw_) == 1 && address.family() == Family::kIpv6) return address;
  return std::nullopt;
}

Family Address::family() const {
  return raw_.word[0] == 0 && raw_.word[1] == 0 && raw_.word[2] == kMappedPrefix ? Family::kIpv4 : Family::kIpv6;
}

std::string Address::to_string() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (family() == Family::kIpv4) {
    inet_ntop(AF_INET, &raw_.word[3], text.data(), text.size());
  } else {
    inet_ntop(AF_INET6, &raw_, text.data(), text.size());
  }
  return text.data();
}

}  // namespace hairpin
