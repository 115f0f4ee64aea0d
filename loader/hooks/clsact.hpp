// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include "hairpin/hook.hpp"

namespace hairpin {

/// The clsact qdisc with one cls_bpf filter a direction, for kernels before tcx. The qdisc is shared with others:
/// filters of theirs are left alone, and the qdisc is removed only when nobody's are left.
class ClsactHook final : public Hook {
 public:
  [[nodiscard]] HookKind kind() const override { return HookKind::kClsact; }
  [[nodiscard]] Result<std::vector<Attachment>> list(std::uint32_t ifindex) const override;
  [[nodiscard]] Result<void> attach(std::uint32_t ifindex, Direction direction, int program,
                                    const std::filesystem::path& pin) const override;
  [[nodiscard]] Result<std::vector<Removed>> detach(std::uint32_t ifindex, const std::string& interface,
                                                    const Attachment& attachment) const override;
};

}  // namespace hairpin
