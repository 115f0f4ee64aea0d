// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "loader/cluster/resolve.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hairpin/manifests.hpp"
#include "loader/cluster/decode.hpp"
#include "loader/files.hpp"
#include "loader/yaml.hpp"
#include "tests/unit/describe.hpp"

using namespace hairpin;
using cluster::EndpointConditions;
using cluster::EndpointSlice;
using cluster::Service;
using cluster::Snapshot;

namespace {

constexpr const char* kData = HAIRPIN_TEST_DATA;

Service service(const std::string& name, std::vector<std::string> ips, std::vector<cluster::ServicePortSpec> ports) {
  Service made;
  made.name = {"shop", name};
  made.type = "ClusterIP";
  made.cluster_ips = std::move(ips);
  made.ports = std::move(ports);
  return made;
}

struct EndpointSpec {
  const char* address;
  EndpointConditions conditions;
};

EndpointSlice slice(const std::string& name, const std::string& of, const std::vector<EndpointSpec>& endpoints,
                    std::vector<cluster::SlicePort> ports = {{"", "TCP", 8080}}) {
  EndpointSlice made;
  made.name = {"shop", name};
  made.service = of;
  made.address_type = "IPv4";
  made.ports = std::move(ports);
  for (const EndpointSpec& endpoint : endpoints)
    made.endpoints.push_back({{endpoint.address}, endpoint.conditions, ""});
  return made;
}

Snapshot snapshot(const std::vector<Service>& services, const std::vector<EndpointSlice>& slices) {
  Snapshot made;
  for (const Service& one : services) made.services[one.name] = one;
  for (const EndpointSlice& one : slices) made.slices[one.name] = one;
  return made;
}

/// What one unnamed TCP port 80 of 10.96.0.1 comes to with these slices.
std::string web_with(const std::vector<EndpointSlice>& slices, bool publish_not_ready = false) {
  Service web = service("web", {"10.96.0.1"}, {{"", "TCP", 80}});
  web.publish_not_ready_addresses = publish_not_ready;
  const auto resolved = cluster::resolve(snapshot({web}, slices));
  CHECK(resolved.warnings.empty());
  return describe(resolved.desired);
}

constexpr EndpointConditions kNothing{};
constexpr EndpointConditions kReady{true, true, false};
constexpr EndpointConditions kUnready{false, false, false};
constexpr EndpointConditions kLeaving{false, true, true};
constexpr EndpointConditions kGone{false, false, true};

const char* const kCluster = R"(default/kubernetes:https 10.96.0.1:443/TCP -> nothing
shop/dns:dns 10.96.221.176:53/UDP -> 10.244.1.6:5353
shop/dns:dns-tcp 10.96.221.176:53/TCP -> 10.244.1.6:5353
shop/edge:http 10.96.68.246:8080/TCP -> 10.244.1.5:8080, drains 10.244.1.6:8080
shop/empty: 10.96.15.136:80/TCP -> nothing
shop/linstor: 10.96.66.214:3370/TCP -> 10.244.1.7:3370, drains 10.244.1.5:3370
shop/local-cache: 10.96.52.108:6379/TCP -> 10.244.2.11:6379
shop/web:http 10.96.80.51:80/TCP -> 10.244.1.5:8080 10.244.2.9:8080
shop/web:http [fd00:96::dbb7]:80/TCP -> [fd00:244:1::5]:8080 [fd00:244:2::9]:8080
shop/web:https 10.96.80.51:443/TCP -> 10.244.1.5:8443 10.244.2.9:8443
shop/web:https [fd00:96::dbb7]:443/TCP -> [fd00:244:1::5]:8443 [fd00:244:2::9]:8443
)";

}  // namespace

// In the files are also: services of type ExternalName (outside), headless (headless) and with SCTP (sigtran), and
// Nodes.
TEST_CASE("a real cluster, printed three ways, resolves to the same frontends and endpoints") {
  for (const std::string name : {"cluster.yaml", "cluster.json", "cluster-managed-fields.yaml"}) {
    CAPTURE(name);
    const auto read = read_manifests(fmt::format("{}/{}", kData, name));
    REQUIRE_MESSAGE(read, read.error().to_string());
    const auto resolved = cluster::resolve(*read);
    CHECK(resolved.warnings.empty());
    CHECK(describe(resolved.desired) == kCluster);
  }
}

TEST_CASE("a real watch, event by event, changes what it should") {
  const auto read = read_manifests(fmt::format("{}/cluster.yaml", kData));
  REQUIRE(read);
  Snapshot state = *read;
  state.slices.clear();
  const auto lines = read_file(fmt::format("{}/endpointslices-watch.jsonl", kData));
  REQUIRE(lines);
  std::vector<std::string> seen;
  for (std::size_t at = 0; at < lines->size();) {
    const std::size_t end = std::min(lines->find('\n', at), lines->size());
    const auto events = yaml::parse(std::string_view{*lines}.substr(at, end - at), "watch");
    at = end + 1;
    REQUIRE_MESSAGE(events, events.error().to_string());
    for (const yaml::Node& event : *events) {
      const std::string& type = event.find("type")->text;
      if (type == "BOOKMARK") {
        CHECK(describe(cluster::resolve(state).desired) == kCluster);
        continue;
      }
      Snapshot change;
      const auto decoded = cluster::decode(*event.find("object"), "watch", change);
      REQUIRE_MESSAGE(decoded, decoded.error().to_string());
      REQUIRE(change.slices.size() == 1);
      const auto& [name, slice] = *change.slices.begin();
      if (type == "DELETED") {
        state.slices.erase(name);
      } else {
        state.slices[name] = slice;
      }
    }
  }
  CHECK(describe(cluster::resolve(state).desired) == R"(default/kubernetes:https 10.96.0.1:443/TCP -> nothing
shop/dns:dns 10.96.221.176:53/UDP -> 10.244.1.6:5353(terminating)
shop/dns:dns-tcp 10.96.221.176:53/TCP -> 10.244.1.6:5353(terminating)
shop/edge:http 10.96.68.246:8080/TCP -> nothing
shop/empty: 10.96.15.136:80/TCP -> nothing
shop/linstor: 10.96.66.214:3370/TCP -> 10.244.1.7:3370, drains 10.244.1.5:3370
shop/local-cache: 10.96.52.108:6379/TCP -> 10.244.2.11:6379
shop/web:http 10.96.80.51:80/TCP -> 10.244.1.5:8080
shop/web:http [fd00:96::dbb7]:80/TCP -> [fd00:244:1::5]:8080 [fd00:244:2::9]:8080
shop/web:https 10.96.80.51:443/TCP -> 10.244.1.5:8443
shop/web:https [fd00:96::dbb7]:443/TCP -> [fd00:244:1::5]:8443 [fd00:244:2::9]:8443
)");
}

TEST_CASE("an endpoint is used by its conditions") {
  struct {
    std::string what;
    std::vector<EndpointSpec> endpoints;
    std::string expected;
  } const rows[] = {
      {"nothing said is ready", {{"10.0.0.1", kNothing}}, "10.0.0.1:8080"},
      {"ready", {{"10.0.0.1", kReady}}, "10.0.0.1:8080"},
      {"not ready", {{"10.0.0.1", kUnready}}, "nothing, drains 10.0.0.1:8080"},
      {"ready beside not ready", {{"10.0.0.1", kReady}, {"10.0.0.2", kUnready}}, "10.0.0.1:8080, drains 10.0.0.2:8080"},
      {"ready beside leaving", {{"10.0.0.2", kReady}, {"10.0.0.1", kLeaving}}, "10.0.0.2:8080, drains 10.0.0.1:8080"},
      {"only leaving", {{"10.0.0.1", kLeaving}}, "10.0.0.1:8080(terminating)"},
      {"leaving beside not ready",
       {{"10.0.0.1", kLeaving}, {"10.0.0.2", kUnready}},
       "10.0.0.1:8080(terminating), drains 10.0.0.2:8080"},
      {"no longer serving", {{"10.0.0.1", kGone}}, "nothing, drains 10.0.0.1:8080"},
      {"serving is as ready where it is missing",
       {{"10.0.0.1", {false, std::nullopt, true}}},
       "nothing, drains 10.0.0.1:8080"},
      {"serving and not terminating is no fallback",
       {{"10.0.0.1", {false, true, std::nullopt}}},
       "nothing, drains 10.0.0.1:8080"},
      {"ready although terminating", {{"10.0.0.1", {true, true, true}}}, "10.0.0.1:8080"},
      {"sorted, each once",
       {{"10.0.0.3", kReady}, {"10.0.0.1", kReady}, {"10.0.0.3", kReady}, {"9.0.0.9", kReady}},
       "9.0.0.9:8080 10.0.0.1:8080 10.0.0.3:8080"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.what);
    CHECK(web_with({slice("web-1", "web", row.endpoints)}) ==
          fmt::format("shop/web: 10.96.0.1:80/TCP -> {}\n", row.expected));
  }
}

TEST_CASE("publishNotReadyAddresses makes every endpoint ready") {
  CHECK(web_with({slice("web-1", "web", {{"10.0.0.1", kUnready}, {"10.0.0.2", kLeaving}, {"10.0.0.3", kGone}})},
                 true) == "shop/web: 10.96.0.1:80/TCP -> 10.0.0.1:8080 10.0.0.2:8080 10.0.0.3:8080\n");
}

TEST_CASE("slices of one service add up, and the better state of one endpoint holds") {
  const EndpointSlice ready = slice("web-b", "web", {{"10.0.0.1", kReady}});
  const EndpointSlice unready = slice("web-a", "web", {{"10.0.0.1", kUnready}});
  const EndpointSlice leaving = slice("web-c", "web", {{"10.0.0.1", kLeaving}, {"10.0.0.2", kLeaving}});
  CHECK(web_with({unready, ready}) == "shop/web: 10.96.0.1:80/TCP -> 10.0.0.1:8080\n");
  CHECK(web_with({ready, leaving}) == "shop/web: 10.96.0.1:80/TCP -> 10.0.0.1:8080, drains 10.0.0.2:8080\n");
  CHECK(web_with({unready, leaving}) ==
        "shop/web: 10.96.0.1:80/TCP -> 10.0.0.1:8080(terminating) 10.0.0.2:8080(terminating)\n");
}

TEST_CASE("slices count by service, namespace, family, port name and protocol") {
  const EndpointSlice good = slice("web-1", "web", {{"10.0.0.1", kReady}});
  EndpointSlice other_space = good;
  other_space.name = {"other", "web-1"};
  EndpointSlice ipv6 = slice("web-6", "web", {{"fd00::1", kReady}});
  ipv6.address_type = "IPv6";
  EndpointSlice fqdn = slice("web-f", "web", {{"10.0.0.9", kReady}});
  fqdn.address_type = "FQDN";
  const std::string nothing = "shop/web: 10.96.0.1:80/TCP -> nothing\n";
  CHECK(web_with({good}) == "shop/web: 10.96.0.1:80/TCP -> 10.0.0.1:8080\n");
  CHECK(web_with({}) == nothing);
  CHECK(web_with({slice("web-1", "api", {{"10.0.0.1", kReady}})}) == nothing);
  CHECK(web_with({slice("web-1", "", {{"10.0.0.1", kReady}})}) == nothing);
  CHECK(web_with({other_space}) == nothing);
  CHECK(web_with({ipv6}) == nothing);
  CHECK(web_with({fqdn}) == nothing);
  CHECK(web_with({slice("web-1", "web", {{"10.0.0.1", kReady}}, {{"http", "TCP", 8080}})}) == nothing);
  CHECK(web_with({slice("web-1", "web", {{"10.0.0.1", kReady}}, {{"", "UDP", 8080}})}) == nothing);
  CHECK(web_with({slice("web-1", "web", {{"10.0.0.1", kReady}}, {{"", "TCP", std::nullopt}})}) == nothing);
  CHECK(web_with({slice("web-1", "web", {{"10.0.0.1", kReady}}, {})}) == nothing);
}

TEST_CASE("a named target port may have another number in every slice") {
  CHECK(web_with({slice("web-1", "web", {{"10.0.0.1", kReady}}, {{"", "TCP", 8081}}),
                  slice("web-2", "web", {{"10.0.0.1", kReady}, {"10.0.0.2", kReady}}, {{"", "TCP", 8080}})}) ==
        "shop/web: 10.96.0.1:80/TCP -> 10.0.0.1:8080 10.0.0.1:8081 10.0.0.2:8080\n");
}

TEST_CASE("the first address of an endpoint stands for it") {
  EndpointSlice two = slice("web-1", "web", {{"10.0.0.1", kReady}});
  two.endpoints[0].addresses.emplace_back("10.0.0.2");
  CHECK(web_with({two}) == "shop/web: 10.96.0.1:80/TCP -> 10.0.0.1:8080\n");
}

TEST_CASE("what is no frontend of ours") {
  const Service web = service("web", {"10.96.0.1"}, {{"", "TCP", 80}});
  struct {
    std::string what;
    void (*change)(Service&);
  } const rows[] = {
      {"ExternalName", [](Service& s) { s.type = "ExternalName"; }},
      {"headless", [](Service& s) { s.cluster_ips = {"None"}; }},
      {"no address yet", [](Service& s) { s.cluster_ips = {}; }},
      {"another proxy's", [](Service& s) { s.labels["service.kubernetes.io/service-proxy-name"] = "other"; }},
      {"another proxy's, empty", [](Service& s) { s.labels["service.kubernetes.io/service-proxy-name"] = ""; }},
      {"labelled headless", [](Service& s) { s.labels["service.kubernetes.io/headless"] = ""; }},
      {"SCTP", [](Service& s) { s.ports[0].protocol = "SCTP"; }},
      {"no ports", [](Service& s) { s.ports.clear(); }},
  };
  for (const auto& row : rows) {
    CAPTURE(row.what);
    Service changed = web;
    row.change(changed);
    const auto resolved = cluster::resolve(snapshot({changed}, {}));
    CHECK(describe(resolved.desired).empty());
    CHECK(resolved.warnings.empty());
  }
  for (const std::string type : {"ClusterIP", "NodePort", "LoadBalancer"}) {
    Service changed = web;
    changed.type = type;
    CHECK(cluster::resolve(snapshot({changed}, {})).desired.size() == 1);
  }
}

TEST_CASE("a frontend that two services ask for stays with the first by name, and that is told") {
  const auto resolved = cluster::resolve(
      snapshot({service("b", {"10.96.0.1"}, {{"x", "TCP", 80}, {"y", "TCP", 81}}),
                service("a", {"10.96.0.1"}, {{"", "TCP", 80}}), service("c", {"10.96.0.1"}, {{"", "UDP", 80}}),
                service("d", {"fd00::1", "10.96.0.1"}, {{"", "TCP", 80}})},
               {}));
  CHECK(describe(resolved.desired) == R"(shop/a: 10.96.0.1:80/TCP -> nothing
shop/b:y 10.96.0.1:81/TCP -> nothing
shop/c: 10.96.0.1:80/UDP -> nothing
shop/d: [fd00::1]:80/TCP -> nothing
)");
  CHECK(resolved.warnings ==
        std::vector<std::string>{
            "10.96.0.1:80/TCP of service shop/b is taken by service shop/a already and stays with it",
            "10.96.0.1:80/TCP of service shop/d is taken by service shop/a already and stays with it"});
}

TEST_CASE("two addresses of one family are two frontends of one port") {
  const auto resolved =
      cluster::resolve(snapshot({service("web", {"10.96.0.2", "10.96.0.1", "10.96.0.2"}, {{"", "TCP", 80}})}, {}));
  CHECK(describe(resolved.desired) == "shop/web: 10.96.0.1:80/TCP 10.96.0.2:80/TCP -> nothing\n");
  CHECK(resolved.warnings.empty());
}

TEST_CASE("sorted by service, port name, family and protocol") {
  Service odd = service("x", {"10.96.0.9"}, {{"", "TCP", 1}});
  odd.name.space = "shop-b";  // "shop-b/x" sorts before "shop/a"
  const auto resolved = cluster::resolve(
      snapshot({service("a", {"fd00::1", "10.96.0.1"}, {{"z", "TCP", 1}, {"b", "UDP", 2}, {"a", "TCP", 3}}), odd}, {}));
  CHECK(describe(resolved.desired) == R"(shop-b/x: 10.96.0.9:1/TCP -> nothing
shop/a:a 10.96.0.1:3/TCP -> nothing
shop/a:a [fd00::1]:3/TCP -> nothing
shop/a:b 10.96.0.1:2/UDP -> nothing
shop/a:b [fd00::1]:2/UDP -> nothing
shop/a:z 10.96.0.1:1/TCP -> nothing
shop/a:z [fd00::1]:1/TCP -> nothing
)");
}
