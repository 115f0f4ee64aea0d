// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "hairpin/desired.hpp"

namespace hairpin {

inline std::string describe(const Address& address, std::uint16_t port) {
  return address.family() == Family::kIpv6 ? fmt::format("[{}]:{}", address.to_string(), port)
                                           : fmt::format("{}:{}", address.to_string(), port);
}

/// A Desired as a text, one line a service port: "ns/name:port-name FRONTEND... -> ENDPOINT..., drains ENDPOINT...".
inline std::string describe(const Desired& desired) {
  std::string text;
  for (const ServicePort& port : desired) {
    text += fmt::format("{}:{}", port.service, port.port_name);
    for (const Frontend& frontend : port.frontends) {
      text += fmt::format(" {}/{}", describe(frontend.address, frontend.port), to_string(frontend.protocol));
    }
    text += " ->";
    if (port.endpoints.empty()) text += " nothing";
    for (const Endpoint& endpoint : port.endpoints) {
      text +=
          fmt::format(" {}{}", describe(endpoint.address, endpoint.port), endpoint.terminating ? "(terminating)" : "");
    }
    if (!port.draining.empty()) text += ", drains";
    for (const Endpoint& endpoint : port.draining) text += " " + describe(endpoint.address, endpoint.port);
    text += "\n";
  }
  return text;
}

}  // namespace hairpin
