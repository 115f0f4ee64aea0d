// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "loader/identity.hpp"

#include <bpf/bpf.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "hairpin/fd.hpp"

namespace hairpin {

namespace {

constexpr std::array<std::string_view, 3> kProgramNames{"from_pod", "to_pod", "end_flows"};

struct Program {
  std::string name;
  std::vector<std::uint32_t> maps;
};

std::optional<Program> look_at(std::uint32_t id) {
  const Fd fd{bpf_prog_get_fd_by_id(id)};
  if (!fd.valid()) return std::nullopt;
  std::vector<std::uint32_t> maps(64);  // MAX_USED_MAPS, include/linux/bpf_verifier.h
  bpf_prog_info info{};
  info.nr_map_ids = static_cast<std::uint32_t>(maps.size());
  info.map_ids = reinterpret_cast<std::uintptr_t>(maps.data());
  std::uint32_t size = sizeof info;
  if (bpf_prog_get_info_by_fd(fd.get(), &info, &size) != 0) return std::nullopt;
  maps.resize(std::min<std::size_t>(info.nr_map_ids, maps.size()));
  return Program{info.name, std::move(maps)};
}

bool is_our_map(std::uint32_t id) {
  const Fd fd{bpf_map_get_fd_by_id(id)};
  if (!fd.valid()) return false;
  bpf_map_info info{};
  std::uint32_t size = sizeof info;
  return bpf_map_get_info_by_fd(fd.get(), &info, &size) == 0 && std::string_view{info.name}.starts_with(kMapPrefix);
}

}  // namespace

bool is_ours(std::uint32_t program_id) {
  const auto program = look_at(program_id);
  return program && std::ranges::find(kProgramNames, program->name) != kProgramNames.end() &&
         std::ranges::any_of(program->maps, is_our_map);
}

std::string program_name(std::uint32_t program_id) {
  const auto program = look_at(program_id);
  return program ? program->name : "?";
}

}  // namespace hairpin
