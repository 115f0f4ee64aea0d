// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// The config asks for another hook than the one that the programs are on.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/lab.hpp"
#include "tests/support/traffic.hpp"

namespace hairpin::test {

namespace {

using Json = nlohmann::json;

void write_services(const Node& node) {
  node.write_manifest("a.yaml", service_manifest("web", 10, {5}) + service_manifest("other", 11, {6}));
}

void set_hook(const Node& node, const std::string& hook) {
  node.host().sh(fmt::format("sed -i 's/^hook:.*/hook: {}/' {}", hook, (node.folder() / "hairpin.yaml").string()));
}

/// Each program once on each side: two of them would translate twice.
void check_attached(const Node& node, const std::string& hook, std::size_t interfaces) {
  const Json status = Json::parse(node.ctl("status -o json"));
  CHECK(status["interfaces"].size() == interfaces);
  for (const auto& interface : status["interfaces"]) {
    CHECK(interface["hook"] == hook);
    CHECK(interface["ingress"] == true);
    CHECK(interface["egress"] == true);
  }
}

}  // namespace

TEST_CASE("a start with another hook leaves nothing on the one before") {
  Node node{{.hook = "clsact", .pods = {5, 6}}};
  const Server self{node.pod(5)};
  const Server other{node.pod(6)};
  write_services(node);
  node.start_agent();
  check_attached(node, "clsact", 2);
  for (const char* hook : {"tcx", "clsact", "tcx"}) {
    CAPTURE(hook);
    Conversation hairpin{node.pod(5), Transport::kTcp, "10.96.0.10", 80};
    Conversation through{node.pod(5), Transport::kTcp, "10.96.0.11", 80};
    REQUIRE(hairpin.ask().ok);
    REQUIRE(through.ask().ok);
    node.kill_agent(SIGKILL);
    set_hook(node, hook);
    node.start_agent();
    check_attached(node, hook, 2);
    CHECK(hairpin.ask().ok);
    CHECK(through.ask().ok);
    CHECK(ask(node.pod(5), Transport::kTcp, "10.96.0.10", 80).ok);
    CHECK(ask(node.pod(5), Transport::kTcp, "10.96.0.11", 80).ok);
    if (std::string_view{hook} == "tcx") {
      CHECK(node.host().sh("tc qdisc show").find("clsact") == std::string::npos);
    }
  }
}

}  // namespace hairpin::test
