// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Tables, catalogue and reconciler on real maps.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "hairpin/dataplane.hpp"
#include "hairpin/reconcile.hpp"
#include "maps/catalogue.hpp"
#include "maps/decode.hpp"
#include "tests/support/lab.hpp"

namespace hairpin::test {

namespace {

using namespace std::chrono_literals;

Address address(const std::string& text) { return Address::parse(text).value(); }

/// Services s0, s1, ... with so many endpoints each, no two alike.
Desired services(std::size_t count, std::size_t endpoints) {
  Desired desired;
  for (std::size_t i = 0; i < count; ++i) {
    ServicePort port;
    port.service = fmt::format("shop/s{:06}", i);
    port.frontends = {{.address = address(fmt::format("10.96.{}.{}", i / 256, i % 256)), .port = 80}};
    for (std::size_t k = 0; k < endpoints; ++k) {
      const auto n = i * endpoints + k;
      port.endpoints.push_back(
          {.address = address(fmt::format("10.{}.{}.{}", n / 65536, n / 256 % 256, n % 256)), .port = 8080});
    }
    desired.push_back(std::move(port));
  }
  return desired;
}

/// Programs and maps, loaded but attached to nothing.
struct Loaded {
  explicit Loaded(const Config::Limits& limits)
      : dataplane{Dataplane::load({.bpffs = node.bpffs(), .limits = limits}).value()} {}

  Node node{{.pods = {}}};
  Dataplane dataplane;
};

Changes write_all(const Maps& maps, const Desired& desired) {
  auto reconciler = Reconciler::create(maps);
  REQUIRE_MESSAGE(reconciler, reconciler.error().to_string());
  auto changes = reconciler->apply(desired);
  REQUIRE_MESSAGE(changes, changes.error().to_string());
  return *changes;
}

std::size_t entries(const Maps& maps, const char* name) { return find_map(name)->entries(maps).value(); }

}  // namespace

TEST_CASE("a table reads, writes, erases and counts") {
  Loaded loaded{{.flows = 16384, .services = 20000, .backends = 20000}};
  const auto& names = loaded.dataplane.maps().names;
  // More than a batch holds.
  std::vector<std::uint32_t> keys;
  std::vector<hp_name> values;
  for (std::uint32_t i = 1; i <= 10000; ++i) {
    keys.push_back(i);
    hp_name& name = values.emplace_back();
    fmt::format_to_n(static_cast<char*>(name.name), sizeof name.name, "shop/{}", i);
  }
  REQUIRE(names.put_all(keys, values));
  const auto all = names.read_all().value();
  CHECK(all.size() == keys.size());
  CHECK(std::ranges::all_of(
      all, [](const auto& entry) { return fmt::format("shop/{}", entry.first) == entry.second.name; }));
  CHECK(std::string{names.find(77).value().value().name} == "shop/77");
  CHECK(names.erase(77).value());
  CHECK_FALSE(names.erase(77).value());
  CHECK_FALSE(names.find(77).value());
  CHECK(names.max_entries() == 20000);

  const auto folder = loaded.node.bpffs() / "maps";
  const auto missing = Table<std::uint32_t, hp_name>::open(folder / "hp_nothing");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ENOENT);
  CHECK_FALSE(Table<std::uint32_t, hp_slot>::open(folder / "hp_names"));
  CHECK_FALSE(Table<hp_addr, hp_name>::open(folder / "hp_names"));
}

TEST_CASE("a table that changes while it is read gives everything that stays, once") {
  Loaded loaded{{.flows = 16384, .services = 65536, .backends = 16}};
  const auto& names = loaded.dataplane.maps().names;
  constexpr std::uint32_t kStay = 5000;
  for (std::uint32_t i = 0; i < kStay; ++i) REQUIRE(names.put(i, hp_name{}));
  std::atomic<bool> done{false};
  std::jthread churn{[&] {
    for (std::uint32_t i = 0; !done; i = (i + 1) % 20000) {
      std::ignore = names.put(100000 + i, hp_name{});
      std::ignore = names.erase(100000 + (i + 10000) % 20000);
    }
  }};
  for (int round = 0; round < 20; ++round) {
    const auto all = names.read_all();
    REQUIRE_MESSAGE(all, all.error().to_string());
    std::set<std::uint32_t> seen;
    std::size_t stayed = 0;
    for (const auto& [key, value] : *all) {
      CHECK(seen.insert(key).second);
      if (key < kStay) ++stayed;
    }
    CHECK(stayed == kStay);
  }
  done = true;
}

TEST_CASE("services come, change and go in real maps, and only differences are written") {
  Loaded loaded{{.flows = 16384, .services = 64, .backends = 256}};
  const Maps& maps = loaded.dataplane.maps();
  Desired desired = services(10, 3);
  desired[4].endpoints.clear();
  desired[5].draining = {desired[5].endpoints.back()};
  desired[5].draining[0].terminating = true;
  desired[5].endpoints.pop_back();
  CHECK(write_all(maps, desired).ports.size() == 10);

  const auto views = read_services(maps).value();
  REQUIRE(views.size() == 10);
  for (std::size_t i = 0; i < views.size(); ++i) {
    CAPTURE(i);
    CHECK(views[i].service == desired[i].service);
    CHECK(views[i].frontend.to_string() + "/TCP" == describe(desired[i].frontends[0]));
    REQUIRE(views[i].endpoints.size() == desired[i].endpoints.size());
    for (std::size_t k = 0; k < desired[i].endpoints.size(); ++k) {
      CHECK(views[i].endpoints[k].at.address == desired[i].endpoints[k].address);
      CHECK(views[i].endpoints[k].state == HP_BACKEND_ACTIVE);
    }
    CHECK(views[i].draining.size() == desired[i].draining.size());
  }
  CHECK(entries(maps, "services") == 10);
  CHECK(entries(maps, "backends") == 27);
  CHECK(entries(maps, "slots") == 26);
  CHECK(entries(maps, "names") == 10);
  CHECK(entries(maps, "frontends") == 37);

  CHECK_FALSE(write_all(maps, desired).wrote);
  desired[3].endpoints.pop_back();
  CHECK(write_all(maps, desired).ports.size() == 1);
  CHECK(entries(maps, "slots") == 25);  // those given up count no more
  CHECK(write_all(maps, {}).ports.size() == 10);
  for (const char* name : {"services", "backends", "slots", "names"}) CHECK(entries(maps, name) == 0);
  CHECK(entries(maps, "frontends") == 37);  // flows may still go on
}

TEST_CASE("every map of the catalogue is pinned under its name and dumps from its pins alone") {
  Loaded loaded{{.flows = 16384, .services = 64, .backends = 256}};
  write_all(loaded.dataplane.maps(), services(2, 2));
  const auto folder = loaded.node.bpffs() / "maps";
  const auto maps = Maps::open(folder);
  REQUIRE(maps);
  std::set<std::string> pinned;
  for (const auto& each : std::filesystem::directory_iterator{folder}) pinned.insert(each.path().filename());
  std::set<std::string> known;
  for (const auto& map : catalogue()) {
    CAPTURE(map.name);
    known.insert("hp_" + std::string{map.name});
    const auto dump = map.dump(*maps);
    REQUIRE_MESSAGE(dump, dump.error().to_string());
    CHECK(dump->is_array());
    const auto count = map.entries(*maps);
    REQUIRE(count);
    CHECK(*count == dump->size());
    CHECK(*count <= map.max_entries(*maps));
    CHECK(nlohmann::ordered_json::parse(dump->dump()) == *dump);
  }
  CHECK(pinned == known);
  CHECK(find_map("frontends")->dump(*maps)->at(0)["roles"].size() == 1);
  CHECK(find_map("names")->dump(*maps)->size() == 2);
}

TEST_CASE("a dump of services is of one moment, whatever happens meanwhile") {
  Loaded loaded{{.flows = 16384, .services = 64, .backends = 4096}};
  const Maps& maps = loaded.dataplane.maps();
  Desired desired = services(8, 20);
  auto reconciler = Reconciler::create(maps).value();
  REQUIRE(reconciler.apply(desired));
  std::atomic<bool> done{false};
  std::jthread churn{[&] {
    for (std::size_t i = 0; !done; ++i) {
      auto& endpoints = desired[i % 8].endpoints;
      std::ranges::rotate(endpoints, endpoints.begin() + 1);
      endpoints[0].port = static_cast<std::uint16_t>(1 + i % 60000);
      std::ignore = reconciler.apply(desired);
      std::this_thread::sleep_for(5ms);
    }
  }};
  for (int round = 0; round < 50; ++round) {
    const auto views = read_services(maps);
    REQUIRE(views);
    CHECK(views->size() == 8);
    for (const auto& view : *views) {
      CHECK(view.endpoints.size() == 20);
      for (const auto& endpoint : view.endpoints) CHECK(endpoint.state == HP_BACKEND_ACTIVE);
    }
  }
  done = true;
}

TEST_CASE("10,000 services with 100,000 endpoints are written at once, one change in no time") {
  Loaded loaded{{.flows = 16384, .services = 65536, .backends = 262144}};
  Desired desired = services(10000, 10);
  auto reconciler = Reconciler::create(loaded.dataplane.maps());
  REQUIRE(reconciler);
  // This thread's own time: other tests may be running beside this one.
  const auto spent = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
  };
  const auto timed = [&](const auto& what) {
    const auto start = spent();
    what();
    return std::chrono::duration_cast<std::chrono::microseconds>(spent() - start);
  };
  const auto first = timed([&] { CHECK(reconciler->apply(desired)->ports.size() == 10000); });
  auto least = std::chrono::microseconds::max();
  for (int round = 0; round < 10; ++round) {
    ++desired[5000].endpoints[3].port;
    least = std::min(least, timed([&] { CHECK(reconciler->apply(desired)->ports.size() == 1); }));
  }
  MESSAGE("all: ", first.count(), " us, one change: ", least.count(), " us");
  CHECK(first < 1500ms);
  CHECK(least < 15ms);
  const auto dumped = timed([&] { CHECK(read_services(loaded.dataplane.maps())->size() == 10000); });
  MESSAGE("dump: ", dumped.count(), " us");
  CHECK(dumped < 3s);
}

}  // namespace hairpin::test
