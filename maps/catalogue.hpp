// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "hairpin/result.hpp"
#include "maps/decode.hpp"
#include "maps/maps.hpp"

namespace hairpin {

/// What there is to know about one map: the list of these is what dump, list and status go by.
struct MapDescription {
  std::string_view name;     ///< as people know it: "flows"
  std::string_view purpose;  ///< one line
  std::uint32_t (*max_entries)(const Maps& maps);
  Result<std::size_t> (*entries)(const Maps& maps);          ///< in use
  Result<nlohmann::ordered_json> (*dump)(const Maps& maps);  ///< an array, decoded
};

/// Every map, in the order in which a packet meets them.
std::span<const MapDescription> catalogue();

/// The description of that name; null if there is none.
const MapDescription* find_map(std::string_view name);

// A view as JSON has it, in the dumps and wherever else it is shown.
nlohmann::ordered_json to_json(const ServiceView& view);
nlohmann::ordered_json to_json(const FlowView& view);

}  // namespace hairpin
