// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "loader/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace hairpin {

namespace {

constexpr std::size_t kLargest = std::size_t{256} << 20;  // a mistake rather than a manifest

Result<std::string> read_regular(int fd, const std::string& name) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return fail(Error::system(name, errno));
  if (S_ISDIR(status.st_mode)) return fail(Error::system(name, EISDIR));
  if (!S_ISREG(status.st_mode)) return fail(name, "not a regular file");
  return read_all(fd, name);
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return fail(Error::system(path, errno));
  auto text = read_regular(fd, path);
  ::close(fd);
  return text;
}

Result<std::string> read_all(int fd, const std::string& name) {
  std::string text;
  std::array<char, 65536> buffer{};
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got == 0) return text;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(Error::system(name, errno));
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > kLargest) return fail(name, "larger than 256 MiB");
  }
}

}  // namespace hairpin
