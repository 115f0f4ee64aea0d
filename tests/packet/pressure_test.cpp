// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// The flow table when it gets tight: who has to make room, and who never.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/packet/bench.hpp"

using namespace hairpin::test;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t kChunkSize = 32;
constexpr std::uint32_t kMost = kChunkSize * HP_CHUNKS_PER_POD;

Settings small() {
  Settings settings;
  settings.chunk_size = kChunkSize;
  return settings;
}

const World& world() { return worlds()[0]; }

Socket frontend() { return {world().vip, 80}; }

Socket client(std::uint32_t n) { return {world().a, static_cast<std::uint16_t>(1 + n)}; }

void serve(Bench& bench) {
  bench.tables.serve(kTcp, frontend(), {{world().a, 8080}});
  bench.publish();
}

Packet syn(std::uint32_t n) { return tcp(client(n), frontend(), kSyn); }
Packet syn_ack(std::uint32_t n) { return tcp({world().a, 8080}, {world().vip, client(n).port}, kSyn | kAck); }

void establish(Bench& bench, std::uint32_t n, std::uint32_t ifindex = interfaces().a) {
  REQUIRE(bench.from_pod(syn(n), ifindex).verdict == kRedirect);
  REQUIRE(bench.from_pod(syn_ack(n), ifindex).verdict == kRedirect);
}

int state_of(Bench& bench, std::uint32_t n, std::uint32_t ifindex = interfaces().a) {
  const auto flow = bench.program().find_flow(tuple_of(kTcp, client(n), frontend(), ifindex));
  return flow ? flow->state : int{HP_FLOW_FREE};
}

}  // namespace

TEST_CASE("pressure: a pod's share grows by chunks, up to its cap") {
  Bench bench{small()};
  serve(bench);
  for (std::uint32_t n = 0; n < kMost; ++n) {
    REQUIRE(bench.program().interface(interfaces().a).chunk_count == std::max(1U, (n + kChunkSize - 1) / kChunkSize));
    establish(bench, n);
  }
  CHECK(bench.program().interface(interfaces().a).chunk_count == HP_CHUNKS_PER_POD);
  CHECK(bench.program().interface(interfaces().b).chunk_count == 1);
  bench.check_tables();
}

TEST_CASE("pressure: established flows are never displaced, the newcomer is dropped and counted") {
  Bench bench{small()};
  serve(bench);
  for (std::uint32_t n = 0; n < kMost; ++n) establish(bench, n);
  for (std::uint32_t n = kMost; n < kMost + 100; ++n) CHECK(bench.from_pod(syn(n)).verdict == kDrop);
  CHECK(bench.program().counter(Reason::HP_REASON_FLOWS_FULL) == 100);
  for (std::uint32_t n = 0; n < kMost; ++n) REQUIRE(state_of(bench, n) == HP_FLOW_ESTABLISHED);
  bench.check_tables();
  // One that closes makes room.
  bench.from_pod(tcp(client(5), frontend(), kRst));
  std::uint32_t tries = 0;
  while (bench.from_pod(syn(2000 + tries)).verdict == kDrop) REQUIRE(++tries <= kMost / 64);
  CHECK(state_of(bench, 5) == HP_FLOW_FREE);
  bench.check_tables();
}

TEST_CASE("pressure: half-open flows make room, the oldest first") {
  Bench bench{small()};
  serve(bench);
  for (std::uint32_t n = 0; n < kMost; ++n) bench.from_pod(syn(n));
  bench.check_tables();
  for (std::uint32_t n = kMost; n < kMost + kMost / 2; ++n) REQUIRE(bench.from_pod(syn(n)).verdict == kRedirect);
  CHECK(bench.program().flows().size() == kMost);
  // A handshake has time for as many newcomers as there are places.
  for (std::uint32_t n = 0; n < kMost / 2; ++n) CHECK(state_of(bench, n) == HP_FLOW_FREE);
  for (std::uint32_t n = kMost / 2; n < kMost + kMost / 2; ++n) CHECK(state_of(bench, n) == HP_FLOW_NEW);
  bench.check_tables();
}

TEST_CASE("pressure: when the chunks are used up, a pod lives with what it has") {
  Bench bench{small(), 4};  // of which each pod has one
  serve(bench);
  for (std::uint32_t n = 0; n < 3 * kChunkSize; ++n) establish(bench, n);
  CHECK(bench.program().interface(interfaces().a).chunk_count == 3);
  CHECK(bench.from_pod(syn(1000)).verdict == kDrop);
  // B has its first one still.
  for (std::uint32_t n = 0; n < kChunkSize; ++n) establish(bench, n, interfaces().b);
  CHECK(bench.from_pod(syn(1000), interfaces().b).verdict == kDrop);
  bench.check_tables();
}

TEST_CASE("pressure: a flood from one pod ends no established flow, its own or another's") {
  Bench bench{small()};
  serve(bench);
  constexpr std::uint32_t kKept = 200;
  for (std::uint32_t n = 0; n < kKept; ++n) {
    establish(bench, n, interfaces().b);
    establish(bench, n);
  }
  for (std::uint32_t n = 0; n < 50000; ++n) {
    const int verdict = bench.program().run(Hook::kFromPod, syn(1000 + n).frame(), interfaces().a).verdict;
    REQUIRE((verdict == kRedirect || verdict == kDrop));
  }
  CHECK(bench.program().interface(interfaces().a).chunk_count == HP_CHUNKS_PER_POD);
  for (const std::uint32_t ifindex : {interfaces().a, interfaces().b})
    for (std::uint32_t n = 0; n < kKept; ++n) {
      REQUIRE(state_of(bench, n, ifindex) == HP_FLOW_ESTABLISHED);
      const Packet data = tcp(client(n), frontend(), kAck, "data");
      check_outcome(bench.program().run(Hook::kFromPod, data.frame(), ifindex), kRedirect,
                    data.turned().between({world().vip, client(n).port}, {world().a, 8080}));
    }
  // B opens new ones as well.
  for (std::uint32_t n = kKept; n < 2 * kKept; ++n) {
    CHECK(bench.program().run(Hook::kFromPod, syn(n).frame(), interfaces().b).verdict == kRedirect);
  }
  CHECK(bench.program().inconsistencies() == "");
}

TEST_CASE("pressure: nobody cleans up for a day, and new connections succeed") {
  Bench bench{small()};
  serve(bench);
  for (std::uint32_t n = 0; n < kMost; ++n) establish(bench, n);
  CHECK(bench.from_pod(syn(5000)).verdict == kDrop);
  bench.age(24h + 1min);
  for (std::uint32_t n = 0; n < 2 * kMost; ++n) {
    REQUIRE(bench.from_pod(syn(5000 + n)).verdict == kRedirect);
    if (n % 4 == 0) bench.from_pod(syn_ack(5000 + n));
  }
  CHECK(bench.program().flows().size() == kMost);
  bench.check_tables();
}

TEST_CASE("pressure: the places of expired flows are free when they are needed") {
  Bench bench{small()};
  serve(bench);
  for (std::uint32_t n = 0; n < kMost; ++n) establish(bench, n);
  bench.age(25h);
  // The same clients again: each meets its own old flow.
  for (std::uint32_t n = 0; n < kMost; ++n) establish(bench, n);
  CHECK(bench.program().flows().size() == kMost);
  bench.check_tables();
}
