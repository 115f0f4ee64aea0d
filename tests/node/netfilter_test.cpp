// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// What the node's netfilter sees of service traffic, and what its rules would do to it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cerrno>

#include "tests/support/lab.hpp"
#include "tests/support/traffic.hpp"

namespace hairpin::test {

namespace {

constexpr const char* kDropInvalid =
    "nft 'table inet filter { chain forward { type filter hook forward priority 0; ct state invalid counter drop; }; "
    "}'";

/// Before conntrack, which sits at priority -200; and the redirects that a router sends to a client on its own network.
constexpr const char* kCount =
    "nft 'table inet seen { counter stack {}; counter redirects {}; "
    "chain early { type filter hook prerouting priority -300; meta l4proto { tcp, udp } counter name stack; }; "
    "chain out { type filter hook output priority 0; icmp type redirect counter name redirects; "
    "icmpv6 type nd-redirect counter name redirects; }; }'";

long counted(const Node& node, const std::string& counter) {
  const std::string text = node.host().sh("nft list counter inet seen " + counter);
  const std::string word = "packets ";
  return std::stol(text.substr(text.find(word) + word.size()));
}

/// Pod 5 talks over both transports and families: to itself, or to pod 6.
void talk(const Node& node, int service) {
  for (const char* net : {"10.96.0.", "fd00:96::"}) {
    const std::string vip = fmt::format("{}{}", net, service);
    CHECK(ask(node.pod(5), Transport::kUdp, vip, 53).ok);
    CHECK(Conversation(node.pod(5), Transport::kTcp, vip, 80).echo(100'000));
  }
}

}  // namespace

TEST_CASE("the rule that drops what is invalid is in force: it stops a connection that is routed one way only") {
  for (const bool rule : {false, true}) {
    CAPTURE(rule);
    Node node{{.pods = {5, 6}}};
    const Server other{node.pod(6)};
    node.host().sh("sysctl -qw net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.cni0.send_redirects=0");
    if (rule) node.host().sh(kDropInvalid);
    node.pod(5).sh("ip route add 10.244.1.6/32 via 10.244.1.1");
    const Answer answer =
        ask(node.pod(5), Transport::kTcp, "10.244.1.6", 8080, {.limit = std::chrono::milliseconds{800}});
    CHECK(answer.ok == !rule);
    if (rule) CHECK(answer.error == ETIMEDOUT);
  }
}

TEST_CASE("on a bridge neither hairpins nor other pods' connections reach the stack, conntrack included") {
  constexpr int kSelf = 10;
  constexpr int kOther = 11;
  for (const bool bridge_netfilter : {false, true}) {
    CAPTURE(bridge_netfilter);
    Node node{{.bridge_netfilter = bridge_netfilter, .pods = {5, 6}}};
    const Server self{node.pod(5)};
    const Server other{node.pod(6)};
    node.write_manifest("a.yaml", service_manifest("self", kSelf, {5}) + service_manifest("other", kOther, {6}));
    node.start_agent();
    node.host().sh(kCount);
    talk(node, kSelf);
    CHECK(counted(node, "stack") == 0);
    // The stack takes the first packets to an endpoint, until it knows the neighbour, and tells the client of the
    // shorter way.
    talk(node, kOther);
    const long before = counted(node, "stack");
    const long redirects = counted(node, "redirects");
    talk(node, kOther);
    // Where br_netfilter is on it shows switched packets to these rules; that also proves that the counter counts.
    CHECK((counted(node, "stack") > before) == bridge_netfilter);
    CHECK(counted(node, "redirects") == redirects);
  }
}

}  // namespace hairpin::test
