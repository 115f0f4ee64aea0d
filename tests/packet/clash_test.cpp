// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Two connections that would look the same to the endpoint: the newcomer gets another source port, and both work.
#include <doctest/doctest.h>

#include <functional>

#include "tests/packet/bench.hpp"
#include "tests/support/hash.hpp"

using namespace hairpin::test;
using hairpin::Address;

namespace {

constexpr std::uint16_t kClientPort = 40000;

/// The flow that the packet at pod A's veth belongs to.
hp_flow flow_of(Bench& bench, Protocol protocol, const Socket& from, const Socket& to) {
  return bench.program().flow_of(tuple_of(protocol, from, to, interfaces().a));
}

/// Sends a request and its reply; returns the source port that the endpoint sees.
std::uint16_t round_trip(Bench& bench, Protocol protocol, const Socket& client, const Socket& frontend,
                         const Socket& endpoint) {
  const bool self = endpoint.address == client.address;
  const Packet request = opening(protocol, client, frontend);
  const Outcome outcome = bench.from_pod(request);
  const hp_flow flow = flow_of(bench, protocol, client, frontend);
  const Socket seen = destination_of(flow.tuple[HP_REPLY]);
  CHECK(seen.address == (self ? frontend.address : client.address));
  const Packet expected = request.between(seen, endpoint);
  check_outcome(outcome, self ? kRedirect : kPass, self ? expected.turned() : expected);

  const Packet reply = answer(protocol, endpoint, seen);
  const Packet expected_reply = reply.between(frontend, client);
  if (self) {
    check_outcome(bench.from_pod(reply), kRedirect, expected_reply.turned());
  } else {
    check_outcome(bench.to_pod(reply), kPass, expected_reply);
  }
  return seen.port;
}

void for_every_kind(const std::function<void(Bench&, const World&, Protocol, const Address& endpoint)>& test) {
  Bench bench;
  for (const World& world : worlds())
    for (const Protocol protocol : kProtocols)
      for (const Address& endpoint : {world.a, world.b}) {
        CAPTURE(protocol);
        CAPTURE(endpoint.to_string());
        bench.forget();
        bench.tables = {};
        test(bench, world, protocol, endpoint);
        bench.check_tables();
      }
}

}  // namespace

TEST_CASE("clash: two ports of one frontend address lead to one target port") {
  for_every_kind([](Bench& bench, const World& world, Protocol protocol, const Address& pod) {
    const Socket client{world.a, kClientPort};
    const Socket endpoint{pod, 8080};
    bench.tables.serve(protocol, {world.vip, 80}, {endpoint});
    bench.tables.serve(protocol, {world.vip, 81}, {endpoint});
    bench.publish();
    CHECK(round_trip(bench, protocol, client, {world.vip, 80}, endpoint) == kClientPort);
    CHECK(round_trip(bench, protocol, client, {world.vip, 81}, endpoint) != kClientPort);
    // The first one is what it was.
    CHECK(round_trip(bench, protocol, client, {world.vip, 80}, endpoint) == kClientPort);
  });
}

TEST_CASE("clash: two frontend addresses lead to one endpoint") {
  for_every_kind([](Bench& bench, const World& world, Protocol protocol, const Address& pod) {
    const Socket client{world.a, kClientPort};
    const Socket endpoint{pod, 8080};
    bench.tables.serve(protocol, {world.vip, 80}, {endpoint});
    bench.tables.serve(protocol, {world.other_vip, 80}, {endpoint});
    bench.publish();
    CHECK(round_trip(bench, protocol, client, {world.vip, 80}, endpoint) == kClientPort);
    const std::uint16_t second = round_trip(bench, protocol, client, {world.other_vip, 80}, endpoint);
    // To oneself the frontend's address is the client's, and tells them apart.
    CHECK((second == kClientPort) == (pod == world.a));
    CHECK(round_trip(bench, protocol, client, {world.vip, 80}, endpoint) == kClientPort);
  });
}

TEST_CASE("clash: a frontend after a direct connection to the endpoint") {
  for_every_kind([](Bench& bench, const World& world, Protocol protocol, const Address&) {
    const Socket client{world.a, kClientPort};
    const Socket endpoint{world.b, 8080};
    bench.tables.serve(protocol, {world.vip, 80}, {endpoint});
    bench.publish();
    const Packet direct = opening(protocol, client, endpoint);
    check_untouched(bench.from_pod(direct), direct.frame());
    CHECK(round_trip(bench, protocol, client, {world.vip, 80}, endpoint) != kClientPort);
    // The direct connection's replies are its own.
    const Packet reply = answer(protocol, endpoint, client);
    check_untouched(bench.to_pod(reply), reply.frame());
    check_untouched(bench.from_pod(direct), direct.frame());
  });
}

TEST_CASE("clash: a direct connection to the endpoint after a frontend") {
  for_every_kind([](Bench& bench, const World& world, Protocol protocol, const Address&) {
    const Socket client{world.a, kClientPort};
    const Socket endpoint{world.b, 8080};
    bench.tables.serve(protocol, {world.vip, 80}, {endpoint});
    bench.publish();
    CHECK(round_trip(bench, protocol, client, {world.vip, 80}, endpoint) == kClientPort);
    CHECK(round_trip(bench, protocol, client, endpoint, endpoint) != kClientPort);
    CHECK(round_trip(bench, protocol, client, {world.vip, 80}, endpoint) == kClientPort);
    CHECK(flow_of(bench, protocol, client, endpoint).backend == 0);
  });
}

TEST_CASE("clash: a flow with itself") {
  Bench bench;
  for (const World& world : worlds())
    for (const Protocol protocol : kProtocols) {
      CAPTURE(protocol);
      bench.forget();
      bench.tables = {};
      // Gossip: everybody sends from the port that everybody listens on.
      const Socket client{world.a, 7946};
      const Socket frontend{world.vip, 7946};
      const Socket endpoint{world.a, 7946};
      bench.tables.serve(protocol, frontend, {endpoint});
      bench.publish();
      const std::uint16_t seen = round_trip(bench, protocol, client, frontend, endpoint);
      CHECK(seen != 7946);
      CHECK(round_trip(bench, protocol, client, frontend, endpoint) == seen);
      bench.check_tables();
    }
}

TEST_CASE("clash: when every candidate is taken the packet is dropped, and counted") {
  const Settings settings;
  Bench bench{settings};
  for (const World& world : worlds()) {
    const Socket client{world.a, kClientPort};
    const Socket frontend{world.vip, 80};
    const Socket endpoint{world.b, 8080};
    bench.forget();
    bench.tables.serve(kTcp, frontend, {endpoint});
    bench.publish();
    // Direct connections take the places: its own port, then all that is derived from the hash, but for the last.
    const std::uint32_t hash = hash_of(tuple_of(kTcp, client, frontend, interfaces().a), settings.seed);
    const auto candidate = [&](std::uint32_t i) {
      return i == 0 ? kClientPort : static_cast<std::uint16_t>(1024 + ((hash + i * 40503) & 0xffff) % 64512);
    };
    for (std::uint32_t i = 0; i < 31; ++i) bench.from_pod(tcp({world.a, candidate(i)}, endpoint, kSyn));
    CHECK(round_trip(bench, kTcp, client, frontend, endpoint) == candidate(31));
    CHECK(bench.program().end_all_flows() == 1);
    bench.model().end_all_flows();
    bench.from_pod(tcp({world.a, candidate(31)}, endpoint, kSyn));
    CHECK(bench.from_pod(opening(kTcp, client, frontend)).verdict == kDrop);
    CHECK(bench.program().counter(Reason::HP_REASON_PORTS_TAKEN) == 1);
    CHECK(bench.program().flows().empty());
    bench.check_tables();
  }
}
