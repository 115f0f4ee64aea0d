// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// A service without endpoints, and an endpoint that has gone: refused at once.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tests/packet/bench.hpp"

using namespace hairpin::test;

namespace {

void serve_nothing(Bench& bench) {
  for (const World& world : worlds())
    for (const Protocol protocol : kProtocols) bench.tables.serve(protocol, {world.vip, 80}, {});
  bench.publish();
}

/// What a reset in place of the packet should be.
Packet reset_of(const Packet& packet) {
  Packet reset = packet.turned().between(packet.to, packet.from);
  if ((packet.flags & kAck) != 0) {
    reset.flags = kRst;
    reset.sequence = packet.acknowledgement;
    reset.acknowledgement = 0;
  } else {
    reset.flags = kRst | kAck;
    reset.sequence = 0;
    reset.acknowledgement = packet.sequence + ((packet.flags & kSyn) != 0 ? 1 : 0);
  }
  return reset;
}

/// Is it an ICMP port unreachable to the packet's sender that quotes the packet?
void check_unreachable(const Outcome& outcome, const Packet& refused) {
  const Bytes sent = refused.frame();
  const Bytes& got = outcome.frame;
  const bool ipv6 = refused.from.address.family() == hairpin::Family::kIpv6;
  const std::size_t l4 = refused.l4_offset();
  CAPTURE(describe(got));
  CHECK(outcome.verdict == kRedirect);
  REQUIRE(got.size() == l4 + 8 + (l4 - 14) + 8);
  CHECK(got == port_unreachable(sent));
  CHECK(checksums_right(got));
  CHECK(got[l4] == (ipv6 ? 1 : 3));
  CHECK(got[l4 + 1] == (ipv6 ? 4 : 3));
  CHECK(std::equal(got.begin() + 6, got.begin() + 12, sent.begin()));
  CHECK(std::equal(got.begin(), got.begin() + 6, sent.begin() + 6));
  // The quote: all of the IP header and of the UDP header, as they were sent.
  CHECK(std::equal(sent.begin() + 14, sent.begin() + static_cast<std::ptrdiff_t>(l4) + 8,
                   got.begin() + static_cast<std::ptrdiff_t>(l4) + 8, got.end()));
  // A kernel that still thinks of the packet as CHECKSUM_PARTIAL UDP sums up from the old header, and writes at its
  // offset.
  const Bytes later = completed(got, l4, 6);
  CHECK_MESSAGE(checksums_right(later), "completed: ", describe(later));
}

}  // namespace

TEST_CASE("no endpoint: a SYN is reset") {
  Bench bench;
  serve_nothing(bench);
  for (const World& world : worlds()) {
    Packet syn = tcp({world.a, 40000}, {world.vip, 80}, kSyn);
    check_outcome(bench.from_pod(syn), kRedirect, reset_of(syn));
    syn.flags = kSyn | kEce | 0x80;  // RFC 3168: with ECN
    check_outcome(bench.from_pod(syn), kRedirect, reset_of(syn));
    syn.sequence = 0xffffffff;
    check_outcome(bench.from_pod(syn), kRedirect, reset_of(syn));
    syn.tcp_options = {2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7};
    check_outcome(bench.from_pod(syn), kRedirect, reset_of(syn));
    syn.payload = bytes_of("fast open");
    syn.ip_options = {1, 1, 1, 1};
    syn.padding = 6;
    check_outcome(bench.from_pod(syn), kRedirect, reset_of(syn));
  }
  CHECK(bench.program().counter(Reason::HP_REASON_NO_ENDPOINT) == 10);
  CHECK(bench.program().flows().empty());
  bench.check_tables();
}

TEST_CASE("no endpoint: other TCP packets are none of ours") {
  Bench bench;
  serve_nothing(bench);
  constexpr std::uint8_t kFlags[] = {kAck, kAck | kFin, kRst, kRst | kAck, kFin, kSyn | kAck, 0};
  for (const World& world : worlds())
    for (const std::uint8_t flags : kFlags) {
      const Packet packet = tcp({world.a, 40000}, {world.vip, 80}, flags);
      check_untouched(bench.from_pod(packet), packet.frame());
    }
}

TEST_CASE("no endpoint: a datagram is answered with port unreachable") {
  constexpr std::size_t kLengths[] = {0, 1, 2, 3, 20, 28, 29, 40, 48, 100, 1400};
  Bench bench;
  serve_nothing(bench);
  for (const World& world : worlds())
    for (const std::size_t length : kLengths)
      for (const bool checksum : {true, false}) {
        Packet datagram = udp({world.a, 40000}, {world.vip, 80}, std::string(length, 'x'));
        datagram.udp_checksum = checksum || world.a.family() == hairpin::Family::kIpv6;
        datagram.traffic_class = 0xb8;
        datagram.flow_label = 0x12345;
        datagram.ttl = 1;
        CAPTURE(length);
        check_unreachable(bench.from_pod(datagram), datagram);
        datagram.padding = 18;
        check_unreachable(bench.from_pod(datagram), datagram);
      }
  bench.check_tables();
}

TEST_CASE("no endpoint: a datagram with IP options is answered under a header as long") {
  Bench bench;
  serve_nothing(bench);
  const World& world = worlds()[0];
  for (std::size_t length = 4; length <= 40; length += 4) {
    Packet datagram = udp({world.a, 40000}, {world.vip, 80}, "hello");
    datagram.ip_options = Bytes(length, 1);
    CAPTURE(length);
    const Outcome outcome = bench.from_pod(datagram);
    check_unreachable(outcome, datagram);
    CHECK(std::all_of(outcome.frame.begin() + 34, outcome.frame.begin() + 34 + static_cast<std::ptrdiff_t>(length),
                      [](std::uint8_t byte) { return byte == 0; }));
  }
}

TEST_CASE("port unreachable is right whatever it quotes") {
  Bench bench;
  serve_nothing(bench);
  for (const World& world : worlds())
    for (std::uint32_t i = 0; i < 3000; ++i) {
      Packet datagram =
          udp({world.a, static_cast<std::uint16_t>(1 + i * 21)}, {world.vip, 80}, std::string(i % 64, 'y'));
      datagram.id = static_cast<std::uint16_t>(i * 40503);
      const Outcome outcome = bench.from_pod(datagram);
      REQUIRE(outcome.frame == port_unreachable(datagram.frame()));
      REQUIRE(checksums_right(outcome.frame));
      REQUIRE(checksums_right(completed(outcome.frame, datagram.l4_offset(), 6)));
    }
}

namespace {

/// Opens flows of both protocols to the old endpoint, puts the new one in its place, and sends on.
void check_gone(Bench& bench, const Socket& client, const Socket& frontend, const Socket& old_endpoint,
                const Socket& new_endpoint) {
  for (const Protocol protocol : kProtocols) bench.tables.serve(protocol, frontend, {old_endpoint});
  bench.publish();
  for (const Protocol protocol : kProtocols) bench.from_pod(opening(protocol, client, frontend));
  for (const Protocol protocol : kProtocols) bench.tables.replace(protocol, frontend, {new_endpoint});
  bench.tables.raise_epoch(old_endpoint);
  bench.publish();

  constexpr std::uint8_t kFlags[] = {kAck, kAck | kPsh, kAck | kFin, kSyn | kAck};
  for (const std::uint8_t flags : kFlags) {
    const Packet packet = tcp(client, frontend, flags, "data");
    check_outcome(bench.from_pod(packet), kRedirect, reset_of(packet));
  }
  CHECK(bench.program().counter(Reason::HP_REASON_BACKEND_GONE) == 4);

  // A reset is not answered by another: it goes where the flow led.
  const Packet reset = tcp(client, frontend, kRst);
  const bool was_self = old_endpoint.address == client.address;
  const Packet passed = reset.between({was_self ? frontend.address : client.address, client.port}, old_endpoint);
  check_outcome(bench.from_pod(reset), was_self ? kRedirect : kPass, was_self ? passed.turned() : passed);
  CHECK(bench.program().counter(Reason::HP_REASON_BACKEND_GONE) == 4);

  // The datagram of the old flow, its port used again, and a new TCP connection: all find the new endpoint.
  const bool self = new_endpoint.address == client.address;
  for (const Packet& packet :
       {udp(client, frontend, "again"), tcp(client, frontend, kSyn), tcp({client.address, 40001}, frontend, kSyn)}) {
    const Packet expected = packet.between({self ? frontend.address : client.address, packet.from.port}, new_endpoint);
    check_outcome(bench.from_pod(packet), self ? kRedirect : kPass, self ? expected.turned() : expected);
    bench.check_tables();
  }
}

}  // namespace

TEST_CASE("endpoint gone: TCP is reset, datagrams choose again") {
  Bench bench;
  for (const World& world : worlds())
    for (const bool self : {true, false}) {
      CAPTURE(self);
      bench.forget();
      bench.tables = {};
      check_gone(bench, {world.a, 40000}, {world.vip, 80}, {self ? world.a : world.b, 8080},
                 {self ? world.b : world.a, 8081});
    }
}

TEST_CASE("endpoint gone and none left: datagrams are refused as well") {
  Bench bench;
  for (const World& world : worlds()) {
    const Socket client{world.a, 40000};
    const Socket frontend{world.vip, 53};
    bench.tables.serve(kUdp, frontend, {{world.a, 53}});
    bench.publish();
    const Packet datagram = udp(client, frontend);
    bench.from_pod(datagram);
    bench.tables.replace(kUdp, frontend, {});
    bench.tables.raise_epoch({world.a, 53});
    bench.publish();
    check_unreachable(bench.from_pod(datagram), datagram);
    bench.check_tables();
    CHECK(bench.program().flows().empty());
  }
}

TEST_CASE("endpoint gone: its last replies still come through") {
  Bench bench;
  const World& world = worlds()[0];
  bench.tables.serve(kTcp, {world.vip, 80}, {{world.b, 8080}});
  bench.publish();
  bench.from_pod(opening(kTcp, {world.a, 40000}, {world.vip, 80}));
  bench.tables.raise_epoch({world.b, 8080});
  bench.publish();
  const Packet reply = tcp({world.b, 8080}, {world.a, 40000}, kAck | kFin, "bye");
  check_outcome(bench.to_pod(reply), kPass, reply.between({world.vip, 80}, {world.a, 40000}));
  bench.check_tables();
}
