// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// The problem itself: what kube-proxy's rules do for a pod that calls itself. Proves what the other tests expect.
#include <doctest/doctest.h>

#include <cerrno>

#include "tests/support/lab.hpp"
#include "tests/support/traffic.hpp"

namespace hairpin::test {

namespace {

constexpr const char* kRules =
    "iptables-legacy -t nat -A PREROUTING -d 10.96.0.10 -p tcp --dport 80 -j DNAT --to-destination 10.244.1.5:8080 && "
    "iptables-legacy -t nat -A POSTROUTING -s 10.244.1.5 -d 10.244.1.5 -j MASQUERADE";

/// What kube-proxy's nftables mode makes of the same service: a map from frontends to chains, and marks to masquerade.
constexpr const char* kNftables = R"(nft '
table ip kube-proxy {
  chain endpoint-web {
    ip saddr 10.244.1.5 meta mark set 0x4000
    meta l4proto tcp dnat to 10.244.1.5:8080
  }
  map service-ips {
    type ipv4_addr . inet_proto . inet_service : verdict
    elements = { 10.96.0.10 . tcp . 80 : goto endpoint-web }
  }
  chain nat-prerouting {
    type nat hook prerouting priority dstnat;
    ip daddr . meta l4proto . th dport vmap @service-ips
  }
  chain nat-postrouting {
    type nat hook postrouting priority srcnat;
    meta mark 0x4000 masquerade
  }
  chain filter-forward {
    type filter hook forward priority 0;
    ct state invalid drop
  }
}')";

Answer ask_from(const Node& node, int pod) {
  return ask(node.pod(pod), Transport::kTcp, "10.96.0.10", 80, {.limit = std::chrono::milliseconds{800}});
}

}  // namespace

TEST_CASE("with DNAT rules and no hairpin mode a pod does not reach itself, with hairpin mode it does") {
  for (const bool hairpin_mode : {false, true}) {
    CAPTURE(hairpin_mode);
    // br_netfilter, as kube-proxy wants it: without it replies between pods are not translated back.
    Node node{{.port_hairpin = hairpin_mode, .bridge_netfilter = true}};
    const Server self{node.pod(5)};
    node.host().sh(kRules);
    CHECK(ask_from(node, 6).ok);
    const Answer own = ask_from(node, 5);
    CHECK(own.ok == hairpin_mode);
    if (!hairpin_mode) CHECK(own.error == ETIMEDOUT);
  }
}

TEST_SUITE_BEGIN("everywhere");

TEST_CASE("beside kube-proxy's rules Hairpin serves the pod") {
  const char* rules = nullptr;
  SUBCASE("iptables") { rules = kRules; }
  SUBCASE("nftables") { rules = kNftables; }
  Node node{{.bridge_netfilter = true}};
  const Server self{node.pod(5)};
  node.host().sh(rules);
  CHECK(ask_from(node, 6).ok);
  CHECK_FALSE(ask_from(node, 5).ok);
  node.write_manifest("a.yaml", service_manifest("web", 10, {5}));
  node.start_agent();
  CHECK(ask_from(node, 5).ok);
  CHECK(ask_from(node, 6).ok);
}

TEST_SUITE_END();

TEST_CASE("connections that others translated go on when the programs are attached") {
  Node node{{.bridge_netfilter = true}};
  const Server self{node.pod(5)};
  node.host().sh(kRules);
  Conversation old{node.pod(6), Transport::kTcp, "10.96.0.10", 80};
  REQUIRE(old.ask().ok);
  node.write_manifest("a.yaml", service_manifest("web", 10, {5}));
  node.start_agent();
  CHECK(old.ask().ok);
  CHECK(ask_from(node, 6).ok);
  CHECK(old.ask().ok);
}

}  // namespace hairpin::test
