// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

namespace hairpin {

using Clock = std::chrono::steady_clock;

/// How long a place in a map rests before it is used again. A program that found it just before it was given up is done
/// with it after microseconds; userspace cannot see when, so this is generous.
inline constexpr Clock::duration kRest = std::chrono::seconds{1};

/// Which ranges of an array map are free. First fit; what is given back rests for kRest and joins its neighbours then.
class Room {
 public:
  Room() = default;

  /// All of [first, end) is free.
  Room(std::uint32_t first, std::uint32_t end) {
    if (first < end) free_.emplace(first, end - first);
  }

  /// Takes a range that is known to be in use already; false if some of it was taken before.
  bool occupy(std::uint32_t base, std::uint32_t count);

  /// The base of a free range of that size; nothing if there is none.
  std::optional<std::uint32_t> take(std::uint32_t count, Clock::time_point now);

  void give_back(std::uint32_t base, std::uint32_t count, Clock::time_point now);

  /// Whether take(count) would find one.
  bool fits(std::uint32_t count, Clock::time_point now);

  /// Whether so many ranges of size one could be taken.
  bool has(std::uint32_t count, Clock::time_point now);

 private:
  struct Resting {
    Clock::time_point since;
    std::uint32_t base;
    std::uint32_t count;
  };

  void wake(Clock::time_point now);
  void join(std::uint32_t base, std::uint32_t count);

  std::map<std::uint32_t, std::uint32_t> free_;  // base -> count
  std::deque<Resting> resting_;
};

}  // namespace hairpin
