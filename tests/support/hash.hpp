// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstdint>
#include <span>

#include "maps/layout.h"

namespace hairpin::test {

/// MurmurHash3_x86_32 (Austin Appleby, public domain), over bytes, of any length.
std::uint32_t murmur3(std::span<const std::uint8_t> bytes, std::uint32_t seed);

/// The same over a tuple as it lies in memory.
std::uint32_t hash_of(const hp_tuple& tuple, std::uint32_t seed);

}  // namespace hairpin::test
