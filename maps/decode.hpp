// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "hairpin/result.hpp"
#include "maps/address.hpp"
#include "maps/maps.hpp"

// What the maps say, put together and in words, for people and for JSON. Works from the maps alone: no agent needed.

namespace hairpin {

/// "TCP", "UDP".
const char* protocol_name(std::uint8_t protocol);
/// "ClusterIP".
const char* kind_name(std::uint8_t kind);
/// "active", "terminating", "free".
const char* backend_state_name(std::uint8_t state);
/// "new", "established", "closing", ...
const char* flow_state_name(std::uint8_t state);
/// "enabled".
const char* mode_name(std::uint32_t mode);
/// Of an enum hp_reason: "no_endpoint"; its text for people: "refused: the service has no ready endpoint".
const char* reason_name(std::size_t reason);
const char* reason_text(std::size_t reason);

/// An address and a port in host order.
struct AddressPort {
  Address address;
  std::uint16_t port = 0;

  /// "10.0.0.1:80", "[fd00::1]:80".
  [[nodiscard]] std::string to_string() const;
};

struct EndpointView {
  AddressPort at;
  std::uint8_t state = HP_BACKEND_FREE;
};

/// One frontend with what is behind it.
struct ServiceView {
  std::string service;  ///< "namespace/name", "?" where the maps have no name for it
  AddressPort frontend;
  std::uint8_t protocol = 0;
  std::uint8_t kind = 0;
  std::vector<EndpointView> endpoints;  ///< that take new flows
  std::vector<EndpointView> draining;   ///< that keep the flows they have
};

/// Sorted by service, then frontend. Each as it was at one moment, also while an agent is changing it.
Result<std::vector<ServiceView>> read_services(const Maps& maps);

struct TupleView {
  AddressPort source;
  AddressPort destination;
};

struct FlowView {
  std::string service;  ///< empty: a direct connection whose source port had to change
  std::uint8_t protocol = 0;
  std::uint8_t state = 0;
  bool hairpin = false;
  std::uint32_t ifindex = 0;
  TupleView request;  ///< as the client sends it
  TupleView reply;    ///< as the endpoint sends it
  std::chrono::seconds age{};
  std::chrono::seconds idle{};
};

/// Every flow that has not ended, the expired ones too whose place nobody has needed yet; the youngest first.
Result<std::vector<FlowView>> read_flows(const Maps& maps);

}  // namespace hairpin
