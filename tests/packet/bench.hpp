// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <chrono>
#include <string>

#include "tests/support/model.hpp"
#include "tests/support/program.hpp"

namespace hairpin::test {

/// The programs and the model side by side: whatever is done is done to both, and what comes out is compared.
class Bench {
 public:
  /// Pods A and B are attached, C is not; no services yet.
  explicit Bench(const Settings& settings = {}, std::uint32_t chunks = 66);

  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  /// Change it, then call publish().
  Tables tables;
  void publish() { program_.fill(tables); }

  /// Runs the packet through both and CHECKs that they agree, byte for byte. Returns what the program did.
  Outcome run(Hook hook, const Bytes& frame, std::uint32_t ifindex);
  Outcome from_pod(const Packet& packet, std::uint32_t ifindex = interfaces().a) {
    return run(Hook::kFromPod, packet.frame(), ifindex);
  }
  Outcome to_pod(const Packet& packet, std::uint32_t ifindex = interfaces().a) {
    return run(Hook::kToPod, packet.frame(), ifindex);
  }
  /// The same without a word where all is well; on a difference, what differs. For many packets.
  std::string compare(Hook hook, const Bytes& frame, std::uint32_t ifindex);

  /// What the program did with the last packet that was one.
  [[nodiscard]] const Outcome& last() const { return last_; }

  /// Lets time go by.
  void age(std::chrono::nanoseconds by);
  void forget();

  /// CHECKs that both have the same flows, direct connections and counters, and that the flow table is in order.
  void check_tables() const;
  /// The same as text; empty where all is well.
  [[nodiscard]] std::string table_differences() const;

  [[nodiscard]] Program& program() { return program_; }
  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] Model& model() { return model_; }

 private:
  Settings settings_;
  Program program_;
  Model model_;
  Outcome last_;
};

/// The addresses that the cases use, of one family.
struct World {
  Address a;  ///< pod A's, behind interfaces().a
  Address b;  ///< pod B's, behind interfaces().b
  Address vip;
  Address other_vip;
  Address stranger;  ///< neither service nor endpoint
};
/// Both families.
const std::vector<World>& worlds();
constexpr Protocol kProtocols[] = {kTcp, kUdp};

/// The first packet of a connection, TCP's SYN or a datagram.
Packet opening(Protocol protocol, const Socket& from, const Socket& to);
/// The first packet back.
Packet answer(Protocol protocol, const Socket& from, const Socket& to);

/// CHECKs that the outcome is this packet under this verdict, with right checksums.
void check_outcome(const Outcome& outcome, int verdict, const Packet& expected);
/// CHECKs that the frame passed and is what it was.
void check_untouched(const Outcome& outcome, const Bytes& frame);

}  // namespace hairpin::test
