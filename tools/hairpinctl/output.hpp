// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace hairpin::ctl {

using Json = nlohmann::ordered_json;

/// The text with every control character spelled out (\n, \x1b), so that no name can command a terminal.
std::string printable(std::string_view text);

/// Rows under a heading, each column as wide as its widest cell, two spaces apart.
class Grid {
 public:
  explicit Grid(std::vector<std::string> heading) : heading_{std::move(heading)} {}

  void add(std::vector<std::string> row);
  [[nodiscard]] bool empty() const { return rows_.empty(); }

  /// `colour`: the heading in bold.
  void print(std::ostream& out, bool colour) const;

 private:
  std::vector<std::string> heading_;
  std::vector<std::vector<std::string>> rows_;
};

/// The document as YAML; strings that YAML would take for something else are quoted.
std::string to_yaml(const Json& document);

/// 59 -> "59s", 61 -> "1m1s", 3600 -> "1h0m", 90000 -> "1d1h".
std::string short_duration(long long seconds);

}  // namespace hairpin::ctl
