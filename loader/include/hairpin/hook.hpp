// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "hairpin/config.hpp"
#include "hairpin/result.hpp"

namespace hairpin {

/// Which way packets go, seen from the node: what a pod sends comes in on its veth.
enum class Direction : std::uint8_t { kIngress, kEgress };

enum class HookKind : std::uint8_t { kTcx, kClsact };

/// "ingress", "egress"; "tcx", "clsact".
const char* to_string(Direction direction);
const char* to_string(HookKind kind);

/// One program on one interface's hook, anybody's.
struct Attachment {
  HookKind kind = HookKind::kTcx;
  Direction direction = Direction::kIngress;
  std::uint32_t program_id = 0;
  std::uint32_t link_id = 0;   ///< tcx; 0: attached without a link
  std::uint16_t priority = 0;  ///< clsact
  std::uint32_t handle = 0;    ///< clsact
};

/// Something that was taken away.
struct Removed {
  std::string kind;   ///< "program", "link", "qdisc", "map", "directory"
  std::string name;   ///< "from_pod", a map's name, a path
  std::string where;  ///< an interface and hook, or a path
};

/// One of the kernel's two ways to run a program on an interface.
class Hook {
 public:
  virtual ~Hook() = default;

  [[nodiscard]] virtual HookKind kind() const = 0;

  /// Every program on the interface, ours or not. Nothing where the kernel has no such hook.
  [[nodiscard]] virtual Result<std::vector<Attachment>> list(std::uint32_t ifindex) const = 0;

  /// Puts the program on the interface. One of ours that is there already is replaced in place, without a moment in
  /// between. `pin` is where the link is pinned, for a hook that has links. Error::code is ENODEV where the interface
  /// has gone.
  [[nodiscard]] virtual Result<void> attach(std::uint32_t ifindex, Direction direction, int program,
                                            const std::filesystem::path& pin) const = 0;

  /// Takes one attachment away, if it is still there with the same program, and what of the hook's own is then empty.
  /// `interface` is its name, for the report.
  [[nodiscard]] virtual Result<std::vector<Removed>> detach(std::uint32_t ifindex, const std::string& interface,
                                                            const Attachment& attachment) const = 0;
};

/// The hook that the config asks for; kAuto: tcx where this kernel has it.
std::unique_ptr<Hook> make_hook(HookChoice choice);

/// Both, for those who look for what is there.
std::array<std::unique_ptr<Hook>, 2> all_hooks();

/// Whether this kernel has tcx (Linux 6.6), asked of the kernel itself.
bool tcx_supported();

}  // namespace hairpin
