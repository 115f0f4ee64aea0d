// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Which endpoint a new flow gets.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/packet/bench.hpp"

using namespace hairpin::test;

namespace {

constexpr int kEndpoints = 8;

std::vector<Socket> endpoints_of(const World& world) {
  std::vector<Socket> out;
  for (std::uint16_t port = 8000; port < 8000 + kEndpoints; ++port)
    out.emplace_back(port % 2 == 0 ? world.a : world.b, port);
  return out;
}

void open_flow(Bench& bench, const Socket& client, const Socket& frontend) {
  const std::string differences = bench.compare(Hook::kFromPod, udp(client, frontend).frame(), interfaces().a);
  REQUIRE_MESSAGE(differences.empty(), differences);
}

void check_even(const Bench& bench, int flows) {
  std::map<std::uint32_t, int> chosen;
  for (const auto& [element, flow] : bench.program().flows()) ++chosen[flow.backend];
  CHECK(chosen.size() == kEndpoints);
  const double mean = static_cast<double>(flows) / kEndpoints;
  double chi_square = 0;
  for (const auto& [backend, count] : chosen) chi_square += (count - mean) * (count - mean) / mean;
  // 7 degrees of freedom: beyond 29.9 one time in 10,000. The seed is fixed, so this does not come and go.
  CAPTURE(chi_square);
  CHECK(chi_square < 29.9);
}

}  // namespace

TEST_CASE("new flows of one client to one frontend spread evenly over the endpoints") {
  Settings settings;
  settings.chunk_size = 256;
  Bench bench{settings};
  for (const World& world : worlds()) {
    bench.forget();
    bench.tables = {};
    bench.tables.serve(kUdp, {world.vip, 80}, endpoints_of(world));
    bench.publish();
    for (std::uint16_t i = 0; i < 8000; ++i)
      open_flow(bench, {world.a, static_cast<std::uint16_t>(1000 + i)}, {world.vip, 80});
    check_even(bench, 8000);
  }
}

TEST_CASE("new flows from one port to many frontends spread evenly over the endpoints") {
  Settings settings;
  settings.chunk_size = 256;
  Bench bench{settings};
  for (const World& world : worlds()) {
    bench.forget();
    bench.tables = {};
    bench.tables.serve(kUdp, {world.vip, 1}, endpoints_of(world));
    const hp_service service = bench.tables.service(kUdp, {world.vip, 1});
    for (std::uint16_t port = 2; port <= 900; ++port) {
      bench.tables.serve(kUdp, {world.vip, port}, {});
      bench.tables.service(kUdp, {world.vip, port}) = service;
    }
    bench.publish();
    for (std::uint16_t port = 1; port <= 900; ++port) open_flow(bench, {world.a, 40000}, {world.vip, port});
    check_even(bench, 900);
  }
}

TEST_CASE("another seed, another choice") {
  const World& world = worlds()[0];
  std::map<std::uint32_t, std::vector<std::uint32_t>> choices;
  for (const std::uint32_t seed : {1U, 2U}) {
    Settings settings;
    settings.seed = seed;
    Bench bench{settings};
    bench.tables.serve(kTcp, {world.vip, 80}, {{world.a, 1}, {world.a, 2}, {world.b, 3}});
    bench.publish();
    for (std::uint16_t port = 1; port <= 50; ++port) {
      bench.from_pod(tcp({world.a, port}, {world.vip, 80}, kSyn));
      choices[seed].push_back(
          bench.program().flow_of(tuple_of(kTcp, {world.a, port}, {world.vip, 80}, interfaces().a)).backend);
    }
  }
  CHECK(choices[1] != choices[2]);
}

TEST_CASE("slots of another generation are not followed") {
  Bench bench;
  for (const World& world : worlds())
    for (const Protocol protocol : kProtocols) {
      bench.forget();
      const Socket frontend{world.vip, 80};
      bench.tables.serve(protocol, frontend, {{world.a, 8080}, {world.b, 8080}});
      bench.tables.spoil_slots(protocol, frontend);
      bench.publish();
      CHECK(bench.from_pod(opening(protocol, {world.a, 40000}, frontend)).verdict == kDrop);
      CHECK(bench.program().counter(Reason::HP_REASON_SERVICE_CHANGED) == 1);
      CHECK(bench.program().flows().empty());
      bench.tables.spoil_slots(protocol, frontend);
      bench.publish();
      CHECK(bench.from_pod(opening(protocol, {world.a, 40000}, frontend)).verdict != kDrop);
      bench.check_tables();
    }
}

TEST_CASE("a slot beyond the tables is not followed") {
  Bench bench;
  const World& world = worlds()[0];
  bench.tables.serve(kTcp, {world.vip, 80}, {{world.a, 8080}});
  bench.publish();
  Tables broken = bench.tables;
  broken.service(kTcp, {world.vip, 80}).slots = hp_slots_pack(0xffffff, 0xfffff, 1);
  bench.program().fill(broken);
  const auto outcome =
      bench.program().run(Hook::kFromPod, tcp({world.a, 40000}, {world.vip, 80}, kSyn).frame(), interfaces().a);
  CHECK(outcome.verdict == kDrop);
  CHECK(bench.program().counter(Reason::HP_REASON_SERVICE_CHANGED) == 1);
}
