// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "loader/pins.hpp"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <system_error>

namespace hairpin::pins {

bool on_bpffs(const std::filesystem::path& path) {
  std::filesystem::path existing = path;
  std::error_code error;
  while (!std::filesystem::exists(existing, error) && existing.has_relative_path()) existing = existing.parent_path();
  struct statfs status{};
  return statfs(existing.c_str(), &status) == 0 && status.f_type == BPF_FS_MAGIC;
}

Result<void> make_folders(const std::filesystem::path& bpffs) {
  if (!on_bpffs(bpffs)) {
    return fail("use " + bpffs.string() + " for pins", "it is not on a bpffs",
                "mount one: mount -t bpf bpf /sys/fs/bpf");
  }
  for (const auto& folder : {maps(bpffs), programs(bpffs), links(bpffs)}) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return fail(Error::system("make folder " + folder.string(), error.value()));
  }
  // Pins are the keys to the dataplane: root's alone.
  std::error_code error;
  std::filesystem::permissions(bpffs, std::filesystem::perms::owner_all, error);
  if (error) return fail(Error::system("close folder " + bpffs.string() + " to others", error.value()));
  return {};
}

}  // namespace hairpin::pins
