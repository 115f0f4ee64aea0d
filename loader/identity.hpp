// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstdint>
#include <string>

// What is ours is known by what it is, not by where it was put or what somebody remembers.

namespace hairpin {

/// What our maps' names begin with.
inline constexpr const char* kMapPrefix = "hp_";

/// Whether the program is one of ours, of this or another version: it has one of our names and uses one of our maps.
bool is_ours(std::uint32_t program_id);

/// The program's name, "?" if it has gone.
std::string program_name(std::uint32_t program_id);

}  // namespace hairpin
