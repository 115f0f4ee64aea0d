// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <filesystem>

#include "maps/layout.h"
#include "maps/table.hpp"

namespace hairpin {

/// Every map of one dataplane. What each is for stands in catalogue.cpp, what its bytes mean in layout.h.
struct Maps {
  Table<hp_addr, hp_gate> frontends;
  Table<hp_frontend, hp_service> services;
  Table<std::uint32_t, hp_slot> slots;
  Table<std::uint32_t, hp_backend> backends;
  Table<hp_tuple, hp_flow_ref> tuples;
  Table<std::uint32_t, hp_flow> flows;
  Queue<std::uint32_t> chunks;
  Table<hp_tuple, hp_direct> direct;
  Table<std::uint32_t, hp_interface> interfaces;
  Counters counters;
  Table<std::uint32_t, hp_config> config;
  Table<std::uint32_t, hp_name> names;

  /// Opens what is pinned in the folder, by the maps' names. Error::code is ENOENT where one is missing.
  static Result<Maps> open(const std::filesystem::path& folder);
};

}  // namespace hairpin
