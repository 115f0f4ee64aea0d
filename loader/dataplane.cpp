// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "hairpin/dataplane.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <set>
#include <string_view>

#include "loader/identity.hpp"
#include "loader/pins.hpp"
#include "loader/skeleton.hpp"
#include "loader/verifier_log.hpp"

namespace hairpin {

namespace {

constexpr std::uint32_t kOnly = 0;  // the key of hp_config's one element

/// As many direct connections as a quarter of the flows are remembered before the oldest give way.
constexpr std::uint32_t kFlowsPerDirect = 4;

struct MapSize {
  bpf_map* map;
  std::uint32_t entries;
};

std::vector<MapSize> map_sizes(const hairpin_bpf& skeleton, const Config::Limits& limits) {
  const auto& maps = skeleton.maps;
  return {
      {maps.hp_frontends, 2 * (limits.services + limits.backends)},  // in use, and resting (loader/reconcile/gate.hpp)
      {maps.hp_services, limits.services},
      {maps.hp_slots, 2 * limits.backends},
      {maps.hp_backends, limits.backends + 1},
      {maps.hp_tuples, 2 * limits.flows},
      {maps.hp_flows, limits.flows},
      {maps.hp_direct, limits.flows / kFlowsPerDirect},
      {maps.hp_names, limits.services},
  };
}

std::uint64_t nanoseconds(std::chrono::nanoseconds duration) { return static_cast<std::uint64_t>(duration.count()); }

void set_idle_limits(hp_settings& settings, const IdleLimits& idle) {
  auto& tcp = settings.idle[HP_IDLE_TCP];
  tcp[HP_FLOW_NEW] = nanoseconds(idle.tcp_new);
  tcp[HP_FLOW_ESTABLISHED] = nanoseconds(idle.tcp_established);
  tcp[HP_FLOW_CLOSING] = nanoseconds(idle.closing);
  auto& udp = settings.idle[HP_IDLE_UDP];
  udp[HP_FLOW_NEW] = nanoseconds(idle.udp_new);
  udp[HP_FLOW_ESTABLISHED] = nanoseconds(idle.udp_established);
}

bool use_peer_redirect(Redirect redirect) {
  if (redirect == Redirect::kAuto)
    return libbpf_probe_bpf_helper(BPF_PROG_TYPE_SCHED_CLS, BPF_FUNC_redirect_peer, nullptr) == 1;
  return redirect == Redirect::kPeer;
}

/// What hp_config holds if maps are pinned already; nothing if not.
Result<std::optional<hp_config>> pinned_config(const std::filesystem::path& bpffs) {
  auto table = Table<std::uint32_t, hp_config>::open(pins::maps(bpffs) / "hp_config");
  if (!table) {
    if (table.error().code == ENOENT) return std::nullopt;
    return fail(std::move(table).error());
  }
  auto config = table->find(kOnly);
  if (!config) return fail(std::move(config).error());
  if (!*config || (*config)->layout_version == 0) return std::nullopt;
  if ((*config)->layout_version != HP_LAYOUT_VERSION) {
    return fail("take over the maps in " + bpffs.string(),
                "their layout is version " + std::to_string((*config)->layout_version) + ", this program's is " +
                    std::to_string(HP_LAYOUT_VERSION),
                "remove them first: hairpinctl detach --all");
  }
  return *config;
}

/// Every map is pinned by its name. One that is pinned already is taken over, with the size it has.
Result<void> prepare_maps(hairpin_bpf& skeleton, const LoadOptions& options) {
  for (const auto& [map, entries] : map_sizes(skeleton, options.limits)) {
    if (const int error = bpf_map__set_max_entries(map, entries); error != 0) {
      return fail(Error::system(std::string{"size map "} + bpf_map__name(map), error));
    }
  }
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, skeleton.obj) {
    if (bpf_map__is_internal(map)) continue;
    const auto pin = pins::maps(options.bpffs) / bpf_map__name(map);
    if (const Fd pinned{bpf_obj_get(pin.c_str())}; pinned.valid()) {
      bpf_map_info info{};
      std::uint32_t size = sizeof info;
      if (bpf_map_get_info_by_fd(pinned.get(), &info, &size) != 0) {
        return fail(Error::system("look at " + pin.string(), errno));
      }
      bpf_map__set_max_entries(map, info.max_entries);
    }
    if (const int error = bpf_map__set_pin_path(map, pin.c_str()); error != 0) {
      return fail(Error::system("pin to " + pin.string(), error));
    }
  }
  return {};
}

/// Puts a new pin in the place of an old one, if there is one, without a moment in between.
Result<void> pin_program(const bpf_program* program, const std::filesystem::path& pin) {
  const std::filesystem::path fresh = pin.string() + "_new";
  std::error_code ignored;
  std::filesystem::remove(fresh, ignored);
  if (bpf_obj_pin(bpf_program__fd(program), fresh.c_str()) != 0) {
    return fail(Error::system("pin " + fresh.string(), errno));
  }
  std::error_code error;
  std::filesystem::rename(fresh, pin, error);
  if (error) return fail(Error::system("pin " + pin.string(), error.value()));
  return {};
}

Result<std::set<std::uint32_t>> owned_chunks(const Maps& maps) {
  auto interfaces = maps.interfaces.read_all();
  if (!interfaces) return fail(std::move(interfaces).error());
  std::set<std::uint32_t> owned;
  for (const auto& [ifindex, interface] : *interfaces) {
    owned.insert(std::begin(interface.chunks), std::begin(interface.chunks) + interface.chunk_count);
  }
  return owned;
}

/// Makes the queue hold every chunk that no interface has, whatever a process that died in between had done.
Result<void> collect_chunks(const Maps& maps) {
  while (true) {
    auto chunk = maps.chunks.pop();
    if (!chunk) return fail(std::move(chunk).error());
    if (!*chunk) break;
  }
  // With the queue empty no program can take a chunk, so what the interfaces have now is all that is taken.
  auto owned = owned_chunks(maps);
  if (!owned) return fail(std::move(owned).error());
  for (std::uint32_t chunk = 0; chunk < HP_CHUNKS; ++chunk) {
    if (owned->contains(chunk)) continue;
    if (auto pushed = maps.chunks.push(chunk); !pushed) return pushed;
  }
  return {};
}

Result<Fd> open_program(const std::filesystem::path& bpffs, const std::string& name) {
  const auto pin = pins::program(bpffs, name);
  Fd program{bpf_obj_get(pin.c_str())};
  if (!program.valid()) return fail(Error::system("open " + pin.string(), errno));
  return program;
}

std::string program_name(Direction direction) { return direction == Direction::kIngress ? "from_pod" : "to_pod"; }

std::size_t index_of(Direction direction) { return direction == Direction::kIngress ? 0 : 1; }

constexpr std::array kDirections{Direction::kIngress, Direction::kEgress};

/// Gives the new programs to every interface that carries older ones of ours from this folder.
Result<void> replace_attached(const Dataplane& dataplane) {
  auto interfaces = dataplane.maps().interfaces.read_all();
  if (!interfaces) return fail(std::move(interfaces).error());
  for (const auto& hook : all_hooks()) {
    for (const auto& [ifindex, interface] : *interfaces) {
      auto attachments = hook->list(ifindex);
      if (!attachments) continue;  // the interface has gone; the agent forgets it when it looks at the links
      for (const auto& attachment : *attachments) {
        if (!is_ours(attachment.program_id)) continue;
        auto replaced = hook->attach(ifindex, attachment.direction, dataplane.program(attachment.direction),
                                     pins::link(dataplane.bpffs(), ifindex, attachment.direction));
        if (!replaced) return replaced;
      }
    }
  }
  return {};
}

}  // namespace

Result<Dataplane> Dataplane::load(const LoadOptions& options) {
  if (auto made = pins::make_folders(options.bpffs); !made) return fail(std::move(made).error());
  auto existing = pinned_config(options.bpffs);
  if (!existing) return fail(std::move(existing).error());

  const LibbpfLog log;
  const Skeleton skeleton{hairpin_bpf__open()};
  if (!skeleton) return fail(explain_load_failure(errno, log.text()));
  if (auto prepared = prepare_maps(*skeleton, options); !prepared) return fail(std::move(prepared).error());

  hp_settings& settings = skeleton->rodata->config;
  settings.seed = *existing ? (*existing)->seed : std::random_device{}();
  settings.chunk_size = bpf_map__max_entries(skeleton->maps.hp_flows) / HP_CHUNKS;
  settings.redirect_peer = use_peer_redirect(options.redirect) ? 1 : 0;
  set_idle_limits(settings, options.idle);
  if (const int error = hairpin_bpf__load(skeleton.get()); error != 0) {
    return fail(explain_load_failure(error, log.text()));
  }

  auto maps = Maps::open(pins::maps(options.bpffs));
  if (!maps) return fail(std::move(maps).error());
  if (auto collected = collect_chunks(*maps); !collected) return fail(std::move(collected).error());
  hp_config config = existing->value_or(hp_config{});
  config.layout_version = HP_LAYOUT_VERSION;
  config.mode = HP_MODE_ENABLED;
  config.seed = settings.seed;
  if (auto put = maps->config.put(kOnly, config); !put) return fail(std::move(put).error());

  for (const auto* program : {skeleton->progs.from_pod, skeleton->progs.to_pod, skeleton->progs.end_flows}) {
    if (auto pinned = pin_program(program, pins::program(options.bpffs, bpf_program__name(program))); !pinned) {
      return fail(std::move(pinned).error());
    }
  }
  auto dataplane = open(options.bpffs);
  if (!dataplane) return dataplane;
  if (auto replaced = replace_attached(*dataplane); !replaced) return fail(std::move(replaced).error());
  return dataplane;
}

Result<Dataplane> Dataplane::open(const std::filesystem::path& bpffs) {
  auto existing = pinned_config(bpffs);
  if (!existing) return fail(std::move(existing).error());
  if (!*existing) {
    Error error =
        Error::system("open the dataplane in " + bpffs.string(), ENOENT, "hairpind or hairpinctl load starts it");
    error.why = "nothing is loaded there";
    return fail(std::move(error));
  }
  auto maps = Maps::open(pins::maps(bpffs));
  if (!maps) return fail(std::move(maps).error());
  Dataplane dataplane{bpffs, std::move(*maps)};
  for (const Direction direction : kDirections) {
    auto program = open_program(bpffs, program_name(direction));
    if (!program) return fail(std::move(program).error());
    dataplane.programs_.at(index_of(direction)) = std::move(*program);
  }
  auto end_flows = open_program(bpffs, "end_flows");
  if (!end_flows) return fail(std::move(end_flows).error());
  dataplane.end_flows_ = std::move(*end_flows);
  return dataplane;
}

int Dataplane::program(Direction direction) const { return programs_.at(index_of(direction)).get(); }

Result<std::uint32_t> Dataplane::program_id(Direction direction) const {
  bpf_prog_info info{};
  std::uint32_t size = sizeof info;
  if (bpf_prog_get_info_by_fd(program(direction), &info, &size) != 0) {
    return fail(Error::system("look at program " + program_name(direction), errno));
  }
  return info.id;
}

Result<hp_settings> Dataplane::settings() const {
  // The .rodata map has no pin; the program knows it.
  std::array<std::uint32_t, 64> maps{};  // MAX_USED_MAPS, include/linux/bpf_verifier.h
  bpf_prog_info info{};
  info.nr_map_ids = static_cast<std::uint32_t>(maps.size());
  info.map_ids = reinterpret_cast<std::uintptr_t>(maps.data());
  std::uint32_t size = sizeof info;
  if (bpf_prog_get_info_by_fd(program(Direction::kIngress), &info, &size) != 0) {
    return fail(Error::system("look at program from_pod", errno));
  }
  for (std::uint32_t i = 0; i < info.nr_map_ids; ++i) {
    const Fd map{bpf_map_get_fd_by_id(maps.at(i))};
    bpf_map_info map_info{};
    size = sizeof map_info;
    if (!map.valid() || bpf_map_get_info_by_fd(map.get(), &map_info, &size) != 0) continue;
    if (!std::string_view{map_info.name}.ends_with(".rodata") || map_info.value_size != sizeof(hp_settings)) continue;
    hp_settings settings{};
    if (bpf_map_lookup_elem(map.get(), &kOnly, &settings) == 0) return settings;
  }
  return fail("read the settings of program from_pod", "it has none of this version");
}

Result<void> Dataplane::attach(const Link& link, const Hook& hook) {
  if (auto shared = give_share(link.ifindex, link.bridge); !shared) return shared;
  // Replies first: no request may be translated while its reply would not be.
  for (const Direction direction : {Direction::kEgress, Direction::kIngress}) {
    auto attached =
        hook.attach(link.ifindex, direction, program(direction), pins::link(bpffs_, link.ifindex, direction));
    if (!attached) return attached;
  }
  return leave_other_hooks(link, hook);
}

/// The config may ask for another hook than the one before: two of each program would translate twice.
Result<void> Dataplane::leave_other_hooks(const Link& link, const Hook& hook) const {
  for (const auto& other : all_hooks()) {
    if (other->kind() == hook.kind()) continue;
    auto attachments = other->list(link.ifindex);
    if (!attachments) return fail(std::move(attachments).error());
    for (const auto& attachment : *attachments) {
      if (!is_ours(attachment.program_id)) continue;
      if (auto removed = other->detach(link.ifindex, link.name, attachment); !removed) {
        return fail(std::move(removed).error());
      }
      if (other->kind() != HookKind::kTcx) continue;
      std::error_code ignored;
      std::filesystem::remove(pins::link(bpffs_, link.ifindex, attachment.direction), ignored);
    }
  }
  return {};
}

Result<void> Dataplane::give_share(std::uint32_t ifindex, std::uint32_t bridge) const {
  auto found = maps_.interfaces.find(ifindex);
  if (!found) return fail(std::move(found).error());
  if (*found && (*found)->bridge == bridge) return {};
  hp_interface interface = found->value_or(hp_interface{});
  interface.bridge = bridge;
  if (interface.chunk_count == 0) {
    auto chunk = maps_.chunks.pop();
    if (!chunk) return fail(std::move(chunk).error());
    if (!*chunk) {
      return fail("give interface " + std::to_string(ifindex) + " a share of the flow table", "all chunks are taken",
                  "raise limits.flows");
    }
    interface.chunks[interface.chunk_count++] = static_cast<std::uint16_t>(**chunk);
  }
  return maps_.interfaces.put(ifindex, interface);
}

Result<void> Dataplane::forget(std::uint32_t ifindex) {
  for (const Direction direction : kDirections) {
    std::error_code ignored;
    std::filesystem::remove(pins::link(bpffs_, ifindex, direction), ignored);
  }
  auto found = maps_.interfaces.find(ifindex);
  if (!found) return fail(std::move(found).error());
  if (!*found) return {};
  const hp_interface& interface = **found;
  // First the entry, so that no program takes an element of the chunks or another chunk, then the flows, then the
  // chunks.
  if (auto erased = maps_.interfaces.erase(ifindex); !erased) return fail(std::move(erased).error());
  const std::uint32_t chunk_size = maps_.flows.max_entries() / HP_CHUNKS;
  for (std::uint32_t i = 0; i < interface.chunk_count; ++i) {
    const std::uint32_t chunk = interface.chunks[i];
    if (auto ended = end_flows(chunk * chunk_size, chunk_size); !ended) return fail(std::move(ended).error());
    if (auto pushed = maps_.chunks.push(chunk); !pushed) return pushed;
  }
  return {};
}

Result<std::uint32_t> Dataplane::flush_flows() { return end_flows(0, maps_.flows.max_entries()); }

Result<std::uint32_t> Dataplane::end_flows(std::uint32_t first, std::uint32_t count) {
  std::array<std::uint8_t, 64> frame{};  // the kernel wants one; the program reads its arguments from the context
  std::uint32_t ended = 0;
  for (std::uint32_t done = 0; done < count; done += HP_END_FLOWS_MAX) {
    __sk_buff context{};
    context.cb[0] = first + done;
    context.cb[1] = std::min<std::uint32_t>(HP_END_FLOWS_MAX, count - done);
    bpf_test_run_opts options{};
    options.sz = sizeof options;
    options.data_in = frame.data();
    options.data_size_in = frame.size();
    options.ctx_in = &context;
    options.ctx_size_in = sizeof context;
    if (bpf_prog_test_run_opts(end_flows_.get(), &options) != 0) return fail(Error::system("end flows", errno));
    ended += options.retval;
  }
  return ended;
}

}  // namespace hairpin
