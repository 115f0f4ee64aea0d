// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// The agent comes, follows, dies and comes back.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>

#include <fstream>
#include <thread>
#include <tuple>

#include "hairpin/agent_lock.hpp"
#include "tests/support/lab.hpp"
#include "tests/support/traffic.hpp"

namespace hairpin::test {

namespace {

constexpr const char* kVip = "10.96.0.10";

Answer ask_self(const Node& node) { return ask(node.pod(5), Transport::kTcp, kVip, 80); }

std::string peer_address(const Answer& answer) { return answer.peer.substr(0, answer.peer.find(' ')); }

/// Lines of the log that say that a service was written.
std::size_t writes(const std::string& log) {
  std::size_t count = 0;
  for (const char* word : {" added:", " changed:", " removed:"}) {
    for (auto at = log.find(word); at != std::string::npos; at = log.find(word, at + 1)) ++count;
  }
  return count;
}

}  // namespace

TEST_SUITE_BEGIN("everywhere");

TEST_CASE("killed and started again: traffic goes on, and only differences are written") {
  for (const char* hook : {"clsact", "auto"}) {
    CAPTURE(hook);
    Node node{{.hook = hook}};
    const Server self{node.pod(5)};
    const Server other{node.pod(6)};
    node.write_manifest("a.yaml", service_manifest("web", 10, {5}) + service_manifest("other", 11, {6}));
    node.start_agent();
    Conversation hairpin{node.pod(5), Transport::kTcp, kVip, 80};
    Conversation through{node.pod(5), Transport::kTcp, "10.96.0.11", 80};
    REQUIRE(hairpin.ask().ok);
    REQUIRE(through.ask().ok);
    const std::size_t before = writes(node.agent_log());
    const std::string maps = node.ctl("map dump services slots backends frontends names -o json");

    node.kill_agent(SIGKILL);
    CHECK(hairpin.ask().ok);
    CHECK(through.ask().ok);
    CHECK(ask_self(node).ok);
    CHECK(node.ctl("status").find("not running") != std::string::npos);

    node.start_agent();
    CHECK(hairpin.ask().ok);
    CHECK(through.ask().ok);
    CHECK(ask_self(node).ok);
    CHECK(writes(node.agent_log()) == before);
    CHECK(node.ctl("map dump services slots backends frontends names -o json") == maps);

    node.kill_agent(SIGKILL);
    node.write_manifest("a.yaml", service_manifest("web", 10, {5}));
    node.start_agent();
    CHECK(hairpin.ask().ok);
    CHECK_FALSE(ask(node.pod(5), Transport::kTcp, "10.96.0.11", 80, {.limit = std::chrono::milliseconds{300}}).ok);
  }
}

TEST_SUITE_END();

TEST_CASE("a changed manifest is followed within 100 ms, a broken one changes nothing") {
  Node node;
  const Server five{node.pod(5)};
  const Server six{node.pod(6)};
  node.write_manifest("a.yaml", service_manifest("web", 10, {5}));
  node.start_agent();
  CHECK(peer_address(ask_self(node)) == kVip);

  node.write_manifest("a.yaml", service_manifest("web", 10, {6}));
  CHECK(eventually([&] { return peer_address(ask_self(node)) == "10.244.1.5"; }, std::chrono::milliseconds{100}));

  node.write_manifest("a.yaml",
                      "kind: Service\napiVersion: v1\nmetadata: {name: web, namespace: shop}\nspec: {ports: 7}\n");
  CHECK(eventually([&] { return node.agent_log().find("a.yaml:4:") != std::string::npos; }));
  CHECK(peer_address(ask_self(node)) == "10.244.1.5");

  node.write_manifest("a.yaml", service_manifest("web", 10, {}));
  CHECK(eventually([&] { return ask_self(node).error == ECONNREFUSED; }, std::chrono::milliseconds{100}));
}

TEST_CASE("an endpoint that goes: datagrams choose again, a connection is reset") {
  Node node;
  const Server five{node.pod(5)};
  const Server six{node.pod(6)};
  node.write_manifest("a.yaml", service_manifest("web", 10, {6}));
  node.start_agent();
  Conversation tcp{node.pod(5), Transport::kTcp, kVip, 80};
  Conversation udp{node.pod(5), Transport::kUdp, kVip, 53};
  REQUIRE(tcp.ask().ok);
  REQUIRE(peer_address(udp.ask()) == "10.244.1.5");
  node.write_manifest("a.yaml", service_manifest("web", 10, {5}));
  CHECK(eventually([&] { return peer_address(udp.ask()) == kVip; }));
  const Answer reset = tcp.ask();
  CHECK(reset.error == ECONNRESET);
  CHECK(reset.elapsed < std::chrono::milliseconds{300});
}

TEST_CASE("pods that come and go") {
  Node node{{.pods = {5}}};
  const Server five{node.pod(5)};
  node.write_manifest("a.yaml", service_manifest("web", 10, {5}) + service_manifest("late", 11, {9}));
  node.start_agent();
  node.add_pod(9);
  CHECK(eventually([&] { return node.ctl("status").find("veth9") != std::string::npos; }));
  const Server nine{node.pod(9)};
  CHECK(ask(node.pod(9), Transport::kTcp, "10.96.0.11", 80).ok);
  CHECK(ask(node.pod(9), Transport::kTcp, kVip, 80).ok);
  CHECK(ask_self(node).ok);
}

TEST_CASE("a pod that goes takes its flows and its share along") {
  Node node;
  {
    const Server six{node.pod(6)};
    node.write_manifest("a.yaml", service_manifest("web", 10, {6}));
    node.start_agent();
    CHECK(ask(node.pod(6), Transport::kTcp, kVip, 80).ok);
  }
  REQUIRE(node.ctl("flow list").find("10.244.1.6") != std::string::npos);
  node.remove_pod(6);
  CHECK(eventually([&] { return node.ctl("flow list").find("10.244.1.6") == std::string::npos; }));
  CHECK(node.ctl("status").find("veth6") == std::string::npos);
  CHECK(node.ctl("map list").find("chunks      510") != std::string::npos);
  CHECK(node.ctl("map dump interfaces -o json").find("\"ifindex\"") != std::string::npos);
  CHECK(node.host().sh("ls " + (node.bpffs() / "links").string() + " | wc -l") == "4\n");
}

TEST_CASE("links that are no pods' are left alone") {
  Node node{{.pods = {5}}};
  node.host().sh("ip link add veth-here type veth peer name veth-there && ip link set veth-here up");
  const Namespace elsewhere;
  node.host().sh("ip link add uplink0 type veth peer name eth0 netns " + elsewhere.path());
  node.start_agent();
  const std::string status = node.ctl("status");
  CHECK(status.find("veth5") != std::string::npos);
  CHECK(status.find("veth-here") == std::string::npos);
  CHECK(status.find("uplink0") == std::string::npos);
}

TEST_CASE("one agent a folder; SIGTERM leaves the dataplane, --detach-on-exit does not") {
  Node node;
  const Server self{node.pod(5)};
  node.write_manifest("a.yaml", service_manifest("web", 10, {5}));
  node.start_agent();
  std::string output;
  const std::string config = (node.folder() / "hairpin.yaml").string();
  CHECK(node.host().sh(fmt::format("{} --config {}", HAIRPIND, config), output) == 1);
  CHECK(output.find("is running there") != std::string::npos);
  CHECK(output.find("pid") != std::string::npos);

  node.kill_agent(SIGTERM);
  CHECK(ask_self(node).ok);
  Process again{node.host(), {HAIRPIND, "--config", config, "--detach-on-exit"}, node.folder() / "second.log"};
  CHECK(eventually(
      [&] { return node.ctl("status", output) == 0 && node.ctl("status").find(", synced") != std::string::npos; }));
  again.signal(SIGTERM);
  CHECK(again.wait() == 0);
  CHECK(node.ctl("status", output) == 3);
}

TEST_CASE("who asks whether an agent is running does not keep one from starting") {
  const Node node{{.pods = {}}};
  std::jthread asking{[&](const std::stop_token& stop) {
    while (!stop.stop_requested()) std::ignore = AgentLock::held(node.bpffs());
  }};
  for (int i = 0; i < 1000; ++i) REQUIRE(AgentLock::take(node.bpffs()));
}

TEST_CASE("hairpind --check, and what is wrong with a config") {
  const Node node;
  const std::string file = (node.folder() / "x.yaml").string();
  const auto check = [&](const std::string& text, std::string& output) {
    std::ofstream{file} << text;
    return node.host().sh(fmt::format("{} --check --config {}", HAIRPIND, file), output);
  };
  std::string output;
  CHECK(check("hook: clsact\n", output) == 0);
  CHECK(output.find("hook: clsact") != std::string::npos);
  output.clear();
  CHECK(check("\nhook: tc\n", output) == 2);
  CHECK(output.find("x.yaml:2:") != std::string::npos);
  CHECK(output.find("clsact") != std::string::npos);
  output.clear();
  CHECK(check("hairpin: audit\n", output) == 2);
  CHECK(output.find("not supported yet") != std::string::npos);
}

TEST_CASE("with a broken manifest at the first start nothing is attached until it is mended") {
  Node node;
  const Server self{node.pod(5)};
  node.write_manifest("a.yaml", "kind: [\n");
  Process agent{node.host(), {HAIRPIND, "--config", node.folder() / "hairpin.yaml"}, node.folder() / "agent.log"};
  CHECK(eventually([&] { return node.agent_log().find("a.yaml:") != std::string::npos; }));
  CHECK(node.ctl("status").find("no interface is attached") != std::string::npos);
  node.write_manifest("a.yaml", service_manifest("web", 10, {5}));
  CHECK(eventually([&] { return node.ctl("status").find("veth5") != std::string::npos; }));
  CHECK(eventually([&] { return ask_self(node).ok; }));
}

}  // namespace hairpin::test
