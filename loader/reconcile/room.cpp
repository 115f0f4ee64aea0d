// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "loader/reconcile/room.hpp"

#include <algorithm>
#include <iterator>

namespace hairpin {

bool Room::occupy(std::uint32_t base, std::uint32_t count) {
  const std::uint32_t end = base + count;
  std::uint32_t was_free = 0;
  auto range = free_.upper_bound(base);
  if (range != free_.begin()) --range;
  while (range != free_.end() && range->first < end) {
    const auto [free_base, free_count] = *range;
    const std::uint32_t free_end = free_base + free_count;
    if (free_end <= base) {
      ++range;
      continue;
    }
    range = free_.erase(range);
    was_free += std::min(free_end, end) - std::max(free_base, base);
    if (free_base < base) free_.emplace(free_base, base - free_base);
    if (free_end > end) free_.emplace(end, free_end - end);
  }
  return was_free == count;
}

std::optional<std::uint32_t> Room::take(std::uint32_t count, Clock::time_point now) {
  wake(now);
  const auto fits = std::ranges::find_if(free_, [&](const auto& range) { return range.second >= count; });
  if (fits == free_.end()) return std::nullopt;
  const auto [base, size] = *fits;
  free_.erase(fits);
  if (size > count) free_.emplace(base + count, size - count);
  return base;
}

void Room::give_back(std::uint32_t base, std::uint32_t count, Clock::time_point now) {
  if (count > 0) resting_.push_back({now, base, count});
}

bool Room::fits(std::uint32_t count, Clock::time_point now) {
  wake(now);
  return std::ranges::any_of(free_, [&](const auto& range) { return range.second >= count; });
}

bool Room::has(std::uint32_t count, Clock::time_point now) {
  wake(now);
  std::uint64_t free = 0;
  for (const auto& [base, size] : free_) {
    free += size;
    if (free >= count) return true;
  }
  return free >= count;
}

void Room::wake(Clock::time_point now) {
  while (!resting_.empty() && now - resting_.front().since >= kRest) {
    join(resting_.front().base, resting_.front().count);
    resting_.pop_front();
  }
}

void Room::join(std::uint32_t base, std::uint32_t count) {
  auto next = free_.lower_bound(base);
  if (next != free_.end() && next->first == base + count) {
    count += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == base) {
      previous->second += count;
      return;
    }
  }
  free_.emplace(base, count);
}

}  // namespace hairpin
