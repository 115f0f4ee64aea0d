// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "hairpin/agent_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "loader/pins.hpp"

namespace hairpin {

namespace {

using Clock = std::chrono::steady_clock;

/// held() has the lock itself for the moment that it looks.
constexpr Clock::duration kPatience = std::chrono::milliseconds{200};

bool lock(int folder) {
  const auto end = Clock::now() + kPatience;
  while (flock(folder, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return true;
}

}  // namespace

Result<AgentLock> AgentLock::take(const std::filesystem::path& bpffs) {
  if (auto made = pins::make_folders(bpffs); !made) return fail(std::move(made).error());
  Fd folder{open(bpffs.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!folder.valid()) return fail(Error::system("open " + bpffs.string(), errno));
  if (!lock(folder.get())) return fail(Error::system("lock " + bpffs.string(), errno));
  return AgentLock{std::move(folder)};
}

bool AgentLock::held(const std::filesystem::path& bpffs) {
  const Fd folder{open(bpffs.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  return folder.valid() && flock(folder.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace hairpin
