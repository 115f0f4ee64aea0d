// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "tools/hairpinctl/output.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace hairpin::ctl {

namespace {

constexpr unsigned char kFirstPrintable = 0x20;
constexpr unsigned char kDelete = 0x7f;

void emit(YAML::Emitter& out, const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      out << YAML::BeginMap;
      for (const auto& [key, member] : value.items()) {
        out << YAML::Key << key << YAML::Value;
        emit(out, member);
      }
      out << YAML::EndMap;
      break;
    case Json::value_t::array:
      if (value.empty()) out << YAML::Flow;
      out << YAML::BeginSeq;
      for (const auto& element : value) emit(out, element);
      out << YAML::EndSeq;
      break;
    case Json::value_t::string:
      out << YAML::DoubleQuoted << value.get<std::string>();
      break;
    case Json::value_t::boolean:
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
    case Json::value_t::number_float:
    case Json::value_t::null:
    case Json::value_t::binary:
    case Json::value_t::discarded:
      out << value.dump();
      break;
  }
}

}  // namespace

std::string printable(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte >= kFirstPrintable && byte != kDelete) {
      safe += character;
    } else if (character == '\n') {
      safe += "\\n";
    } else {
      std::array<char, 5> escape{};
      std::snprintf(escape.data(), escape.size(), "\\x%02x", byte);
      safe += escape.data();
    }
  }
  return safe;
}

void Grid::add(std::vector<std::string> row) {
  for (auto& cell : row) cell = printable(cell);
  rows_.push_back(std::move(row));
}

void Grid::print(std::ostream& out, bool colour) const {
  std::vector<std::size_t> width(heading_.size());
  for (std::size_t column = 0; column < heading_.size(); ++column) {
    width[column] = heading_[column].size();
    for (const auto& row : rows_) width[column] = std::max(width[column], row.at(column).size());
  }
  const auto print_row = [&](const std::vector<std::string>& row) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      out << row[column];
      if (column + 1 < row.size()) out << std::string(width[column] - row[column].size() + 2, ' ');
    }
  };
  if (colour) out << "\x1b[1m";
  print_row(heading_);
  out << (colour ? "\x1b[0m\n" : "\n");
  for (const auto& row : rows_) {
    print_row(row);
    out << '\n';
  }
}

std::string to_yaml(const Json& document) {
  YAML::Emitter out;
  emit(out, document);
  return std::string{out.c_str()} + "\n";
}

std::string short_duration(long long seconds) {
  constexpr long long kMinute = 60;
  constexpr long long kHour = 60 * kMinute;
  constexpr long long kDay = 24 * kHour;
  const auto two = [&](long long big, const char* big_unit, long long small, const char* small_unit) {
    return std::to_string(seconds / big) + big_unit + std::to_string(seconds % big / small) + small_unit;
  };
  if (seconds < kMinute) return std::to_string(seconds) + "s";
  if (seconds < kHour) return two(kMinute, "m", 1, "s");
  if (seconds < kDay) return two(kHour, "h", kMinute, "m");
  return two(kDay, "d", kHour, "h");
}

}  // namespace hairpin::ctl
