// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <memory>

#include "maps/layout.h"  // the skeleton names its types

#include "hairpin.skel.h"

namespace hairpin {

struct SkeletonDeleter {
  void operator()(hairpin_bpf* skeleton) const { hairpin_bpf__destroy(skeleton); }
};

/// The BPF object, opened or loaded; closes what it holds, leaves what is pinned.
using Skeleton = std::unique_ptr<hairpin_bpf, SkeletonDeleter>;

}  // namespace hairpin
