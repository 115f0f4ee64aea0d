// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "loader/verifier_log.hpp"

#include <bpf/libbpf.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace hairpin {

namespace {

thread_local std::string* collecting = nullptr;
libbpf_print_fn_t previous = nullptr;

int collect(libbpf_print_level level, const char* format, va_list arguments) {
  if (level == LIBBPF_DEBUG || collecting == nullptr) return 0;
  std::array<char, 1024> line{};
  std::va_list copy;
  va_copy(copy, arguments);
  const int length = std::vsnprintf(line.data(), line.size(), format, copy);
  va_end(copy);
  if (length < 0) return 0;
  if (static_cast<std::size_t>(length) < line.size()) {
    *collecting += line.data();
  } else {
    std::string longer(static_cast<std::size_t>(length) + 1, '\0');
    std::vsnprintf(longer.data(), longer.size(), format, arguments);
    longer.pop_back();
    *collecting += longer;
  }
  return 0;
}

/// The verifier's complaint: its last line before the summary, which begins with "processed".
std::string complaint(std::string_view log) {
  const auto summary = log.find("\nprocessed ");
  if (summary == std::string_view::npos) return {};
  const auto start = log.rfind('\n', summary - 1);
  return std::string{log.substr(start + 1, summary - start - 1)};
}

}  // namespace

LibbpfLog::LibbpfLog() {
  collecting = &text_;
  previous = libbpf_set_print(collect);
}

LibbpfLog::~LibbpfLog() {
  libbpf_set_print(previous);
  collecting = nullptr;
}

Error explain_load_failure(int error, const std::string& log) {
  Error explained = Error::system("load the BPF programs", error);
  if (auto why = complaint(log); !why.empty()) {
    explained.why = "the kernel's verifier refused: " + why;
    explained.advice = "report it with the kernel's version";
    return explained;
  }
  switch (std::abs(error)) {
    case EPERM:
      explained.advice = "run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON";
      break;
    case ENOMEM:
    case E2BIG:
      explained.advice = "lower the limits in the config";
      break;
    case EINVAL:
      explained.advice = "maps of another version may be pinned: hairpinctl detach --all removes them";
      break;
    default:
      break;
  }
  return explained;
}

}  // namespace hairpin
