// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Which packets open a flow, how a flow lives and when it ends.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>

#include "tests/packet/bench.hpp"

using namespace hairpin::test;
using namespace std::chrono_literals;

namespace {

/// A flow of pod A's, to itself or to pod B, whose packets are easily made.
struct Connection {
  Bench& bench;
  Protocol protocol;
  Socket client;
  Socket frontend;
  Socket endpoint;

  [[nodiscard]] bool self() const { return client.address == endpoint.address; }
  [[nodiscard]] Socket seen_client() const { return self() ? Socket{frontend.address, client.port} : client; }

  Outcome request(std::uint8_t flags) const {
    return bench.from_pod(protocol == kTcp ? tcp(client, frontend, flags) : udp(client, frontend));
  }
  Outcome reply(std::uint8_t flags) const {
    const Packet packet = protocol == kTcp ? tcp(endpoint, seen_client(), flags) : udp(endpoint, seen_client());
    return self() ? bench.from_pod(packet) : bench.to_pod(packet);
  }
  [[nodiscard]] int state() const {
    const auto flow = bench.program().find_flow(tuple_of(protocol, client, frontend, interfaces().a));
    return flow ? flow->state : int{HP_FLOW_FREE};
  }
};

void for_every_way(Protocol protocol, const std::function<void(const Connection&)>& test,
                   const Settings& settings = {}) {
  Bench bench{settings};
  for (const World& world : worlds())
    for (const hairpin::Address& pod : {world.a, world.b}) {
      CAPTURE(pod.to_string());
      bench.forget();
      bench.tables = {};
      const Connection connection{bench, protocol, {world.a, 40000}, {world.vip, 80}, {pod, 8080}};
      bench.tables.serve(protocol, connection.frontend, {connection.endpoint});
      bench.publish();
      test(connection);
      bench.check_tables();
    }
}

bool translated(const Outcome& outcome, const Connection& connection) {
  return outcome.verdict == (connection.self() ? kRedirect : kPass);
}

}  // namespace

TEST_CASE("only a SYN opens a TCP flow") {
  for_every_way(kTcp, [](const Connection& connection) {
    for (unsigned flags = 0; flags < 256; ++flags) {
      connection.bench.forget();
      CAPTURE(flags);
      const Packet packet = tcp(connection.client, connection.frontend, static_cast<std::uint8_t>(flags));
      const Outcome outcome = connection.bench.from_pod(packet);
      if ((flags & (kSyn | kAck)) == kSyn) {
        CHECK(connection.state() == HP_FLOW_NEW);
      } else {
        check_untouched(outcome, packet.frame());
        CHECK(connection.state() == HP_FLOW_FREE);
      }
    }
    connection.bench.check_tables();
    connection.bench.forget();
  });
}

TEST_CASE("a TCP flow from handshake to FINs") {
  for_every_way(kTcp, [](const Connection& connection) {
    for (const bool client_first : {true, false}) {
      connection.bench.forget();
      connection.request(kSyn);
      CHECK(connection.state() == HP_FLOW_NEW);
      connection.request(kSyn);  // again: the first got lost
      CHECK(connection.state() == HP_FLOW_NEW);
      connection.reply(kSyn | kAck);
      CHECK(connection.state() == HP_FLOW_ESTABLISHED);
      connection.request(kAck);
      connection.request(kAck | kPsh);
      connection.reply(kAck | kPsh);
      CHECK(connection.state() == HP_FLOW_ESTABLISHED);
      client_first ? connection.request(kAck | kFin) : connection.reply(kAck | kFin);
      connection.reply(kAck);
      connection.request(kAck);
      CHECK(connection.state() == HP_FLOW_ESTABLISHED);
      client_first ? connection.reply(kAck | kFin) : connection.request(kAck | kFin);
      CHECK(connection.state() == HP_FLOW_CLOSING);
      // What is still on its way is translated.
      CHECK(translated(connection.request(kAck), connection));
      CHECK(translated(connection.reply(kAck), connection));
      CHECK(connection.state() == HP_FLOW_CLOSING);
      connection.bench.check_tables();
    }
  });
}

TEST_CASE("a reset closes, from either side") {
  for_every_way(kTcp, [](const Connection& connection) {
    connection.request(kSyn);
    connection.reply(kRst | kAck);
    CHECK(connection.state() == HP_FLOW_CLOSING);
    connection.bench.forget();
    connection.request(kSyn);
    connection.reply(kSyn | kAck);
    connection.request(kRst);
    CHECK(connection.state() == HP_FLOW_CLOSING);
  });
}

TEST_CASE("a SYN on a closing flow chooses again") {
  for_every_way(kTcp, [](const Connection& connection) {
    Bench& bench = connection.bench;
    connection.request(kSyn);
    connection.reply(kSyn | kAck);
    connection.request(kRst);
    const Socket other{connection.self() ? connection.endpoint.address : connection.client.address, 8888};
    bench.tables.replace(kTcp, connection.frontend, {other});
    bench.publish();
    // Not with an ACK.
    connection.request(kAck);
    CHECK(connection.state() == HP_FLOW_CLOSING);
    connection.request(kSyn);
    CHECK(connection.state() == HP_FLOW_NEW);
    const auto flow = bench.program().flow_of(tuple_of(kTcp, connection.client, connection.frontend, interfaces().a));
    CHECK(source_of(flow.tuple[HP_REPLY]) == other);
    CHECK(bench.program().flows().size() == 1);
    CHECK(bench.program().tuples().size() == 2);
  });
}

TEST_CASE("an open flow stays with its endpoint when the service changes") {
  for (const Protocol protocol : kProtocols)
    for_every_way(protocol, [](const Connection& connection) {
      connection.request(kSyn);
      connection.reply(kSyn | kAck);
      Bench& bench = connection.bench;
      bench.tables.replace(connection.protocol, connection.frontend, {{connection.client.address, 9999}});
      bench.publish();
      CHECK(translated(connection.request(kAck), connection));
      CHECK(translated(connection.reply(kAck), connection));
      bench.tables.replace(connection.protocol, connection.frontend, {});
      bench.publish();
      CHECK(translated(connection.request(kAck), connection));
      bench.tables.remove(connection.protocol, connection.frontend);
      bench.publish();
      CHECK(translated(connection.request(kAck), connection));
    });
}

TEST_CASE("idle flows expire, each state after its own time") {
  const struct {
    Protocol protocol;
    int packets;  // 1: request, 2: and reply, 3: and reset
    std::chrono::seconds limit;
  } rows[] = {
      {kTcp, 1, 60s}, {kTcp, 2, 24h}, {kTcp, 3, 120s}, {kUdp, 1, 30s}, {kUdp, 2, 180s},
  };
  for (const auto& row : rows) {
    CAPTURE(row.protocol);
    CAPTURE(row.packets);
    for_every_way(row.protocol, [&](const Connection& connection) {
      connection.request(kSyn);
      if (row.packets >= 2) connection.reply(kSyn | kAck);
      if (row.packets >= 3) connection.request(kRst | kAck);
      Bench& bench = connection.bench;
      bench.age(row.limit - 2s);
      CHECK(translated(connection.request(kAck), connection));  // and begins to count anew
      bench.age(row.limit - 2s);
      CHECK(translated(connection.request(kAck), connection));
      bench.age(row.limit + 1s);
      const Packet reply = row.protocol == kTcp ? tcp(connection.endpoint, connection.seen_client(), kAck)
                                                : udp(connection.endpoint, connection.seen_client());
      check_untouched(bench.to_pod(reply), reply.frame());
      if (row.protocol == kTcp) {
        const Packet late = tcp(connection.client, connection.frontend, kAck);
        check_untouched(bench.from_pod(late), late.frame());
      }
      // A new beginning in its place.
      CHECK(translated(connection.request(kSyn), connection));
      CHECK(connection.state() == HP_FLOW_NEW);
      CHECK(bench.program().flows().size() == 1);
    });
  }
}

TEST_CASE("a forged source on one veth does not touch another pod's flow") {
  for (const Protocol protocol : kProtocols)
    for_every_way(protocol, [](const Connection& connection) {
      Bench& bench = connection.bench;
      connection.request(kSyn);
      connection.reply(kSyn | kAck);
      const auto before = bench.program().flow_of(
          tuple_of(connection.protocol, connection.client, connection.frontend, interfaces().a));
      constexpr std::uint8_t kFlags[] = {kRst, kAck | kFin, kAck};
      for (const std::uint8_t flags : kFlags) {
        const auto packet = [&](const Socket& from, const Socket& to) {
          return connection.protocol == kTcp ? tcp(from, to, flags) : udp(from, to);
        };
        bench.from_pod(packet(connection.client, connection.frontend), interfaces().b);
        bench.from_pod(packet(connection.endpoint, connection.seen_client()), interfaces().b);
        bench.to_pod(packet(connection.endpoint, connection.seen_client()), interfaces().b);
        bench.from_pod(packet(connection.client, connection.frontend), interfaces().c);
      }
      const auto after = bench.program().flow_of(
          tuple_of(connection.protocol, connection.client, connection.frontend, interfaces().a));
      CHECK(std::memcmp(&before, &after, sizeof(hp_flow)) == 0);
    });
}

TEST_CASE("a pod that inherits an address inherits no flow") {
  for_every_way(kTcp, [](const Connection& connection) {
    Bench& bench = connection.bench;
    connection.request(kSyn);
    connection.reply(kSyn | kAck);
    // The same address, later, behind another veth.
    const Packet late = tcp(connection.client, connection.frontend, kAck);
    check_untouched(bench.from_pod(late, interfaces().b), late.frame());
    const Packet reply = tcp(connection.endpoint, connection.seen_client(), kAck);
    check_untouched(bench.to_pod(reply, interfaces().b), reply.frame());
    // Its own connection is its own, under the same ports.
    const Packet syn = tcp(connection.client, connection.frontend, kSyn);
    const Packet expected = syn.between(connection.seen_client(), connection.endpoint);
    if (connection.self()) {
      check_outcome(bench.from_pod(syn, interfaces().b), kRedirect, expected.turned());
    } else {
      check_outcome(bench.from_pod(syn, interfaces().b), kPass, expected);
    }
    CHECK(bench.program().flows().size() == 2);
  });
}

TEST_CASE("end_flows ends every flow, and no more") {
  Bench bench;
  const World& world = worlds()[0];
  bench.tables.serve(kTcp, {world.vip, 80}, {{world.a, 8080}});
  bench.publish();
  for (std::uint16_t port = 1; port <= 100; ++port) {
    bench.from_pod(tcp({world.a, port}, {world.vip, 80}, kSyn));
    bench.from_pod(tcp({world.a, port}, {world.vip, 80}, kSyn), interfaces().b);
  }
  CHECK(bench.program().end_all_flows() == 200);
  bench.model().end_all_flows();
  CHECK(bench.program().tuples().empty());
  CHECK(bench.program().end_all_flows() == 0);
  bench.check_tables();
  bench.from_pod(tcp({world.a, 1}, {world.vip, 80}, kSyn));
  bench.check_tables();
}
