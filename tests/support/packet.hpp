// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "maps/address.hpp"
#include "tests/support/checksum.hpp"

namespace hairpin::test {

using Mac = std::array<std::uint8_t, 6>;

/// An address and a port, in host order; reads "10.0.0.1:80" and "[fd00::1]:80" (anything else is a bug in the test).
struct Socket {
  Address address;
  std::uint16_t port = 0;

  Socket() = default;
  Socket(std::string_view text);  // NOLINT(google-explicit-constructor): tables read like tables
  Socket(const char* text) : Socket{std::string_view{text}} {}
  Socket(const Address& of, std::uint16_t at) : address{of}, port{at} {}

  [[nodiscard]] std::string to_string() const;
  friend auto operator<=>(const Socket&, const Socket&) = default;
};

/// The address, or a failure of the test's own.
Address address(std::string_view text);

enum TcpFlag : std::uint8_t {
  kFin = 0x01,
  kSyn = 0x02,
  kRst = 0x04,
  kPsh = 0x08,
  kAck = 0x10,
  kUrg = 0x20,
  kEce = 0x40,
};

/// IP protocol numbers (IANA).
enum Protocol : std::uint8_t {
  kHopByHop = 0,
  kIcmp = 1,
  kTcp = 6,
  kUdp = 17,
  kRouting = 43,
  kFragment = 44,
  kIcmpv6 = 58,
  kDestinationOptions = 60,
  kSctp = 132,
};

/// One packet, described field by field; frame() writes it out with right lengths and checksums. Used for what goes in
/// and for what is expected to come out: copy, change what should have changed, compare.
struct Packet {
  Mac to_mac{0x02, 0, 0, 0, 0, 0x01};
  Mac from_mac{0x02, 0, 0, 0, 0, 0x0a};
  std::vector<std::uint16_t> vlan;  ///< tags, outermost first

  Socket from;  ///< both of one family, which is the packet's
  Socket to;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;  ///< IPv6
  std::uint8_t ttl = 64;
  std::uint16_t id = 0x1d0c;  ///< IPv4, and so are these:
  bool dont_fragment = true;
  bool more_fragments = false;
  std::uint16_t fragment_offset = 0;  ///< in units of 8 bytes
  Bytes ip_options;                   ///< filled up to a multiple of 4 with zeros
  struct Extension {
    std::uint8_t protocol;
    Bytes body;  ///< what follows next header; a multiple of 8, less one
  };
  std::vector<Extension> extensions;  ///< IPv6

  std::uint8_t protocol = kTcp;  ///< TCP, UDP; anything else: the payload is all there is
  std::uint32_t sequence = 0x10203040;
  std::uint32_t acknowledgement = 0;
  std::uint8_t flags = kSyn;
  std::uint16_t window = 64240;
  std::uint16_t urgent = 0;
  Bytes tcp_options;         ///< filled up to a multiple of 4 with zeros
  bool udp_checksum = true;  ///< false: zero, "none"
  Bytes payload;
  std::size_t padding = 0;  ///< bytes behind the IP packet

  [[nodiscard]] Bytes frame() const;
  /// Where the TCP or UDP header begins.
  [[nodiscard]] std::size_t l4_offset() const;

  /// The packet with its MACs exchanged.
  [[nodiscard]] Packet turned() const;
  /// The packet with other ends.
  [[nodiscard]] Packet between(const Socket& source, const Socket& destination) const;
};

Packet tcp(const Socket& from, const Socket& to, std::uint8_t flags, std::string_view payload = "");
Packet udp(const Socket& from, const Socket& to, std::string_view payload = "hello");

Bytes bytes_of(std::string_view text);

/// ICMP port unreachable about the frame, as the programs make it (RFC 792, RFC 4443 3.1): addressed to its sender, its
/// IP header and 8 bytes quoted.
Bytes port_unreachable(std::span<const std::uint8_t> refused);

/// One line of what is in the frame, as far as it can be read, and its bytes in hexadecimal below.
std::string describe(std::span<const std::uint8_t> frame);

}  // namespace hairpin::test
