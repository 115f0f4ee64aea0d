// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <filesystem>

#include "hairpin/fd.hpp"
#include "hairpin/result.hpp"

namespace hairpin {

/// The right to be the one agent on a bpffs folder: a lock on the folder itself, which the kernel gives back when the
/// process ends, however it ends. Held for as long as the object lives.
class AgentLock {
 public:
  /// Makes the folders if they are missing. Error::code is EWOULDBLOCK where another agent has the lock.
  static Result<AgentLock> take(const std::filesystem::path& bpffs);

  /// Whether some agent has the lock; false where there is no folder.
  static bool held(const std::filesystem::path& bpffs);

 private:
  explicit AgentLock(Fd folder) : folder_{std::move(folder)} {}

  Fd folder_;
};

}  // namespace hairpin
