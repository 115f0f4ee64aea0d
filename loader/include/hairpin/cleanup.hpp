// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hairpin/hook.hpp"
#include "hairpin/result.hpp"

namespace hairpin {

/// What could not be removed, and why.
struct NotRemoved {
  Removed object;
  Error error;
};

/// What was seen when all was done; counts of what is ours.
struct Left {
  std::uint32_t programs = 0;
  std::uint32_t pins = 0;
  std::uint32_t qdiscs = 0;

  [[nodiscard]] bool nothing() const { return programs == 0 && pins == 0 && qdiscs == 0; }
};

struct CleanupReport {
  std::vector<Removed> removed;  ///< with dry_run: what would be
  std::vector<NotRemoved> failed;
  Left left;

  /// True if nothing failed and nothing of ours is left. Of a dry run: if nothing is there to be removed.
  [[nodiscard]] bool clean() const { return failed.empty() && left.nothing(); }
};

struct CleanupOptions {
  std::filesystem::path bpffs;  ///< the folder with our pins; need not exist, nor be on a bpffs
  bool dry_run = false;
};

/// Removes everything of ours from this network namespace's interfaces and from the bpffs: programs, links, pins, the
/// clsact qdiscs where no filter is left, the folder. Needs no agent, no config and no maps: looks at every interface
/// and knows our programs by what they are. Goes on past failures, and looks again at the end.
CleanupReport detach_all(const CleanupOptions& options);

/// Removes the programs from these interfaces and gives back their shares of the flow table. Error: no such interface
/// (then nothing was changed).
Result<CleanupReport> detach_interfaces(const std::vector<std::string>& names, const CleanupOptions& options);

}  // namespace hairpin
