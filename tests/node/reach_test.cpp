// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Every pod reaches every Service, itself included.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cerrno>

#include "tests/support/lab.hpp"
#include "tests/support/traffic.hpp"

namespace hairpin::test {

namespace {

using std::chrono::milliseconds;

/// "web" is pod 5, "other" is pod 6, "empty" nobody.
constexpr int kWeb = 10;
constexpr int kOther = 11;
constexpr int kEmpty = 12;

std::string vip(int number, bool ipv6) {
  return fmt::format(fmt::runtime(ipv6 ? "fd00:96::{}" : "10.96.0.{}"), number);
}
std::string pod_address(int number, bool ipv6) {
  return fmt::format(fmt::runtime(ipv6 ? "fd00:244:1::{}" : "10.244.1.{}"), number);
}

void write_services(const Node& node) {
  node.write_manifest("shop.yaml", service_manifest("web", kWeb, {5}) + service_manifest("other", kOther, {6}) +
                                       service_manifest("empty", kEmpty, {}));
}

struct Service {
  Transport transport;
  std::uint16_t port;
};

/// Target port different and equal, TCP and UDP.
constexpr Service kPorts[] = {
    {Transport::kTcp, 80}, {Transport::kTcp, 8080}, {Transport::kUdp, 53}, {Transport::kUdp, 5353}};

void check_reached(const Answer& answer, const std::string& client) {
  CHECK_MESSAGE(answer.ok, "errno ", answer.error);
  CHECK(answer.peer.substr(0, answer.peer.find(' ')) == client);
}

/// A hairpin's client is known by the frontend, everybody else's by its own address.
void check_reach(const Node& node, const AskOptions& options = {}) {
  for (const bool ipv6 : {false, true}) {
    for (const auto& [transport, port] : kPorts) {
      CAPTURE(ipv6);
      CAPTURE(port);
      check_reached(ask(node.pod(5), transport, vip(kWeb, ipv6), port, options), vip(kWeb, ipv6));
      check_reached(ask(node.pod(6), transport, vip(kOther, ipv6), port, options), vip(kOther, ipv6));
      check_reached(ask(node.pod(5), transport, vip(kOther, ipv6), port, options), pod_address(5, ipv6));
      check_reached(ask(node.pod(7), transport, vip(kWeb, ipv6), port, options), pod_address(7, ipv6));
      const Answer refused = ask(node.pod(5), transport, vip(kEmpty, ipv6), port, options);
      CHECK(refused.error == ECONNREFUSED);
      CHECK(refused.elapsed < milliseconds{300});
    }
  }
}

void check_bulk(const Node& node) {
  constexpr std::size_t kBytes = 4'000'000;
  for (const bool ipv6 : {false, true}) {
    CAPTURE(ipv6);
    CHECK(Conversation(node.pod(5), Transport::kTcp, vip(kWeb, ipv6), 80).echo(kBytes));
    CHECK(Conversation(node.pod(5), Transport::kTcp, vip(kOther, ipv6), 80).echo(kBytes));
  }
}

void check_node(const NodeOptions& options) {
  CAPTURE(options.hook);
  CAPTURE(options.redirect);
  Node node{options};
  const Server web{node.pod(5)};
  const Server other{node.pod(6)};
  write_services(node);
  node.start_agent();
  check_reach(node);
  check_bulk(node);
}

}  // namespace

TEST_SUITE_BEGIN("everywhere");

TEST_CASE("bridge, clsact, redirect to the peer") { check_node({.hook = "clsact", .redirect = "peer"}); }
TEST_CASE("bridge, clsact, redirect out of the veth") { check_node({.hook = "clsact", .redirect = "egress"}); }
TEST_CASE("routed, clsact, redirect to the peer") {
  check_node({.topology = Topology::kRouted, .hook = "clsact", .redirect = "peer"});
}
TEST_CASE("routed, clsact, redirect out of the veth") {
  check_node({.topology = Topology::kRouted, .hook = "clsact", .redirect = "egress"});
}
TEST_CASE("offloads off, redirect to the peer") {
  check_node({.offloads = false, .hook = "clsact", .redirect = "peer"});
}
TEST_CASE("offloads off, redirect out of the veth") {
  check_node({.offloads = false, .hook = "clsact", .redirect = "egress"});
}

TEST_SUITE_END();

TEST_CASE("bridge, tcx, redirect to the peer") { check_node({.hook = "tcx", .redirect = "peer"}); }
TEST_CASE("bridge, tcx, redirect out of the veth") { check_node({.hook = "tcx", .redirect = "egress"}); }
TEST_CASE("routed, tcx") { check_node({.topology = Topology::kRouted, .hook = "tcx"}); }
TEST_CASE("bridge whose ports have hairpin mode on") { check_node({.port_hairpin = true}); }

TEST_CASE("offload off at one end only") {
  for (const char* redirect : {"peer", "egress"}) {
    for (const bool pod_end : {false, true}) {
      CAPTURE(redirect);
      CAPTURE(pod_end);
      Node node{{.redirect = redirect}};
      for (const int number : {5, 6}) {
        if (pod_end) {
          node.pod(number).sh("ethtool -K eth0 tx off >/dev/null");
        } else {
          node.host().sh(fmt::format("ethtool -K veth{} tx off >/dev/null", number));
        }
      }
      const Server web{node.pod(5)};
      const Server other{node.pod(6)};
      write_services(node);
      node.start_agent();
      check_reach(node);
    }
  }
}

TEST_CASE("with offloads off every sum on the wire is right") {
  for (const Topology topology : {Topology::kBridge, Topology::kRouted}) {
    Node node{{.topology = topology, .offloads = false}};
    const Server web{node.pod(5)};
    const Server other{node.pod(6)};
    write_services(node);
    node.start_agent();
    const Capture client{node.pod(5), "eth0"};
    const Capture endpoint{node.pod(6), "eth0"};
    check_reach(node);
    check_bulk(node);
    CHECK(client.frames() > 1000);
    CHECK(client.wrong() == 0);
    CHECK(endpoint.frames() > 1000);
    CHECK(endpoint.wrong() == 0);
  }
}

TEST_CASE("datagrams without a checksum, headers with options") {
  Node node;
  const Server web{node.pod(5)};
  const Server other{node.pod(6)};
  write_services(node);
  node.start_agent();
  for (const int number : {kWeb, kOther}) {
    const std::string client = number == kWeb ? vip(kWeb, false) : pod_address(5, false);
    check_reached(ask(node.pod(5), Transport::kUdp, vip(number, false), 53, {.no_checksum = true}), client);
    check_reached(ask(node.pod(5), Transport::kUdp, vip(number, false), 53, {.ip_options = true}), client);
    check_reached(ask(node.pod(5), Transport::kTcp, vip(number, false), 80, {.ip_options = true}), client);
  }
  CHECK(ask(node.pod(5), Transport::kUdp, vip(kEmpty, false), 53, {.ip_options = true}).error == ECONNREFUSED);
  CHECK(ask(node.pod(5), Transport::kUdp, vip(kEmpty, false), 53, {.no_checksum = true}).error == ECONNREFUSED);
  CHECK(ask(node.pod(5), Transport::kTcp, vip(kEmpty, false), 80, {.ip_options = true}).error == ECONNREFUSED);
}

TEST_CASE("another pod, while the node drops what conntrack calls invalid") {
  constexpr const char* kIptables =
      "for t in iptables-legacy ip6tables-legacy; do $t -A FORWARD -m conntrack --ctstate INVALID -j DROP || exit 1; "
      "done";
  constexpr const char* kNft =
      "nft 'table inet filter { chain forward { type filter hook forward priority 0; ct state invalid counter drop; }; "
      "}'";
  for (const char* rule : {kIptables, kNft}) {
    for (const bool bridge_netfilter : {false, true}) {
      CAPTURE(rule);
      CAPTURE(bridge_netfilter);
      Node node{{.bridge_netfilter = bridge_netfilter}};
      node.host().sh(rule);
      const Server web{node.pod(5)};
      const Server other{node.pod(6)};
      write_services(node);
      node.start_agent();
      check_reach(node);
      check_bulk(node);
    }
  }
}

TEST_CASE("both directions of another pod's connection are switched, not routed") {
  Node node;
  const Server other{node.pod(6)};
  write_services(node);
  node.start_agent();
  // What the stack forwards passes this chain; the neighbour entry has to be there first.
  CHECK(ask(node.pod(5), Transport::kTcp, vip(kOther, false), 80).ok);
  node.host().sh("nft 'table inet seen { chain forward { type filter hook forward priority 0; counter; }; }'");
  CHECK(Conversation(node.pod(5), Transport::kTcp, vip(kOther, false), 80).echo(100'000));
  const std::string counted = node.host().sh("nft list table inet seen");
  CHECK_MESSAGE(counted.find("packets 0") != std::string::npos, counted);
}

}  // namespace hairpin::test
