// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "maps/address.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using hairpin::Address;
using hairpin::Family;

TEST_CASE("an address reads and prints in its canonical form") {
  struct {
    std::string text;
    Family family;
    std::string printed;
  } const rows[] = {
      {"10.96.0.10", Family::kIpv4, "10.96.0.10"},
      {"0.0.0.0", Family::kIpv4, "0.0.0.0"},
      {"255.255.255.255", Family::kIpv4, "255.255.255.255"},
      {"fd00::1", Family::kIpv6, "fd00::1"},
      {"FD00:0:0:0:0:0:0:1", Family::kIpv6, "fd00::1"},
      {"::", Family::kIpv6, "::"},
      {"64:ff9b::192.0.2.1", Family::kIpv6, "64:ff9b::c000:201"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    const auto address = Address::parse(row.text);
    REQUIRE(address);
    CHECK(address->family() == row.family);
    CHECK(address->to_string() == row.printed);
  }
}

TEST_CASE("anything else is no address") {
  using namespace std::string_view_literals;
  for (const std::string_view text :
       {""sv, "None"sv, "10.96.0"sv, "10.96.0.256"sv, "10.96.0.1/24"sv, "010.0.0.1"sv, " 10.0.0.1"sv, "10.0.0.1 "sv,
        "fe80::1%eth0"sv, "::ffff:10.0.0.1"sv, "::ffff:a00:1"sv, "fd00:::1"sv, "[fd00::1]"sv, "localhost"sv,
        "10.0.0.1\0x"sv, "fd00::1\0"sv}) {
    CAPTURE(std::string{text});
    CHECK_FALSE(Address::parse(text));
  }
}

TEST_CASE("an IPv4 address is held mapped, in network order") {
  const hp_addr raw = Address::parse("10.1.2.3")->raw();
  CHECK(raw.word[0] == 0);
  CHECK(raw.word[1] == 0);
  CHECK(raw.word[2] == htonl(0xffff));
  CHECK(raw.word[3] == htonl(0x0a010203));
}

TEST_CASE("addresses sort by their bytes, IPv4 before global IPv6") {
  CHECK(*Address::parse("10.0.0.1") < *Address::parse("10.0.0.2"));
  CHECK(*Address::parse("9.255.255.255") < *Address::parse("10.0.0.0"));
  CHECK(*Address::parse("255.255.255.255") < *Address::parse("fd00::1"));
  CHECK(*Address::parse("10.0.0.1") == *Address::parse("10.0.0.1"));
}
