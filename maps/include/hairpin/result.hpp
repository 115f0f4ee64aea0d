// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <expected>
#include <string>
#include <utility>

namespace hairpin {

/// What failed, why, and what to do about it. Printed as "WHAT: WHY (ADVICE)", one line.
struct Error {
  std::string what;    ///< the operation and its object: "pin map hp_flows to /sys/fs/bpf/hairpin"
  std::string why;     ///< the cause, as far as it is known: "no such file or directory"
  std::string advice;  ///< what the reader can do; may be empty
  int code = 0;        ///< errno of the failed call; 0 where there was none

  /// An Error for a system or libbpf call; `code` is an errno value, its sign does not matter.
  static Error system(std::string what, int code, std::string advice = {});

  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const Error&, const Error&) = default;
};

template <typename T>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(Error error) { return std::unexpected<Error>{std::move(error)}; }
inline std::unexpected<Error> fail(std::string what, std::string why, std::string advice = {}) {
  return std::unexpected<Error>{Error{std::move(what), std::move(why), std::move(advice), 0}};
}

}  // namespace hairpin
