// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "loader/reconcile/contents.hpp"
#include "loader/reconcile/planner.hpp"
#include "tests/unit/describe.hpp"
#include "tests/unit/fake_maps.hpp"

using namespace hairpin;
using namespace std::chrono_literals;
using test::FakeMaps;

namespace {

constexpr std::uint32_t kRoom = 1000;  // services and backends where the limits are not the point

Address address(const std::string& text) { return Address::parse(text).value(); }

Frontend frontend(const std::string& text, std::uint16_t port = 80, Protocol protocol = Protocol::kTcp) {
  return {.address = address(text), .port = port, .protocol = protocol};
}

Endpoint endpoint(const std::string& text, std::uint16_t port = 8080) {
  return {.address = address(text), .port = port};
}

std::vector<Endpoint> endpoints(std::size_t count, std::uint16_t port = 8080) {
  std::vector<Endpoint> made;
  for (std::size_t i = 0; i < count; ++i) {
    made.push_back(endpoint(fmt::format("10.{}.{}.{}", 100 + i / 65536, i / 256 % 256, i % 256), port));
  }
  return made;
}

ServicePort port(const std::string& service, std::vector<Frontend> frontends, std::vector<Endpoint> ready,
                 const std::string& port_name = "") {
  return {.service = service,
          .port_name = port_name,
          .frontends = std::move(frontends),
          .endpoints = std::move(ready),
          .draining = {}};
}

/// An endpoint on its way out that keeps the connections it has.
Endpoint leaving(Endpoint endpoint) {
  endpoint.terminating = true;
  return endpoint;
}

// ---- what a packet would see ---------------------------------------------------------------------------------------

using Seen = std::map<std::string, std::vector<std::string>>;  // frontend -> endpoints, sorted

std::string text_of(const hp_frontend& key) {
  return describe(Frontend{
      .address = Address{key.address}, .port = ntohs(key.port), .protocol = static_cast<Protocol>(key.protocol)});
}

std::uint32_t roles_of(const FakeMaps& maps, const hp_addr& key) {
  const auto gate = maps.frontends.entries.find(key);
  return gate == maps.frontends.entries.end() ? 0 : gate->second.roles;
}

template <typename Value>
Value at(const test::FakeTable<std::uint32_t, Value>& table, std::uint32_t index) {
  const auto found = table.entries.find(index);
  return found == table.entries.end() ? Value{} : found->second;
}

/// Where each frontend leads, and in `faults` what is wrong on the way there.
Seen look(const FakeMaps& maps, std::vector<std::string>& faults) {
  Seen seen;
  for (const auto& [key, service] : maps.services.entries) {
    const auto name = text_of(key);
    auto& to = seen[name];
    if (!maps.names.entries.contains(service.service)) faults.push_back(name + " is of a service without a name");
    if ((roles_of(maps, key.address) & HP_ROLE_FRONTEND) == 0) faults.push_back(name + " is not in the gate");
    for (std::uint32_t i = 0; i < hp_slots_count(service.slots); ++i) {
      const hp_slot slot = at(maps.slots, hp_slots_base(service.slots) + i);
      if (slot.generation != hp_slots_generation(service.slots)) {
        faults.push_back(name + " has a slot of another generation");
        continue;
      }
      const hp_backend backend = at(maps.backends, slot.backend);
      to.push_back(describe(Address{backend.address}, ntohs(backend.port)));
      if (slot.backend == 0) faults.push_back(name + " leads to backend 0");
      if (backend.state == HP_BACKEND_FREE) faults.push_back(name + " leads to a free backend");
      if (backend.service != service.service) faults.push_back(name + " leads to another service's backend");
      if (backend.protocol != key.protocol) faults.push_back(name + " leads to another protocol");
      if ((roles_of(maps, backend.address) & HP_ROLE_ENDPOINT) == 0) {
        faults.push_back(name + ": its endpoint " + to.back() + " is not in the gate");
      }
    }
    std::ranges::sort(to);
  }
  return seen;
}

Seen wanted(const Desired& desired) {
  Seen seen;
  for (const auto& each : desired) {
    for (const auto& at : each.frontends) {
      auto& to = seen[describe(at)];
      for (const auto& endpoint : each.endpoints) to.push_back(describe(endpoint.address, endpoint.port));
      std::ranges::sort(to);
    }
  }
  return seen;
}

std::map<Address, std::uint32_t> wanted_roles(const Desired& desired) {
  std::map<Address, std::uint32_t> roles;
  for (const auto& each : desired) {
    for (const auto& frontend : each.frontends) roles[frontend.address] |= HP_ROLE_FRONTEND;
    for (const auto* list : {&each.endpoints, &each.draining}) {
      for (const auto& endpoint : *list) roles[endpoint.address] |= HP_ROLE_ENDPOINT;
    }
  }
  return roles;
}

/// service, endpoint, protocol -> index and epoch: a flow goes on as long as these stay.
using Lives = std::map<std::string, std::pair<std::uint32_t, std::uint32_t>>;

std::string name_of(const FakeMaps& maps, std::uint32_t id) {
  const auto name = maps.names.entries.find(id);
  return name == maps.names.entries.end() ? "?" : name->second.name;
}

std::string life(const std::string& service, const Address& at, std::uint16_t port, Protocol protocol) {
  return fmt::format("{} {}/{}", service, describe(at, port), to_string(protocol));
}

Lives lives(const FakeMaps& maps, std::vector<std::string>& faults) {
  Lives all;
  for (const auto& [index, backend] : maps.backends.entries) {
    if (backend.state == HP_BACKEND_FREE) continue;
    const auto name = life(name_of(maps, backend.service), Address{backend.address}, ntohs(backend.port),
                           static_cast<Protocol>(backend.protocol));
    if (!all.emplace(name, std::pair{index, backend.epoch}).second) faults.push_back(name + " is there twice");
  }
  return all;
}

// ---- a node
// ----------------------------------------------------------------------------------------------------------

/// Maps and whoever writes them. Every single write is looked at: each frontend must then lead where it led before or
/// where it shall lead; nothing that was given up less than kRest ago may be written.
class Node {
 public:
  explicit Node(std::uint32_t max_services = kRoom, std::uint32_t max_backends = kRoom)
      : maps{max_services, max_backends} {
    watch(maps.frontends);
    watch(maps.services);
    watch(maps.slots);
    watch(maps.backends);
    watch(maps.names);
    restart();
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Another agent takes over.
  void restart() {
    stopped = false;
    planner.emplace(read_contents(maps).value());
    // What a process does not know it can't keep from: a restart takes longer than any reader stays.
    now += kRest;
    for (auto& [role, last] : roles_used) last = now;  // nor when others last used a role
  }

  /// Dies after that many writes, if it is given. Returns what it would have reported.
  Changes apply(const Desired& desired, std::size_t dies_after = SIZE_MAX) {
    std::vector<std::string> ignored;
    before = look(maps, ignored);
    const Lives lived = lives(maps, ignored);
    after = wanted(desired);
    may_go.clear();
    for (const auto& [at, roles] : wanted_roles(desired)) {
      for (const std::uint32_t role : {HP_ROLE_FRONTEND, HP_ROLE_ENDPOINT}) {
        if ((roles & role) != 0) roles_used[{at, role}] = now;
      }
    }
    writes = 0;
    writes_left = dies_after;
    Changes changes;
    const Plan plan = planner->plan(desired, now, changes);
    for (const auto& refusal : changes.refused) keep(refusal);
    const auto written = write(plan, maps);
    CHECK(written.has_value() == (writes_left > 0));
    CHECK(changes.wrote == !plan.empty());
    if (written && changes.refused.empty()) check_result(desired, lived);
    CHECK(fmt::format("{}", fmt::join(faults, "\n")) == "");
    return changes;
  }

  void wait(Clock::duration time) { now += time; }

  FakeMaps maps;
  std::optional<Planner> planner;
  Clock::time_point now{1h};
  std::size_t writes = 0;
  bool whole_before = true;  ///< false: what is there at first is broken, so only the result is looked at
  std::vector<std::string> faults;

 private:
  template <typename Key, typename Value>
  void watch(test::FakeTable<Key, Value>& table) {
    table.stopped = &stopped;
    table.on_write = [this](const Key& key, const Value* old, const Value* fresh) {
      ++writes;
      if constexpr (std::is_same_v<Value, hp_service>) rest(old);
      if constexpr (std::is_same_v<Value, hp_slot>) check_rest(slots_given_up, key, "slot");
      if constexpr (std::is_same_v<Value, hp_backend>) {
        if (fresh->state == HP_BACKEND_FREE) {
          backends_given_up[key] = now;
        } else if (!old || old->state == HP_BACKEND_FREE) {
          check_rest(backends_given_up, key, "backend");
          if (old && fresh->epoch != old->epoch)
            faults.push_back(fmt::format("backend {} begins with another epoch", key));
        } else if (old->epoch != fresh->epoch || std::memcmp(old, fresh, offsetof(hp_backend, state)) != 0) {
          faults.push_back(fmt::format("backend {} became another while in use", key));
        }
      }
      check_step();
      if (writes_left != SIZE_MAX) --writes_left;
      return writes_left > 0;
    };
  }

  void rest(const hp_service* old) {
    if (!old) return;
    for (const auto& [key, service] : maps.services.entries) {
      if (service.slots == old->slots) return;
    }
    for (std::uint32_t i = 0; i < hp_slots_count(old->slots); ++i) slots_given_up[hp_slots_base(old->slots) + i] = now;
  }

  void check_rest(const std::map<std::uint32_t, Clock::time_point>& given_up, std::uint32_t index, const char* what) {
    const auto since = given_up.find(index);
    if (since != given_up.end() && now - since->second < kRest) {
      faults.push_back(fmt::format("{} {} was used again too early", what, index));
    }
  }

  /// What nobody uses any more may stay, for a while.
  void check_resting_roles() {
    for (const auto& [key, gate] : maps.frontends.entries) {
      for (const std::uint32_t role : {HP_ROLE_FRONTEND, HP_ROLE_ENDPOINT}) {
        if ((gate.roles & role) == 0) continue;
        const Address at{key};
        const auto last = roles_used.find({at, role});
        if (last == roles_used.end()) {
          faults.push_back(at.to_string() + " has a role that it never had");
        } else if (now - last->second > kRolesRest) {
          faults.push_back(at.to_string() + " has a role for too long");
        }
      }
    }
  }

  void check_step() {
    if (!whole_before) return;
    const Seen seen = look(maps, faults);
    const auto at = [](const Seen& all, const std::string& name) {
      const auto found = all.find(name);
      return found == all.end() ? std::nullopt : std::optional{found->second};
    };
    std::set<std::string> names;
    for (const Seen* all : std::initializer_list<const Seen*>{&before, &after, &seen}) {
      for (const auto& [name, to] : *all) names.insert(name);
    }
    for (const auto& name : names) {
      const auto now_at = at(seen, name);
      if (!now_at && may_go.contains(name)) continue;
      if (now_at != at(before, name) && now_at != at(after, name)) faults.push_back(name + " is neither old nor new");
    }
  }

  /// A refused one stays as it was; what it was to get from another goes if the other does not want it any more.
  void keep(const Refusal& refusal) {
    for (const auto& frontend : refusal.frontends) {
      const auto name = describe(frontend);
      may_go.insert(name);
      const auto old = before.find(name);
      if (old == before.end()) {
        after.erase(name);
      } else {
        after[name] = old->second;
      }
    }
  }

  void check_result(const Desired& desired, const Lives& lived) {
    if (look(maps, faults) != wanted(desired)) faults.emplace_back("the result is not what was wanted");
    std::map<std::string, std::uint8_t> states;
    std::set<std::string> names;
    for (const auto& each : desired) {
      names.insert(each.service);
      for (const auto* list : {&each.endpoints, &each.draining}) {
        for (const auto& endpoint : *list) {
          const bool active = list == &each.endpoints && !endpoint.terminating;
          auto& state = states[life(each.service, endpoint.address, endpoint.port, each.frontends.front().protocol)];
          if (state != HP_BACKEND_ACTIVE) state = active ? HP_BACKEND_ACTIVE : HP_BACKEND_TERMINATING;
        }
      }
    }
    for (const auto& [at, due] : wanted_roles(desired)) {
      if ((roles_of(maps, at.raw()) & due) != due) faults.push_back(at.to_string() + " lacks roles");
    }
    if (whole_before) check_resting_roles();
    for (const auto& [id, name] : maps.names.entries) {
      if (names.erase(name.name) == 0)
        faults.push_back(fmt::format("the name {} is there for nothing, or twice", name.name));
    }
    for (const auto& name : names) faults.push_back(fmt::format("the name {} is missing", name));

    const Lives live = lives(maps, faults);
    for (const auto& [name, where] : live) {
      const auto due = states.find(name);
      if (due == states.end()) {
        faults.push_back(name + " is still there");
      } else if (maps.backends.entries[where.first].state != due->second) {
        faults.push_back(name + " is in the wrong state");
      }
      const auto old = lived.find(name);
      if (whole_before && old != lived.end() && old->second != where)
        faults.push_back("flows to " + name + " have ended for nothing");
    }
    for (const auto& [name, due] : states) {
      if (!live.contains(name)) faults.push_back(name + " is missing");
    }
    for (const auto& [name, where] : lived) {
      if (!live.contains(name) && maps.backends.entries[where.first].epoch == where.second) {
        faults.push_back("flows to " + name + " go on");
      }
    }
  }

  Seen before;
  Seen after;
  std::set<std::string> may_go;
  std::size_t writes_left = SIZE_MAX;
  bool stopped = false;
  std::map<std::uint32_t, Clock::time_point> slots_given_up;
  std::map<std::uint32_t, Clock::time_point> backends_given_up;
  std::map<std::pair<Address, std::uint32_t>, Clock::time_point> roles_used;  // last
};

std::vector<std::string> texts(const Changes& changes) {
  std::vector<std::string> all;
  for (const auto& change : changes.ports) all.push_back(describe(change));
  for (const auto& refusal : changes.refused) all.push_back(describe(refusal));
  return all;
}

using Texts = std::vector<std::string>;

hp_backend backend_of(const Node& node, const Endpoint& endpoint) {
  for (const auto& [index, backend] : node.maps.backends.entries) {
    if (Address{backend.address} == endpoint.address && ntohs(backend.port) == endpoint.port) return backend;
  }
  FAIL("no such backend");
  return {};
}

}  // namespace

TEST_CASE("a service comes, changes and goes") {
  Node node;
  const auto web = frontend("10.96.0.10");
  CHECK(texts(node.apply({port("shop/web", {web}, {endpoint("10.1.0.1"), endpoint("10.1.0.2")}, "http")})) ==
        Texts{"shop/web http added: 10.96.0.10:80/TCP, 2 endpoints"});
  CHECK(texts(node.apply({port("shop/web", {web}, {endpoint("10.1.0.2")}, "http")})) ==
        Texts{"shop/web http changed: 10.96.0.10:80/TCP, 1 endpoint"});
  CHECK(texts(node.apply({port("shop/web", {web}, {}, "http")})) ==
        Texts{"shop/web http changed: 10.96.0.10:80/TCP, 0 endpoints"});
  CHECK(texts(node.apply({})) == Texts{"shop/web http removed: 10.96.0.10:80/TCP"});
  CHECK(node.maps.frontends.entries.size() == 3);
  node.wait(kRolesRest);
  node.apply({});
  CHECK(node.maps.frontends.entries.empty());
  CHECK(node.maps.services.entries.empty());
  CHECK(node.maps.names.entries.empty());
}

TEST_CASE("where nothing changed nothing is written") {
  Node node;
  const Desired desired{
      port("shop/api", {frontend("10.96.0.20"), frontend("10.96.0.21")}, {endpoint("10.1.0.1"), endpoint("10.1.0.3")}),
      port("shop/none", {frontend("10.96.0.30")}, {}),
      port("shop/six", {frontend("fd00:96::1")}, {endpoint("fd00:1::1")}),
  };
  node.apply(desired);
  CHECK(node.writes > 0);
  SUBCASE("by the same process") {}
  SUBCASE("by the next one") { node.restart(); }
  SUBCASE("by the next one, much later") {
    node.wait(24h);
    node.restart();
  }
  const auto changes = node.apply(desired);
  CHECK(node.writes == 0);
  CHECK_FALSE(changes.wrote);
  CHECK(texts(changes).empty());
}

TEST_CASE("a changed endpoint writes as little as it touches") {
  Node node;
  Desired desired;
  for (int i = 0; i < 100; ++i) {
    desired.push_back(port(fmt::format("shop/s{:03}", i), {frontend(fmt::format("10.96.1.{}", i))},
                           {endpoint(fmt::format("10.1.1.{}", i)), endpoint(fmt::format("10.1.2.{}", i))}));
  }
  node.apply(desired);
  desired[50].endpoints[0] = endpoint("10.1.1.200");
  node.apply(desired);
  // A backend, two slots, a gate, the service; then a backend that went.
  CHECK(node.writes == 6);
}

TEST_CASE("an endpoint that goes ends its flows, one that terminates keeps them") {
  Node node;
  const auto one = endpoint("10.1.0.1");
  const auto two = endpoint("10.1.0.2");
  Desired desired{port("shop/web", {frontend("10.96.0.10")}, {one, two})};
  node.apply(desired);
  const auto epoch = backend_of(node, one).epoch;

  desired[0].endpoints = {two};
  desired[0].draining = {leaving(one)};
  node.apply(desired);
  CHECK(backend_of(node, one).state == HP_BACKEND_TERMINATING);
  CHECK(backend_of(node, one).epoch == epoch);

  desired[0].endpoints = {one, two};
  desired[0].draining = {};
  node.apply(desired);
  CHECK(backend_of(node, one).state == HP_BACKEND_ACTIVE);
  CHECK(backend_of(node, one).epoch == epoch);

  desired[0].endpoints = {two};
  node.apply(desired);
  CHECK(backend_of(node, one).state == HP_BACKEND_FREE);
  CHECK(backend_of(node, one).epoch == epoch + 1);
}

TEST_CASE("an address keeps its role for as long as a flow may be idle after its last use") {
  Node node;
  const auto stays = port("shop/web", {frontend("10.96.0.10")}, {endpoint("10.1.0.1")});
  const auto goes = port("shop/api", {frontend("10.96.0.20")}, {endpoint("10.1.0.1"), endpoint("10.1.0.2")});
  const auto vip = address("10.96.0.20").raw();
  const auto endpoint_of_both = address("10.1.0.1").raw();
  const auto endpoint_of_one = address("10.1.0.2").raw();
  const auto roles = [&] {
    return std::tuple{roles_of(node.maps, vip), roles_of(node.maps, endpoint_of_one),
                      roles_of(node.maps, endpoint_of_both)};
  };
  const std::tuple all{HP_ROLE_FRONTEND, HP_ROLE_ENDPOINT, HP_ROLE_ENDPOINT};
  node.apply({stays, goes});
  node.apply({stays});
  CHECK(roles() == all);
  node.wait(kRolesRest - 1min);
  node.apply({stays});
  CHECK(node.writes == 0);
  CHECK(roles() == all);

  SUBCASE("it goes then") {
    node.wait(1min);
    node.apply({stays});
    CHECK(roles() == std::tuple{0, 0, HP_ROLE_ENDPOINT});
  }
  SUBCASE("unless it was used again") {
    node.apply({stays, goes});
    node.wait(1min);
    node.apply({stays});
    CHECK(roles() == all);
    node.wait(kRolesRest);
    node.apply({stays});
    CHECK(roles() == std::tuple{0, 0, HP_ROLE_ENDPOINT});
  }
  SUBCASE("a new agent gives it the time again") {
    node.restart();
    node.apply({stays});
    CHECK(node.writes == 0);
    node.wait(kRolesRest - 1min);
    node.apply({stays});
    CHECK(roles() == all);
    node.wait(1min);
    node.apply({stays});
    CHECK(roles() == std::tuple{0, 0, HP_ROLE_ENDPOINT});
  }
  SUBCASE("the role that is used stays when the other goes") {
    auto both = stays;
    both.frontends = {frontend("10.1.0.2")};
    node.apply({both});
    CHECK(roles_of(node.maps, endpoint_of_one) == (HP_ROLE_FRONTEND | HP_ROLE_ENDPOINT));
    node.wait(kRolesRest);
    node.apply({both});
    CHECK(roles_of(node.maps, endpoint_of_one) == HP_ROLE_FRONTEND);
  }
}

TEST_CASE("where the gate has no room left, the role that has rested longest gives way") {
  constexpr std::uint32_t kServices = 4;
  constexpr std::uint32_t kBackends = 4;
  Node node{kServices, kBackends};
  for (int i = 0; i < 20; ++i) {
    node.apply({port("shop/web", {frontend(fmt::format("10.96.0.{}", i))}, {endpoint(fmt::format("10.1.0.{}", i))})});
    node.wait(kRest);
  }
  // In use two, resting as many as there may be frontends and backends.
  CHECK(node.maps.frontends.entries.size() == 2 + kServices + kBackends);
  CHECK(roles_of(node.maps, address("10.96.0.15").raw()) == HP_ROLE_FRONTEND);
  CHECK(roles_of(node.maps, address("10.96.0.14").raw()) == 0);
}

TEST_CASE("an address that moves from one service to another stays in the gate") {
  const auto moving = endpoint("10.1.0.1");
  const auto other = endpoint("10.1.0.2");
  for (const bool first_loses : {true, false}) {
    CAPTURE(first_loses);
    Node node;
    Desired desired{port("shop/a", {frontend("10.96.0.1")}, {other}), port("shop/b", {frontend("10.96.0.2")}, {other})};
    desired[first_loses ? 0 : 1].endpoints = {moving};
    node.apply(desired);
    std::swap(desired[0].endpoints, desired[1].endpoints);
    node.apply(desired);
    CHECK(roles_of(node.maps, moving.address.raw()) == HP_ROLE_ENDPOINT);
  }
}

TEST_CASE("a frontend that moves from one service to another is never gone") {
  for (const bool first_loses : {true, false}) {
    CAPTURE(first_loses);
    Node node;
    Desired desired{port("shop/a", {frontend("10.96.0.1")}, {endpoint("10.1.0.1")}),
                    port("shop/b", {frontend("10.96.0.2")}, {endpoint("10.1.0.2")})};
    desired[first_loses ? 0 : 1].frontends.push_back(frontend("10.96.0.3"));
    node.apply(desired);
    desired[first_loses ? 0 : 1].frontends.pop_back();
    desired[first_loses ? 1 : 0].frontends.push_back(frontend("10.96.0.3"));
    node.apply(desired);
    CHECK(look(node.maps, node.faults).contains("10.96.0.3:80/TCP"));
  }
}

TEST_CASE("an endpoint that moves between a service's ports keeps its flows") {
  Node node;
  const auto moving = endpoint("10.1.0.1");
  Desired desired{port("shop/web", {frontend("10.96.0.1", 80)}, {moving}, "a"),
                  port("shop/web", {frontend("10.96.0.1", 81)}, {}, "b")};
  node.apply(desired);
  const auto epoch = backend_of(node, moving).epoch;
  std::swap(desired[0].endpoints, desired[1].endpoints);
  node.apply(desired);
  CHECK(backend_of(node, moving).epoch == epoch);
}

TEST_CASE("ports of one service share a backend, each with its own opinion of its state") {
  Node node;
  const auto shared = endpoint("10.1.0.1");
  Desired desired{port("shop/web", {frontend("10.96.0.1", 80)}, {shared}, "a"),
                  port("shop/web", {frontend("10.96.0.1", 81)}, {}, "b")};
  desired[1].draining = {leaving(shared)};
  node.apply(desired);
  CHECK(backend_of(node, shared).state == HP_BACKEND_ACTIVE);
  node.restart();
  node.apply(desired);
  CHECK(node.writes == 0);
  desired[0].endpoints = {};
  node.apply(desired);
  CHECK(backend_of(node, shared).state == HP_BACKEND_TERMINATING);
}

TEST_CASE("two ports without a name are two") {
  Node node;
  const Desired desired{port("shop/web", {frontend("10.96.0.1", 80)}, {endpoint("10.1.0.1")}),
                        port("shop/web", {frontend("10.96.0.1", 81)}, {endpoint("10.1.0.2")})};
  node.apply(desired);
  node.apply(desired);
  CHECK(node.writes == 0);
}

TEST_CASE("the order of what is desired does not matter") {
  Node node;
  Desired desired;
  for (int i = 0; i < 20; ++i) {
    desired.push_back(
        port(fmt::format("shop/s{:02}", i), {frontend(fmt::format("10.96.1.{}", i))}, {endpoint("10.1.0.1")}));
  }
  node.apply(desired);
  std::ranges::reverse(desired);
  node.apply(desired);
  CHECK(node.writes == 0);
}

TEST_CASE("slots and backends rest before they are used again") {
  Node node{kRoom, 2};
  Desired desired{port("shop/web", {frontend("10.96.0.10")}, {endpoint("10.1.0.1"), endpoint("10.1.0.2")})};
  node.apply(desired);
  desired[0].endpoints = {endpoint("10.1.0.1"), endpoint("10.1.0.3")};
  CHECK(node.apply(desired).refused.size() == 1);  // both places are taken
  desired[0].endpoints = {endpoint("10.1.0.1")};
  CHECK(node.apply(desired).refused.empty());
  desired[0].endpoints = {endpoint("10.1.0.1"), endpoint("10.1.0.3")};
  CHECK(node.apply(desired).refused.size() == 1);  // one is free and resting
  node.wait(kRest);
  CHECK(node.apply(desired).refused.empty());
}

TEST_CASE("slots that a port keeps through a change are not given to another") {
  Node node{kRoom, 4};
  Desired desired{port("shop/a", {frontend("10.96.0.1")}, endpoints(2))};
  node.apply(desired);
  desired[0].draining = {leaving(endpoint("10.1.0.9"))};
  node.apply(desired);
  node.wait(2 * kRest);
  desired.push_back(port("shop/b", {frontend("10.96.0.2")}, {endpoint("10.1.0.1")}));
  node.apply(desired);
}

TEST_CASE("what does not fit is refused whole and said, the rest goes in") {
  SUBCASE("frontends") {
    Node node{2, kRoom};
    const auto changes =
        node.apply({port("shop/a", {frontend("10.96.0.1")}, {endpoint("10.1.0.1")}),
                    port("shop/b", {frontend("10.96.0.2"), frontend("10.96.0.3")}, {endpoint("10.1.0.1")}),
                    port("shop/c", {frontend("10.96.0.4")}, {endpoint("10.1.0.1")})});
    CHECK(texts(changes) ==
          Texts{"shop/a added: 10.96.0.1:80/TCP, 1 endpoint", "shop/c added: 10.96.0.4:80/TCP, 1 endpoint",
                "shop/b refused: 10.96.0.2:80/TCP, 10.96.0.3:80/TCP: no room for another frontend (limits.services)"});
  }
  SUBCASE("backends") {
    Node node{kRoom, 3};
    const auto changes = node.apply({port("shop/a", {frontend("10.96.0.1")}, endpoints(2)),
                                     port("shop/b", {frontend("10.96.0.2")}, endpoints(2)),
                                     port("shop/c", {frontend("10.96.0.4")}, endpoints(1))});
    CHECK(texts(changes) == Texts{"shop/a added: 10.96.0.1:80/TCP, 2 endpoints",
                                  "shop/c added: 10.96.0.4:80/TCP, 1 endpoint",
                                  "shop/b refused: 10.96.0.2:80/TCP: no room for its endpoints (limits.backends)"});
  }
  SUBCASE("slots") {
    Node node{kRoom, 4};
    Desired desired;
    for (std::uint16_t i = 0; i < 3; ++i) {
      desired.push_back(port("shop/a", {frontend("10.96.0.1", static_cast<std::uint16_t>(80 + i))}, endpoints(4),
                             std::string(1, static_cast<char>('a' + i))));
    }
    CHECK(texts(node.apply(desired)) ==
          Texts{"shop/a a added: 10.96.0.1:80/TCP, 4 endpoints", "shop/a b added: 10.96.0.1:81/TCP, 4 endpoints",
                "shop/a c refused: 10.96.0.1:82/TCP: no room for its endpoints (limits.backends)"});
  }
  SUBCASE("a refused service does not keep others from a place that it would have taken") {
    Node node{kRoom, 3};
    Desired desired{port("shop/a", {frontend("10.96.0.1")}, endpoints(4)),
                    port("shop/b", {frontend("10.96.0.2")}, endpoints(3))};
    CHECK(node.apply(desired).refused.size() == 1);
    CHECK(node.apply(desired).refused.size() == 1);
    CHECK(node.writes == 0);
  }
  SUBCASE("a name too many, where one service takes another's frontend over") {
    Node node{1, kRoom};
    node.apply({port("shop/a", {frontend("10.96.0.1")}, {})});
    CHECK(node.apply({port("shop/b", {frontend("10.96.0.1")}, {})}).refused.size() == 1);
    CHECK(node.apply({port("shop/b", {frontend("10.96.0.1")}, {})}).refused.empty());
  }
}

TEST_CASE("more endpoints than a service's word can count") {
  const std::size_t most = (1U << HP_SLOT_COUNT_BITS) - 1;
  FakeMaps maps{10, 0};
  Contents contents = read_contents(maps).value();
  contents.backends.resize(2 * most);
  contents.slots.resize(4 * most);
  Planner planner{contents};
  Changes changes;
  const auto plan =
      planner.plan({port("shop/web", {frontend("10.96.0.1")}, endpoints(most + 1))}, Clock::now(), changes);
  CHECK(plan.empty());
  CHECK(texts(changes) ==
        Texts{fmt::format("shop/web refused: 10.96.0.1:80/TCP: it has {} endpoints, at most {} are possible", most + 1,
                          most)});
}

TEST_CASE("slots that a service's word can't lead to are not used") {
  FakeMaps maps{100, 0};
  Contents contents = read_contents(maps).value();
  contents.backends.resize(100);
  contents.slots.resize((1U << HP_SLOT_BASE_BITS) + 8);
  // All but ten of the slots that can be reached are taken already.
  hp_frontend key{};
  key.address = address("10.96.0.1").raw();
  constexpr std::uint32_t kChunk = (1U << HP_SLOT_COUNT_BITS) - 1;
  for (std::uint32_t base = 0; base + 10 < 1U << HP_SLOT_BASE_BITS; base += kChunk) {
    const auto count = std::min(kChunk, (1U << HP_SLOT_BASE_BITS) - 10 - base);
    key.port = htons(static_cast<std::uint16_t>(base / kChunk + 1));
    contents.services.emplace_back(key, hp_service{.slots = hp_slots_pack(base, count, 1), .service = 1});
  }
  Planner planner{contents};
  Changes changes;
  const Desired desired{port("shop/a", {frontend("10.96.0.2")}, endpoints(10)),
                        port("shop/b", {frontend("10.96.0.3")}, endpoints(5))};
  planner.plan(desired, Clock::now(), changes);
  REQUIRE(changes.refused.size() == 1);
  CHECK(changes.refused[0].service == "shop/b");
}

TEST_CASE("a service that no longer fits keeps what it has") {
  Node node{kRoom, 3};
  Desired desired{port("shop/a", {frontend("10.96.0.1")}, endpoints(2)),
                  port("shop/b", {frontend("10.96.0.2")}, endpoints(1))};
  desired[0].draining = {leaving(endpoint("10.1.0.9"))};
  desired[1].endpoints.clear();
  node.apply(desired);
  const auto epoch = backend_of(node, endpoints(1)[0]).epoch;
  desired[0].endpoints = endpoints(4);
  SUBCASE("in the same process") {}
  SUBCASE("in the next one") { node.restart(); }
  CHECK(node.apply(desired).refused.size() == 1);
  CHECK(look(node.maps, node.faults)["10.96.0.1:80/TCP"].size() == 2);
  CHECK(backend_of(node, endpoints(1)[0]).epoch == epoch);
  CHECK(backend_of(node, endpoint("10.1.0.9")).state == HP_BACKEND_TERMINATING);
}

TEST_CASE("a full map is no reason to refuse at the next start") {
  Node node{2, 4};
  Desired desired{port("shop/a", {frontend("10.96.0.1", 80)}, endpoints(4), "a"),
                  port("shop/a", {frontend("10.96.0.1", 81)}, endpoints(4), "b")};
  CHECK(node.apply(desired).refused.empty());
  node.restart();
  CHECK(texts(node.apply(desired)).empty());
  CHECK(node.writes == 0);
}

TEST_CASE("what a crash or another version left is put right") {
  Node node;
  const Desired desired{port("shop/web", {frontend("10.96.0.10")}, {endpoint("10.1.0.1")})};
  node.apply(desired);
  auto& maps = node.maps;
  SUBCASE("a backend that nothing leads to") {
    hp_backend lost{};
    lost.address = address("10.1.0.7").raw();
    lost.port = htons(80);
    lost.protocol = HP_TCP;
    lost.state = HP_BACKEND_ACTIVE;
    lost.service = 1;
    lost.epoch = 41;
    maps.backends.entries[17] = lost;
    node.restart();
    node.apply(desired);
    CHECK(maps.backends.entries[17].state == HP_BACKEND_FREE);
    CHECK(maps.backends.entries[17].epoch == 42);
  }
  SUBCASE("a backend that is there twice") {
    hp_backend twin = backend_of(node, endpoint("10.1.0.1"));
    node.whole_before = false;
    maps.backends.entries[17] = twin;
    node.restart();
    node.apply(desired);
    CHECK(maps.backends.entries[17].state == HP_BACKEND_FREE);
  }
  SUBCASE("a service that nobody wants") {
    node.restart();
    CHECK(texts(node.apply({})) == Texts{"shop/web removed: 10.96.0.10:80/TCP"});
    CHECK(maps.services.entries.empty());
  }
  SUBCASE("a service without a name") {
    node.whole_before = false;
    maps.names.entries.clear();
    node.restart();
    node.apply(desired);
  }
  SUBCASE("a name that is there twice") {
    node.whole_before = false;
    maps.names.entries[900] = maps.names.entries.begin()->second;
    node.restart();
    node.apply(desired);
    CHECK(maps.names.entries.size() == 1);
    node.apply(desired);
    CHECK(node.writes == 0);
    auto more = desired;
    more.push_back(port("shop/web", {frontend("10.96.0.10", 81)}, {}, "more"));
    node.apply(more);
    CHECK(maps.names.entries.size() == 1);
  }
  SUBCASE("a gate entry for nothing, and one that is missing") {
    node.whole_before = false;
    maps.frontends.entries.clear();
    maps.frontends.entries[address("10.5.5.5").raw()] = {.roles = HP_ROLE_FRONTEND | HP_ROLE_ENDPOINT};
    node.restart();
    const auto changes = node.apply(desired);
    CHECK(texts(changes).empty());
    CHECK(changes.wrote);
  }
  SUBCASE("slots of another generation") {
    node.whole_before = false;
    for (auto& [index, slot] : maps.slots.entries) slot.generation ^= 1;
    node.restart();
    node.apply(desired);
  }
  SUBCASE("slots beyond the map") {
    node.whole_before = false;
    maps.services.entries.begin()->second.slots = hp_slots_pack(2 * kRoom - 1, 5, 1);
    node.restart();
    node.apply(desired);
    Desired many = desired;
    many.push_back(port("shop/x", {frontend("10.96.0.11")}, endpoints(kRoom - 1)));
    node.wait(kRest);
    CHECK(node.apply(many).refused.empty());
    node.apply(desired);
    node.wait(kRest);
    many[1].endpoints = endpoints(kRoom - 2);
    CHECK(node.apply(many).refused.empty());
  }
  node.faults.clear();
  node.restart();
  std::vector<std::string> faults;
  look(maps, faults);
  CHECK(faults.empty());
}

TEST_CASE("an id is not used again while anything of it is in the maps") {
  Node node;
  node.apply({port("shop/a", {frontend("10.96.0.1")}, {}), port("shop/b", {frontend("10.96.0.2")}, {})});
  node.apply({port("shop/b", {frontend("10.96.0.2")}, {})});
  node.restart();
  node.apply({port("shop/b", {frontend("10.96.0.2")}, {}), port("shop/c", {frontend("10.96.0.3")}, {})});
  std::set<std::uint32_t> ids;
  for (const auto& [id, name] : node.maps.names.entries) ids.insert(id);
  CHECK(ids == std::set<std::uint32_t>{2, 3});
}

// ---- random
// ----------------------------------------------------------------------------------------------------------

namespace {

/// Few names, addresses and ports, so that everything collides with everything.
class Generator {
 public:
  explicit Generator(std::uint32_t seed) : random_{seed} {}

  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>{0, limit - 1}(random_); }
  bool one_in(std::size_t n) { return below(n) == 0; }

  Desired desired() {
    std::set<std::tuple<Address, std::uint16_t, Protocol>> claimed;
    std::set<std::tuple<std::string, std::string, Family, Protocol>> known;
    Desired made;
    for (std::size_t i = below(7); i > 0; --i) {
      const bool six = one_in(3);
      const auto protocol = one_in(3) ? Protocol::kUdp : Protocol::kTcp;
      ServicePort each;
      each.service = fmt::format("shop/{}", below(4));
      each.port_name = fmt::format("p{}", below(2));
      for (std::size_t n = 1 + below(2); n > 0; --n) {
        const Frontend at{
            .address = address(six ? fmt::format("fd00::{}", 1 + below(4)) : fmt::format("10.0.0.{}", 1 + below(4))),
            .port = static_cast<std::uint16_t>(80 + below(2)),
            .protocol = protocol};
        if (claimed.emplace(at.address, at.port, at.protocol).second) each.frontends.push_back(at);
      }
      if (each.frontends.empty()) continue;
      std::ranges::sort(each.frontends);
      if (!known.emplace(each.service, each.port_name, each.frontends[0].address.family(), protocol).second) {
        for (const auto& at : each.frontends) claimed.erase({at.address, at.port, at.protocol});
        continue;
      }
      fill(each, six);
      made.push_back(std::move(each));
    }
    std::ranges::sort(made, {}, [](const ServicePort& each) {
      const auto& first = each.frontends.front();
      return std::tuple{each.service, each.port_name, first.address.family(), first.protocol};
    });
    return made;
  }

 private:
  void fill(ServicePort& each, bool six) {
    std::set<std::pair<Address, std::uint16_t>> used;
    for (std::size_t n = below(5); n > 0; --n) {
      // The same addresses as the frontends' among them: a service may be an endpoint of another.
      Endpoint to{
          .address = address(six ? fmt::format("fd00::{}", 3 + below(4)) : fmt::format("10.0.0.{}", 3 + below(4))),
          .port = static_cast<std::uint16_t>(80 + below(2))};
      if (!used.emplace(to.address, to.port).second) continue;
      if (one_in(4)) {
        to.terminating = true;
        each.draining.push_back(to);
      } else {
        to.terminating = one_in(5);
        each.endpoints.push_back(to);
      }
    }
    std::ranges::sort(each.endpoints);
    std::ranges::sort(each.draining);
  }

  std::mt19937 random_;
};

void live_through(std::uint32_t seed, std::uint32_t max_services, std::uint32_t max_backends) {
  CAPTURE(seed);
  Generator random{seed};
  Node node{max_services, max_backends};
  for (int step = 0; step < 30 && node.faults.empty(); ++step) {
    CAPTURE(step);
    const Desired desired = random.desired();
    CAPTURE(describe(desired));
    const bool dies = random.one_in(3);
    node.apply(desired, dies ? 1 + random.below(30) : SIZE_MAX);
    if (dies || random.one_in(4)) {
      node.restart();
      if (random.one_in(2)) {
        const bool whole = node.apply(desired).refused.empty();
        node.apply(desired);
        if (whole) CHECK(node.writes == 0);
      }
    }
    if (random.one_in(2)) node.wait(std::chrono::milliseconds{random.below(1500)});
  }
}

}  // namespace

TEST_CASE("at every write of any history, crashes included, each frontend is old or new") {
  for (std::uint32_t seed = 1; seed <= 150; ++seed) live_through(seed, kRoom, kRoom);
}

TEST_CASE("the same where the maps are nearly full") {
  for (std::uint32_t seed = 1001; seed <= 1150; ++seed) live_through(seed, 6, 10);
}

TEST_CASE("a change that is cut off after any of its writes is finished by the next process") {
  const Desired first{
      port("shop/a", {frontend("10.96.0.1"), frontend("10.96.0.4")}, {endpoint("10.1.0.1"), endpoint("10.1.0.2")}),
      port("shop/b", {frontend("10.96.0.2")}, {endpoint("10.1.0.2")})};
  Desired second{
      port("shop/a", {frontend("10.96.0.1"), frontend("10.96.0.4")}, {endpoint("10.1.0.3"), endpoint("10.1.0.2")}),
      port("shop/c", {frontend("10.96.0.3")}, {endpoint("10.1.0.1")})};
  second[0].draining = {leaving(endpoint("10.1.0.1"))};
  Node whole;
  whole.apply(first);
  whole.apply(second);
  const auto writes = whole.writes;
  REQUIRE(writes > 10);
  for (std::size_t dies_after = 1; dies_after < writes; ++dies_after) {
    for (const bool back : {false, true}) {
      CAPTURE(dies_after);
      CAPTURE(back);
      Node node;
      node.apply(first);
      node.apply(second, dies_after);
      node.restart();
      node.apply(back ? first : second);
      node.apply(back ? first : second);
      CHECK(node.writes == 0);
    }
  }
}
