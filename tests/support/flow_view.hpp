// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "tests/support/tables.hpp"

namespace hairpin::test {

/// What a program did with a packet.
struct Outcome {
  int verdict = 0;
  Bytes frame;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

/// Verdicts as the kernel numbers them (linux/pkt_cls.h).
constexpr int kPass = -1;
constexpr int kDrop = 2;
constexpr int kRedirect = 7;

/// A flow without its times and its place in the table.
struct FlowView {
  hp_tuple request{};
  hp_tuple reply{};
  std::uint8_t state = HP_FLOW_FREE;
  bool hairpin = false;
  bool fin_request = false;
  bool fin_reply = false;
  std::uint32_t backend = 0;
  std::uint32_t epoch = 0;
  std::uint32_t service = 0;
};

std::string describe(const FlowView& flow);

/// What a packet path changed, in a form that compares and prints.
struct State {
  std::set<std::string> flows;
  std::set<std::string> direct;
  std::map<std::string, std::uint64_t> counters;  ///< by reason, those that are not zero

  friend bool operator==(const State&, const State&) = default;
};

/// What is in one and not in the other, one line each; empty where they are equal.
std::string difference(const State& program, const State& model);

/// A reason's name, from reasons.def.
std::string reason_name(std::size_t reason);

enum class Reason : std::uint8_t {
#define HP_REASON(enumerator, name, text) enumerator,
#include "maps/reasons.def"
#undef HP_REASON
};

}  // namespace hairpin::test
