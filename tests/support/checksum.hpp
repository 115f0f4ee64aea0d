// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hairpin::test {

using Bytes = std::vector<std::uint8_t>;

/// The bytes' sum as big-endian 16-bit words (RFC 1071), not folded; an odd last byte is the upper half of a word.
std::uint64_t sum_words(std::span<const std::uint8_t> bytes);

/// The sum in 16 bits, carries added at the low end.
std::uint16_t fold(std::uint64_t sum);

/// What goes into a checksum field, given the sum of everything else.
std::uint16_t checksum_of(std::uint64_t sum);

/// The sum of the pseudo header (RFC 793, 3.1; RFC 8200, 8.1). `addresses` are source and destination, 8 or 32 bytes.
std::uint64_t pseudo_sum(std::span<const std::uint8_t> addresses, std::uint8_t protocol, std::uint32_t length);

/// Whether every checksum in the Ethernet frame, summed up from scratch, is right: IPv4 header, TCP, UDP, ICMP, ICMPv6.
/// A frame whose headers do not fit is not right; one of a protocol that has no checksum is.
bool checksums_right(std::span<const std::uint8_t> frame);

/// What the kernel makes of a CHECKSUM_PARTIAL packet when a device can't: sums up from `start` to the end, the field
/// itself included, and writes the result at `start` + `offset` (skb_checksum_help).
Bytes completed(Bytes frame, std::size_t start, std::size_t offset);

}  // namespace hairpin::test
