// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "hairpin/desired.hpp"
#include "hairpin/reconcile.hpp"
#include "loader/reconcile/by_bytes.hpp"
#include "loader/reconcile/contents.hpp"
#include "loader/reconcile/gate.hpp"
#include "loader/reconcile/room.hpp"

namespace hairpin {

/// Decides what to write; writes nothing itself, so that it can be tested without a kernel. Keeps what it has decided
/// as what the maps now hold: each plan must be written before the next is asked for.
///
/// A plan is made in three steps: every port that is new or changed is placed, then what was there in their stead is
/// given up, and only then is decided, by what is still used, what becomes of addresses, backends and names. So what
/// moves from one port to another in the same plan never seems to be gone.
class Planner {
 public:
  explicit Planner(const Contents& contents);

  Plan plan(const Desired& desired, Clock::time_point now, Changes& changes);

 private:
  /// What makes two service ports of two moments the same one, in the order of Desired.
  struct PortOrder {
    bool operator()(const ServicePort& a, const ServicePort& b) const { return compare(a, b) < 0; }
    static std::strong_ordering compare(const ServicePort& a, const ServicePort& b);
  };

  /// What a service port has in the maps.
  struct Place {
    std::uint64_t id = 0;                 ///< no other place ever has the same
    std::uint32_t service = 0;            ///< id
    std::vector<std::uint32_t> backends;  ///< that take new flows, in the order of their slots
    std::vector<std::uint32_t> draining;
    std::uint64_t slots = 0;  ///< hp_service.slots
  };

  using Placed = std::map<ServicePort, Place, PortOrder>;

  struct BackendUses {
    std::uint32_t all = 0;
    std::uint32_t active = 0;  ///< by ports that want it to take new flows and don't see it terminating
  };

  /// One plan in the making.
  struct Work {
    Plan plan;
    Clock::time_point now;
    std::vector<const ServicePort*> changed;    ///< not placed, or not like this
    std::vector<Placed::node_type> superseded;  ///< by another place of the same port
    std::vector<Placed::node_type> removed;     ///< no longer wanted
    std::vector<std::uint32_t> backends;        ///< whose uses have changed
    std::vector<std::uint32_t> names;           ///< whose uses have become fewer
  };

  void compare(const Desired& desired, Work& work);
  void reserve(const Work& work);
  void place_changed(Work& work, Changes& changes);
  void give_up_found(Work& work, Changes& changes);
  void settle(Work& work);

  [[nodiscard]] std::string why_not(const ServicePort& port, const Place* before, Clock::time_point now);
  [[nodiscard]] std::optional<ServicePort> as_found(const ServicePort& port) const;
  bool place(const ServicePort& port, Work& work);
  void give_up(const ServicePort& port, const Place& place, Work& work);

  std::uint32_t service_id(const std::string& name, Plan& plan);
  std::vector<std::uint32_t> use_backends(std::uint32_t service, const ServicePort& port,
                                          const std::vector<Endpoint>& endpoints, Work& work);
  [[nodiscard]] std::vector<std::uint32_t> known_backends(const ServicePort& port,
                                                          const std::vector<Endpoint>& endpoints) const;
  [[nodiscard]] std::optional<std::uint64_t> slots_of(const ServicePort& port,
                                                      const std::vector<std::uint32_t>& backends,
                                                      const Place* before) const;
  std::uint64_t take_slots(const std::vector<std::uint32_t>& backends, Work& work);
  [[nodiscard]] const hp_service* found_service(const ServicePort& port) const;
  [[nodiscard]] bool found_holds(std::uint64_t slots, const std::vector<std::uint32_t>& backends) const;
  void free_slots(std::uint64_t slots, Clock::time_point now);

  void settle_backend(std::uint32_t index, Work& work);
  void settle_name(std::uint32_t service, Plan& plan);

  // What the maps hold.
  ByBytes<hp_frontend, hp_service> services_;
  std::vector<hp_backend> backends_;
  std::unordered_map<std::uint32_t, std::string> names_;
  std::uint32_t max_services_ = 0;
  std::uint32_t max_names_ = 0;

  // Who uses it.
  Placed placed_;
  ByBytes<hp_frontend, std::uint64_t> owner_;               // id of the place that services_' entry is of
  std::unordered_map<std::string, std::uint32_t> ids_;      // of names_
  ByBytes<hp_backend, std::uint32_t> backend_by_identity_;  // index; state and epoch of the key are zero
  std::vector<BackendUses> backend_uses_;
  std::unordered_map<std::uint32_t, std::uint32_t> name_uses_;

  Gate gate_;
  Room slot_room_;
  Room backend_room_;
  std::uint32_t next_service_ = 1;
  std::uint64_t next_place_ = 1;
  std::uint32_t generation_ = 0;

  // What was found at the start, until the first plan has adopted or removed it.
  bool adopting_ = true;
  std::vector<hp_slot> found_slots_;
  std::unordered_set<std::uint64_t> found_ranges_;  // hp_service.slots, not yet adopted
};

}  // namespace hairpin
