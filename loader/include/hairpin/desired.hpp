// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "maps/address.hpp"

namespace hairpin {

enum class Protocol : std::uint8_t { kTcp = HP_TCP, kUdp = HP_UDP };
enum class FrontendKind : std::uint8_t { kClusterIp = HP_KIND_CLUSTER_IP };

/// "TCP", "UDP".
const char* to_string(Protocol protocol);
/// "ClusterIP".
const char* to_string(FrontendKind kind);

/// Where clients dial. The port is in host order.
struct Frontend {
  Address address;
  std::uint16_t port = 0;
  Protocol protocol = Protocol::kTcp;
  FrontendKind kind = FrontendKind::kClusterIp;

  friend auto operator<=>(const Frontend&, const Frontend&) = default;
};

/// "10.96.0.10:80/TCP", "[fd00::1]:80/TCP".
std::string describe(const Frontend& frontend);

/// Where flows go. The port is in host order.
struct Endpoint {
  Address address;
  std::uint16_t port = 0;
  bool terminating = false;

  friend auto operator<=>(const Endpoint&, const Endpoint&) = default;
};

/// One port of one Service in one address family, with Kubernetes' rules already applied: what the maps should hold.
struct ServicePort {
  std::string service;              ///< "namespace/name"
  std::string port_name;            ///< empty where the Service names none
  std::vector<Frontend> frontends;  ///< one at least, all of one family and protocol; sorted, no two equal
  std::vector<Endpoint> endpoints;  ///< these take new flows; empty: refuse; sorted, no two equal
  std::vector<Endpoint> draining;   ///< these keep the flows they have and take no new ones; all terminating; sorted

  friend bool operator==(const ServicePort&, const ServicePort&) = default;
};

/// Everything the maps should hold, sorted by service, port name, family and protocol.
using Desired = std::vector<ServicePort>;

}  // namespace hairpin
