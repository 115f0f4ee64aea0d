// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hairpin/desired.hpp"
#include "hairpin/result.hpp"
#include "maps/maps.hpp"

namespace hairpin {

/// One service port whose place in the maps became another.
struct PortChange {
  enum class Kind : std::uint8_t { kAdded, kChanged, kRemoved };

  Kind kind = Kind::kAdded;
  std::string service;  ///< "namespace/name"
  std::string port_name;
  std::vector<Frontend> frontends;
  std::size_t endpoints = 0;  ///< that take new flows now
};

/// A service port that could not be put into the maps as wanted. What it was before stays.
struct Refusal {
  std::string service;
  std::string port_name;
  std::vector<Frontend> frontends;
  std::string why;

  friend bool operator==(const Refusal&, const Refusal&) = default;
};

struct Changes {
  std::vector<PortChange> ports;
  std::vector<Refusal> refused;
  bool wrote = false;  ///< anything at all; leftovers of a crash are written without a port that changes
};

/// "added", "changed", "removed".
const char* to_string(PortChange::Kind kind);

/// One line for people: "shop/web http added: 10.96.0.10:80/TCP, 2 endpoints", "shop/web http refused:
/// 10.96.0.10:80/TCP: no room for its endpoints (limits.backends)".
std::string describe(const PortChange& change);
std::string describe(const Refusal& refusal);

class Planner;

/// Makes the service maps equal to what is desired, in an order in which every packet meets a service before or after a
/// change, and which can be cut off anywhere. The only writer of these maps.
class Reconciler {
 public:
  /// Reads what is in the maps. They must outlive this object, and nobody else may write them meanwhile.
  static Result<Reconciler> create(const Maps& maps);

  Reconciler(Reconciler&&) noexcept;
  Reconciler& operator=(Reconciler&&) noexcept;
  ~Reconciler();

  /// Writes the differences, if there are any. After an Error the maps may hold a part of the change, each service
  /// being whole; make a new Reconciler then.
  Result<Changes> apply(const Desired& desired);

  /// What apply() would do.
  [[nodiscard]] Changes preview(const Desired& desired) const;

 private:
  Reconciler(const Maps& maps, std::unique_ptr<Planner> planner);

  const Maps* maps_;
  std::unique_ptr<Planner> planner_;
};

}  // namespace hairpin
