// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <string>
#include <vector>

#include "hairpin/desired.hpp"
#include "loader/cluster/model.hpp"

namespace hairpin::cluster {

struct Resolved {
  Desired desired;
  std::vector<std::string> warnings;  ///< one line each: what of the snapshot could not be served, and why
};

/// Applies Kubernetes' rules to a snapshot: which services have which frontends, and which endpoints take their flows.
/// Pure. What the dataplane does not serve (ExternalName, headless, other proxies' services, SCTP) is left out
/// silently.
Resolved resolve(const Snapshot& snapshot);

}  // namespace hairpin::cluster
