// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "hairpin/desired.hpp"
#include "hairpin/reconcile.hpp"
#include "loader/reconcile/contents.hpp"
#include "loader/reconcile/room.hpp"

namespace hairpin {

/// Map keys are compared by their bytes, as the kernel does.
struct BytesHash {
  template <typename Key>
  std::size_t operator()(const Key& key) const {
    return std::hash<std::string_view>{}({reinterpret_cast<const char*>(&key), sizeof key});
  }
};

struct BytesEqual {
  template <typename Key>
  bool operator()(const Key& a, const Key& b) const {
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
};

template <typename Key, typename Value>
using ByBytes = std::unordered_map<Key, Value, BytesHash, BytesEqual>;

/// Decides what to write; writes nothing itself, so that it can be tested without a kernel. Keeps what it has decided
/// as what the maps now hold: each plan must be written before the next is asked for.
class Planner {
 public:
  explicit Planner(const Contents& contents);

  Plan plan(const Desired& desired, Clock::time_point now, Changes& changes);

 private:
  /// What makes two service ports of two moments the same one.
  using PortKey = std::tuple<std::string, std::string, Family, Protocol>;

  /// A service port that is in the maps.
  struct Placed {
    ServicePort port;
    std::uint32_t service = 0;            ///< id
    std::vector<std::uint32_t> backends;  ///< that take new flows, in the order of their slots
    std::vector<std::uint32_t> draining;
    std::uint64_t slots = 0;  ///< hp_service.slots
  };

  struct AddressUses {
    std::uint32_t as_frontend = 0;
    std::uint32_t as_endpoint = 0;
  };

  static PortKey key_of(const ServicePort& port);
  static hp_backend identity_of(std::uint32_t service, const Endpoint& endpoint, Protocol protocol);

  [[nodiscard]] std::string why_not(const ServicePort& port, const Placed* before, Clock::time_point now);
  [[nodiscard]] std::uint32_t count_new_backends(const ServicePort& port) const;
  void place(const PortKey& key, const ServicePort& port, Plan& plan, Clock::time_point now);
  void retire(const PortKey& key, const Placed& placed, Plan& plan, Clock::time_point now);
  void remove_leftovers(Plan& plan, Changes& changes, Clock::time_point now);

  std::uint32_t service_id(const std::string& name, Plan& plan);
  std::uint32_t backend_index(std::uint32_t service, const Endpoint& endpoint, Protocol protocol, bool terminating,
                              Plan& plan, Clock::time_point now);
  std::vector<std::uint32_t> use_backends(std::uint32_t service, const ServicePort& port,
                                          const std::vector<Endpoint>& endpoints, bool draining, Plan& plan,
                                          Clock::time_point now);
  std::uint64_t slots_for(const Placed& placed, const Placed* before, Plan& plan, Clock::time_point now);
  [[nodiscard]] bool found_holds(std::uint64_t slots, const std::vector<std::uint32_t>& backends) const;
  void stop_using_backend(std::uint32_t index, Plan& plan, Clock::time_point now);
  void stop_using_name(std::uint32_t service, Plan& plan);
  void free_slots(std::uint64_t slots, Clock::time_point now);
  void settle_gate(const Address& address, Plan& plan);
  void set_service(const Frontend& frontend, const hp_service& service, Plan& plan);

  // What the maps hold.
  ByBytes<hp_addr, std::uint32_t> gate_;  // roles
  ByBytes<hp_frontend, hp_service> services_;
  std::vector<hp_backend> backends_;
  std::unordered_map<std::uint32_t, std::string> names_;
  std::uint32_t max_services_ = 0;

  // Who uses it.
  std::map<PortKey, Placed> placed_;
  ByBytes<hp_frontend, PortKey> owner_;
  std::unordered_map<std::string, std::uint32_t> ids_;      // of names_
  ByBytes<hp_backend, std::uint32_t> backend_by_identity_;  // index; state and epoch of the key are zero
  std::vector<std::uint32_t> backend_uses_;
  std::unordered_map<std::uint32_t, std::uint32_t> name_uses_;
  std::unordered_map<Address, AddressUses> address_uses_;

  Room slot_room_;
  Room backend_room_;
  std::uint32_t next_service_ = 1;
  std::uint32_t generation_ = 0;

  // What was found at the start, until the first plan has adopted or removed it.
  bool adopting_ = true;
  std::vector<hp_slot> found_slots_;
  std::unordered_set<std::uint64_t> found_ranges_;  // hp_service.slots, not yet adopted
};

}  // namespace hairpin
