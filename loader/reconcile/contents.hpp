// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "hairpin/result.hpp"
#include "maps/layout.h"
#include "maps/maps.hpp"

namespace hairpin {

/// What the service maps hold, as read, and how much they can.
struct Contents {
  std::vector<std::pair<hp_addr, hp_gate>> gate;
  std::vector<std::pair<hp_frontend, hp_service>> services;
  std::vector<hp_slot> slots;        ///< by index, all of them
  std::vector<hp_backend> backends;  ///< by index, all of them
  std::vector<std::pair<std::uint32_t, hp_name>> names;
  std::uint32_t max_services = 0;
};

Result<Contents> read_contents(const Maps& maps);

/// The writes that turn contents into what is desired. In this order, each member before the next, any part of them
/// leaves every service whole: first what nothing leads to yet, then the switch, then what nothing leads to any more.
struct Plan {
  std::vector<std::pair<std::uint32_t, hp_name>> names;
  std::vector<std::pair<std::uint32_t, hp_backend>> backends;
  std::vector<std::pair<std::uint32_t, hp_slot>> slots;
  std::vector<std::pair<hp_addr, hp_gate>> gate;
  std::vector<std::pair<hp_frontend, hp_service>> services;  ///< the switch
  std::vector<hp_frontend> services_gone;
  std::vector<std::pair<hp_addr, hp_gate>> gate_less;  ///< roles that are left
  std::vector<hp_addr> gate_gone;
  std::vector<std::pair<std::uint32_t, hp_backend>> backends_gone;  ///< epoch raised: ends the flows to them
  std::vector<std::uint32_t> names_gone;

  [[nodiscard]] bool empty() const {
    return names.empty() && backends.empty() && slots.empty() && gate.empty() && services.empty() &&
           services_gone.empty() && gate_less.empty() && gate_gone.empty() && backends_gone.empty() &&
           names_gone.empty();
  }
};

Result<void> write(const Plan& plan, const Maps& maps);

}  // namespace hairpin
