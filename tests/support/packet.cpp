// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "tests/support/packet.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <stdexcept>

namespace hairpin::test {
namespace {

constexpr std::size_t kEthernet = 14;

void put8(Bytes& out, unsigned value) { out.push_back(static_cast<std::uint8_t>(value)); }

void put16(Bytes& out, unsigned value) {
  put8(out, value >> 8);
  put8(out, value);
}

void put32(Bytes& out, std::uint32_t value) {
  put16(out, value >> 16);
  put16(out, value);
}

void put(Bytes& out, std::span<const std::uint8_t> bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

void set16(std::span<std::uint8_t> out, std::size_t offset, unsigned value) {
  out[offset] = static_cast<std::uint8_t>(value >> 8);
  out[offset + 1] = static_cast<std::uint8_t>(value);
}

std::size_t get16(std::span<const std::uint8_t> in, std::size_t offset) {
  return static_cast<std::size_t>(in[offset] << 8 | in[offset + 1]);
}

Bytes filled_up(Bytes options) {
  while (options.size() % 4 != 0) options.push_back(0);
  return options;
}

bool is_ipv6(const Packet& packet) { return packet.from.address.family() == Family::kIpv6; }

/// As in the IP header: 4 or 16 bytes.
Bytes wire(const Address& address) {
  Bytes out(16);
  std::memcpy(out.data(), &address.raw(), 16);
  if (address.family() == Family::kIpv4) out.erase(out.begin(), out.begin() + 12);
  return out;
}

Bytes wire_addresses(const Packet& packet) {
  Bytes out = wire(packet.from.address);
  put(out, wire(packet.to.address));
  return out;
}

Bytes tcp_segment(const Packet& packet) {
  const Bytes options = filled_up(packet.tcp_options);
  Bytes out;
  put16(out, packet.from.port);
  put16(out, packet.to.port);
  put32(out, packet.sequence);
  put32(out, packet.acknowledgement);
  put8(out, static_cast<unsigned>((20 + options.size()) / 4) << 4);
  put8(out, packet.flags);
  put16(out, packet.window);
  put16(out, 0);
  put16(out, packet.urgent);
  put(out, options);
  put(out, packet.payload);
  set16(out, 16,
        checksum_of(pseudo_sum(wire_addresses(packet), kTcp, static_cast<std::uint32_t>(out.size())) + sum_words(out)));
  return out;
}

Bytes udp_datagram(const Packet& packet) {
  Bytes out;
  put16(out, packet.from.port);
  put16(out, packet.to.port);
  put16(out, static_cast<unsigned>(8 + packet.payload.size()));
  put16(out, 0);
  put(out, packet.payload);
  if (packet.udp_checksum) {
    const std::uint16_t sum =
        checksum_of(pseudo_sum(wire_addresses(packet), kUdp, static_cast<std::uint32_t>(out.size())) + sum_words(out));
    set16(out, 6, sum == 0 ? 0xffff : sum);
  }
  return out;
}

Bytes transport(const Packet& packet) {
  switch (packet.protocol) {
    case kTcp:
      return tcp_segment(packet);
    case kUdp:
      return udp_datagram(packet);
    default:
      return packet.payload;
  }
}

Bytes ipv4_header(const Packet& packet, std::size_t payload) {
  const Bytes options = filled_up(packet.ip_options);
  Bytes out;
  put8(out, 0x40U | static_cast<unsigned>((20 + options.size()) / 4));
  put8(out, packet.traffic_class);
  put16(out, static_cast<unsigned>(20 + options.size() + payload));
  put16(out, packet.id);
  put16(out, (packet.dont_fragment ? 0x4000U : 0U) | (packet.more_fragments ? 0x2000U : 0U) | packet.fragment_offset);
  put8(out, packet.ttl);
  put8(out, packet.protocol);
  put16(out, 0);
  put(out, wire_addresses(packet));
  put(out, options);
  set16(out, 10, checksum_of(sum_words(out)));
  return out;
}

Bytes ipv6_headers(const Packet& packet, std::size_t payload) {
  Bytes extensions;
  for (std::size_t i = 0; i < packet.extensions.size(); ++i) {
    put8(extensions, i + 1 < packet.extensions.size() ? packet.extensions[i + 1].protocol : packet.protocol);
    put(extensions, packet.extensions[i].body);
  }
  Bytes out;
  put32(out, 0x60000000U | std::uint32_t{packet.traffic_class} << 20 | packet.flow_label);
  put16(out, static_cast<unsigned>(extensions.size() + payload));
  put8(out, packet.extensions.empty() ? packet.protocol : packet.extensions.front().protocol);
  put8(out, packet.ttl);
  put(out, wire_addresses(packet));
  put(out, extensions);
  return out;
}

std::string hex(std::span<const std::uint8_t> bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i % 16 == 0) out += fmt::format("\n    {:04x} ", i);
    out += fmt::format(" {:02x}", bytes[i]);
  }
  return out;
}

std::string describe_mac(std::span<const std::uint8_t> mac) {
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
}

std::string describe_flags(std::uint8_t flags) {
  constexpr std::string_view kLetters = "FSRPAUEC";
  std::string out;
  for (std::size_t i = 0; i < kLetters.size(); ++i)
    if ((flags >> i & 1) != 0) out += kLetters[i];
  return out.empty() ? "-" : out;
}

std::string describe_transport(std::uint8_t protocol, std::span<const std::uint8_t> segment) {
  if (segment.size() < 8) return fmt::format("protocol {} (cut at {})", protocol, segment.size());
  const auto ports = fmt::format("{} > {}", get16(segment, 0), get16(segment, 2));
  switch (protocol) {
    case kTcp:
      if (segment.size() < 20) return "TCP " + ports + " (cut)";
      return fmt::format("TCP {} flags {} seq {:#x}{:04x} ack {:#x}{:04x} sum {:04x}", ports,
                         describe_flags(segment[13]), get16(segment, 4), get16(segment, 6), get16(segment, 8),
                         get16(segment, 10), get16(segment, 16));
    case kUdp:
      return fmt::format("UDP {} length {} sum {:04x}", ports, get16(segment, 4), get16(segment, 6));
    case kIcmp:
    case kIcmpv6:
      return fmt::format("ICMP{} type {} code {} sum {:04x}", protocol == kIcmpv6 ? "v6" : "", segment[0], segment[1],
                         get16(segment, 2));
    default:
      return fmt::format("protocol {}", protocol);
  }
}

Address address_at(std::span<const std::uint8_t> bytes, bool ipv6) {
  hp_addr raw{};
  raw.word[2] = htonl(0xffff);
  if (ipv6) {
    std::memcpy(&raw, bytes.data(), 16);
  } else {
    std::memcpy(&raw.word[3], bytes.data(), 4);
  }
  return Address{raw};
}

std::string describe_network(std::span<const std::uint8_t> frame) {
  const std::size_t type = get16(frame, 12);
  const auto packet = frame.subspan(kEthernet);
  if (type == 0x0800 && packet.size() >= 20) {
    const std::size_t header = static_cast<std::size_t>(packet[0] & 0xf) * 4;
    return fmt::format("IPv4 {} > {} length {} ttl {} {}", address_at(packet.subspan(12), false).to_string(),
                       address_at(packet.subspan(16), false).to_string(), get16(packet, 2), packet[8],
                       header > packet.size() ? "(cut)" : describe_transport(packet[9], packet.subspan(header)));
  }
  if (type == 0x86dd && packet.size() >= 40)
    return fmt::format("IPv6 {} > {} length {} hops {} {}", address_at(packet.subspan(8), true).to_string(),
                       address_at(packet.subspan(24), true).to_string(), get16(packet, 4), packet[7],
                       describe_transport(packet[6], packet.subspan(40)));
  return fmt::format("ethertype {:04x}", type);
}

}  // namespace

Address address(std::string_view text) {
  const auto parsed = Address::parse(text);
  if (!parsed) throw std::logic_error{fmt::format("not an address: {}", text)};
  return *parsed;
}

Socket::Socket(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) throw std::logic_error{fmt::format("no port: {}", text)};
  std::string_view host = text.substr(0, colon);
  const std::string_view number = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  this->address = test::address(host);
  if (std::from_chars(number.data(), number.data() + number.size(), port).ptr != number.data() + number.size())
    throw std::logic_error{fmt::format("no port: {}", text)};
}

std::string Socket::to_string() const {
  const bool ipv6 = address.family() == Family::kIpv6;
  return fmt::format(fmt::runtime(ipv6 ? "[{}]:{}" : "{}:{}"), address.to_string(), port);
}

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

Packet tcp(const Socket& from, const Socket& to, std::uint8_t flags, std::string_view payload) {
  Packet packet;
  packet.from = from;
  packet.to = to;
  packet.flags = flags;
  packet.acknowledgement = (flags & kAck) != 0 ? 0x50607080 : 0;
  packet.payload = bytes_of(payload);
  return packet;
}

Packet udp(const Socket& from, const Socket& to, std::string_view payload) {
  Packet packet;
  packet.from = from;
  packet.to = to;
  packet.protocol = kUdp;
  packet.payload = bytes_of(payload);
  return packet;
}

Bytes Packet::frame() const {
  const Bytes segment = transport(*this);
  Bytes out;
  put(out, to_mac);
  put(out, from_mac);
  for (const std::uint16_t tag : vlan) {
    put16(out, 0x8100);
    put16(out, tag);
  }
  put16(out, is_ipv6(*this) ? 0x86dd : 0x0800);
  put(out, is_ipv6(*this) ? ipv6_headers(*this, segment.size()) : ipv4_header(*this, segment.size()));
  put(out, segment);
  out.resize(out.size() + padding);
  return out;
}

std::size_t Packet::l4_offset() const {
  return kEthernet + 4 * vlan.size() + (is_ipv6(*this) ? ipv6_headers(*this, 0) : ipv4_header(*this, 0)).size();
}

Packet Packet::turned() const {
  Packet other = *this;
  std::swap(other.to_mac, other.from_mac);
  return other;
}

Packet Packet::between(const Socket& source, const Socket& destination) const {
  Packet other = *this;
  other.from = source;
  other.to = destination;
  return other;
}

Bytes port_unreachable(std::span<const std::uint8_t> refused) {
  const auto packet = refused.subspan(kEthernet);
  const bool ipv6 = packet[0] >> 4 == 6;
  const std::size_t header = ipv6 ? 40 : static_cast<std::size_t>(packet[0] & 0xf) * 4;
  const auto quote = packet.first(header + 8);
  const std::size_t address_size = ipv6 ? 16 : 4;
  const auto addresses = packet.subspan(ipv6 ? 8 : 12, 2 * address_size);

  Bytes message;
  put8(message, ipv6 ? 1 : 3);
  put8(message, ipv6 ? 4 : 3);
  put16(message, 0);  // the checksum, below
  put16(message, 0);
  // Where a datagram has its checksum, and a completion of it would write.
  const std::uint64_t pseudo = ipv6 ? pseudo_sum(addresses, kIcmpv6, static_cast<std::uint32_t>(8 + quote.size())) : 0;
  put16(message, fold(pseudo));
  put(message, quote);
  set16(message, 2, checksum_of(pseudo + sum_words(message)));

  Bytes out;
  put(out, refused.subspan(6, 6));
  put(out, refused.subspan(0, 6));
  put(out, refused.subspan(12, 2));
  if (ipv6) {
    put32(out, 0x60000000);
    put16(out, static_cast<unsigned>(message.size()));
    put8(out, kIcmpv6);
    put8(out, 64);
  } else {
    put8(out, packet[0]);
    put8(out, 0);
    put16(out, static_cast<unsigned>(header + message.size()));
    put16(out, 0);
    put16(out, 0x4000);
    put8(out, 64);
    put8(out, kIcmp);
    put16(out, 0);
  }
  put(out, addresses.subspan(address_size));
  put(out, addresses.first(address_size));
  out.resize(kEthernet + header);  // options: zeros
  if (!ipv6) set16(out, kEthernet + 10, checksum_of(sum_words(std::span{out}.subspan(kEthernet))));
  put(out, message);
  return out;
}

std::string describe(std::span<const std::uint8_t> frame) {
  if (frame.size() < kEthernet) return fmt::format("{} bytes{}", frame.size(), hex(frame));
  return fmt::format("{} > {} {}, {} bytes, checksums {}{}", describe_mac(frame.subspan(6)), describe_mac(frame),
                     describe_network(frame), frame.size(), checksums_right(frame) ? "right" : "WRONG", hex(frame));
}

}  // namespace hairpin::test
