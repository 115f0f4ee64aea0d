// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "tests/support/program.hpp"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "loader/skeleton.hpp"

namespace hairpin::test {
namespace {

constexpr std::uint32_t kMostTuples = 1U << 16;
constexpr std::uint32_t kMostDirect = 1U << 16;
constexpr std::uint32_t kMostEntries = 1024;  // of every other map
constexpr std::size_t kEthernetHeader = 14;
constexpr std::size_t kIpv6Header = 40;
constexpr std::size_t kGrowth = 256;  // how much longer than it was a packet may get

[[noreturn]] void give_up(const std::string& what) {
  throw std::runtime_error{fmt::format("{}: {}", what, std::strerror(errno))};
}

void check(int result, const std::string& what) {
  if (result < 0) give_up(what);
}

void run_ip(const std::string& arguments) {
  std::istringstream words{"ip " + arguments};
  std::vector<std::string> list;
  for (std::string word; words >> word;) list.push_back(word);
  std::vector<char*> argv;
  argv.reserve(list.size() + 1);
  for (std::string& word : list) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  int status = 0;
  if (posix_spawnp(&pid, "ip", nullptr, nullptr, argv.data(), environ) != 0 || waitpid(pid, &status, 0) != pid ||
      status != 0)
    throw std::runtime_error{"failed: ip " + arguments};
}

void set_sysctl(const std::string& name, std::string_view value) {
  std::ofstream file{"/proc/sys/net/" + name};
  file << value << std::flush;
  if (!file) throw std::runtime_error{"failed: sysctl net/" + name};
}

Interfaces make_interfaces() {
  check(unshare(CLONE_NEWNET), "unshare the network namespace");
  run_ip("link add hp-bridge type bridge");
  run_ip("address add 10.1.0.1/24 dev hp-bridge");
  run_ip("address add fd00:1::1/64 dev hp-bridge nodad");
  for (const char* name : {"hp-a", "hp-b", "hp-c"}) {
    run_ip(fmt::format("link add {0} type veth peer name {0}-pod", name));
    run_ip(fmt::format("link set {}-pod up", name));
    run_ip(fmt::format("link set {} master hp-bridge up", name));
  }
  run_ip("link set hp-bridge up");
  // As on every node; without it the kernel looks up no route for others.
  set_sysctl("ipv4/conf/all/forwarding", "1");
  set_sysctl("ipv6/conf/all/forwarding", "1");
  return {.a = if_nametoindex("hp-a"),
          .b = if_nametoindex("hp-b"),
          .c = if_nametoindex("hp-c"),
          .bridge = if_nametoindex("hp-bridge")};
}

template <typename Key, typename Value>
std::vector<std::pair<Key, Value>> read_map(int fd) {
  std::vector<std::pair<Key, Value>> out;
  std::vector<Key> keys(4096);
  std::vector<Value> values(keys.size());
  std::uint32_t position = 0;
  bool first = true;
  while (true) {
    auto count = static_cast<std::uint32_t>(keys.size());
    const int result =
        bpf_map_lookup_batch(fd, first ? nullptr : &position, &position, keys.data(), values.data(), &count, nullptr);
    if (result < 0 && errno != ENOENT) give_up("read a map");
    for (std::uint32_t i = 0; i < count; ++i) out.emplace_back(keys[i], values[i]);
    if (result < 0) return out;
    first = false;
  }
}

template <typename Key, typename Value>
void put(int fd, const Key& key, const Value& value) {
  check(bpf_map_update_elem(fd, &key, &value, BPF_ANY), "write a map");
}

template <typename Key, typename Value>
void empty(int fd) {
  for (const auto& [key, value] : read_map<Key, Value>(fd)) check(bpf_map_delete_elem(fd, &key), "empty a map");
}

bool same(const hp_tuple& a, const hp_tuple& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

bool in_use(const hp_flow& flow) { return flow.state >= HP_FLOW_NEW; }

std::uint64_t nanoseconds(std::chrono::nanoseconds time) { return static_cast<std::uint64_t>(time.count()); }

}  // namespace

const Interfaces& interfaces() {
  static const Interfaces made = make_interfaces();
  return made;
}

void add_neighbour(const Address& address, const Mac& mac) {
  run_ip(fmt::format("neigh replace {} lladdr {:02x} dev hp-bridge nud permanent", address.to_string(),
                     fmt::join(mac, ":")));
}

Program::Program(const Settings& settings, std::uint32_t chunks)
    : chunk_size_{settings.chunk_size}, elements_{chunks * settings.chunk_size} {
  interfaces();  // packets are made in its namespace
  skeleton_.reset(hairpin_bpf__open());
  if (!skeleton_) give_up("open the programs");
  auto& maps = skeleton_->maps;
  for (bpf_map* map : {maps.hp_frontends, maps.hp_services, maps.hp_slots, maps.hp_backends, maps.hp_names})
    bpf_map__set_max_entries(map, kMostEntries);
  bpf_map__set_max_entries(maps.hp_tuples, std::max(kMostTuples, 2 * elements_));
  bpf_map__set_max_entries(maps.hp_direct, kMostDirect);
  bpf_map__set_max_entries(maps.hp_flows, elements_);

  hp_settings& config = skeleton_->rodata->config;
  config.seed = settings.seed;
  config.chunk_size = settings.chunk_size;
  config.redirect_peer = settings.redirect_peer ? 1 : 0;
  config.idle[HP_IDLE_TCP][HP_FLOW_NEW] = nanoseconds(settings.tcp_new);
  config.idle[HP_IDLE_TCP][HP_FLOW_ESTABLISHED] = nanoseconds(settings.tcp_established);
  config.idle[HP_IDLE_TCP][HP_FLOW_CLOSING] = nanoseconds(settings.closing);
  config.idle[HP_IDLE_UDP][HP_FLOW_NEW] = nanoseconds(settings.udp_new);
  config.idle[HP_IDLE_UDP][HP_FLOW_ESTABLISHED] = nanoseconds(settings.udp_established);
  config.idle[HP_IDLE_UDP][HP_FLOW_CLOSING] = nanoseconds(settings.closing);
  check(hairpin_bpf__load(skeleton_.get()), "load the programs");

  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk)
    check(bpf_map_update_elem(bpf_map__fd(maps.hp_chunks), nullptr, &chunk, BPF_ANY), "add a chunk");
}

void Program::Unload::operator()(hairpin_bpf* skeleton) const { hairpin_bpf__destroy(skeleton); }

int Program::program_fd(Hook hook) const {
  return bpf_program__fd(hook == Hook::kFromPod ? skeleton_->progs.from_pod : skeleton_->progs.to_pod);
}

Outcome Program::run(Hook hook, const Bytes& frame, std::uint32_t ifindex, std::uint32_t mark) {
  auto outcome = try_run(hook, frame, ifindex, mark);
  if (!outcome) throw std::logic_error{"no packet to run"};
  return *std::move(outcome);
}

std::optional<Outcome> Program::try_run(Hook hook, const Bytes& frame, std::uint32_t ifindex, std::uint32_t mark) {
  __sk_buff context{};
  context.ifindex = ifindex;
  context.mark = mark;
  Bytes out(frame.size() + kGrowth);
  LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data(), .data_out = out.data(),
              .data_size_in = static_cast<std::uint32_t>(frame.size()),
              .data_size_out = static_cast<std::uint32_t>(out.size()), .ctx_in = &context, .ctx_out = &context,
              .ctx_size_in = sizeof context, .ctx_size_out = sizeof context);
  const int result = bpf_prog_test_run_opts(program_fd(hook), &options);
  // Some kernels make no packet without a whole IP header, none makes one of less than an Ethernet header.
  if (result == -EINVAL && frame.size() < kEthernetHeader + kIpv6Header) return std::nullopt;
  check(result, "run a program");
  out.resize(options.data_size_out);
  mark_ = context.mark;
  return Outcome{static_cast<int>(options.retval), std::move(out)};
}

int Program::repeat(Hook hook, const Bytes& frame, std::uint32_t ifindex, std::uint32_t count) const {
  __sk_buff context{};
  context.ifindex = ifindex;
  LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data(),
              .data_size_in = static_cast<std::uint32_t>(frame.size()), .ctx_in = &context,
              .ctx_size_in = sizeof context, .repeat = static_cast<int>(count));
  check(bpf_prog_test_run_opts(program_fd(hook), &options), "run a program");
  return static_cast<int>(options.retval);
}

std::uint32_t Program::end_all_flows() {
  const Bytes frame(64);
  std::uint32_t ended = 0;
  for (std::uint32_t first = 0; first < elements_; first += HP_END_FLOWS_MAX) {
    __sk_buff context{};
    context.cb[0] = first;
    context.cb[1] = std::min<std::uint32_t>(HP_END_FLOWS_MAX, elements_ - first);
    LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data(),
                .data_size_in = static_cast<std::uint32_t>(frame.size()), .ctx_in = &context,
                .ctx_size_in = sizeof context);
    check(bpf_prog_test_run_opts(bpf_program__fd(skeleton_->progs.end_flows), &options), "end flows");
    ended += options.retval;
  }
  return ended;
}

void Program::fill(const Tables& tables) {
  const auto& maps = skeleton_->maps;
  for (const auto& [frontend, service] : filled_.services)
    if (!tables.services.contains(frontend))
      check(bpf_map_delete_elem(bpf_map__fd(maps.hp_services), &frontend), "remove a service");
  for (const auto& [address, roles] : filled_.roles)
    if (!tables.roles.contains(address))
      check(bpf_map_delete_elem(bpf_map__fd(maps.hp_frontends), &address), "remove an address");
  for (const auto& [address, roles] : tables.roles) put(bpf_map__fd(maps.hp_frontends), address, hp_gate{roles});
  for (std::uint32_t i = 0; i < tables.backends.size(); ++i) put(bpf_map__fd(maps.hp_backends), i, tables.backends[i]);
  for (std::uint32_t i = 0; i < tables.slots.size(); ++i) put(bpf_map__fd(maps.hp_slots), i, tables.slots[i]);
  for (const auto& [frontend, service] : tables.services) put(bpf_map__fd(maps.hp_services), frontend, service);
  filled_ = tables;
}

void Program::attach(std::uint32_t ifindex, std::uint32_t bridge) {
  std::uint32_t chunk = 0;
  check(bpf_map_lookup_and_delete_elem(bpf_map__fd(skeleton_->maps.hp_chunks), nullptr, &chunk), "take a chunk");
  hp_interface interface{};
  interface.bridge = bridge;
  interface.chunk_count = 1;
  interface.chunks[0] = static_cast<std::uint16_t>(chunk);
  put(bpf_map__fd(skeleton_->maps.hp_interfaces), ifindex, interface);
}

void Program::age(std::chrono::nanoseconds by) {
  for (auto [element, flow] : flows()) {
    flow.last_used -= nanoseconds(by);
    put(bpf_map__fd(skeleton_->maps.hp_flows), element, flow);
  }
}

void Program::forget() {
  const auto& maps = skeleton_->maps;
  for (const auto& [element, flow] : flows()) put(bpf_map__fd(maps.hp_flows), element, hp_flow{});
  empty<hp_tuple, hp_flow_ref>(bpf_map__fd(maps.hp_tuples));
  empty<hp_tuple, hp_direct>(bpf_map__fd(maps.hp_direct));
  for (auto [ifindex, interface] : read_map<std::uint32_t, hp_interface>(bpf_map__fd(maps.hp_interfaces))) {
    interface.hand = 0;
    put(bpf_map__fd(maps.hp_interfaces), ifindex, interface);
  }
  const std::vector<std::uint64_t> zeros(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  for (std::uint32_t i = 0; i < bpf_map__max_entries(maps.hp_counters); ++i)
    check(bpf_map_update_elem(bpf_map__fd(maps.hp_counters), &i, zeros.data(), BPF_ANY), "reset a counter");
}

void Program::write_flow(std::uint32_t element, const hp_flow& flow) {
  put(bpf_map__fd(skeleton_->maps.hp_flows), element, flow);
}

void Program::write_tuple(const hp_tuple& tuple, std::uint32_t element, hp_direction direction) {
  put(bpf_map__fd(skeleton_->maps.hp_tuples), tuple, hp_flow_ref{element << 1 | direction});
}

std::vector<std::pair<std::uint32_t, hp_flow>> Program::flows() const {
  auto all = read_map<std::uint32_t, hp_flow>(bpf_map__fd(skeleton_->maps.hp_flows));
  std::erase_if(all, [](const auto& entry) { return entry.second.state == HP_FLOW_FREE; });
  return all;
}

std::vector<std::pair<hp_tuple, hp_flow_ref>> Program::tuples() const {
  return read_map<hp_tuple, hp_flow_ref>(bpf_map__fd(skeleton_->maps.hp_tuples));
}

hp_interface Program::interface(std::uint32_t ifindex) const {
  hp_interface out{};
  check(bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.hp_interfaces), &ifindex, &out), "read an interface");
  return out;
}

hp_flow Program::flow_of(const hp_tuple& tuple) const {
  const auto flow = find_flow(tuple);
  if (!flow) throw std::runtime_error{"no flow: " + describe(tuple)};
  return *flow;
}

std::optional<hp_flow> Program::find_flow(const hp_tuple& tuple) const {
  hp_flow_ref ref{};
  if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.hp_tuples), &tuple, &ref) < 0) return std::nullopt;
  const std::uint32_t element = ref.flow >> 1;
  hp_flow flow{};
  check(bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.hp_flows), &element, &flow), "read a flow");
  return flow;
}

std::uint64_t Program::counter(Reason reason) const {
  const auto key = static_cast<std::uint32_t>(reason);
  std::vector<std::uint64_t> values(static_cast<std::size_t>(libbpf_num_possible_cpus()));
  check(bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.hp_counters), &key, values.data()), "read a counter");
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

State Program::state() const {
  State out;
  for (const auto& [element, flow] : flows())
    out.flows.insert(describe(FlowView{.request = flow.tuple[HP_REQUEST],
                                       .reply = flow.tuple[HP_REPLY],
                                       .state = flow.state,
                                       .hairpin = (flow.flags & HP_FLOW_HAIRPIN) != 0,
                                       .fin_request = flow.fin[HP_REQUEST] != 0,
                                       .fin_reply = flow.fin[HP_REPLY] != 0,
                                       .backend = flow.backend,
                                       .epoch = flow.backend_epoch,
                                       .service = flow.service}));
  for (const auto& [tuple, direct] : read_map<hp_tuple, hp_direct>(bpf_map__fd(skeleton_->maps.hp_direct)))
    out.direct.insert(describe(tuple));
  for (std::uint32_t i = 0; i < bpf_map__max_entries(skeleton_->maps.hp_counters); ++i)
    if (const std::uint64_t value = counter(static_cast<Reason>(i)); value != 0) out.counters[reason_name(i)] = value;
  return out;
}

std::string Program::inconsistencies() const {
  std::map<std::uint32_t, hp_flow> by_element;
  for (const auto& [element, flow] : flows()) by_element.emplace(element, flow);
  std::map<hp_tuple, std::uint32_t, ByBytes> refs;
  for (const auto& [tuple, ref] : tuples()) refs.emplace(tuple, ref.flow);

  std::string out;
  std::map<std::uint32_t, std::uint32_t> owners;  // chunk -> interface
  for (const auto& [ifindex, interface] :
       read_map<std::uint32_t, hp_interface>(bpf_map__fd(skeleton_->maps.hp_interfaces)))
    for (std::uint32_t i = 0; i < interface.chunk_count; ++i)
      if (!owners.emplace(interface.chunks[i], ifindex).second)
        out += fmt::format("chunk {} has two owners\n", interface.chunks[i]);

  for (const auto& [tuple, ref] : refs) {
    const auto flow = by_element.find(ref >> 1);
    if (flow == by_element.end() || !in_use(flow->second) || !same(flow->second.tuple[ref & 1], tuple))
      out += fmt::format("a tuple leads to no flow of its own: {}\n", describe(tuple));
  }
  for (const auto& [element, flow] : by_element) {
    if (!in_use(flow)) {
      out += fmt::format("flow {} is stuck in state {}\n", element, flow.state);
      continue;
    }
    for (const std::uint32_t direction : {HP_REQUEST, HP_REPLY}) {
      const auto ref = refs.find(flow.tuple[direction]);
      if (ref == refs.end() || ref->second != (element << 1 | direction))
        out += fmt::format("flow {} lacks its tuple: {}\n", element, describe(flow.tuple[direction]));
    }
    const auto owner = owners.find(element / chunk_size_);
    if (owner == owners.end() || owner->second != flow.tuple[HP_REQUEST].ifindex)
      out += fmt::format("flow {} lies in another interface's chunk\n", element);
  }
  return out;
}

}  // namespace hairpin::test
