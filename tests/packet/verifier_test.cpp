// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// What the programs cost the kernel's verifier, which differs from kernel to kernel.
#include <bpf/libbpf.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "loader/skeleton.hpp"

namespace hairpin::test {

namespace {

constexpr std::uint32_t kLogStatistics = 4;  // BPF_LOG_STATS, include/linux/bpf_verifier.h

struct Cost {
  std::string program;
  std::uint64_t instructions = 0;  ///< that the verifier walked
  std::uint64_t states = 0;        ///< that it kept
  std::uint64_t stack = 0;         ///< of the largest function, in bytes
};

std::uint64_t number_after(std::string_view log, std::string_view word) {
  const auto at = log.find(word);
  REQUIRE(at != std::string_view::npos);
  return std::strtoull(log.data() + at + word.size(), nullptr, 10);
}

/// "stack depth 80+24+0", a number for each function.
std::uint64_t largest_frame(std::string_view log) {
  std::uint64_t largest = 0;
  auto at = log.find("stack depth ");
  while (at != std::string_view::npos && log[at] != '\n') {
    at = log.find_first_of("0123456789\n", at);
    if (at == std::string_view::npos || log[at] == '\n') break;
    char* end = nullptr;
    largest = std::max<std::uint64_t>(largest, std::strtoull(log.data() + at, &end, 10));
    at = static_cast<std::size_t>(end - log.data());
  }
  return largest;
}

/// Loads the programs as the loader does, and reads what the verifier says of each.
std::vector<Cost> costs() {
  const Skeleton skeleton{hairpin_bpf__open()};
  REQUIRE(skeleton);
  auto& config = skeleton->rodata->config;
  config.seed = 1;
  config.chunk_size = 512;
  config.redirect_peer = 1;
  for (auto& row : config.idle) std::ranges::fill(row, 60'000'000'000);
  const std::array programs{skeleton->progs.from_pod, skeleton->progs.to_pod, skeleton->progs.end_flows};
  std::array<std::vector<char>, programs.size()> logs;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    logs.at(i).resize(1U << 16);
    bpf_program__set_log_level(programs.at(i), kLogStatistics);
    bpf_program__set_log_buf(programs.at(i), logs.at(i).data(), logs.at(i).size());
  }
  REQUIRE(hairpin_bpf__load(skeleton.get()) == 0);
  std::vector<Cost> all;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const std::string_view log{logs.at(i).data()};
    CAPTURE(log);
    all.push_back({.program = bpf_program__name(programs.at(i)),
                   .instructions = number_after(log, "processed "),
                   .states = number_after(log, "total_states "),
                   .stack = largest_frame(log)});
  }
  return all;
}

Cost bound_of(const std::string& program) {
  std::ifstream file{VERIFIER_BOUNDS};
  REQUIRE(file);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words{line};
    Cost bound;
    if (words >> bound.program >> bound.instructions >> bound.states >> bound.stack && bound.program == program) {
      return bound;
    }
  }
  FAIL("no bound for ", program, " in ", VERIFIER_BOUNDS);
  return {};
}

}  // namespace

TEST_CASE("the verifier's work stays within its bounds") {
  for (const Cost& cost : costs()) {
    CAPTURE(cost.program);
    const Cost bound = bound_of(cost.program);
    MESSAGE("verifier: ", cost.program, " ", cost.instructions, " instructions, ", cost.states, " states, ", cost.stack,
            " bytes of stack");
    CHECK(cost.instructions <= bound.instructions);
    CHECK(cost.states <= bound.states);
    CHECK(cost.stack <= bound.stack);
  }
}

}  // namespace hairpin::test
