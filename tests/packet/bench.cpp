// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "tests/packet/bench.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <ctime>

namespace hairpin::test {
namespace {

/// The programs' clock.
std::chrono::nanoseconds now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

}  // namespace

Bench::Bench(const Settings& settings, std::uint32_t chunks)
    : settings_{settings}, program_{settings_, chunks}, model_{tables, settings_} {
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) model_.add_free_chunk(chunk);
  for (const std::uint32_t ifindex : {interfaces().a, interfaces().b}) {
    program_.attach(ifindex, 0);
    model_.attach(ifindex, 0);
  }
}

std::string Bench::compare(Hook hook, const Bytes& frame, std::uint32_t ifindex) {
  const auto time = now();
  const auto done = program_.try_run(hook, frame, ifindex);
  if (!done) return {};
  last_ = *done;
  const Outcome should =
      hook == Hook::kFromPod ? model_.from_pod(frame, ifindex, time) : model_.to_pod(frame, ifindex, time);
  // What is in a packet that is dropped does not matter.
  if (done->verdict == should.verdict && (done->verdict == kDrop || done->frame == should.frame)) return {};
  return fmt::format("{} on interface {}\n  in {}\n  program: verdict {}, {}\n  model: verdict {}, {}\n",
                     hook == Hook::kFromPod ? "from_pod" : "to_pod", ifindex, describe(frame), done->verdict,
                     describe(done->frame), should.verdict, describe(should.frame));
}

Outcome Bench::run(Hook hook, const Bytes& frame, std::uint32_t ifindex) {
  const std::string differences = compare(hook, frame, ifindex);
  CHECK_MESSAGE(differences.empty(), differences);
  return last_;
}

void Bench::age(std::chrono::nanoseconds by) {
  program_.age(by);
  model_.age(by);
}

void Bench::forget() {
  program_.forget();
  model_.forget();
}

std::string Bench::table_differences() const {
  return program_.inconsistencies() + difference(program_.state(), model_.state());
}

void Bench::check_tables() const {
  const std::string differences = table_differences();
  CHECK_MESSAGE(differences.empty(), differences);
}

const std::vector<World>& worlds() {
  static const std::vector<World> both = {
      {.a = address("10.1.0.2"),
       .b = address("10.1.0.3"),
       .vip = address("10.96.0.10"),
       .other_vip = address("10.96.0.20"),
       .stranger = address("192.0.2.7")},
      {.a = address("fd00:1::2"),
       .b = address("fd00:1::3"),
       .vip = address("fd00:96::10"),
       .other_vip = address("fd00:96::20"),
       .stranger = address("2001:db8::7")},
  };
  return both;
}

Packet opening(Protocol protocol, const Socket& from, const Socket& to) {
  return protocol == kTcp ? tcp(from, to, kSyn) : udp(from, to, "ask");
}

Packet answer(Protocol protocol, const Socket& from, const Socket& to) {
  return protocol == kTcp ? tcp(from, to, kSyn | kAck) : udp(from, to, "say");
}

void check_outcome(const Outcome& outcome, int verdict, const Packet& expected) {
  const Bytes frame = expected.frame();
  CHECK(outcome.verdict == verdict);
  CHECK_MESSAGE(outcome.frame == frame, "is ", describe(outcome.frame), "\nshould be ", describe(frame));
  CHECK(checksums_right(outcome.frame));
}

void check_untouched(const Outcome& outcome, const Bytes& frame) {
  CHECK(outcome.verdict == kPass);
  CHECK_MESSAGE(outcome.frame == frame, "is ", describe(outcome.frame), "\nwas ", describe(frame));
}

}  // namespace hairpin::test
