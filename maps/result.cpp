// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "hairpin/result.hpp"

#include <cstdlib>
#include <system_error>

namespace hairpin {

Error Error::system(std::string what, int code, std::string advice) {
  const int number = std::abs(code);
  return {std::move(what), std::generic_category().message(number), std::move(advice), number};
}

std::string Error::to_string() const {
  std::string text = what + ": " + why;
  if (!advice.empty()) text += " (" + advice + ")";
  return text;
}

}  // namespace hairpin
