// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// hairpinctl without an agent: load, apply, attach, look, and the contract of its output and exit codes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/lab.hpp"
#include "tests/support/traffic.hpp"

namespace hairpin::test {

namespace {

using Json = nlohmann::json;

Json json(const Node& node, const std::string& arguments) { return Json::parse(node.ctl(arguments + " -o json")); }

std::string save(const Node& node, const std::string& text) {
  const auto file = node.folder() / "services.yaml";
  std::ofstream{file} << text;
  return file.string();
}

}  // namespace

TEST_SUITE_BEGIN("everywhere");

TEST_CASE("load, apply, attach: a node without an agent") {
  Node node{{.hook = "clsact"}};
  const Server self{node.pod(5)};
  const std::string file = save(node, service_manifest("web", 10, {5}) + service_manifest("empty", 12, {}));
  node.ctl("load");
  CHECK(json(node, "apply --dry-run -f " + file)["changes"].size() == 16);
  CHECK(json(node, "map dump services")["maps"]["services"].empty());
  CHECK(json(node, "apply -f " + file)["changes"].size() == 16);
  CHECK(json(node, "apply -f - < " + file)["changes"].empty());
  node.ctl("attach --all");
  CHECK(ask(node.pod(5), Transport::kTcp, "10.96.0.10", 80).ok);
  CHECK(ask(node.pod(5), Transport::kUdp, "fd00:96::10", 53).ok);
  CHECK(ask(node.pod(5), Transport::kTcp, "10.96.0.12", 80).error == ECONNREFUSED);
}

TEST_SUITE_END();

TEST_CASE("the documents have the contract's shape") {
  Node node;
  const Server self{node.pod(5)};
  node.ctl("load");
  node.ctl("apply -f " + save(node, service_manifest("web", 10, {5, 6})));
  node.ctl("attach veth5 veth6");
  ask(node.pod(5), Transport::kTcp, "10.96.0.10",
      80);  // pod 6 has no server: refused by itself, but a flow all the same

  const Json status = json(node, "status");
  CHECK(status["loaded"] == true);
  CHECK(status["mode"] == "enabled");
  CHECK(status["version"].is_string());
  CHECK(status["agent"] == Json{{"running", false}, {"pid", nullptr}, {"synced", false}});
  REQUIRE(status["interfaces"].size() == 2);
  CHECK(status["interfaces"][0]["name"] == "veth5");
  CHECK(status["interfaces"][0]["ifindex"].is_number());
  CHECK(status["interfaces"][0]["hook"] == "tcx");
  CHECK(status["interfaces"][0]["ingress"] == true);
  CHECK(status["interfaces"][0]["egress"] == true);
  for (const auto& map : status["maps"]) {
    CHECK(map["entries"].is_number());
    CHECK(map["maxEntries"].is_number());
  }

  const Json dump = json(node, "map dump");
  REQUIRE(dump["maps"]["services"].size() == 8);
  const Json& service = dump["maps"]["services"][0];
  CHECK(service["service"] == "shop/web");
  CHECK(service["frontend"] ==
        Json{{"address", "10.96.0.10"}, {"port", 53}, {"protocol", "UDP"}, {"kind", "ClusterIP"}});
  CHECK(service["hairpin"] == true);
  CHECK(service["endpoints"][0] == Json{{"address", "10.244.1.5"}, {"port", 5353}, {"state", "active"}});
  CHECK(dump["maps"]["flows"].is_array());
  CHECK(dump["maps"]["frontends"].size() == 6);
  CHECK(json(node, "map dump flows")["maps"].size() == 1);
  CHECK(json(node, "service list")["services"].size() == 8);
  CHECK(json(node, "service show shop/web")["frontends"].size() == 8);

  const Json flows = json(node, "flow list --service shop/web");
  REQUIRE(flows["flows"].size() >= 1);
  CHECK(flows["flows"][0]["interface"] == "veth5");
  CHECK(json(node, "flow list --hairpin --pod 10.244.1.99")["flows"].empty());
  CHECK(json(node, "flow flush")["ended"].get<int>() >= 1);
  CHECK(json(node, "flow list")["flows"].empty());
  CHECK(node.ctl("-o yaml flow list") == "flows: []\n");

  const Json would = json(node, "detach --all --dry-run");
  CHECK(would["left"]["programs"] == 4);
  const Json detached = json(node, "detach --all");
  CHECK(detached["left"] == Json{{"programs", 0}, {"pins", 0}, {"qdiscs", 0}});
  CHECK(detached["failed"].empty());
  CHECK(detached["removed"].size() == would["removed"].size());
}

TEST_CASE("exit codes") {
  const Node node;
  std::string output;
  CHECK(node.ctl("status -o json", output) == 3);
  CHECK(output.find("\"loaded\": false") != std::string::npos);
  CHECK(node.ctl("service list", output) == 3);
  CHECK(node.ctl("map dump flows -o json", output) == 3);
  CHECK(node.ctl("frobnicate", output) == 2);
  CHECK(node.ctl("status -o xml", output) == 2);
  CHECK(node.ctl("attach", output) == 2);
  CHECK(node.ctl("--help", output) == 0);
  CHECK(node.ctl("map dump --help", output) == 0);
  CHECK(node.ctl("--version", output) == 0);
  CHECK(node.ctl("detach --all", output) == 0);
  CHECK(node.ctl("detach --all", output) == 0);

  node.ctl("load");
  output.clear();
  CHECK(node.ctl("attach nosuch0", output) == 2);
  CHECK(output.find("no such interface") != std::string::npos);
  CHECK(node.ctl("attach cni0", output) == 2);
  CHECK(node.ctl("map dump nosuch", output) == 2);
  CHECK(node.ctl("service show shop/nosuch", output) == 1);
  CHECK(node.ctl("flow list --pod here", output) == 2);
  CHECK(node.ctl("apply -f /nonexistent", output) == 2);
  output.clear();
  CHECK(node.ctl("apply -f " + save(node, "kind: Service\napiVersion: v1\nmetadata: {name: A}\n"), output) == 2);
  CHECK(output.find("services.yaml:3:") != std::string::npos);
  CHECK(node.ctl("map dump | head -1", output) == 0);
}

}  // namespace hairpin::test
