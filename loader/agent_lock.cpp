// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "hairpin/agent_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "loader/pins.hpp"

namespace hairpin {

Result<AgentLock> AgentLock::take(const std::filesystem::path& bpffs) {
  if (auto made = pins::make_folders(bpffs); !made) return fail(std::move(made).error());
  Fd folder{open(bpffs.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!folder.valid()) return fail(Error::system("open " + bpffs.string(), errno));
  if (flock(folder.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(Error::system("lock " + bpffs.string(), errno));
  }
  return AgentLock{std::move(folder)};
}

bool AgentLock::held(const std::filesystem::path& bpffs) {
  const Fd folder{open(bpffs.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  return folder.valid() && flock(folder.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace hairpin
