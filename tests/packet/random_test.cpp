// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Random packets, whole, mutated and cut, over random tables: the programs and the model must agree on each, and on
// what is in the flow table afterwards. HAIRPIN_RANDOM_SEED repeats a run, HAIRPIN_RANDOM_PACKETS sets its length.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <random>

#include "tests/packet/bench.hpp"

using namespace hairpin::test;

namespace {

constexpr std::uint64_t kPackets = 100000;
constexpr std::uint64_t kSequence = 400;  // packets, until everything is forgotten and new services are drawn

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return text == nullptr ? otherwise : std::stoull(text, nullptr, 0);
}

/// Draws packets and tables that meet each other often: few addresses, few ports.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_{seed} {}

  void draw_services(Tables& tables) {
    tables = {};
    for (const World& world : worlds())
      for (const Protocol protocol : kProtocols)
        for (const hairpin::Address& vip : {world.vip, world.other_vip})
          for (const std::uint16_t port : kPorts) {
            if (one_in(4)) continue;
            tables.serve(protocol, {vip, port}, draw_endpoints(world));
          }
  }

  /// Something happens to the services, or time goes by.
  void change(Bench& bench) {
    const World& world = worlds()[below(2)];
    const Protocol protocol = kProtocols[below(2)];
    const Socket frontend{one_in(2) ? world.vip : world.other_vip, pick(kPorts)};
    switch (below(6)) {
      case 0:
        // Steps that add up to none of the limits, so that no flow is on the edge when it is met.
        bench.age(std::chrono::seconds{11 * (1 + below(20))});
        return;
      case 1:
        bench.tables.raise_epoch({one_in(2) ? world.a : world.b, pick(kPorts)});
        break;
      case 2:
        bench.tables.remove(protocol, frontend);
        break;
      case 3:
        bench.tables.serve(protocol, frontend, draw_endpoints(world));
        break;
      default:
        if (!bench.tables.has(protocol, frontend)) return;
        if (one_in(6)) {
          bench.tables.spoil_slots(protocol, frontend);
        } else {
          bench.tables.replace(protocol, frontend, draw_endpoints(world));
        }
    }
    bench.publish();
  }

  struct Draw {
    Hook hook;
    std::uint32_t ifindex;
    Bytes frame;
  };

  Draw draw(const Model& model) {
    Draw out{one_in(4) ? Hook::kToPod : Hook::kFromPod, draw_interface(), {}};
    Packet packet = one_in(3) ? draw_of_flow(model, out) : draw_free();
    decorate(packet);
    out.frame = packet.frame();
    if (one_in(8)) mutate(out.frame);
    if (one_in(30)) out.frame.resize(1 + below(out.frame.size()));
    return out;
  }

 private:
  static constexpr std::uint16_t kPorts[] = {53, 80, 81, 7946, 8080};

  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>{0, n - 1}(random_); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  std::uint16_t pick(std::span<const std::uint16_t> from) { return from[below(from.size())]; }
  std::uint8_t byte() { return static_cast<std::uint8_t>(below(256)); }

  std::vector<Socket> draw_endpoints(const World& world) {
    std::vector<Socket> out;
    for (std::size_t count = below(4); count > 0; --count)
      out.emplace_back(one_in(3) ? world.b : world.a, pick(kPorts));
    return out;
  }

  std::uint32_t draw_interface() {
    const Interfaces& all = interfaces();
    if (one_in(20)) return all.c;
    return one_in(4) ? all.b : all.a;
  }

  std::uint8_t draw_flags() {
    constexpr std::uint8_t kUsual[] = {kSyn,        kSyn, kSyn | kAck, kAck, kAck | kPsh,
                                       kAck | kFin, kRst, kRst | kAck, kFin};
    return one_in(12) ? byte() : kUsual[below(std::size(kUsual))];
  }

  /// From anywhere to anywhere.
  Packet draw_free() {
    const World& world = worlds()[below(2)];
    const hairpin::Address sources[] = {world.a, world.a, world.a, world.b, world.vip, world.stranger};
    const hairpin::Address destinations[] = {world.vip, world.vip, world.other_vip, world.a, world.b, world.stranger};
    Packet packet;
    packet.from = {sources[below(std::size(sources))],
                   one_in(2) ? static_cast<std::uint16_t>(40000 + below(6)) : pick(kPorts)};
    packet.to = {destinations[below(std::size(destinations))],
                 one_in(8) ? static_cast<std::uint16_t>(40000 + below(6)) : pick(kPorts)};
    packet.protocol = one_in(40) ? byte() : std::uint8_t{kProtocols[below(2)]};
    packet.flags = one_in(2) ? std::uint8_t{kSyn} : draw_flags();
    return packet;
  }

  /// One of an open flow, either direction, mostly where it belongs.
  Packet draw_of_flow(const Model& model, Draw& draw) {
    const auto flows = model.flows();
    if (flows.empty()) return draw_free();
    const FlowView& flow = flows[below(flows.size())];
    const bool reply = one_in(2);
    const hp_tuple& tuple = reply ? flow.reply : flow.request;
    Packet packet;
    packet.from = source_of(tuple);
    packet.to = destination_of(tuple);
    packet.protocol = tuple.protocol;
    packet.flags = draw_flags();
    if (!one_in(10)) draw.ifindex = tuple.ifindex;
    if (!one_in(10)) draw.hook = reply && !flow.hairpin ? Hook::kToPod : Hook::kFromPod;
    return packet;
  }

  void decorate(Packet& packet) {
    packet.sequence = static_cast<std::uint32_t>(random_());
    packet.acknowledgement = static_cast<std::uint32_t>(random_());
    packet.id = static_cast<std::uint16_t>(random_());
    packet.ttl = byte();
    packet.traffic_class = byte();
    packet.udp_checksum = !one_in(4);
    if (one_in(6)) packet.ip_options = Bytes(below(41), byte());
    if (one_in(6)) packet.tcp_options = Bytes(below(41), byte());
    if (one_in(2)) packet.payload = Bytes(below(80), byte());
    if (one_in(50)) packet.payload = Bytes(below(1400), byte());
    if (one_in(10)) packet.padding = below(20);
    if (one_in(40)) packet.more_fragments = true;
    if (one_in(40)) packet.fragment_offset = static_cast<std::uint16_t>(below(0x2000));
    if (one_in(40)) packet.vlan = {static_cast<std::uint16_t>(below(4096))};
    if (one_in(40)) packet.extensions = {{kHopByHop, {0, 1, 4, 0, 0, 0, 0}}};
  }

  void mutate(Bytes& frame) {
    for (std::size_t count = 1 + below(3); count > 0; --count) {
      // The headers, rather than the payload.
      const std::size_t place = below(std::min<std::size_t>(frame.size(), 80));
      frame[place] = one_in(2) ? byte() : static_cast<std::uint8_t>(frame[place] ^ 1U << below(8));
    }
  }

  std::mt19937_64 random_;
};

}  // namespace

TEST_CASE("random packets") {
  const std::uint64_t seed = from_environment("HAIRPIN_RANDOM_SEED", std::random_device{}());
  const std::uint64_t packets = from_environment("HAIRPIN_RANDOM_PACKETS", kPackets);
  MESSAGE("HAIRPIN_RANDOM_SEED=", seed, " HAIRPIN_RANDOM_PACKETS=", packets);

  Generator generator{seed};
  Settings settings;
  settings.seed = static_cast<std::uint32_t>(seed);
  settings.chunk_size = 64;
  Bench bench{settings};
  std::uint64_t redirected = 0;
  std::uint64_t changed = 0;
  for (std::uint64_t i = 0; i < packets; ++i) {
    if (i % kSequence == 0) {
      const std::string differences = bench.table_differences();
      REQUIRE_MESSAGE(differences.empty(), "seed ", seed, ", before packet ", i, ":\n", differences);
      bench.forget();
      generator.draw_services(bench.tables);
      bench.publish();
    }
    if (i % 20 == 19) generator.change(bench);
    const auto [hook, ifindex, frame] = generator.draw(bench.model());
    const std::string differences = bench.compare(hook, frame, ifindex);
    REQUIRE_MESSAGE(differences.empty(), "seed ", seed, ", packet ", i, ": ", differences);
    redirected += bench.last().verdict == kRedirect ? 1 : 0;
    changed += bench.last().frame != frame ? 1 : 0;
  }
  bench.check_tables();
  // A generator that hits nothing tests nothing.
  CHECK(redirected > packets / 10);
  CHECK(changed > packets / 5);
}
