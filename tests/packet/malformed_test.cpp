// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Packets that are cut, absurd, or none of ours: never misread, never changed.
#include <doctest/doctest.h>

#include <cstring>

#include "tests/packet/bench.hpp"

using namespace hairpin::test;

namespace {

constexpr std::uint16_t kServed[] = {80, 81};  // to oneself, to another pod
constexpr std::uint16_t kAll[] = {80, 81, 9};  // and refused

/// Services that every packet below would be translated or refused by, were it whole; and open flows.
void prepare(Bench& bench) {
  for (const World& world : worlds())
    for (const Protocol protocol : kProtocols) {
      bench.tables.serve(protocol, {world.vip, 80}, {{world.a, 8080}});
      bench.tables.serve(protocol, {world.vip, 81}, {{world.b, 8080}});
      bench.tables.serve(protocol, {world.vip, 9}, {});
    }
  bench.publish();
  for (const World& world : worlds())
    for (const Protocol protocol : kProtocols)
      for (const std::uint16_t port : kServed) bench.from_pod(opening(protocol, {world.a, 40000}, {world.vip, port}));
}

std::vector<Packet> samples() {
  std::vector<Packet> out;
  for (const World& world : worlds())
    for (const Protocol protocol : kProtocols) {
      for (const std::uint16_t port : kAll) out.push_back(opening(protocol, {world.a, 40000}, {world.vip, port}));
      out.push_back(answer(protocol, {world.a, 8080}, {world.vip, 40000}));
      out.push_back(answer(protocol, {world.b, 8080}, {world.a, 40000}));
    }
  for (Packet packet : std::vector{out}) {
    packet.ip_options = {1, 1, 1, 1, 1, 1, 1, 1};
    packet.tcp_options = {2, 4, 5, 0xb4, 4, 2, 1, 1};
    packet.payload = bytes_of("some data");
    out.push_back(packet);
  }
  return out;
}

void check_passes(Bench& bench, const Packet& packet) {
  CAPTURE(describe(packet.frame()));
  check_untouched(bench.from_pod(packet), packet.frame());
  check_untouched(bench.to_pod(packet), packet.frame());
}

}  // namespace

TEST_CASE("packets cut at every length") {
  Bench bench;
  prepare(bench);
  for (const Packet& packet : samples()) {
    const Bytes whole = packet.frame();
    const std::size_t needed = packet.l4_offset() + (packet.protocol == kTcp ? 20 : 8);
    for (std::size_t length = 0; length <= whole.size(); ++length) {
      const Bytes cut{whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)};
      CAPTURE(length);
      for (const Hook hook : {Hook::kFromPod, Hook::kToPod}) {
        const std::string differences = bench.compare(hook, cut, interfaces().a);
        CHECK_MESSAGE(differences.empty(), differences);
        if (length >= 54 && length < needed) check_untouched(bench.run(hook, cut, interfaces().a), cut);
      }
    }
  }
  bench.check_tables();
}

TEST_CASE("every value of every header byte is read as the model reads it") {
  Settings settings;
  settings.chunk_size = 256;  // each source makes a flow of its own
  Bench bench{settings};
  prepare(bench);
  const World& ipv4 = worlds()[0];
  const World& ipv6 = worlds()[1];
  for (const Packet& packet : {tcp({ipv4.a, 40000}, {ipv4.vip, 80}, kSyn), udp({ipv4.a, 40000}, {ipv4.vip, 9}),
                               tcp({ipv6.a, 40000}, {ipv6.vip, 9}, kSyn), udp({ipv6.a, 40000}, {ipv6.vip, 80})}) {
    const Bytes whole = packet.frame();
    for (std::size_t i = 12; i < whole.size(); ++i)
      for (unsigned value = 0; value < 256; ++value) {
        Bytes changed = whole;
        changed[i] = static_cast<std::uint8_t>(value);
        const std::string differences = bench.compare(Hook::kFromPod, changed, interfaces().a);
        REQUIRE_MESSAGE(differences.empty(), differences);
      }
  }
  bench.check_tables();
}

TEST_CASE("fragments pass") {
  Bench bench;
  prepare(bench);
  for (Packet packet : samples()) {
    if (packet.from.address.family() != hairpin::Family::kIpv4) continue;
    packet.dont_fragment = false;
    packet.more_fragments = true;
    check_passes(bench, packet);
    packet.fragment_offset = 185;
    check_passes(bench, packet);
    packet.more_fragments = false;
    check_passes(bench, packet);
    packet.fragment_offset = 1;
    check_passes(bench, packet);
    packet.fragment_offset = 0x1fff;
    check_passes(bench, packet);
  }
  bench.check_tables();
}

TEST_CASE("IPv6 extension headers pass") {
  Bench bench;
  prepare(bench);
  const Bytes nothing = {0, 1, 4, 0, 0, 0, 0};      // padding
  const Bytes fragment = {0, 0, 0x01, 0, 0, 0, 7};  // the first one
  for (Packet packet : samples()) {
    if (packet.from.address.family() != hairpin::Family::kIpv6) continue;
    for (const auto& extensions : std::vector<std::vector<Packet::Extension>>{
             {{kHopByHop, nothing}},
             {{kRouting, nothing}},
             {{kDestinationOptions, nothing}},
             {{kFragment, fragment}},
             {{kHopByHop, nothing}, {kDestinationOptions, nothing}, {kFragment, fragment}}}) {
      packet.extensions = extensions;
      check_passes(bench, packet);
    }
  }
  bench.check_tables();
}

TEST_CASE("VLAN tags pass") {
  Bench bench;
  prepare(bench);
  for (Packet packet : samples()) {
    packet.vlan = {100};
    check_passes(bench, packet);
    packet.vlan = {100, 0};
    check_passes(bench, packet);
  }
  bench.check_tables();
}

TEST_CASE("other protocols pass") {
  Bench bench;
  prepare(bench);
  for (Packet packet : samples()) {
    for (const std::uint8_t protocol :
         {kIcmp, kIcmpv6, kSctp, Protocol{4}, Protocol{41}, Protocol{47}, Protocol{136}}) {
      packet.protocol = protocol;
      packet.payload = Bytes(64, 8);
      check_passes(bench, packet);
    }
  }
  // ARP: who has the frontend?
  Bytes arp(12, 0xff);
  for (const int byte : {8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 10, 10, 1, 0, 2, 0, 0, 0, 0, 0, 0, 10, 96, 0, 10})
    arp.push_back(static_cast<std::uint8_t>(byte));
  check_untouched(bench.run(Hook::kFromPod, arp, interfaces().a), arp);
  check_untouched(bench.run(Hook::kToPod, arp, interfaces().a), arp);
  bench.check_tables();
}

TEST_CASE("IPv6 packets with IPv4-mapped addresses are not taken for IPv4") {
  Bench bench;
  prepare(bench);
  const World& ipv4 = worlds()[0];
  for (const Protocol protocol : kProtocols)
    for (const std::uint16_t port : kAll) {
      // A frame of the right shape, and the mapped addresses put in.
      Packet shape = opening(protocol, {worlds()[1].a, 40000}, {worlds()[1].vip, port});
      Bytes frame = shape.frame();
      std::memcpy(frame.data() + 14 + 8, &ipv4.a.raw(), 16);
      std::memcpy(frame.data() + 14 + 24, &ipv4.vip.raw(), 16);
      check_untouched(bench.run(Hook::kFromPod, frame, interfaces().a), frame);
    }
  bench.check_tables();
}
