// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// The agent is killed and started again while there is traffic, or after the node has changed.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/lab.hpp"
#include "tests/support/traffic.hpp"

namespace hairpin::test {

namespace {

using Json = nlohmann::json;

/// Talks on one socket all the time, with pauses that leave the agent some CPU. A datagram that is lost is an answer
/// that does not come.
class Chatter {
 public:
  Chatter(const Namespace& space, Transport transport, const std::string& address)
      : conversation_{space, transport, address, static_cast<std::uint16_t>(transport == Transport::kTcp ? 80 : 53)},
        thread_{[this] {
          while (!stop_) {
            ++(conversation_.ask().ok ? answered_ : lost_);
            std::this_thread::sleep_for(std::chrono::milliseconds{2});
          }
        }} {}

  ~Chatter() {
    stop_ = true;
    thread_.join();
  }
  Chatter(const Chatter&) = delete;
  Chatter& operator=(const Chatter&) = delete;

  [[nodiscard]] int answered() const { return answered_; }
  [[nodiscard]] int lost() const { return lost_; }

 private:
  Conversation conversation_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> answered_ = 0;
  std::atomic<int> lost_ = 0;
  std::thread thread_;
};

void write_services(const Node& node) {
  node.write_manifest("a.yaml", service_manifest("web", 10, {5}) + service_manifest("other", 11, {6}));
}

}  // namespace

TEST_CASE("a restart loses not one datagram and no connection") {
  for (const char* hook : {"clsact", "tcx"}) {
    CAPTURE(hook);
    Node node{{.hook = hook}};
    const Server self{node.pod(5)};
    const Server other{node.pod(6)};
    write_services(node);
    node.start_agent();
    std::vector<std::unique_ptr<Chatter>> chatters;
    for (const char* address : {"10.96.0.10", "fd00:96::10", "10.96.0.11", "fd00:96::11"}) {
      for (const Transport transport : {Transport::kTcp, Transport::kUdp}) {
        chatters.push_back(std::make_unique<Chatter>(node.pod(5), transport, address));
      }
    }
    for (const int signal : {SIGKILL, SIGTERM}) {
      CHECK(eventually(
          [&] { return std::ranges::all_of(chatters, [](const auto& chatter) { return chatter->answered() > 50; }); }));
      node.kill_agent(signal);
      node.start_agent();
    }
    std::vector<int> before;
    for (const auto& chatter : chatters) before.push_back(chatter->answered());
    for (std::size_t i = 0; i < chatters.size(); ++i) {
      CAPTURE(i);
      CHECK(eventually([&] { return chatters[i]->answered() > before[i] + 50; }));
      CHECK(chatters[i]->lost() == 0);
    }
  }
}

TEST_CASE("pods that were replaced while the agent was dead are attached, those that went are forgotten") {
  Node node;
  const Server self{node.pod(5)};
  write_services(node);
  node.start_agent();
  node.kill_agent(SIGKILL);
  node.remove_pod(6);
  node.remove_pod(7);
  node.add_pod(6);
  const Server other{node.pod(6)};
  node.start_agent();
  const Json status = Json::parse(node.ctl("status -o json"));
  CHECK(status["interfaces"].size() == 2);
  CHECK(Json::parse(node.ctl("map dump interfaces -o json"))["maps"]["interfaces"].size() == 2);
  CHECK(ask(node.pod(6), Transport::kTcp, "10.96.0.11", 80).ok);
  CHECK(ask(node.pod(6), Transport::kTcp, "10.96.0.10", 80).ok);
  CHECK(ask(node.pod(5), Transport::kTcp, "10.96.0.11", 80).ok);
}

}  // namespace hairpin::test
