// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Services with several endpoints, the client among them, and services that change while they are used.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cerrno>
#include <fstream>

#include "tests/support/lab.hpp"
#include "tests/support/traffic.hpp"

namespace hairpin::test {

namespace {

constexpr const char* kVip = "10.96.0.10";

bool is_from(const Answer& answer, const std::string& address) { return answer.peer.starts_with(address + " "); }

}  // namespace

TEST_CASE("of three endpoints, one being the client itself, every connection reaches one and all get some") {
  constexpr int kTries = 60;
  Node node;
  const Server five{node.pod(5)};
  const Server six{node.pod(6)};
  const Server seven{node.pod(7)};
  node.write_manifest("a.yaml", service_manifest("web", 10, {5, 6, 7}));
  node.start_agent();
  for (const bool ipv6 : {false, true}) {
    const std::string vip = ipv6 ? "fd00:96::10" : kVip;
    const std::string own = ipv6 ? "fd00:244:1::5" : "10.244.1.5";
    for (const Transport transport : {Transport::kTcp, Transport::kUdp}) {
      CAPTURE(ipv6);
      CAPTURE(static_cast<int>(transport));
      int hairpins = 0;
      int others = 0;
      for (int i = 0; i < kTries; ++i) {
        const Answer answer = ask(node.pod(5), transport, vip, transport == Transport::kTcp ? 80 : 53);
        CHECK_MESSAGE(answer.ok, "errno ", answer.error);
        hairpins += is_from(answer, vip) ? 1 : 0;
        others += is_from(answer, own) ? 1 : 0;
      }
      CHECK(hairpins + others == kTries);
      CHECK(hairpins > 0);
      CHECK(others > hairpins / 2);
    }
  }
}

TEST_CASE("a manifest that is written in place, added or deleted is followed within 100 ms") {
  constexpr std::chrono::milliseconds kLimit{100};
  Node node;
  const Server five{node.pod(5)};
  const Server six{node.pod(6)};
  node.write_manifest("a.yaml", service_manifest("web", 10, {5}));
  node.start_agent();
  REQUIRE(is_from(ask(node.pod(5), Transport::kTcp, kVip, 80), kVip));

  std::ofstream{node.manifests() / "a.yaml"} << service_manifest("web", 10, {6});
  CHECK(eventually([&] { return is_from(ask(node.pod(5), Transport::kTcp, kVip, 80), "10.244.1.5"); }, kLimit));

  node.write_manifest("b.yaml", service_manifest("late", 11, {}));
  const AskOptions quick{.limit = std::chrono::milliseconds{10}};
  CHECK(eventually([&] { return ask(node.pod(5), Transport::kTcp, "10.96.0.11", 80, quick).error == ECONNREFUSED; },
                   kLimit));

  std::filesystem::remove(node.manifests() / "b.yaml");
  CHECK(eventually([&] { return ask(node.pod(5), Transport::kTcp, "10.96.0.11", 80, quick).error != ECONNREFUSED; },
                   kLimit));
}

}  // namespace hairpin::test
