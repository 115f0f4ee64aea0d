// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <string>

#include "hairpin/result.hpp"

namespace hairpin {

/// Collects what libbpf prints on this thread for as long as it lives, and keeps it off stderr. One at a time.
class LibbpfLog {
 public:
  LibbpfLog();
  ~LibbpfLog();
  LibbpfLog(const LibbpfLog&) = delete;
  LibbpfLog& operator=(const LibbpfLog&) = delete;

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Why loading failed and what to do about it, from libbpf's error number and what it printed.
Error explain_load_failure(int error, const std::string& log);

}  // namespace hairpin
