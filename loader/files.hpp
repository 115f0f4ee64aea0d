// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <filesystem>
#include <string>

#include "hairpin/result.hpp"

namespace hairpin {

/// A regular file's content. Anything else at `path` (a folder, a pipe, a device) is an error, never a wait.
Result<std::string> read_file(const std::filesystem::path& path);

/// Everything up to the end of `fd`; `name` is what errors call it.
Result<std::string> read_all(int fd, const std::string& name);

}  // namespace hairpin
