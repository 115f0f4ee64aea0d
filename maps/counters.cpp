// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include <bpf/libbpf.h>

#include <numeric>

#include "maps/table.hpp"

namespace hairpin {

Result<Counters> Counters::open(const std::filesystem::path& pin) {
  auto handle = MapHandle::open(pin, sizeof(std::uint32_t), sizeof(std::uint64_t));
  if (!handle) return fail(std::move(handle).error());
  return Counters{std::move(*handle)};
}

Result<std::vector<std::uint64_t>> Counters::read_all() const {
  const int cpus = libbpf_num_possible_cpus();
  if (cpus < 0) return fail(Error::system("count the CPUs", cpus));
  std::vector<std::uint64_t> sums(max_entries());
  std::vector<std::uint64_t> per_cpu(static_cast<std::size_t>(cpus));
  for (std::uint32_t index = 0; index < max_entries(); ++index) {
    auto found = handle_.find(&index, per_cpu.data());
    if (!found) return fail(std::move(found).error());
    sums[index] = std::accumulate(per_cpu.begin(), per_cpu.end(), std::uint64_t{0});
  }
  return sums;
}

}  // namespace hairpin
