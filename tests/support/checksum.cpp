// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "tests/support/checksum.hpp"

namespace hairpin::test {
namespace {

std::size_t word_at(std::span<const std::uint8_t> bytes, std::size_t offset) {
  return static_cast<std::size_t>(bytes[offset] << 8 | bytes[offset + 1]);
}

bool sums_to_ones(std::uint64_t sum) { return fold(sum) == 0xffff; }

/// The transport part; `addresses` as in the IP header.
bool transport_right(std::span<const std::uint8_t> addresses, std::uint8_t protocol,
                     std::span<const std::uint8_t> segment) {
  const bool ipv6 = addresses.size() == 32;
  const auto pseudo = [&] { return pseudo_sum(addresses, protocol, static_cast<std::uint32_t>(segment.size())); };
  switch (protocol) {
    case 6:
      return segment.size() >= 20 && sums_to_ones(pseudo() + sum_words(segment));
    case 17:
      if (segment.size() < 8) return false;
      if (word_at(segment, 6) == 0) return !ipv6;  // none given: IPv4 may
      return sums_to_ones(pseudo() + sum_words(segment));
    case 1:
      return !ipv6 && segment.size() >= 8 && sums_to_ones(sum_words(segment));
    case 58:
      return ipv6 && segment.size() >= 8 && sums_to_ones(pseudo() + sum_words(segment));
    default:
      return true;
  }
}

bool ipv4_right(std::span<const std::uint8_t> packet) {
  if (packet.size() < 20) return false;
  const std::size_t header = static_cast<std::size_t>(packet[0] & 0xf) * 4;
  const std::size_t total = word_at(packet, 2);
  if (header < 20 || total < header || total > packet.size()) return false;
  if (!sums_to_ones(sum_words(packet.first(header)))) return false;
  if ((word_at(packet, 6) & 0x3fff) != 0) return true;  // a fragment: the sum is over the whole datagram
  return transport_right(packet.subspan(12, 8), packet[9], packet.subspan(header, total - header));
}

bool ipv6_right(std::span<const std::uint8_t> packet) {
  if (packet.size() < 40) return false;
  const std::size_t length = word_at(packet, 4);
  if (40 + length > packet.size()) return false;
  return transport_right(packet.subspan(8, 32), packet[6], packet.subspan(40, length));
}

}  // namespace

std::uint64_t sum_words(std::span<const std::uint8_t> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) sum += i % 2 == 0 ? std::uint64_t{bytes[i]} << 8 : bytes[i];
  return sum;
}

std::uint16_t fold(std::uint64_t sum) {
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

std::uint16_t checksum_of(std::uint64_t sum) { return static_cast<std::uint16_t>(~fold(sum)); }

std::uint64_t pseudo_sum(std::span<const std::uint8_t> addresses, std::uint8_t protocol, std::uint32_t length) {
  return sum_words(addresses) + protocol + (length >> 16) + (length & 0xffff);
}

bool checksums_right(std::span<const std::uint8_t> frame) {
  if (frame.size() < 14) return false;
  const auto packet = frame.subspan(14);
  switch (word_at(frame, 12)) {
    case 0x0800:
      return ipv4_right(packet);
    case 0x86dd:
      return ipv6_right(packet);
    default:
      return true;
  }
}

Bytes completed(Bytes frame, std::size_t start, std::size_t offset) {
  std::uint16_t sum = checksum_of(sum_words(std::span{frame}.subspan(start)));
  if (sum == 0) sum = 0xffff;
  frame[start + offset] = static_cast<std::uint8_t>(sum >> 8);
  frame[start + offset + 1] = static_cast<std::uint8_t>(sum);
  return frame;
}

}  // namespace hairpin::test
