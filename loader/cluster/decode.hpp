// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <string>
#include <string_view>

#include "hairpin/result.hpp"
#include "loader/cluster/model.hpp"
#include "loader/yaml.hpp"

namespace hairpin::cluster {

/// Adds every object of `text`, YAML or JSON, to `into`; `file` is what errors call it. An object that is there already
/// is replaced. After an Error `into` may hold a part of the objects.
Result<void> decode(std::string_view text, const std::string& file, Snapshot& into);

/// The same for one parsed object or List.
Result<void> decode(const yaml::Node& root, const std::string& file, Snapshot& into);

}  // namespace hairpin::cluster
