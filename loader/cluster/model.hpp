// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "maps/address.hpp"

// Kubernetes' objects as far as the dataplane needs them, decoded but not yet interpreted: nothing here applies a rule,
// `resolve` does. Field names follow the API's (Service v1, EndpointSlice discovery.k8s.io/v1, Node v1).

namespace hairpin::cluster {

struct ObjectName {
  std::string space;  ///< namespace
  std::string name;

  [[nodiscard]] std::string to_string() const { return space + "/" + name; }
  friend auto operator<=>(const ObjectName&, const ObjectName&) = default;
};

struct ServicePortSpec {
  std::string name;
  std::string protocol;    ///< as written: "TCP", "UDP", "SCTP"
  std::uint16_t port = 0;  ///< host order
};

struct Service {
  ObjectName name;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::string type;                      ///< "ClusterIP", "NodePort", "LoadBalancer", "ExternalName"
  std::vector<std::string> cluster_ips;  ///< as written; headless: "None"
  std::vector<ServicePortSpec> ports;
  bool publish_not_ready_addresses = false;
};

struct EndpointConditions {
  std::optional<bool> ready;
  std::optional<bool> serving;
  std::optional<bool> terminating;
};

struct SliceEndpoint {
  std::vector<std::string> addresses;
  EndpointConditions conditions;
  std::string node_name;
};

struct SlicePort {
  std::string name;
  std::string protocol;
  std::optional<std::uint16_t> port;  ///< host order; nothing: all ports, which no dataplane supports
};

struct EndpointSlice {
  ObjectName name;
  std::string service;       ///< label kubernetes.io/service-name
  std::string address_type;  ///< "IPv4", "IPv6", "FQDN"
  std::vector<SliceEndpoint> endpoints;
  std::vector<SlicePort> ports;
};

/// All that a source knows at one moment. Keyed by name, so that an object that comes twice is there once.
struct Snapshot {
  std::map<ObjectName, Service> services;
  std::map<ObjectName, EndpointSlice> slices;
};

}  // namespace hairpin::cluster
