// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Datagrams that are not one packet each, and traffic that is none of ours.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

#include "tests/support/lab.hpp"
#include "tests/support/traffic.hpp"

namespace hairpin::test {

namespace {

Fd connected(const Namespace& space, const std::string& address, std::uint16_t port) {
  const bool ipv6 = address.find(':') != std::string::npos;
  sockaddr_in in{.sin_family = AF_INET, .sin_port = htons(port)};
  sockaddr_in6 in6{.sin6_family = AF_INET6, .sin6_port = htons(port)};
  REQUIRE(inet_pton(ipv6 ? AF_INET6 : AF_INET, address.c_str(),
                    ipv6 ? static_cast<void*>(&in6.sin6_addr) : static_cast<void*>(&in.sin_addr)) == 1);
  Fd made;
  space.run([&] { made = Fd{socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)}; });
  REQUIRE(connect(made.get(), ipv6 ? reinterpret_cast<sockaddr*>(&in6) : reinterpret_cast<sockaddr*>(&in),
                  ipv6 ? sizeof in6 : sizeof in) == 0);
  return made;
}

/// Sends that many bytes, in datagrams of a size that the kernel cuts (0: one datagram); how many answers came.
int answers(const Fd& socket, std::size_t bytes, int segment, int expected) {
  if (segment != 0) REQUIRE(setsockopt(socket.get(), SOL_UDP, UDP_SEGMENT, &segment, sizeof segment) == 0);
  const std::string text(bytes, 'x');
  REQUIRE(send(socket.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(bytes));
  int got = 0;
  std::array<char, 256> buffer{};
  pollfd entry{socket.get(), POLLIN, 0};
  while (got < expected && poll(&entry, 1, 1000) > 0 && recv(socket.get(), buffer.data(), buffer.size(), 0) > 0) ++got;
  return got;
}

}  // namespace

TEST_CASE("datagrams that the kernel segments (UDP_SEGMENT) arrive one by one") {
  constexpr int kDatagrams = 10;
  constexpr std::size_t kBytes = 5000;
  for (const char* redirect : {"peer", "egress"}) {
    CAPTURE(redirect);
    Node node{{.redirect = redirect, .pods = {5, 6}}};
    const Server self{node.pod(5)};
    const Server other{node.pod(6)};
    node.write_manifest("a.yaml", service_manifest("self", 10, {5}) + service_manifest("other", 11, {6}));
    node.start_agent();
    for (const char* address : {"10.96.0.10", "fd00:96::10", "10.96.0.11", "fd00:96::11"}) {
      CAPTURE(address);
      CHECK(answers(connected(node.pod(5), address, 53), kBytes, kBytes / kDatagrams, kDatagrams) == kDatagrams);
    }
  }
}

TEST_CASE("what is no service traffic passes: fragments, direct connections, the node itself") {
  for (const Topology topology : {Topology::kBridge, Topology::kRouted}) {
    CAPTURE(static_cast<int>(topology));
    Node node{{.topology = topology, .pods = {5, 6}}};
    // On a routed node a pod would else see the node by a link-local address, and answer from its own.
    node.host().sh("ip -6 addr add fd00:244::1/128 dev lo nodad");
    const Server self{node.pod(5)};
    const Server other{node.pod(6)};
    const Server host{node.host()};
    node.write_manifest("a.yaml", service_manifest("self", 10, {5}) + service_manifest("other", 11, {6}));
    node.start_agent();
    const std::string gateway = topology == Topology::kBridge ? "10.244.1.1" : "169.254.1.1";
    for (const Transport transport : {Transport::kTcp, Transport::kUdp}) {
      const std::uint16_t port = transport == Transport::kTcp ? 8080 : 5353;
      CHECK(ask(node.pod(5), transport, gateway, port).ok);
      CHECK(ask(node.pod(5), transport, "10.244.1.5", port).peer.starts_with("10.244.1.5 "));
      for (const std::string address : {"10.244.1.6", "fd00:244:1::6"}) {
        CAPTURE(port);
        CAPTURE(address);
        CHECK(ask(node.host(), transport, address, port).ok);
        CHECK(ask(node.pod(5), transport, address, port).ok);
      }
    }
    // Endpoints' addresses are looked at, so their fragments are the ones that could be spoilt.
    constexpr std::size_t kTooLong = 4000;
    CHECK(answers(connected(node.pod(5), "10.244.1.6", 5353), kTooLong, 0, 1) == 1);
    CHECK(answers(connected(node.pod(5), "fd00:244:1::6", 5353), kTooLong, 0, 1) == 1);
  }
}

}  // namespace hairpin::test
