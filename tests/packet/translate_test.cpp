// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// What a service does to packets: the swap to oneself, DNAT to another pod, and nothing at all.
#include <doctest/doctest.h>

#include "tests/packet/bench.hpp"

using namespace hairpin::test;

namespace {

constexpr std::uint16_t kTargetPorts[] = {8080, 80};  // other than the frontend's, and the same

/// Pod A asks itself through the frontend, and answers.
void hairpin_both_ways(Bench& bench, Protocol protocol, const Socket& client, const Socket& frontend,
                       const Socket& endpoint) {
  const Socket seen_client{frontend.address, client.port};
  const Packet request = opening(protocol, client, frontend);
  check_outcome(bench.from_pod(request), kRedirect, request.turned().between(seen_client, endpoint));
  const Packet reply = answer(protocol, endpoint, seen_client);
  check_outcome(bench.from_pod(reply), kRedirect, reply.turned().between(frontend, client));
}

}  // namespace

TEST_CASE("a pod reaches itself") {
  Bench bench;
  for (const World& world : worlds())
    for (const Protocol protocol : kProtocols)
      for (const std::uint16_t target_port : kTargetPorts) {
        CAPTURE(world.vip.to_string());
        CAPTURE(protocol);
        CAPTURE(target_port);
        bench.forget();
        bench.tables = {};
        const Socket frontend{world.vip, 80};
        const Socket endpoint{world.a, target_port};
        bench.tables.serve(protocol, frontend, {endpoint});
        bench.publish();
        hairpin_both_ways(bench, protocol, {world.a, 40000}, frontend, endpoint);
        bench.check_tables();
        CHECK(bench.program().flows().size() == 1);
        // More of the same flow.
        hairpin_both_ways(bench, protocol, {world.a, 40000}, frontend, endpoint);
        // And another one beside it.
        hairpin_both_ways(bench, protocol, {world.a, 40001}, frontend, endpoint);
        bench.check_tables();
        CHECK(bench.program().flows().size() == 2);
      }
}

TEST_CASE("a pod reaches another, and the reply comes from the frontend") {
  Bench bench;
  for (const World& world : worlds())
    for (const Protocol protocol : kProtocols)
      for (const std::uint16_t target_port : kTargetPorts) {
        CAPTURE(world.vip.to_string());
        CAPTURE(protocol);
        CAPTURE(target_port);
        bench.forget();
        bench.tables = {};
        const Socket client{world.a, 40000};
        const Socket frontend{world.vip, 80};
        const Socket endpoint{world.b, target_port};
        bench.tables.serve(protocol, frontend, {endpoint});
        bench.publish();

        const Packet request = opening(protocol, client, frontend);
        check_outcome(bench.from_pod(request), kPass, request.between(client, endpoint));
        const Packet reply = answer(protocol, endpoint, client);
        check_outcome(bench.to_pod(reply), kPass, reply.between(frontend, client));
        // B's own veth sees both as traffic between pods.
        check_untouched(bench.to_pod(request.between(client, endpoint), interfaces().b),
                        request.between(client, endpoint).frame());
        check_untouched(bench.from_pod(reply, interfaces().b), reply.frame());
        bench.check_tables();
      }
}

TEST_CASE("a hairpin's packets are not touched on their way into the pod") {
  Bench bench;
  const World& world = worlds()[0];
  bench.tables.serve(kTcp, {world.vip, 80}, {{world.a, 8080}});
  bench.publish();
  bench.from_pod(opening(kTcp, {world.a, 40000}, {world.vip, 80}));
  // bpf_redirect instead of bpf_redirect_peer sends them through to_pod.
  const Packet request = opening(kTcp, {world.vip, 40000}, {world.a, 8080});
  check_untouched(bench.to_pod(request), request.frame());
  const Packet reply = answer(kTcp, {world.vip, 80}, {world.a, 40000});
  check_untouched(bench.to_pod(reply), reply.frame());
  bench.check_tables();
}

TEST_CASE("both kinds of redirect do the same to a packet") {
  Settings settings;
  settings.redirect_peer = false;
  Bench bench{settings};
  for (const World& world : worlds())
    for (const Protocol protocol : kProtocols) {
      bench.tables.serve(protocol, {world.vip, 80}, {{world.a, 8080}});
      bench.publish();
      hairpin_both_ways(bench, protocol, {world.a, 40000}, {world.vip, 80}, {world.a, 8080});
    }
}

TEST_CASE("a mark goes where the packet leaves the node's care, and stays elsewhere") {
  Bench bench;
  const World& world = worlds()[0];
  bench.tables.serve(kTcp, {world.vip, 80}, {{world.a, 8080}});
  bench.tables.serve(kTcp, {world.vip, 81}, {{world.b, 8080}});
  bench.publish();
  const auto mark_after = [&](const Packet& packet) {
    bench.program().run(Hook::kFromPod, packet.frame(), interfaces().a, 0x4000);
    return bench.program().mark();
  };
  CHECK(mark_after(tcp({world.a, 40000}, {world.vip, 80}, kSyn)) == 0);
  CHECK(mark_after(tcp({world.a, 40000}, {world.vip, 81}, kSyn)) == 0x4000);
  CHECK(mark_after(tcp({world.a, 40000}, {world.stranger, 80}, kSyn)) == 0x4000);
}

TEST_CASE("what is no service passes as it is") {
  Bench bench;
  for (const World& world : worlds()) {
    bench.tables.serve(kTcp, {world.vip, 80}, {{world.a, 8080}, {world.b, 8080}});
    bench.publish();
    for (const Protocol protocol : kProtocols) {
      // Somewhere else; a port that no service has; the right port of the wrong protocol.
      for (const Socket& to : {Socket{world.stranger, 80}, Socket{world.vip, 443}, Socket{world.other_vip, 80}}) {
        const Packet packet = opening(protocol, {world.a, 40000}, to);
        check_untouched(bench.from_pod(packet), packet.frame());
        check_untouched(bench.to_pod(packet), packet.frame());
      }
    }
    const Packet wrong_protocol = udp({world.a, 40000}, {world.vip, 80});
    check_untouched(bench.from_pod(wrong_protocol), wrong_protocol.frame());
    // A frontend is met on the way out only.
    const Packet inwards = tcp({world.stranger, 40000}, {world.vip, 80}, kSyn);
    check_untouched(bench.to_pod(inwards), inwards.frame());
  }
  bench.check_tables();
  CHECK(bench.program().flows().empty());
}

TEST_CASE("a pod without a share of the flow table is left alone, and counted") {
  Bench bench;
  const World& world = worlds()[0];
  bench.tables.serve(kTcp, {world.vip, 80}, {{world.a, 8080}});
  bench.publish();
  const Packet packet = tcp({world.a, 40000}, {world.vip, 80}, kSyn);
  check_untouched(bench.from_pod(packet, interfaces().c), packet.frame());
  CHECK(bench.program().counter(Reason::HP_REASON_NO_INTERFACE) == 1);
  bench.check_tables();
}

TEST_CASE("the rest of the headers stays as it was") {
  Bench bench;
  for (const World& world : worlds())
    for (const Protocol protocol : kProtocols) {
      bench.tables.serve(protocol, {world.vip, 80}, {{world.a, 8080}});
      bench.publish();
      Packet request = opening(protocol, {world.a, 40000}, {world.vip, 80});
      request.traffic_class = 0xb9;
      request.flow_label = 0xabcde;
      request.ttl = 3;
      request.id = 0xffff;
      request.dont_fragment = false;
      request.ip_options = {0x07, 0x07, 0x04, 0, 0, 0, 0};  // record route
      request.tcp_options = {2, 4, 0x05, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0};
      request.urgent = 7;
      request.window = 1;
      request.payload = bytes_of("odd length!");
      request.padding = 9;
      check_outcome(bench.from_pod(request), kRedirect, request.turned().between({world.vip, 40000}, {world.a, 8080}));
    }
  bench.check_tables();
}

TEST_CASE("UDP without a checksum stays without") {
  Bench bench;
  const World& world = worlds()[0];
  bench.tables.serve(kUdp, {world.vip, 53}, {{world.a, 5353}});
  bench.tables.serve(kUdp, {world.other_vip, 53}, {{world.b, 5353}});
  bench.publish();
  Packet request = udp({world.a, 40000}, {world.vip, 53});
  request.udp_checksum = false;
  check_outcome(bench.from_pod(request), kRedirect, request.turned().between({world.vip, 40000}, {world.a, 5353}));
  Packet reply = udp({world.a, 5353}, {world.vip, 40000});
  reply.udp_checksum = false;
  check_outcome(bench.from_pod(reply), kRedirect, reply.turned().between({world.vip, 53}, {world.a, 40000}));
  Packet other = udp({world.a, 40000}, {world.other_vip, 53});
  other.udp_checksum = false;
  check_outcome(bench.from_pod(other), kPass, other.between({world.a, 40000}, {world.b, 5353}));
}

TEST_CASE("a UDP checksum that comes out as zero is sent as its other form") {
  Bench bench;
  for (const World& world : worlds()) {
    const Socket client{world.a, 40000};
    const Socket frontend{world.vip, 53};
    for (const Socket& endpoint : {Socket{world.a, 5353}, Socket{world.b, 5353}}) {
      bench.forget();
      bench.tables = {};
      bench.tables.serve(kUdp, frontend, {endpoint});
      bench.publish();
      const bool self = endpoint.address == world.a;
      // Choose the payload so that the translated packet sums up to zero.
      Packet expected = udp(self ? Socket{world.vip, client.port} : client, endpoint);
      expected.payload = {0, 0};
      const Bytes plain = expected.frame();
      expected.payload = {plain[expected.l4_offset() + 6], plain[expected.l4_offset() + 7]};
      const Bytes translated = expected.frame();
      REQUIRE(translated[expected.l4_offset() + 6] == 0xff);
      REQUIRE(translated[expected.l4_offset() + 7] == 0xff);

      const Packet request = expected.between(client, frontend);
      check_outcome(bench.from_pod(request), self ? kRedirect : kPass, self ? expected.turned() : expected);
    }
  }
}

TEST_CASE("an endpoint on the client's bridge is sent to under its own MAC") {
  Bench bench;
  const Mac mac{0x02, 0, 0, 0, 0x0b, 0x0b};
  for (const World& world : worlds()) {
    bench.tables.serve(kTcp, {world.vip, 80}, {{world.b, 8080}});
    bench.tables.serve(kTcp, {world.other_vip, 80}, {{world.a, 8080}});
  }
  bench.publish();
  bench.program().attach(interfaces().a, interfaces().bridge);
  bench.model().attach(interfaces().a, interfaces().bridge);
  for (const World& world : worlds()) {
    const Socket client{world.a, 40000};
    const Packet request = tcp(client, {world.vip, 80}, kSyn);
    Packet expected = request.between(client, {world.b, 8080});
    // Not resolved yet: the stack takes it. IPv6 has no neighbour either.
    check_outcome(bench.from_pod(request), kPass, expected);
    add_neighbour(world.b, mac);
    bench.model().add_neighbour(world.b, mac);
    expected.to_mac = mac;
    check_outcome(bench.from_pod(request), kPass, expected);
    // Known from now on, for each flow.
    check_outcome(bench.from_pod(request), kPass, expected);
    const Packet reply = tcp({world.b, 8080}, client, kSyn | kAck);
    check_outcome(bench.to_pod(reply), kPass, reply.between({world.vip, 80}, client));
    const Packet self = tcp(client, {world.other_vip, 80}, kSyn);
    check_outcome(bench.from_pod(self), kRedirect,
                  self.turned().between({world.other_vip, client.port}, {world.a, 8080}));
  }
  bench.check_tables();
}
