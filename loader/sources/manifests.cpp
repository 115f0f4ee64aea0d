// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "hairpin/manifests.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <vector>

#include "loader/cluster/decode.hpp"
#include "loader/files.hpp"
#include "loader/sources/manifest_name.hpp"

namespace hairpin {

namespace {

namespace fs = std::filesystem;

Result<void> add_file(const fs::path& path, cluster::Snapshot& into) {
  const auto text = read_file(path);
  if (!text) return fail(text.error());
  return cluster::decode(*text, path, into);
}

/// The manifests of a folder by name. A link that points nowhere is an error: it would take services away silently.
Result<std::vector<fs::path>> list_folder(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code code;
  for (fs::directory_iterator entry{folder, code}; !code && entry != fs::directory_iterator{}; entry.increment(code)) {
    const fs::path& path = entry->path();
    if (!is_manifest_name(path.filename().native())) continue;
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) {
      if (errno == ENOENT && ::lstat(path.c_str(), &status) != 0) continue;  // gone since it was listed
      return fail(Error::system(path, errno, S_ISLNK(status.st_mode) ? "the link must point to a file" : ""));
    }
    if (S_ISREG(status.st_mode)) files.push_back(path);
  }
  if (code) return fail(Error::system(folder, code.value()));
  std::ranges::sort(files);
  return files;
}

}  // namespace

Result<cluster::Snapshot> read_manifests(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return fail(Error::system(path, errno));
  cluster::Snapshot snapshot;
  if (!S_ISDIR(status.st_mode)) {
    if (auto done = add_file(path, snapshot); !done) return fail(done.error());
    return snapshot;
  }
  const auto files = list_folder(path);
  if (!files) return fail(files.error());
  for (const fs::path& file : *files) {
    if (auto done = add_file(file, snapshot); !done && done.error().code != ENOENT) return fail(done.error());
  }
  return snapshot;
}

Result<cluster::Snapshot> read_manifests_from_stdin() {
  const auto text = read_all(STDIN_FILENO, "<stdin>");
  if (!text) return fail(text.error());
  return parse_manifests(*text, "<stdin>");
}

Result<cluster::Snapshot> parse_manifests(std::string_view text, const std::string& name) {
  cluster::Snapshot snapshot;
  if (auto done = cluster::decode(text, name, snapshot); !done) return fail(done.error());
  return snapshot;
}

}  // namespace hairpin
