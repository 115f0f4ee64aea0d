// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// What needs parts of the kernel that many a machine has no modules for. vmtests/guest runs these where they are there;
// elsewhere each says that it is skipped.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <iostream>

#include "tests/support/lab.hpp"
#include "tests/support/traffic.hpp"

namespace hairpin::test {

namespace {

constexpr const char* kWebVip = "10.96.0.10";    // pod 5
constexpr const char* kOtherVip = "10.96.0.11";  // pod 6

/// Whether the command works in a namespace where nothing else is.
bool kernel_has(const char* what, const char* command) {
  std::string output;
  if (Namespace{}.sh(command, output) == 0) return true;
  std::cout << "skipped: this kernel has no " << what << '\n';
  return false;
}

void write_services(const Node& node) {
  node.write_manifest("a.yaml", service_manifest("web", 10, {5}) + service_manifest("other", 11, {6}));
}

/// Asks and sends much, to itself and to another pod.
void check_traffic(const Node& node, std::chrono::milliseconds limit) {
  for (const char* vip : {kWebVip, kOtherVip, "fd00:96::10", "fd00:96::11"}) {
    CAPTURE(vip);
    for (int i = 0; i < 5; ++i) CHECK(ask(node.pod(5), Transport::kTcp, vip, 80, {.limit = limit}).ok);
    CHECK(Conversation(node.pod(5), Transport::kTcp, vip, 80).echo(500'000));
  }
}

}  // namespace

TEST_SUITE_BEGIN("modules");

TEST_CASE("modules: packets that are lost, delayed and out of order") {
  if (!kernel_has("netem", "tc qdisc add dev lo root netem delay 1ms")) return;
  for (const Topology topology : {Topology::kBridge, Topology::kRouted}) {
    Node node{{.topology = topology}};
    const Server self{node.pod(5)};
    const Server other{node.pod(6)};
    write_services(node);
    node.start_agent();
    const char* badly = "tc qdisc add dev {} root netem delay 2ms 1ms reorder 20% loss 2%";
    for (const int pod : {5, 6}) node.pod(pod).sh(fmt::format(fmt::runtime(badly), "eth0"));
    for (const int pod : {5, 6}) node.host().sh(fmt::format(fmt::runtime(badly), fmt::format("veth{}", pod)));
    check_traffic(node, std::chrono::seconds{20});
  }
}

TEST_CASE("modules: pods on VLANs of a filtering bridge") {
  if (!kernel_has("VLAN filtering", "ip link add br0 type bridge vlan_filtering 1")) return;
  Node node;
  const Server self{node.pod(5)};
  const Server other{node.pod(6)};
  node.host().sh(
      "ip link set cni0 type bridge vlan_filtering 1 && bridge vlan add dev cni0 vid 7 pvid untagged self && "
      "for n in 5 6 7; do bridge vlan add dev veth$n vid 7 pvid untagged; done");
  write_services(node);
  node.start_agent();
  check_traffic(node, std::chrono::seconds{5});
}

TEST_CASE("modules: a pod's tagged frames are none of ours") {
  if (!kernel_has("VLANs",
                  "ip link add link lo name lo.7 type vlan id 7 || "
                  "{ ip link add a type veth peer name b && ip link add link a name a.7 type vlan id 7; }")) {
    return;
  }
  Node node;
  const Server other{node.pod(6)};
  write_services(node);
  node.start_agent();
  // A network of their own between two pods, in which someone has the frontend's address.
  node.pod(5).sh(
      "ip link add link eth0 name eth0.7 type vlan id 7 && ip addr add 10.96.0.1/24 dev eth0.7 && "
      "ip link set eth0.7 up");
  node.pod(6).sh(
      fmt::format("ip link add link eth0 name eth0.7 type vlan id 7 && ip addr add {}/24 dev eth0.7 && "
                  "ip link set eth0.7 up",
                  kWebVip));
  const Answer answer = ask(node.pod(5), Transport::kTcp, kWebVip, 8080);
  CHECK(answer.ok);
  CHECK(answer.peer.starts_with("10.96.0.1 "));
}

TEST_SUITE_END();

}  // namespace hairpin::test
