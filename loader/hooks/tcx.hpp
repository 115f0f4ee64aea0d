// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include "hairpin/hook.hpp"

namespace hairpin {

/// tcx (Linux 6.6): each program has a link, and the link a pin, so that it outlives the process that made it.
class TcxHook final : public Hook {
 public:
  [[nodiscard]] HookKind kind() const override { return HookKind::kTcx; }
  [[nodiscard]] Result<std::vector<Attachment>> list(std::uint32_t ifindex) const override;
  [[nodiscard]] Result<void> attach(std::uint32_t ifindex, Direction direction, int program,
                                    const std::filesystem::path& pin) const override;
  [[nodiscard]] Result<std::vector<Removed>> detach(std::uint32_t ifindex, const std::string& interface,
                                                    const Attachment& attachment) const override;
};

}  // namespace hairpin
