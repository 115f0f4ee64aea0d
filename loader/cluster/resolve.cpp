// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "loader/cluster/resolve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace hairpin::cluster {

namespace {

std::optional<Protocol> protocol_of(std::string_view name) {
  if (name == "TCP") return Protocol::kTcp;
  if (name == "UDP") return Protocol::kUdp;
  return std::nullopt;
}

/// What an endpoint is good for, from worst to best.
enum class State : std::uint8_t {
  kOut,
  kLeaving,  ///< on its way out, but still serving
  kReady,
};

State state_of(const EndpointConditions& conditions, bool publish_not_ready) {
  const bool ready = conditions.ready.value_or(true);  // the API's defaults for what is missing
  const bool serving = conditions.serving.value_or(ready);
  const bool terminating = conditions.terminating.value_or(false);
  if (ready || publish_not_ready) return State::kReady;
  return serving && terminating ? State::kLeaving : State::kOut;
}

using States = std::map<std::pair<Address, std::uint16_t>, State>;
using SlicesByService = std::map<ObjectName, std::vector<const EndpointSlice*>>;

/// Services that other proxies serve say so by these labels, whatever their values.
bool is_ours(const Service& service) {
  return service.type != "ExternalName" && !service.labels.contains("service.kubernetes.io/service-proxy-name") &&
         !service.labels.contains("service.kubernetes.io/headless");
}

std::vector<Address> cluster_ips(const Service& service, Family family) {
  std::vector<Address> addresses;
  for (const std::string& text : service.cluster_ips) {  // "None" is no address
    const auto address = Address::parse(text);
    if (address && address->family() == family) addresses.push_back(*address);
  }
  std::ranges::sort(addresses);
  const auto twice = std::ranges::unique(addresses);
  addresses.erase(twice.begin(), twice.end());
  return addresses;
}

/// Everything that the slices say about one port in one family, each address and port once. While an endpoint moves
/// from one slice to another it can be in both; the better state is then the newer one.
States states_of(const std::vector<const EndpointSlice*>& slices, const ServicePortSpec& spec, Family family,
                 bool publish_not_ready) {
  States states;
  for (const EndpointSlice* const slice : slices) {
    if (slice->address_type != (family == Family::kIpv4 ? "IPv4" : "IPv6")) continue;
    for (const SlicePort& port : slice->ports) {
      if (port.name != spec.name || port.protocol != spec.protocol || !port.port) continue;
      for (const SliceEndpoint& endpoint : slice->endpoints) {
        // The API calls an endpoint's addresses fungible: the first one stands for it, as in kube-proxy.
        const auto address = endpoint.addresses.empty() ? std::nullopt : Address::parse(endpoint.addresses.front());
        if (!address || address->family() != family) continue;
        State& state = states.try_emplace({*address, *port.port}, State::kOut).first->second;
        state = std::max(state, state_of(endpoint.conditions, publish_not_ready));
      }
    }
  }
  return states;
}

/// Ready endpoints take new flows; where there is none, those that are on their way out but still serve do. The others
/// keep the connections they have for as long as they are listed; a datagram has none to keep.
void choose_endpoints(const States& states, ServicePort& port) {
  State best = State::kOut;
  for (const auto& [where, state] : states) best = std::max(best, state);
  const bool connections = port.frontends.front().protocol == Protocol::kTcp;
  for (const auto& [where, state] : states) {
    if (state == best && state != State::kOut) {
      port.endpoints.push_back({where.first, where.second, state != State::kReady});
    } else if (connections) {
      port.draining.push_back({where.first, where.second, true});
    }
  }
}

SlicesByService slices_by_service(const Snapshot& snapshot) {
  SlicesByService slices;
  for (const auto& [name, slice] : snapshot.slices) {
    if (!slice.service.empty()) slices[{name.space, slice.service}].push_back(&slice);
  }
  return slices;
}

class Resolver {
 public:
  explicit Resolver(const Snapshot& snapshot) : slices_{slices_by_service(snapshot)} {
    for (const auto& [name, service] : snapshot.services) {
      if (is_ours(service)) add(service);
    }
    std::ranges::sort(resolved.desired, comes_before);
  }

  Resolved resolved;

 private:
  static bool comes_before(const ServicePort& a, const ServicePort& b) {
    const auto key = [](const ServicePort& port) {
      const Frontend& first = port.frontends.front();
      return std::tuple<const std::string&, const std::string&, Family, Protocol, std::uint16_t>{
          port.service, port.port_name, first.address.family(), first.protocol, first.port};
    };
    return key(a) < key(b);
  }

  void add(const Service& service) {
    static const std::vector<const EndpointSlice*> none;
    const auto found = slices_.find(service.name);
    const auto& slices = found == slices_.end() ? none : found->second;
    for (const ServicePortSpec& spec : service.ports) {
      const auto protocol = protocol_of(spec.protocol);
      if (!protocol) continue;
      for (const Family family : {Family::kIpv4, Family::kIpv6}) {
        ServicePort port;
        port.service = service.name.to_string();
        port.port_name = spec.name;
        for (const Address& address : cluster_ips(service, family)) {
          claim({address, spec.port, *protocol, FrontendKind::kClusterIp}, port);
        }
        if (port.frontends.empty()) continue;
        choose_endpoints(states_of(slices, spec, family, service.publish_not_ready_addresses), port);
        resolved.desired.push_back(std::move(port));
      }
    }
  }

  /// A frontend belongs to the first that asks for it.
  void claim(const Frontend& frontend, ServicePort& port) {
    const auto [owner, is_new] =
        owners_.try_emplace({frontend.address, frontend.port, frontend.protocol}, port.service);
    if (is_new) {
      port.frontends.push_back(frontend);
      return;
    }
    resolved.warnings.push_back(fmt::format("{} of service {} is taken by service {} already and stays with it",
                                            describe(frontend), port.service, owner->second));
  }

  SlicesByService slices_;
  std::map<std::tuple<Address, std::uint16_t, Protocol>, std::string> owners_;
};

}  // namespace

Resolved resolve(const Snapshot& snapshot) { return std::move(Resolver{snapshot}.resolved); }

}  // namespace hairpin::cluster
