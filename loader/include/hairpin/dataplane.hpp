// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hairpin/config.hpp"
#include "hairpin/fd.hpp"
#include "hairpin/hook.hpp"
#include "hairpin/links.hpp"
#include "hairpin/result.hpp"
#include "maps/maps.hpp"

namespace hairpin {

/// How long a flow may be idle before its place may be given to another.
struct IdleLimits {
  std::chrono::nanoseconds tcp_new = std::chrono::seconds{60};
  std::chrono::nanoseconds tcp_established = std::chrono::hours{24};
  std::chrono::nanoseconds closing = std::chrono::minutes{2};
  std::chrono::nanoseconds udp_new = std::chrono::seconds{30};
  std::chrono::nanoseconds udp_established = std::chrono::seconds{180};
};

struct LoadOptions {
  std::filesystem::path bpffs;  ///< the folder for our pins; made if missing, on a bpffs
  Config::Limits limits;
  Redirect redirect = Redirect::kAuto;
  IdleLimits idle;
};

/// The two programs and their maps, pinned below one folder of a bpffs. Owns file descriptors, not the pins: what is
/// loaded and attached stays when this object goes.
class Dataplane {
 public:
  /// Loads the programs. Maps that are pinned already are taken over with all that is in them; interfaces that carry
  /// the older programs get the new ones in place, without a moment in between.
  static Result<Dataplane> load(const LoadOptions& options);

  /// Opens what is pinned. Error::code is ENOENT where nothing is loaded.
  static Result<Dataplane> open(const std::filesystem::path& bpffs);

  /// Puts both programs on a pod's link and gives it a share of the flow table. Does nothing more than needed where
  /// that is so already. `hook` is one of make_hook()'s.
  Result<void> attach(const Link& link, const Hook& hook);

  /// Ends the interface's flows and gives back its share; for a link that has gone, or whose programs were detached.
  Result<void> forget(std::uint32_t ifindex);

  /// Ends every flow; returns how many there were.
  Result<std::uint32_t> flush_flows();

  [[nodiscard]] Maps& maps() { return maps_; }
  [[nodiscard]] const Maps& maps() const { return maps_; }
  [[nodiscard]] const std::filesystem::path& bpffs() const { return bpffs_; }
  [[nodiscard]] int program(Direction direction) const;
  [[nodiscard]] Result<std::uint32_t> program_id(Direction direction) const;

  /// What the loaded programs were loaded with, read back from their .rodata.
  [[nodiscard]] Result<hp_settings> settings() const;

 private:
  Dataplane(std::filesystem::path bpffs, Maps maps) : bpffs_{std::move(bpffs)}, maps_{std::move(maps)} {}

  Result<void> leave_other_hooks(const Link& link, const Hook& hook) const;
  Result<void> give_share(std::uint32_t ifindex, std::uint32_t bridge) const;
  Result<std::uint32_t> end_flows(std::uint32_t first, std::uint32_t count);

  std::filesystem::path bpffs_;
  Maps maps_;
  std::array<Fd, 2> programs_;  // by Direction
  Fd end_flows_;
};

}  // namespace hairpin
