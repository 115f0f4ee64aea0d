// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "event_loop.hpp"
#include "hairpin/agent_lock.hpp"
#include "hairpin/config.hpp"
#include "hairpin/dataplane.hpp"
#include "hairpin/links.hpp"
#include "hairpin/manifests.hpp"
#include "hairpin/reconcile.hpp"
#include "hairpin/result.hpp"

namespace hairpin {

/// The config's file.
struct ConfigFile {
  std::filesystem::path path;
  bool named = false;  ///< on the command line: then it has to be there

  /// What it says, or the defaults where it may be missing and is.
  [[nodiscard]] Result<Config> read() const;
};

/// The node agent: keeps the maps equal to the manifests and the programs on every pod's veth, until it is told to
/// stop. What it leaves behind keeps working, and a successor takes it over as it is.
class Agent {
 public:
  /// Takes the lock, loads the dataplane and starts following manifests and links. `file` is read again on SIGHUP.
  static Result<std::unique_ptr<Agent>> start(ConfigFile file, Config config);

  /// Until SIGTERM or SIGINT.
  Result<void> run();

  [[nodiscard]] const Config& config() const { return config_; }

 private:
  Agent(ConfigFile file, Config config, AgentLock lock, Dataplane dataplane, LinkWatch links, EventLoop loop);

  Result<void> follow_sources();
  Result<void> follow_manifests();
  void sync();
  bool read_services();
  bool reconcile(const Desired& desired);
  bool attach_pods();
  bool attach(const Link& link);
  void on_links();
  void link_changed(const Link& link);
  void link_gone(std::uint32_t ifindex);
  void try_again_later();
  void reload();

  ConfigFile file_;
  Config config_;
  AgentLock lock_;
  Dataplane dataplane_;
  std::unique_ptr<Hook> hook_;
  std::optional<Reconciler> reconciler_;  // none before the first sync, and after a write that failed
  std::vector<Refusal> refused_;          // as it was last said
  LinkWatch links_;
  EventLoop loop_;
  std::optional<ManifestWatch> manifests_;
  std::set<std::uint32_t> attached_;  // ifindexes
  bool services_known_ = false;       // a complete set of services is in the maps
  bool synced_ = false;
  bool retrying_ = false;
};

}  // namespace hairpin
