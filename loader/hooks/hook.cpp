// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "hairpin/hook.hpp"

#include "loader/hooks/clsact.hpp"
#include "loader/hooks/tcx.hpp"

namespace hairpin {

const char* to_string(Direction direction) { return direction == Direction::kIngress ? "ingress" : "egress"; }

const char* to_string(HookKind kind) { return kind == HookKind::kTcx ? "tcx" : "clsact"; }

std::unique_ptr<Hook> make_hook(HookChoice choice) {
  const bool tcx = choice == HookChoice::kAuto ? tcx_supported() : choice == HookChoice::kTcx;
  if (tcx) return std::make_unique<TcxHook>();
  return std::make_unique<ClsactHook>();
}

std::array<std::unique_ptr<Hook>, 2> all_hooks() {
  return {std::make_unique<TcxHook>(), std::make_unique<ClsactHook>()};
}

}  // namespace hairpin
