// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "hairpin/desired.hpp"

#include <fmt/format.h>

namespace hairpin {

const char* to_string(Protocol protocol) {
  switch (protocol) {
    case Protocol::kTcp:
      return "TCP";
    case Protocol::kUdp:
      return "UDP";
  }
  return "?";
}

const char* to_string(FrontendKind kind) {
  switch (kind) {
    case FrontendKind::kClusterIp:
      return "ClusterIP";
  }
  return "?";
}

std::string describe(const Frontend& frontend) {
  const bool brackets = frontend.address.family() == Family::kIpv6;
  return fmt::format("{}{}{}:{}/{}", brackets ? "[" : "", frontend.address.to_string(), brackets ? "]" : "",
                     frontend.port, to_string(frontend.protocol));
}

}  // namespace hairpin
