// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hairpin/fd.hpp"
#include "hairpin/result.hpp"

namespace hairpin {

/// A network interface of this namespace.
struct Link {
  std::uint32_t ifindex = 0;
  std::string name;
  std::string kind;             ///< "veth", "bridge", "dummy", ...; empty for hardware
  std::uint32_t bridge = 0;     ///< ifindex of the bridge that it is a port of; 0: none
  bool peer_elsewhere = false;  ///< its other end is in another network namespace

  friend bool operator==(const Link&, const Link&) = default;
};

/// Whether the link can be a pod's: a veth whose other end is in another namespace.
bool is_pod(const Link& link);

/// Every link of the calling thread's network namespace.
Result<std::vector<Link>> list_links();

struct LinkEvent {
  Link link;
  bool removed = false;
};

struct LinkEvents {
  std::vector<LinkEvent> events;
  bool overrun = false;  ///< some were lost: read the list again
};

/// Follows the links of the namespace that it was created in.
class LinkWatch {
 public:
  static Result<LinkWatch> create();

  /// Readable when there is something to drain().
  [[nodiscard]] int fd() const { return socket_.get(); }

  /// What has happened since the last call. Never blocks.
  LinkEvents drain();

 private:
  explicit LinkWatch(Fd socket) : socket_{std::move(socket)} {}

  Fd socket_;
};

}  // namespace hairpin
