// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "tests/support/model.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "tests/support/hash.hpp"

namespace hairpin::test {
namespace {

constexpr std::size_t kNetwork = 14;  // offset of the IP header
constexpr std::size_t kMostSteps = 64;
constexpr std::uint32_t kMostPorts = 32;

std::uint16_t get16(const Bytes& frame, std::size_t offset) {
  return static_cast<std::uint16_t>(frame.at(offset) << 8 | frame.at(offset + 1));
}

std::uint32_t get32(const Bytes& frame, std::size_t offset) {
  return std::uint32_t{get16(frame, offset)} << 16 | get16(frame, offset + 2);
}

void set16(Bytes& frame, std::size_t offset, std::uint16_t value) {
  frame.at(offset) = static_cast<std::uint8_t>(value >> 8);
  frame.at(offset + 1) = static_cast<std::uint8_t>(value);
}

void set32(Bytes& frame, std::size_t offset, std::uint32_t value) {
  set16(frame, offset, static_cast<std::uint16_t>(value >> 16));
  set16(frame, offset + 2, static_cast<std::uint16_t>(value));
}

hp_addr ipv4_address(const Bytes& frame, std::size_t offset) {
  hp_addr address{};
  address.word[2] = htonl(0xffff);
  std::memcpy(&address.word[3], &frame.at(offset), 4);
  return address;
}

hp_addr ipv6_address(const Bytes& frame, std::size_t offset) {
  hp_addr address{};
  std::memcpy(&address, &frame.at(offset), 16);
  return address;
}

bool same(const hp_tuple& a, const hp_tuple& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

void exchange_macs(Bytes& frame) { std::swap_ranges(frame.begin(), frame.begin() + 6, frame.begin() + 6); }

/// Bytes that a checksum covers, to be compared with themselves later.
Bytes part(const Bytes& frame, std::size_t offset, std::size_t length) {
  const auto begin = frame.begin() + static_cast<std::ptrdiff_t>(offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(length)};
}

/// RFC 1624, equation 3: the checksum after what it covers has changed. A wrong one stays as wrong as it was.
std::uint16_t updated(std::uint16_t checksum, const Bytes& before, const Bytes& after) {
  const std::uint64_t was = sum_words(before);
  const std::uint64_t is = sum_words(after);
  if (was == is) return checksum;
  std::uint64_t sum = static_cast<std::uint16_t>(~checksum);
  for (std::size_t i = 0; i < before.size(); i += 2) sum += static_cast<std::uint16_t>(~get16(before, i));
  return checksum_of(sum + is);
}

}  // namespace

std::optional<std::size_t> Model::read_ipv4(const Bytes& frame, Packet& packet) {
  if (frame.size() < kNetwork + 20 || frame[kNetwork] >> 4 != 4) return std::nullopt;
  const std::size_t header = static_cast<std::size_t>(frame[kNetwork] & 0xf) * 4;
  const std::size_t total = get16(frame, kNetwork + 2);
  if (header < 20 || total < header) return std::nullopt;
  const std::uint16_t fragment = get16(frame, kNetwork + 6);
  if ((fragment & 0x2000) != 0 || (fragment & 0x1fff) != 0) return std::nullopt;
  packet.l4 = kNetwork + header;
  packet.ipv6 = false;
  packet.tuple.protocol = frame[kNetwork + 9];
  packet.tuple.src = ipv4_address(frame, kNetwork + 12);
  packet.tuple.dst = ipv4_address(frame, kNetwork + 16);
  return total - header;
}

std::optional<std::size_t> Model::read_ipv6(const Bytes& frame, Packet& packet) {
  if (frame.size() < kNetwork + 40 || frame[kNetwork] >> 4 != 6) return std::nullopt;
  packet.l4 = kNetwork + 40;
  packet.ipv6 = true;
  packet.tuple.protocol = frame[kNetwork + 6];
  packet.tuple.src = ipv6_address(frame, kNetwork + 8);
  packet.tuple.dst = ipv6_address(frame, kNetwork + 24);
  // Not on any wire (RFC 6890): it would be taken for IPv4.
  for (const hp_addr& address : {packet.tuple.src, packet.tuple.dst})
    if (Address{address}.family() == Family::kIpv4) return std::nullopt;
  return get16(frame, kNetwork + 4);
}

bool Model::read_transport(const Bytes& frame, std::size_t claimed, Packet& packet) {
  const bool tcp = packet.tuple.protocol == HP_TCP;
  if (!tcp && packet.tuple.protocol != HP_UDP) return false;
  const std::size_t needed = tcp ? 20 : 8;
  if (claimed < needed || frame.size() < packet.l4 + needed) return false;
  if (tcp && frame[packet.l4 + 12] >> 4 < 5) return false;
  packet.flags = tcp ? frame[packet.l4 + 13] : std::uint8_t{0};
  packet.tuple.sport = htons(get16(frame, packet.l4));
  packet.tuple.dport = htons(get16(frame, packet.l4 + 2));
  return true;
}

std::optional<Model::Packet> Model::read(const Bytes& frame, std::uint32_t ifindex) {
  if (frame.size() < kNetwork) return std::nullopt;
  const std::uint16_t type = get16(frame, 12);
  Packet packet{};
  packet.tuple.ifindex = ifindex;
  std::optional<std::size_t> claimed;
  if (type == 0x0800) claimed = read_ipv4(frame, packet);
  if (type == 0x86dd) claimed = read_ipv6(frame, packet);
  if (!claimed || !read_transport(frame, *claimed, packet)) return std::nullopt;
  return packet;
}

Bytes Model::with_tuple(Bytes frame, const Packet& packet, const hp_tuple& to) {
  const std::size_t size = packet.ipv6 ? 16 : 4;
  const std::size_t offset = kNetwork + (packet.ipv6 ? 8 : 12);
  const Bytes addresses_before = part(frame, offset, 2 * size);
  Bytes covered_before = addresses_before;
  for (const std::uint8_t byte : part(frame, packet.l4, 4)) covered_before.push_back(byte);

  const std::size_t skipped = packet.ipv6 ? 0 : 12;
  std::memcpy(&frame.at(offset), reinterpret_cast<const std::uint8_t*>(&to.src) + skipped, size);
  std::memcpy(&frame.at(offset + size), reinterpret_cast<const std::uint8_t*>(&to.dst) + skipped, size);
  set16(frame, packet.l4, ntohs(to.sport));
  set16(frame, packet.l4 + 2, ntohs(to.dport));

  const Bytes addresses = part(frame, offset, 2 * size);
  Bytes covered = addresses;
  for (const std::uint8_t byte : part(frame, packet.l4, 4)) covered.push_back(byte);
  if (!packet.ipv6) {
    const std::size_t field = kNetwork + 10;
    set16(frame, field, updated(get16(frame, field), addresses_before, addresses));
  }
  const bool udp = packet.tuple.protocol == HP_UDP;
  const std::size_t field = packet.l4 + (udp ? 6 : 16);
  const std::uint16_t checksum = get16(frame, field);
  if (udp && checksum == 0) return frame;  // there is none
  const std::uint16_t new_checksum = updated(checksum, covered_before, covered);
  set16(frame, field, udp && new_checksum == 0 ? 0xffff : new_checksum);
  return frame;
}

Bytes Model::reset(Bytes frame, const Packet& packet) {
  const std::size_t sequence = packet.l4 + 4;
  const std::size_t acknowledgement = packet.l4 + 8;
  const std::size_t flags = packet.l4 + 13;
  const Bytes before = part(frame, sequence, 12);
  if ((packet.flags & kAck) != 0) {
    set32(frame, sequence, get32(frame, acknowledgement));
    set32(frame, acknowledgement, 0);
    frame.at(flags) = kRst;
  } else {
    set32(frame, acknowledgement, get32(frame, sequence) + ((packet.flags & kSyn) != 0 ? 1 : 0));
    set32(frame, sequence, 0);
    frame.at(flags) = kRst | kAck;
  }
  const std::size_t field = packet.l4 + 16;
  set16(frame, field, updated(get16(frame, field), before, part(frame, sequence, 12)));
  return with_tuple(std::move(frame), packet, reverse_of(packet.tuple));
}

std::uint32_t Model::roles_of(const hp_addr& address) const {
  const auto found = tables_.roles.find(address);
  return found == tables_.roles.end() ? 0 : found->second;
}

bool Model::expired(const Flow& flow, Time now) const {
  const bool tcp = flow.request.protocol == HP_TCP;
  Time limit = tcp ? settings_.tcp_new : settings_.udp_new;
  if (flow.state == HP_FLOW_ESTABLISHED) limit = tcp ? settings_.tcp_established : settings_.udp_established;
  if (flow.state == HP_FLOW_CLOSING) limit = settings_.closing;
  return now - flow.last_used > limit;
}

bool Model::backend_gone(const Flow& flow) const {
  return flow.backend != 0 &&
         (flow.backend >= tables_.backends.size() || tables_.backends[flow.backend].epoch != flow.epoch);
}

void Model::follow(Flow& flow, Direction direction, const Packet& packet, Time now) {
  flow.last_used = now;
  if (direction == Direction::kReply && flow.state == HP_FLOW_NEW) flow.state = HP_FLOW_ESTABLISHED;
  if ((packet.flags & kFin) != 0) (direction == Direction::kRequest ? flow.fin_request : flow.fin_reply) = true;
  if ((packet.flags & kRst) != 0 || (flow.fin_request && flow.fin_reply)) flow.state = HP_FLOW_CLOSING;
}

Outcome Model::from_pod(const Bytes& frame, std::uint32_t ifindex, Time now) {
  const auto packet = read(frame, ifindex);
  if (!packet) return {kPass, frame};
  const std::uint32_t roles = roles_of(packet->tuple.dst);
  if (roles == 0) return {kPass, frame};

  const bool tcp = packet->tuple.protocol == HP_TCP;
  const bool may_open = !tcp || ((packet->flags & kSyn) != 0 && (packet->flags & kAck) == 0);
  if (const auto place = places_.find(packet->tuple); place != places_.end()) {
    const auto [element, direction] = place->second;
    Flow& flow = flows_.at(element);
    const bool gone = direction == Direction::kRequest && backend_gone(flow);
    const bool replaced = may_open && (gone || flow.state == HP_FLOW_CLOSING);
    if (!expired(flow, now) && !replaced) {
      const bool reset = tcp && (packet->flags & kRst) != 0;
      if (gone && !reset) return refuse(frame, *packet, Reason::HP_REASON_BACKEND_GONE);
      follow(flow, direction, *packet, now);
      return translate(frame, *packet, flow, direction);
    }
    if (may_open) end(element);
  }
  if (!may_open) return {kPass, frame};
  return begin(frame, *packet, roles, now);
}

Outcome Model::begin(const Bytes& frame, const Packet& packet, std::uint32_t roles, Time now) {
  if ((roles & HP_ROLE_FRONTEND) != 0) {
    const auto found = tables_.services.find(
        {.address = packet.tuple.dst, .port = packet.tuple.dport, .protocol = packet.tuple.protocol, .pad = 0});
    if (found == tables_.services.end()) return {kPass, frame};
    const hp_service& service = found->second;
    const std::uint64_t count = hp_slots_count(service.slots);
    if (count == 0) return refuse(frame, packet, Reason::HP_REASON_NO_ENDPOINT);
    const std::uint64_t chosen = hash_of(packet.tuple, settings_.seed) * count >> 32;
    const hp_slot& slot = tables_.slots.at(hp_slots_base(service.slots) + chosen);
    if (slot.generation != hp_slots_generation(service.slots)) return drop(frame, Reason::HP_REASON_SERVICE_CHANGED);
    const hp_backend& backend = tables_.backends.at(slot.backend);
    return open(frame, packet, {Address{backend.address}, backend.port, slot.backend, backend.epoch, service.service},
                now);
  }

  // Straight to an endpoint.
  const hp_tuple replies = reverse_of(packet.tuple);
  const auto place = places_.find(replies);
  const bool taken = place != places_.end() && !expired(flows_.at(place->second.element), now);
  if (!taken) {
    direct_[replies] = now;
    return {kPass, frame};
  }
  direct_.erase(replies);
  return open(frame, packet, {Address{packet.tuple.dst}, packet.tuple.dport, 0, 0, 0}, now);
}

Outcome Model::open(const Bytes& frame, const Packet& packet, const Target& target, Time now) {
  const auto interface = interfaces_.find(packet.tuple.ifindex);
  if (interface == interfaces_.end()) {
    count(Reason::HP_REASON_NO_INTERFACE);
    return {kPass, frame};
  }
  const auto element = take_element(interface->second, now);
  if (!element) return drop(frame, Reason::HP_REASON_FLOWS_FULL);

  const bool hairpin = target.backend != 0 && target.address == Address{packet.tuple.src};
  hp_tuple reply = packet.tuple;  // protocol, interface
  reply.src = target.address.raw();
  reply.dst = hairpin ? packet.tuple.dst : packet.tuple.src;
  reply.sport = target.port;

  const std::uint32_t hash = hash_of(packet.tuple, settings_.seed);
  for (std::uint32_t i = 0; i < kMostPorts; ++i) {
    const std::uint32_t port = i == 0 ? ntohs(packet.tuple.sport) : 1024 + ((hash + i * 40503) & 0xffff) % 64512;
    reply.dport = htons(static_cast<std::uint16_t>(port));
    if (same(reply, packet.tuple) || places_.contains(reply)) continue;
    if (target.backend != 0 && direct_.contains(reply)) continue;

    Flow& flow = flows_[*element];
    flow = {.request = packet.tuple,
            .reply = reply,
            .last_used = now,
            .backend = target.backend,
            .epoch = target.epoch,
            .service = target.service,
            .state = HP_FLOW_NEW,
            .hairpin = hairpin,
            .fin_request = false,
            .fin_reply = false,
            .mac = std::nullopt};
    places_[reply] = {*element, Direction::kReply};
    places_[packet.tuple] = {*element, Direction::kRequest};
    return translate(frame, packet, flow, Direction::kRequest);
  }
  return drop(frame, Reason::HP_REASON_PORTS_TAKEN);
}

std::optional<std::uint32_t> Model::take_element(Interface& interface, Time now) {
  const std::uint32_t size = settings_.chunk_size;
  const auto total = [&] { return static_cast<std::uint32_t>(interface.chunks.size()) * size; };
  const auto element_at = [&](std::uint32_t place) { return interface.chunks.at(place / size) * size + place % size; };

  std::optional<std::uint32_t> chosen;
  std::optional<std::uint32_t> spare;
  std::uint32_t place = interface.hand;
  for (std::size_t step = 0; step < kMostSteps && !chosen; ++step) {
    if (place >= total()) place = 0;
    const auto flow = flows_.find(element_at(place));
    if (flow == flows_.end() || expired(flow->second, now)) {
      chosen = place;
    } else if (!spare && (flow->second.state == HP_FLOW_NEW || flow->second.state == HP_FLOW_CLOSING)) {
      spare = place;
    }
    ++place;
  }
  if (!chosen && interface.chunks.size() < HP_CHUNKS_PER_POD && !free_chunks_.empty()) {
    chosen = total();
    interface.chunks.push_back(free_chunks_.front());
    free_chunks_.pop_front();
  }
  if (!chosen) chosen = spare;
  if (!chosen) {
    interface.hand = place;
    return std::nullopt;
  }
  interface.hand = *chosen + 1;
  const std::uint32_t element = element_at(*chosen);
  end(element);
  return element;
}

Outcome Model::translate(const Bytes& frame, const Packet& packet, Flow& flow, Direction direction) {
  const hp_tuple to = reverse_of(direction == Direction::kRequest ? flow.reply : flow.request);
  Outcome outcome{kPass, with_tuple(frame, packet, to)};
  if (flow.hairpin) {
    exchange_macs(outcome.frame);
    outcome.verdict = kRedirect;
  } else if (direction == Direction::kRequest) {
    const auto interface = interfaces_.find(packet.tuple.ifindex);
    const auto neighbour = neighbours_.find(Address{flow.reply.src});
    if (!flow.mac && interface != interfaces_.end() && interface->second.bridge != 0 && neighbour != neighbours_.end())
      flow.mac = neighbour->second;
    if (flow.mac) std::copy(flow.mac->begin(), flow.mac->end(), outcome.frame.begin());
  }
  return outcome;
}

Outcome Model::to_pod(const Bytes& frame, std::uint32_t ifindex, Time now) {
  const auto packet = read(frame, ifindex);
  if (!packet || roles_of(packet->tuple.src) == 0) return {kPass, frame};
  const auto place = places_.find(packet->tuple);
  if (place == places_.end() || place->second.direction != Direction::kReply) return {kPass, frame};
  Flow& flow = flows_.at(place->second.element);
  if (flow.hairpin || expired(flow, now)) return {kPass, frame};
  follow(flow, Direction::kReply, *packet, now);
  return translate(frame, *packet, flow, Direction::kReply);
}

Outcome Model::refuse(const Bytes& frame, const Packet& packet, Reason reason) {
  count(reason);
  if (packet.tuple.protocol == HP_UDP) return {kRedirect, port_unreachable(frame)};
  Outcome outcome{kRedirect, reset(frame, packet)};
  exchange_macs(outcome.frame);
  return outcome;
}

Outcome Model::drop(const Bytes& frame, Reason reason) {
  count(reason);
  return {kDrop, frame};
}

void Model::end(std::uint32_t element) {
  const auto flow = flows_.find(element);
  if (flow == flows_.end()) return;
  places_.erase(flow->second.request);
  places_.erase(flow->second.reply);
  flows_.erase(flow);
}

void Model::attach(std::uint32_t ifindex, std::uint32_t bridge) {
  interfaces_[ifindex] = {.bridge = bridge, .hand = 0, .chunks = {free_chunks_.front()}};
  free_chunks_.pop_front();
}

void Model::end_all_flows() {
  flows_.clear();
  places_.clear();
}

void Model::age(Time by) {
  for (auto& [element, flow] : flows_) flow.last_used -= by;
}

void Model::forget() {
  end_all_flows();
  direct_.clear();
  counters_.clear();
  for (auto& [ifindex, interface] : interfaces_) interface.hand = 0;
}

std::vector<FlowView> Model::flows() const {
  std::vector<FlowView> out;
  out.reserve(flows_.size());
  for (const auto& [element, flow] : flows_)
    out.push_back({.request = flow.request,
                   .reply = flow.reply,
                   .state = flow.state,
                   .hairpin = flow.hairpin,
                   .fin_request = flow.fin_request,
                   .fin_reply = flow.fin_reply,
                   .backend = flow.backend,
                   .epoch = flow.epoch,
                   .service = flow.service});
  return out;
}

State Model::state() const {
  State out;
  for (const FlowView& flow : flows()) out.flows.insert(describe(flow));
  for (const auto& [tuple, last_used] : direct_) out.direct.insert(describe(tuple));
  for (const auto& [reason, value] : counters_) out.counters[reason_name(static_cast<std::size_t>(reason))] = value;
  return out;
}

}  // namespace hairpin::test
