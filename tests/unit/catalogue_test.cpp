// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "maps/catalogue.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <set>
#include <string>

#include "maps/decode.hpp"

using namespace hairpin;
using namespace std::chrono_literals;

namespace {

AddressPort at(const char* address, std::uint16_t port) { return {Address::parse(address).value(), port}; }

}  // namespace

TEST_CASE("every map is in the catalogue once, under a name that finds it") {
  std::set<std::string_view> names;
  for (const auto& map : catalogue()) {
    CAPTURE(map.name);
    CHECK(names.insert(map.name).second);
    CHECK(find_map(map.name) == &map);
    CHECK_FALSE(map.purpose.empty());
    CHECK(map.purpose.find('\n') == std::string_view::npos);
  }
  CHECK(names == std::set<std::string_view>{"backends", "chunks", "config", "counters", "direct", "flows", "frontends",
                                            "interfaces", "names", "services", "slots", "tuples"});
  CHECK(find_map("hp_flows") == nullptr);
  CHECK(find_map("") == nullptr);
}

TEST_CASE("a service in JSON") {
  const ServiceView view{
      .service = "shop/web",
      .frontend = at("10.96.0.10", 80),
      .protocol = HP_TCP,
      .kind = HP_KIND_CLUSTER_IP,
      .endpoints = {{at("10.1.0.1", 8080), HP_BACKEND_ACTIVE}, {at("10.1.0.2", 8080), HP_BACKEND_TERMINATING}},
      .draining = {}};
  const auto json = to_json(view);
  CHECK(json["service"] == "shop/web");
  CHECK(json["frontend"].dump() == R"({"address":"10.96.0.10","port":80,"protocol":"TCP","kind":"ClusterIP"})");
  CHECK(json["hairpin"] == true);
  CHECK(json["endpoints"].dump() == R"([{"address":"10.1.0.1","port":8080,"state":"active"},)"
                                    R"({"address":"10.1.0.2","port":8080,"state":"terminating"}])");
}

TEST_CASE("a flow in JSON") {
  const FlowView view{.service = "shop/web",
                      .protocol = HP_UDP,
                      .state = HP_FLOW_ESTABLISHED,
                      .hairpin = true,
                      .ifindex = 7,
                      .request = {at("fd00::5", 4000), at("fd00:96::1", 53)},
                      .reply = {at("fd00::5", 5353), at("fd00:96::1", 4000)},
                      .age = 90s,
                      .idle = 3s};
  const auto json = to_json(view);
  CHECK(json["service"] == "shop/web");
  CHECK(json["protocol"] == "UDP");
  CHECK(json["state"] == "established");
  CHECK(json["hairpin"] == true);
  CHECK(json["request"].dump() ==
        R"({"source":{"address":"fd00::5","port":4000},"destination":{"address":"fd00:96::1","port":53}})");
  CHECK(json["reply"]["source"]["port"] == 5353);
  CHECK(json["age"] == 90);
  CHECK(json["idle"] == 3);
}

TEST_CASE("every reason has a name and a text, and there is none beyond them") {
  std::set<std::string> names;
  std::size_t reason = 0;
  for (; std::string{reason_name(reason)} != "?"; ++reason) {
    CHECK(names.insert(reason_name(reason)).second);
    CHECK_FALSE(std::string{reason_text(reason)}.empty());
  }
  CHECK(names.contains("no_endpoint"));
  CHECK(std::string{reason_text(reason)} == "?");
}
