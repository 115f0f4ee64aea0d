// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Real input: what kubectl printed of a 1.34 API server, served to pods that have its endpoints' addresses.
#include <doctest/doctest.h>

#include <cerrno>
#include <filesystem>

#include "tests/support/lab.hpp"
#include "tests/support/traffic.hpp"

namespace hairpin::test {

namespace {

std::string peer_address(const Answer& answer) { return answer.peer.substr(0, answer.peer.find(' ')); }

}  // namespace

TEST_CASE("the pods of a real cluster reach themselves") {
  for (const char* file : {"cluster.yaml", "cluster.json", "cluster-managed-fields.yaml"}) {
    CAPTURE(file);
    Node node{{.pods = {5, 6, 7}}};
    std::filesystem::copy_file(std::filesystem::path{TEST_DATA} / file, node.manifests() / file);
    const Server five{node.pod(5)};
    const Server six{node.pod(6)};
    node.start_agent();
    // shop/edge has one ready endpoint, pod 5; shop/dns is pod 6; shop/empty has none.
    CHECK(peer_address(ask(node.pod(5), Transport::kTcp, "10.96.68.246", 8080)) == "10.96.68.246");
    CHECK(peer_address(ask(node.pod(7), Transport::kTcp, "10.96.68.246", 8080)) == "10.244.1.7");
    CHECK(peer_address(ask(node.pod(6), Transport::kUdp, "10.96.221.176", 53)) == "10.96.221.176");
    CHECK(peer_address(ask(node.pod(5), Transport::kUdp, "10.96.221.176", 53)) == "10.244.1.5");
    CHECK(ask(node.pod(5), Transport::kTcp, "10.96.15.136", 80).error == ECONNREFUSED);
    // shop/web is dual-stack; its other endpoint is on another node, so some tries go nowhere.
    bool reached = false;
    for (int i = 0; i < 40 && !reached; ++i) {
      const Answer answer =
          ask(node.pod(5), Transport::kTcp, "fd00:96::dbb7", 80, {.limit = std::chrono::milliseconds{100}});
      reached = peer_address(answer) == "fd00:96::dbb7";
    }
    CHECK(reached);
  }
}

}  // namespace hairpin::test
