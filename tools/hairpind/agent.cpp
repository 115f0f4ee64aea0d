// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "agent.hpp"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "loader/cluster/resolve.hpp"

namespace hairpin {

namespace {

constexpr std::chrono::milliseconds kRetryDelay{1000};
constexpr std::uint32_t kOnly = 0;

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

Result<AgentLock> take_lock(const std::filesystem::path& bpffs) {
  auto lock = AgentLock::take(bpffs);
  if (lock || lock.error().code != EWOULDBLOCK) return lock;
  std::string who = "another agent";
  if (auto other = Dataplane::open(bpffs); other) {
    if (auto config = other->maps().config.find(kOnly); config && *config) {
      who += " (pid " + std::to_string((*config)->agent_pid) + ")";
    }
  }
  return fail("start on " + bpffs.string(), who + " is running there", "stop it first, or set bpffs to another folder");
}

/// Tells hairpinctl who we are and how far.
void publish(const Maps& maps, bool synced) {
  auto config = maps.config.find(kOnly);
  if (!config || !*config) {
    spdlog::error("hp_config cannot be read");
    return;
  }
  hp_config updated = **config;
  updated.agent_pid = static_cast<std::uint32_t>(getpid());
  updated.agent_synced = synced ? 1 : 0;
  if (auto put = maps.config.put(kOnly, updated); !put) spdlog::error("{}", put.error().to_string());
}

}  // namespace

Result<Config> ConfigFile::read() const {
  auto config = load_config(path);
  if (!config && config.error().code == ENOENT && !named) return Config{};
  return config;
}

Agent::Agent(ConfigFile file, Config config, AgentLock lock, Dataplane dataplane, LinkWatch links, EventLoop loop)
    : file_{std::move(file)},
      config_{std::move(config)},
      lock_{std::move(lock)},
      dataplane_{std::move(dataplane)},
      hook_{make_hook(config_.hook)},
      links_{std::move(links)},
      loop_{std::move(loop)} {}

Result<std::unique_ptr<Agent>> Agent::start(ConfigFile file, Config config) {
  spdlog::set_level(spdlog_level(config.log.level));
  auto lock = take_lock(config.bpffs);
  if (!lock) return fail(std::move(lock).error());
  // What a predecessor that was killed had said of itself is not true of us.
  if (auto before = Dataplane::open(config.bpffs); before) publish(before->maps(), false);
  auto dataplane = Dataplane::load(
      {.bpffs = config.bpffs, .limits = config.limits, .redirect = config.redirect, .idle = IdleLimits{}});
  if (!dataplane) return fail(std::move(dataplane).error());
  auto links = LinkWatch::create();
  if (!links) return fail(std::move(links).error());
  auto loop = EventLoop::create();
  if (!loop) return fail(std::move(loop).error());

  std::unique_ptr<Agent> agent{new Agent{std::move(file), std::move(config), std::move(*lock), std::move(*dataplane),
                                         std::move(*links), std::move(*loop)}};
  publish(agent->dataplane_.maps(), false);
  if (auto following = agent->follow_sources(); !following) return fail(std::move(following).error());
  return agent;
}

Result<void> Agent::follow_sources() {
  if (auto added = loop_.on_readable(links_.fd(), [this] { on_links(); }); !added) return added;
  for (const int signal : {SIGTERM, SIGINT}) {
    if (auto added = loop_.on_signal(signal, [this] { loop_.stop(); }); !added) return added;
  }
  if (auto added = loop_.on_signal(SIGHUP, [this] { reload(); }); !added) return added;
  return follow_manifests();
}

Result<void> Agent::follow_manifests() {
  auto watch = ManifestWatch::create(config_.source.manifests);
  if (!watch) return fail(std::move(watch).error());
  manifests_.emplace(std::move(*watch));
  return loop_.on_readable(manifests_->fd(), [this] {
    if (manifests_->drain()) sync();
  });
}

Result<void> Agent::run() {
  spdlog::info("loaded into {}, {} hook", config_.bpffs.string(), to_string(hook_->kind()));
  sync();
  sd_notify(0, "READY=1");
  auto ran = loop_.run();
  sd_notify(0, "STOPPING=1");
  return ran;
}

/// One complete round: services into the maps, then, never before the first of these, programs onto the pods.
void Agent::sync() {
  services_known_ = read_services() || services_known_;
  const bool attached = services_known_ && attach_pods();
  if (services_known_ && !attached) try_again_later();
  if (attached && !synced_) {
    synced_ = true;
    publish(dataplane_.maps(), true);
    spdlog::info("synced: {} pods attached", attached_.size());
  }
}

bool Agent::read_services() {
  auto snapshot = read_manifests(config_.source.manifests);
  if (!snapshot) {
    if (snapshot.error().code != ENOENT || config_.source.manifests_explicit) {
      spdlog::error("{}; the services stay as they were", snapshot.error().to_string());
      return false;
    }
    spdlog::warn("{} is not there: no services", config_.source.manifests.string());
    snapshot = cluster::Snapshot{};
  }
  const auto resolved = cluster::resolve(*snapshot);
  for (const auto& warning : resolved.warnings) spdlog::warn("{}", warning);
  return reconcile(resolved.desired);
}

bool Agent::reconcile(const Desired& desired) {
  if (!reconciler_) {
    auto reconciler = Reconciler::create(dataplane_.maps());
    if (!reconciler) {
      spdlog::error("{}", reconciler.error().to_string());
      try_again_later();
      return false;
    }
    reconciler_.emplace(std::move(*reconciler));
  }
  auto changes = reconciler_->apply(desired);
  if (!changes) {
    // What is in the maps now is known only to them.
    reconciler_.reset();
    spdlog::error("{}", changes.error().to_string());
    try_again_later();
    return false;
  }
  for (const auto& change : changes->ports) spdlog::info("{}", describe(change));
  if (changes->refused != refused_) {
    for (const auto& refusal : changes->refused) spdlog::error("{}", describe(refusal));
    refused_ = std::move(changes->refused);
  }
  // Places in the maps that were given up just now are free again after a moment.
  if (!refused_.empty()) try_again_later();
  return true;
}

bool Agent::attach_pods() {
  auto links = list_links();
  if (!links) {
    spdlog::error("{}", links.error().to_string());
    return false;
  }
  bool all = true;
  std::set<std::uint32_t> present;
  for (const auto& link : *links) {
    present.insert(link.ifindex);
    if (is_pod(link) && matches(config_.pods, link.name)) all = attach(link) && all;
  }
  // What an earlier agent, or this one before a netlink overrun, had attached and has gone since.
  auto known = dataplane_.maps().interfaces.read_all();
  if (!known) {
    spdlog::error("{}", known.error().to_string());
    return false;
  }
  for (const auto& [ifindex, interface] : *known) {
    if (!present.contains(ifindex)) link_gone(ifindex);
  }
  return all;
}

bool Agent::attach(const Link& link) {
  if (auto attached = dataplane_.attach(link, *hook_); !attached) {
    if (attached.error().code == ENODEV) return true;  // it went while we looked; its event is on the way
    spdlog::error("{}: {}", link.name, attached.error().to_string());
    return false;
  }
  if (attached_.insert(link.ifindex).second) spdlog::info("{}: attached", link.name);
  return true;
}

void Agent::on_links() {
  const auto events = links_.drain();
  if (!services_known_) return;
  if (events.overrun) {
    spdlog::warn("link events were lost; reading all links again");
    if (!attach_pods()) try_again_later();
    return;
  }
  for (const auto& event : events.events) {
    if (event.removed) {
      link_gone(event.link.ifindex);
    } else {
      link_changed(event.link);
    }
  }
}

void Agent::link_changed(const Link& link) {
  if (!is_pod(link) || !matches(config_.pods, link.name)) return;
  if (!attach(link)) try_again_later();
}

void Agent::link_gone(std::uint32_t ifindex) {
  if (auto forgotten = dataplane_.forget(ifindex); !forgotten) {
    spdlog::error("interface {}: {}", ifindex, forgotten.error().to_string());
  }
  if (attached_.erase(ifindex) != 0) spdlog::info("interface {}: gone", ifindex);
}

void Agent::try_again_later() {
  if (std::exchange(retrying_, true)) return;
  auto set = loop_.after(kRetryDelay, [this] {
    retrying_ = false;
    sync();
  });
  if (!set) spdlog::error("{}", set.error().to_string());
}

/// SIGHUP. What needs a new load of the dataplane needs a restart, and is said so.
void Agent::reload() {
  sd_notify(0, "RELOADING=1");
  auto fresh = file_.read();
  if (!fresh) {
    spdlog::error("{}; the config stays as it was", fresh.error().to_string());
  } else {
    if (fresh->bpffs != config_.bpffs || fresh->limits != config_.limits || fresh->hook != config_.hook ||
        fresh->redirect != config_.redirect) {
      spdlog::warn("bpffs, limits, hook and redirect take effect at the next start");
    }
    spdlog::set_level(spdlog_level(fresh->log.level));
    const bool moved = fresh->source != config_.source;
    config_ = std::move(*fresh);
    if (moved) {
      if (auto following = follow_manifests(); !following) spdlog::error("{}", following.error().to_string());
    }
    spdlog::info("config read again");
    sync();
  }
  sd_notify(0, "READY=1");
}

}  // namespace hairpin
