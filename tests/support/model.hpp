// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "tests/support/flow_view.hpp"

namespace hairpin::test {

/// What the programs should do, said a second time: plain maps, one packet after the other, no thought for speed, and
/// nothing taken from the BPF code. Times are nanoseconds of any clock that does not go back.
class Model {
 public:
  using Time = std::chrono::nanoseconds;

  /// Both are looked at on every packet: changes to them take effect at once.
  Model(const Tables& tables, const Settings& settings) : tables_{tables}, settings_{settings} {}

  /// What a pod sends, as it comes in on the host's side of its veth.
  Outcome from_pod(const Bytes& frame, std::uint32_t ifindex, Time now);
  /// What a pod is about to receive.
  Outcome to_pod(const Bytes& frame, std::uint32_t ifindex, Time now);

  /// A chunk of the flow table that no pod has yet.
  void add_free_chunk(std::uint32_t chunk) { free_chunks_.push_back(chunk); }
  /// Gives the interface its first chunk, the next free one. A bridge of 0: routed.
  void attach(std::uint32_t ifindex, std::uint32_t bridge);
  /// That endpoint is on the bridge of the client, under that MAC.
  void add_neighbour(const Address& endpoint, const Mac& mac) { neighbours_[endpoint] = mac; }

  /// What userspace asks of the program end_flows.
  void end_all_flows();
  /// Lets time go by for every flow.
  void age(Time by);
  /// Forgets flows, direct connections and counters; interfaces keep their chunks.
  void forget();

  [[nodiscard]] State state() const;
  [[nodiscard]] std::vector<FlowView> flows() const;

 private:
  enum class Direction : std::uint8_t { kRequest, kReply };

  struct Packet {
    hp_tuple tuple;
    std::size_t l4;
    bool ipv6;
    std::uint8_t flags;
  };

  struct Flow {
    hp_tuple request;
    hp_tuple reply;
    Time last_used;
    std::uint32_t backend;
    std::uint32_t epoch;
    std::uint32_t service;
    std::uint8_t state;
    bool hairpin;
    bool fin_request;
    bool fin_reply;
    std::optional<Mac> mac;
  };

  struct Place {
    std::uint32_t element;
    Direction direction;
  };

  struct Target {
    Address address;
    std::uint16_t port;  // network order
    std::uint32_t backend;
    std::uint32_t epoch;
    std::uint32_t service;
  };

  struct Interface {
    std::uint32_t bridge;
    std::uint32_t hand;
    std::vector<std::uint32_t> chunks;
  };

  /// Nothing: not translated. The two of the network layer return how many bytes the header says to be behind it.
  static std::optional<std::size_t> read_ipv4(const Bytes& frame, Packet& packet);
  static std::optional<std::size_t> read_ipv6(const Bytes& frame, Packet& packet);
  static bool read_transport(const Bytes& frame, std::size_t claimed, Packet& packet);
  static std::optional<Packet> read(const Bytes& frame, std::uint32_t ifindex);
  static Bytes with_tuple(Bytes frame, const Packet& packet, const hp_tuple& to);
  static Bytes reset(Bytes frame, const Packet& packet);

  [[nodiscard]] std::uint32_t roles_of(const hp_addr& address) const;
  [[nodiscard]] bool expired(const Flow& flow, Time now) const;
  [[nodiscard]] bool backend_gone(const Flow& flow) const;
  static void follow(Flow& flow, Direction direction, const Packet& packet, Time now);

  Outcome begin(const Bytes& frame, const Packet& packet, std::uint32_t roles, Time now);
  Outcome open(const Bytes& frame, const Packet& packet, const Target& target, Time now);
  std::optional<std::uint32_t> take_element(Interface& interface, Time now);
  Outcome translate(const Bytes& frame, const Packet& packet, Flow& flow, Direction direction);
  Outcome refuse(const Bytes& frame, const Packet& packet, Reason reason);
  Outcome drop(const Bytes& frame, Reason reason);
  void count(Reason reason) { ++counters_[reason]; }
  void end(std::uint32_t element);

  const Tables& tables_;
  const Settings& settings_;
  std::map<std::uint32_t, Interface> interfaces_;
  std::deque<std::uint32_t> free_chunks_;
  std::map<std::uint32_t, Flow> flows_;  // by element
  std::map<hp_tuple, Place, ByBytes> places_;
  std::map<hp_tuple, Time, ByBytes> direct_;
  std::map<Reason, std::uint64_t> counters_;
  std::map<Address, Mac> neighbours_;
};

}  // namespace hairpin::test
