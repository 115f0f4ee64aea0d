// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "tests/support/hash.hpp"

#include <bit>

namespace hairpin::test {
namespace {

constexpr std::uint32_t kFirst = 0xcc9e2d51;
constexpr std::uint32_t kSecond = 0x1b873593;

std::uint32_t scramble(std::uint32_t block) { return std::rotl(block * kFirst, 15) * kSecond; }

std::uint32_t little_endian(std::span<const std::uint8_t> bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::uint32_t{bytes[i]} << (8 * i);
  return value;
}

}  // namespace

std::uint32_t murmur3(std::span<const std::uint8_t> bytes, std::uint32_t seed) {
  std::uint32_t hash = seed;
  const std::size_t whole = bytes.size() / 4 * 4;
  for (std::size_t i = 0; i < whole; i += 4) {
    hash ^= scramble(little_endian(bytes.subspan(i, 4)));
    hash = std::rotl(hash, 13) * 5 + 0xe6546b64;
  }
  if (whole < bytes.size()) hash ^= scramble(little_endian(bytes.subspan(whole)));

  hash ^= static_cast<std::uint32_t>(bytes.size());
  hash ^= hash >> 16;
  hash *= 0x85ebca6b;
  hash ^= hash >> 13;
  hash *= 0xc2b2ae35;
  hash ^= hash >> 16;
  return hash;
}

std::uint32_t hash_of(const hp_tuple& tuple, std::uint32_t seed) {
  return murmur3({reinterpret_cast<const std::uint8_t*>(&tuple), sizeof tuple}, seed);
}

}  // namespace hairpin::test
