// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Two connections that would look alike behind the translation: the newcomer gets another source port.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/support/lab.hpp"
#include "tests/support/traffic.hpp"

namespace hairpin::test {

namespace {

constexpr std::uint16_t kSource = 40000;

struct Case {
  bool ipv6;
  Transport transport;
  int endpoint;  ///< pod 5 is the client: 5 is a hairpin
};

struct Where {
  std::string address;
  std::uint16_t port;
};

/// Two conversations from one source port, both open at once: each keeps working, and the endpoint sees two clients.
void check_apart(const Node& node, Transport transport, const Where& first, const Where& second) {
  const AskOptions options{.source_port = kSource};
  Conversation one{node.pod(5), transport, first.address, first.port, options};
  const Answer alone = one.ask();
  CHECK_MESSAGE(alone.ok, "errno ", alone.error);
  Conversation two{node.pod(5), transport, second.address, second.port, options};
  const Answer newcomer = two.ask();
  CHECK_MESSAGE(newcomer.ok, "errno ", newcomer.error);
  const Answer again = one.ask();
  CHECK_MESSAGE(again.ok, "errno ", again.error);
  CHECK(again.peer == alone.peer);
  CHECK(newcomer.peer != alone.peer);
}

void for_each_case(const std::function<void(const Node&, const Case&)>& check) {
  Node node{{.pods = {5, 6}}};
  const Server self{node.pod(5)};
  const Server other{node.pod(6)};
  node.write_manifest("a.yaml", service_manifest("self-a", 15, {5}) + service_manifest("self-b", 25, {5}) +
                                    service_manifest("other-a", 16, {6}) + service_manifest("other-b", 26, {6}));
  node.start_agent();
  for (const bool ipv6 : {false, true}) {
    for (const Transport transport : {Transport::kTcp, Transport::kUdp}) {
      for (const int endpoint : {5, 6}) {
        CAPTURE(ipv6);
        CAPTURE(static_cast<int>(transport));
        CAPTURE(endpoint);
        check(node, {ipv6, transport, endpoint});
        node.ctl("flow flush");
      }
    }
  }
}

std::string vip(const Case& c, int offset) {
  return fmt::format(fmt::runtime(c.ipv6 ? "fd00:96::{}" : "10.96.0.{}"), offset + c.endpoint);
}

std::uint16_t port(const Case& c) { return c.transport == Transport::kTcp ? 80 : 53; }
std::uint16_t target_port(const Case& c) { return c.transport == Transport::kTcp ? 8080 : 5353; }

}  // namespace

TEST_CASE("two ports of one frontend address to one target port") {
  for_each_case([](const Node& node, const Case& c) {
    check_apart(node, c.transport, {vip(c, 10), port(c)}, {vip(c, 10), target_port(c)});
  });
}

TEST_CASE("two frontends to one endpoint") {
  for_each_case([](const Node& node, const Case& c) {
    if (c.endpoint == 5) return;  // hairpins differ by the frontend's address
    check_apart(node, c.transport, {vip(c, 10), port(c)}, {vip(c, 20), port(c)});
  });
}

TEST_CASE("a frontend beside a direct connection to its endpoint, in both orders") {
  for_each_case([](const Node& node, const Case& c) {
    if (c.endpoint == 5) return;  // a direct connection to oneself never leaves the pod
    const std::string direct = fmt::format(fmt::runtime(c.ipv6 ? "fd00:244:1::{}" : "10.244.1.{}"), c.endpoint);
    check_apart(node, c.transport, {direct, target_port(c)}, {vip(c, 10), port(c)});
    node.ctl("flow flush");
    // A port of its own: the direct connection before is still remembered.
    const AskOptions options{.source_port = kSource + 1};
    Conversation through{node.pod(5), c.transport, vip(c, 10), port(c), options};
    const Answer first = through.ask();
    CHECK(first.ok);
    Conversation straight{node.pod(5), c.transport, direct, target_port(c), options};
    const Answer second = straight.ask();
    CHECK_MESSAGE(second.ok, "errno ", second.error);
    CHECK(second.peer != first.peer);
    CHECK(through.ask().peer == first.peer);
  });
}

TEST_CASE("a flow with itself: source port, port and target port are one") {
  for_each_case([](const Node& node, const Case& c) {
    if (c.endpoint != 5) return;
    const AskOptions options{.source_port = target_port(c)};
    const Answer answer = ask(node.pod(5), c.transport, vip(c, 10), target_port(c), options);
    CHECK_MESSAGE(answer.ok, "errno ", answer.error);
    CHECK(answer.peer != fmt::format("{} {}", vip(c, 10), target_port(c)));
  });
}

}  // namespace hairpin::test
