// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// The tools of this tier, against known answers: a model that is wrong proves nothing.
#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "tests/support/hash.hpp"
#include "tests/support/packet.hpp"
#include "tests/support/tables.hpp"

using namespace hairpin::test;

TEST_CASE("the hash is MurmurHash3") {
  // The values that implementations of it are commonly checked with.
  const struct {
    std::string_view text;
    std::uint32_t seed;
    std::uint32_t hash;
  } rows[] = {
      {"", 0, 0},
      {"", 1, 0x514e28b7},
      {"", 0xffffffff, 0x81f16f39},
      {"test", 0, 0xba6bd213},
      {"test", 0x9747b28c, 0x704b81dc},
      {"Hello, world!", 0x9747b28c, 0x24884cba},
      {"The quick brown fox jumps over the lazy dog", 0x9747b28c, 0x2fa826cd},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK(murmur3(bytes_of(row.text), row.seed) == row.hash);
  }
}

TEST_CASE("sums fold as RFC 1071 has it") {
  // The example of its section 3.
  const Bytes words = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
  CHECK(fold(sum_words(words)) == 0xddf2);
  CHECK(checksum_of(sum_words(words)) == 0x220d);
  CHECK(sum_words(Bytes{0x12}) == 0x1200);
  CHECK(fold(0xffff) == 0xffff);
  CHECK(fold(0x1fffe) == 0xffff);
}

TEST_CASE("an IPv4 header with a well-known checksum is built the same") {
  // The usual example of how the sum is made.
  const Bytes header = {0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11,
                        0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7};
  Packet packet = udp("192.168.0.1:68", "192.168.0.199:67", std::string(87, 'x'));
  packet.id = 0;
  const Bytes frame = packet.frame();
  CHECK(Bytes{frame.begin() + 14, frame.begin() + 34} == header);
}

TEST_CASE("built frames have right checksums, and a changed byte is found") {
  for (Packet packet : {tcp("10.1.0.2:40000", "10.96.0.1:80", kSyn), udp("10.1.0.2:40000", "10.96.0.1:53"),
                        tcp("[fd00::2]:40000", "[fd00::1]:80", kAck, "odd"), udp("[fd00::2]:40000", "[fd00::1]:53")}) {
    packet.ip_options = {1, 1, 1};
    packet.tcp_options = {2, 4, 5, 0xb4};
    const Bytes frame = packet.frame();
    CHECK_MESSAGE(checksums_right(frame), describe(frame));
    for (std::size_t i = packet.l4_offset(); i < frame.size(); ++i) {
      Bytes changed = frame;
      changed[i] ^= 0x10;
      CHECK_MESSAGE(!checksums_right(changed), "byte ", i, " of ", describe(changed));
    }
  }
}

TEST_CASE("no checksum is right for UDP over IPv4 only") {
  Packet ipv4 = udp("10.1.0.2:40000", "10.96.0.1:53");
  ipv4.udp_checksum = false;
  CHECK(checksums_right(ipv4.frame()));
  Packet ipv6 = udp("[fd00::2]:40000", "[fd00::1]:53");
  ipv6.udp_checksum = false;
  CHECK_FALSE(checksums_right(ipv6.frame()));
}
