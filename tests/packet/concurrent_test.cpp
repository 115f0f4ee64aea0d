// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Several CPUs on the same flows at once: in whatever order things happen, the flow table stays in order.
#include <doctest/doctest.h>

#include <atomic>
#include <random>
#include <thread>

#include "tests/packet/bench.hpp"

using namespace hairpin::test;
using namespace std::chrono_literals;

TEST_CASE("concurrent packets leave no half entry") {
  Settings settings;
  settings.chunk_size = 8;  // so that elements are taken from one another all the time
  Bench bench{settings, 70};
  for (const World& world : worlds())
    for (const Protocol protocol : kProtocols) {
      bench.tables.serve(protocol, {world.vip, 80}, {{world.a, 8080}});
      bench.tables.serve(protocol, {world.vip, 81}, {{world.a, 8080}});
      bench.tables.serve(protocol, {world.other_vip, 80}, {{world.a, 8080}, {world.b, 8080}});
    }
  bench.publish();

  std::atomic<int> strange = 0;
  const auto work = [&](unsigned seed) {
    std::mt19937 random{seed};
    const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>{0, n - 1}(random); };
    for (int i = 0; i < 30000; ++i) {
      const World& world = worlds()[below(2)];
      const Protocol protocol = kProtocols[below(2)];
      const auto port = static_cast<std::uint16_t>(1 + below(600));
      const Socket client{world.a, port};
      const Socket targets[] = {{world.vip, 80}, {world.vip, 81}, {world.other_vip, 80}, {world.b, 8080}};
      Packet packet = opening(protocol, client, targets[below(4)]);
      if (below(4) == 0) packet = answer(protocol, {world.a, 8080}, {world.vip, port});
      if (below(8) == 0) packet.flags = kRst;
      const std::uint32_t ifindex = below(4) == 0 ? interfaces().b : interfaces().a;
      const int verdict = bench.program().repeat(Hook::kFromPod, packet.frame(), ifindex, 1);
      if (verdict != kPass && verdict != kRedirect && verdict != kDrop) ++strange;
    }
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(4);
    for (unsigned i = 0; i < 4; ++i) threads.emplace_back(work, i);
  }
  CHECK(strange == 0);
  CHECK(bench.program().inconsistencies() == "");
  CHECK_FALSE(bench.program().flows().empty());
}

TEST_CASE("concurrent packets take elements from one another at full speed") {
  Settings settings;
  settings.udp_new = 0ns;  // each packet finds its flow expired, ends it, and opens another in the next free element
  settings.chunk_size = 4;
  Bench bench{settings, 2};
  // The endpoint is the frontend: translating changes nothing, so the kernel can repeat the packet without us.
  const World& world = worlds()[0];
  const Socket frontend{world.vip, 80};
  bench.tables.serve(kUdp, frontend, {frontend});
  bench.publish();
  const auto work = [&](std::uint16_t first_port) {
    for (std::uint16_t i = 0; i < 60; ++i) {
      // Ports of its own and ports that others use as well.
      const auto port = static_cast<std::uint16_t>(i % 2 == 0 ? first_port : 1 + i % 3);
      bench.program().repeat(Hook::kFromPod, udp({world.a, port}, frontend).frame(), interfaces().a, 1000);
    }
  };
  for (int round = 0; round < 3; ++round) {
    {
      std::vector<std::jthread> threads;
      threads.reserve(4);
      for (const std::uint16_t first_port :
           {std::uint16_t{100}, std::uint16_t{200}, std::uint16_t{300}, std::uint16_t{400}})
        threads.emplace_back(work, first_port);
    }
    REQUIRE(bench.program().inconsistencies() == "");
  }
  CHECK_FALSE(bench.program().flows().empty());
}

TEST_CASE("concurrent packets that open the same flow open one") {
  Settings settings;
  settings.chunk_size = 512;  // room for the losers as well: under pressure a flow without replies may give way
  settings.udp_new = 1h;      // however busy the machine is
  Bench bench{settings, 34};
  const World& world = worlds()[0];
  const Socket frontend{world.vip, 80};
  bench.tables.serve(kUdp, frontend, {{world.a, 8080}});
  bench.publish();

  // Two threads, in step: only so do their packets meet within the nanoseconds that it takes.
  constexpr std::uint32_t kFlows = 5000;
  std::atomic<std::uint32_t> arrived = 0;
  const auto work = [&] {
    for (std::uint32_t i = 0; i < kFlows; ++i) {
      const Bytes frame = udp({world.a, static_cast<std::uint16_t>(1 + i)}, frontend).frame();
      ++arrived;
      while (arrived < 2 * (i + 1)) std::this_thread::yield();
      bench.program().repeat(Hook::kFromPod, frame, interfaces().a, 1);
    }
  };
  {
    const std::jthread first{work};
    const std::jthread second{work};
  }
  CHECK(bench.program().inconsistencies() == "");
  CHECK(bench.program().flows().size() == kFlows);
}

TEST_CASE("a flow that another CPU is just opening is left to it") {
  for (const World& world : worlds())
    for (const Protocol protocol : kProtocols) {
      Bench bench;
      Program& program = bench.program();
      const Socket client{world.a, 40000};
      const Socket frontend{world.vip, 80};
      bench.tables.serve(protocol, frontend, {{world.a, 8080}});
      bench.publish();
      // The other one has its element and the request's place, and goes on in a moment.
      hp_flow opening_flow{};
      opening_flow.state = HP_FLOW_OPENING;
      opening_flow.tuple[HP_REQUEST] = tuple_of(protocol, client, frontend, interfaces().a);
      const std::uint32_t element = program.interface(interfaces().a).chunks[0] * Settings{}.chunk_size;
      program.write_flow(element, opening_flow);
      program.write_tuple(opening_flow.tuple[HP_REQUEST], element, HP_REQUEST);

      CHECK(program.run(Hook::kFromPod, opening(protocol, client, frontend).frame(), interfaces().a).verdict == kDrop);
      CHECK(program.counter(Reason::HP_REASON_FLOW_CONTENDED) == 1);
      // Nothing but what the other one has is there, and it is as it was.
      REQUIRE(program.flows().size() == 1);
      CHECK(program.flows()[0].first == element);
      CHECK(program.flows()[0].second.generation == 0);
      CHECK(program.tuples().size() == 1);
      // Others get elements of their own.
      const Packet other = opening(protocol, {world.a, 40001}, frontend);
      CHECK(program.run(Hook::kFromPod, other.frame(), interfaces().a).verdict == kRedirect);
      CHECK(program.flow_of(opening_flow.tuple[HP_REQUEST]).state == HP_FLOW_OPENING);
    }
}
