// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "hairpin/hook.hpp"
#include "hairpin/result.hpp"

// Where things are pinned below our folder of the bpffs. docs/state-on-disk.md describes it for other programs.

namespace hairpin::pins {

inline std::filesystem::path maps(const std::filesystem::path& bpffs) { return bpffs / "maps"; }
inline std::filesystem::path programs(const std::filesystem::path& bpffs) { return bpffs / "programs"; }
inline std::filesystem::path links(const std::filesystem::path& bpffs) { return bpffs / "links"; }

inline std::filesystem::path program(const std::filesystem::path& bpffs, const std::string& name) {
  return programs(bpffs) / name;
}

inline std::filesystem::path link(const std::filesystem::path& bpffs, std::uint32_t ifindex, Direction direction) {
  return links(bpffs) / (std::to_string(ifindex) + (direction == Direction::kIngress ? "_ingress" : "_egress"));
}

/// Makes the folders. They, or the nearest parent that exists, must lie on a bpffs.
Result<void> make_folders(const std::filesystem::path& bpffs);

/// Whether the path, or its nearest existing parent, is on a bpffs.
bool on_bpffs(const std::filesystem::path& path);

}  // namespace hairpin::pins
