// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/flow_view.hpp"

struct hairpin_bpf;  // the skeleton: changes with every line of BPF, and only program.cpp needs to see it

namespace hairpin::test {

enum class Hook : std::uint8_t { kFromPod, kToPod };

/// Interfaces that exist for the sake of their index, in a network namespace of this process's own, which is made (and
/// entered) at the first call and goes with the process. Throws where the kernel does not let us.
struct Interfaces {
  std::uint32_t a, b, c;  ///< three pods' veths
  std::uint32_t bridge;   ///< 10.1.0.1/24 and fd00:1::1/64, with neighbours added by add_neighbour
};
const Interfaces& interfaces();

/// Tells the kernel that the address is reached over the bridge, under that MAC.
void add_neighbour(const Address& address, const Mac& mac);

/// The real BPF programs with maps of their own, unpinned and unattached; packets are given to them one by one. Throws
/// where the kernel refuses something, as no test can go on then.
class Program {
 public:
  /// `chunks` of the flow table exist, all free.
  Program(const Settings& settings, std::uint32_t chunks);

  /// Runs one packet through.
  Outcome run(Hook hook, const Bytes& frame, std::uint32_t ifindex, std::uint32_t mark = 0);
  /// The same. Nothing: the kernel can't make a packet of so few bytes.
  std::optional<Outcome> try_run(Hook hook, const Bytes& frame, std::uint32_t ifindex, std::uint32_t mark = 0);
  /// skb->mark after the last run.
  [[nodiscard]] std::uint32_t mark() const { return mark_; }
  /// The same packet `count` times; the last one's verdict. For floods, and safe from several threads.
  int repeat(Hook hook, const Bytes& frame, std::uint32_t ifindex, std::uint32_t count) const;
  /// Runs end_flows over all elements; how many it ended.
  std::uint32_t end_all_flows();

  /// Makes the maps hold what the tables say.
  void fill(const Tables& tables);
  void attach(std::uint32_t ifindex, std::uint32_t bridge);
  void age(std::chrono::nanoseconds by);
  /// Empties flows, direct connections and counters; interfaces keep their chunks.
  void forget();

  /// Writes what only a program on another CPU would, to stand in for one that is in the middle of its work.
  void write_flow(std::uint32_t element, const hp_flow& flow);
  void write_tuple(const hp_tuple& tuple, std::uint32_t element, hp_direction direction);

  [[nodiscard]] State state() const;
  [[nodiscard]] std::uint64_t counter(Reason reason) const;
  /// The flow that a tuple leads to; find_flow returns nothing where there is none, flow_of throws.
  [[nodiscard]] hp_flow flow_of(const hp_tuple& tuple) const;
  [[nodiscard]] std::optional<hp_flow> find_flow(const hp_tuple& tuple) const;
  [[nodiscard]] std::vector<std::pair<std::uint32_t, hp_flow>> flows() const;  ///< those in use, by element
  [[nodiscard]] std::vector<std::pair<hp_tuple, hp_flow_ref>> tuples() const;
  [[nodiscard]] hp_interface interface(std::uint32_t ifindex) const;
  /// What is wrong with the flow table, one line each; empty if nothing: every tuple leads to a flow in use that lists
  /// it, every flow in use has both its tuples, none is stuck half opened, each lies in a chunk of its own interface.
  [[nodiscard]] std::string inconsistencies() const;

 private:
  [[nodiscard]] int program_fd(Hook hook) const;

  struct Unload {
    void operator()(hairpin_bpf* skeleton) const;
  };

  std::unique_ptr<hairpin_bpf, Unload> skeleton_;
  std::uint32_t chunk_size_;
  std::uint32_t elements_;
  std::uint32_t mark_ = 0;
  Tables filled_;
};

}  // namespace hairpin::test
