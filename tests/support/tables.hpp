// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "maps/layout.h"
#include "tests/support/packet.hpp"

namespace hairpin::test {

/// Orders keys by their bytes.
struct ByBytes {
  template <typename T>
  bool operator()(const T& a, const T& b) const {
    return std::memcmp(&a, &b, sizeof(T)) < 0;
  }
};

/// The tuple of a packet between two sockets at an interface.
hp_tuple tuple_of(std::uint8_t protocol, const Socket& from, const Socket& to, std::uint32_t ifindex);
hp_tuple reverse_of(const hp_tuple& tuple);
Socket source_of(const hp_tuple& tuple);
Socket destination_of(const hp_tuple& tuple);
std::string describe(const hp_tuple& tuple);

/// What the programs are loaded with; the model as well.
struct Settings {
  std::uint32_t seed = 0x5eed;
  std::uint32_t chunk_size = 64;
  bool redirect_peer = true;
  std::chrono::nanoseconds tcp_new = std::chrono::seconds{60};
  std::chrono::nanoseconds tcp_established = std::chrono::hours{24};
  std::chrono::nanoseconds closing = std::chrono::seconds{120};
  std::chrono::nanoseconds udp_new = std::chrono::seconds{30};
  std::chrono::nanoseconds udp_established = std::chrono::seconds{180};
};

/// What userspace puts into the maps, for the programs and for the model alike.
class Tables {
 public:
  std::map<hp_addr, std::uint32_t, ByBytes> roles;
  std::map<hp_frontend, hp_service, ByBytes> services;
  std::vector<hp_slot> slots;
  std::vector<hp_backend> backends{hp_backend{}};  // index 0 is unused

  /// Adds a service with these endpoints, in this order, one slot each. No endpoint: it refuses.
  void serve(std::uint8_t protocol, const Socket& frontend, const std::vector<Socket>& endpoints);
  /// Puts other endpoints in its place, as the reconciler does: new slots, a new generation. The backends of the old
  /// ones stay.
  void replace(std::uint8_t protocol, const Socket& frontend, const std::vector<Socket>& endpoints);
  /// Removes it; its address stays known.
  void remove(std::uint8_t protocol, const Socket& frontend);
  /// Ends the flows to this endpoint, of every service.
  void raise_epoch(const Socket& endpoint);
  /// Makes the slots' generation disagree with the service's, or agree again.
  void spoil_slots(std::uint8_t protocol, const Socket& frontend);

  [[nodiscard]] bool has(std::uint8_t protocol, const Socket& frontend) const;
  [[nodiscard]] hp_service& service(std::uint8_t protocol, const Socket& frontend);

 private:
  std::uint32_t backend(std::uint32_t service, std::uint8_t protocol, const Socket& endpoint);

  std::uint32_t last_service_ = 0;
};

}  // namespace hairpin::test
