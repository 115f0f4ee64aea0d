// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <string_view>

namespace hairpin {

/// Whether an entry of a manifests folder counts, by its name.
inline bool is_manifest_name(std::string_view name) {
  return !name.starts_with('.') && (name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json"));
}

}  // namespace hairpin
