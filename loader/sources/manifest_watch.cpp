// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <deque>
#include <system_error>
#include <utility>

#include "hairpin/manifests.hpp"
#include "loader/sources/manifest_name.hpp"

namespace hairpin {

namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kMask =
    IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
constexpr int kMostLinks = 40;   // as the kernel has it (path_resolution(7))
constexpr int kMostRounds = 10;  // a path that changes faster than it is followed is followed at its next event

/// Whether a new entry is complete at once: a regular file still waits for its content.
bool is_complete(const fs::path& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return false;
  return !S_ISREG(status.st_mode) || status.st_nlink > 1;  // a second name of a file that was written before
}

bool is_folder(const fs::path& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

Result<ManifestWatch> ManifestWatch::create(const fs::path& path) {
  std::error_code code;
  fs::path absolute = fs::absolute(path, code);
  if (code) return fail(Error::system("watch " + path.native(), code.value()));
  const int fd = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (fd < 0) {
    return fail(Error::system("watch " + path.native(), errno,
                              errno == EMFILE ? "raise the sysctl fs.inotify.max_user_instances" : ""));
  }
  ManifestWatch watch{fd, std::move(absolute)};
  if (!watch.follow()) {
    return fail(Error::system("watch " + path.native(), ENOSPC, "raise the sysctl fs.inotify.max_user_watches"));
  }
  return watch;
}

ManifestWatch::ManifestWatch(ManifestWatch&& other) noexcept
    : fd_{std::exchange(other.fd_, -1)}, path_{std::move(other.path_)}, watches_{std::move(other.watches_)} {}

ManifestWatch& ManifestWatch::operator=(ManifestWatch&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(watches_, other.watches_);
  return *this;
}

ManifestWatch::~ManifestWatch() {
  if (fd_ >= 0) ::close(fd_);
}

bool ManifestWatch::drain() {
  bool changed = false;
  alignas(inotify_event) std::array<char, 16384> buffer{};
  for (;;) {
    const ssize_t got = ::read(fd_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof event);
      const char* const name = buffer.data() + at + sizeof event;  // zero-filled up to event.len
      changed = changed || concerns(event.wd, event.mask, {name, ::strnlen(name, event.len)});
      at += sizeof event + event.len;
    }
  }
  if (changed) follow();
  return changed;
}

bool ManifestWatch::concerns(int watch, std::uint32_t mask, std::string_view name) const {
  if ((mask & IN_Q_OVERFLOW) != 0) return true;
  const auto found = watches_.find(watch);
  if (found == watches_.end()) return false;  // a watch that was given up
  const Interest& interest = found->second;
  if ((mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)) != 0) return true;
  if (!interest.names.contains(name) && !(interest.manifests && is_manifest_name(name))) return false;
  return (mask & IN_CREATE) == 0 || is_complete(interest.folder / name);
}

// A step of the way that is made between looking at it and watching it gives no event, so look again after watching.
bool ManifestWatch::follow() {
  for (int round = 0; round < kMostRounds; ++round) {
    const Interests interests = find_interests();
    std::map<int, Interest> watches;
    for (const auto& [folder, interest] : interests) {
      const int watch = ::inotify_add_watch(fd_, folder.c_str(), kMask);
      if (watch >= 0) watches.insert_or_assign(watch, interest);
      if (watch < 0 && errno == ENOSPC) return false;
    }
    if (watches == watches_) break;
    for (const auto& [watch, interest] : watches_) {
      if (!watches.contains(watch)) ::inotify_rm_watch(fd_, watch);
    }
    watches_ = std::move(watches);
  }
  return true;
}

ManifestWatch::Interests ManifestWatch::find_interests() const {
  Interests interests;
  add_way(interests, path_);
  if (is_folder(path_)) {
    std::error_code code;
    const fs::path real = fs::canonical(path_, code);
    if (code) return interests;
    Interest& content = interests.try_emplace(real, Interest{real, {}, false}).first->second;
    content.manifests = true;
    for (fs::directory_iterator entry{path_, code}; !code && entry != fs::directory_iterator{}; entry.increment(code)) {
      const fs::path& file = entry->path();
      if (is_manifest_name(file.filename().native()) && entry->is_symlink(code))
        add_way(interests, real / file.filename());
    }
  }
  return interests;
}

/// Every folder that decides where `path` leads, with the name that counts in it: resolves the path as the kernel does,
/// link by link, and ends at the first step that is missing.
void ManifestWatch::add_way(Interests& interests, const fs::path& path) {
  std::deque<std::string> steps;
  for (const fs::path& part : path.relative_path()) steps.push_back(part);
  fs::path at = "/";
  int links = 0;
  while (!steps.empty()) {
    const std::string step = std::move(steps.front());
    steps.pop_front();
    if (step.empty() || step == ".") continue;
    if (step == "..") {
      at = at.parent_path();
      continue;
    }
    interests.try_emplace(at, Interest{at, {}, false}).first->second.names.insert(step);
    const fs::path next = at / step;
    std::error_code code;
    const fs::path target = fs::read_symlink(next, code);
    if (code) {  // no link
      struct stat status{};
      if (::lstat(next.c_str(), &status) != 0) return;
      at = next;
      continue;
    }
    if (++links > kMostLinks) return;
    if (target.is_absolute()) at = "/";
    std::deque<std::string> more;
    for (const fs::path& part : target.relative_path()) more.push_back(part);
    steps.insert(steps.begin(), more.begin(), more.end());
  }
}

}  // namespace hairpin
