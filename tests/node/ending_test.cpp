// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// What goes while it is used: endpoints and whole services.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <thread>
#include <vector>

#include "tests/support/lab.hpp"
#include "tests/support/traffic.hpp"

namespace hairpin::test {

namespace {

constexpr const char* kVip = "10.96.0.10";

/// Plain sockets, for an endpoint that takes its time. Every wait ends after two seconds.
Fd tcp_socket(const Namespace& space) {
  Fd made;
  space.run([&] { made = Fd{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)}; });
  const timeval limit{.tv_sec = 2, .tv_usec = 0};
  REQUIRE(setsockopt(made.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
  return made;
}

sockaddr_in address_of(const char* address, std::uint16_t port) {
  sockaddr_in in{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {}, .sin_zero = {}};
  REQUIRE(inet_pton(AF_INET, address, &in.sin_addr) == 1);
  return in;
}

Fd listening(const Namespace& space, std::uint16_t port) {
  Fd made = tcp_socket(space);
  auto own = address_of("0.0.0.0", port);
  REQUIRE(bind(made.get(), reinterpret_cast<sockaddr*>(&own), sizeof own) == 0);
  REQUIRE(listen(made.get(), 1) == 0);
  return made;
}

Fd connected(const Namespace& space, const char* address, std::uint16_t port) {
  Fd made = tcp_socket(space);
  auto to = address_of(address, port);
  REQUIRE(connect(made.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
  return made;
}

}  // namespace

TEST_CASE("while endpoints come and go every new connection finds one, and those of the rest go on") {
  Node node;
  const Server five{node.pod(5)};
  const Server six{node.pod(6)};
  const Server seven{node.pod(7)};
  node.write_manifest("a.yaml", service_manifest("web", 10, {5, 6}) + service_manifest("steady", 11, {6}));
  node.start_agent();
  Conversation steady{node.pod(5), Transport::kTcp, "10.96.0.11", 80};
  REQUIRE(steady.ask().ok);

  std::atomic<bool> stop = false;
  std::atomic<int> tries = 0;
  std::atomic<int> resets = 0;
  std::vector<int> errors;
  std::thread client{[&] {
    while (!stop) {
      const Answer answer = ask(node.pod(5), Transport::kTcp, kVip, 80);
      ++tries;
      // The endpoint that goes may take a connection along, with a reset; nothing ends in silence or a refusal.
      if (answer.error == ECONNRESET || answer.error == EPIPE) {
        ++resets;
      } else if (!answer.ok) {
        errors.push_back(answer.error);
      }
    }
  }};
  constexpr int kChanges = 60;
  for (int i = 0; i < kChanges; ++i) {
    const std::vector<int> endpoints = i % 2 == 0 ? std::vector{5, 6, 7} : std::vector{6, 5};
    node.write_manifest("a.yaml", service_manifest("web", 10, endpoints) + service_manifest("steady", 11, {6}));
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
  stop = true;
  client.join();
  CHECK(tries > kChanges);
  for (const int error : errors) CHECK_MESSAGE(false, "errno ", error);
  CHECK(resets < kChanges);
  CHECK(steady.ask().ok);
}

TEST_CASE("an endpoint that goes while it owes an answer: the answer still comes, then the connection is reset") {
  Node node;
  const Fd server = listening(node.pod(6), 8080);
  node.write_manifest("a.yaml", service_manifest("web", 10, {6}));
  node.start_agent();
  const Fd client = connected(node.pod(5), kVip, 80);
  REQUIRE(send(client.get(), "q", 1, MSG_NOSIGNAL) == 1);
  const Fd accepted{accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC)};
  char byte = 0;
  REQUIRE(recv(accepted.get(), &byte, 1, 0) == 1);

  node.write_manifest("a.yaml", service_manifest("web", 10, {7}));
  REQUIRE(eventually([&] { return node.ctl("service show shop/web").find("10.244.1.7") != std::string::npos; }));
  REQUIRE(send(accepted.get(), "a", 1, MSG_NOSIGNAL) == 1);
  CHECK(recv(client.get(), &byte, 1, 0) == 1);
  // The client's acknowledgement of it may be what is answered by the reset, or its next question.
  const bool was_reset = send(client.get(), "q", 1, MSG_NOSIGNAL) == -1 || recv(client.get(), &byte, 1, 0) == -1;
  CHECK(was_reset);
  CHECK_MESSAGE((errno == ECONNRESET || errno == EPIPE), "errno ", errno);
}

TEST_CASE("a pod that owes itself an answer when its service goes: the answer still comes") {
  Node node;
  const Fd server = listening(node.pod(5), 8080);
  node.write_manifest("a.yaml", service_manifest("web", 10, {5}));
  node.start_agent();
  const Fd client = connected(node.pod(5), kVip, 80);
  REQUIRE(send(client.get(), "q", 1, MSG_NOSIGNAL) == 1);
  const Fd accepted{accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC)};
  char byte = 0;
  REQUIRE(recv(accepted.get(), &byte, 1, 0) == 1);
  std::filesystem::remove(node.manifests() / "a.yaml");
  REQUIRE(eventually([&] { return node.ctl("service list -o json").find("shop/web") == std::string::npos; }));
  REQUIRE(send(accepted.get(), "a", 1, MSG_NOSIGNAL) == 1);
  CHECK(recv(client.get(), &byte, 1, 0) == 1);
}

TEST_CASE("a service that goes takes its connections along with a reset, not in silence") {
  for (const int endpoint : {5, 6}) {
    CAPTURE(endpoint);
    Node node;
    const Server five{node.pod(5)};
    const Server six{node.pod(6)};
    node.write_manifest("a.yaml", service_manifest("web", 10, {endpoint}));
    node.start_agent();
    Conversation open{node.pod(5), Transport::kTcp, kVip, 80};
    REQUIRE(open.ask().ok);
    std::filesystem::remove(node.manifests() / "a.yaml");
    REQUIRE(eventually([&] { return node.ctl("service list -o json").find("shop/web") == std::string::npos; }));
    CHECK(open.ask().error == ECONNRESET);
  }
}

}  // namespace hairpin::test
