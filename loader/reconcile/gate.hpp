// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "loader/reconcile/contents.hpp"
#include "loader/reconcile/room.hpp"
#include "maps/address.hpp"

namespace hairpin {

/// How long an address stays in the gate after its last use: as long as a flow may be idle (IdleLimits). Replies that
/// an endpoint still owes are translated until then, and connections through a service that has gone are reset
/// instead of falling silent.
inline constexpr Clock::duration kRolesRest = std::chrono::hours{24};

/// Which addresses the programs look at any further, and as what: counts their uses and keeps their roles (HP_ROLE_*)
/// while they are used and for kRolesRest after, or as long as there is room.
class Gate {
 public:
  /// What was found is nobody's until it is used.
  explicit Gate(const Contents& contents);

  void reserve(std::size_t more);
  void use(const Address& address, hp_role role);
  void leave(const Address& address, hp_role role);

  /// Writes down what the uses since the last time and the passing of time ask for.
  void settle(Plan& plan, Clock::time_point now);

 private:
  struct Entry {
    std::uint32_t as_frontend = 0;
    std::uint32_t as_endpoint = 0;
    std::uint32_t roles = 0;    ///< in the map
    std::uint32_t resting = 0;  ///< those of them that nobody uses
    Clock::time_point since;    ///< resting

    [[nodiscard]] std::uint32_t used_roles() const {
      std::uint32_t used = 0;
      if (as_frontend > 0) used |= HP_ROLE_FRONTEND;
      if (as_endpoint > 0) used |= HP_ROLE_ENDPOINT;
      return used;
    }
    [[nodiscard]] bool idle() const { return roles != 0 && resting == roles; }
    std::uint32_t& uses_as(hp_role role) { return role == HP_ROLE_FRONTEND ? as_frontend : as_endpoint; }
  };

  struct Rest {
    Clock::time_point since;
    Address address;
  };

  void settle(const Address& address, Plan& plan, Clock::time_point now);
  void wake(Plan& plan, Clock::time_point now);

  std::unordered_map<Address, Entry> entries_;
  std::vector<Address> touched_;  // since the last settle()
  std::deque<Rest> resting_;      // the longest first; one that was used meanwhile stands in it still
  std::size_t idle_ = 0;          // entries that nobody uses
  std::size_t max_idle_;
};

}  // namespace hairpin
