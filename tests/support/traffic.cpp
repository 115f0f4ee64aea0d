// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "tests/support/traffic.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <stdexcept>
#include <vector>

#include "tests/support/checksum.hpp"

namespace hairpin::test {

namespace {

constexpr std::uint16_t kTcpPort = 8080;
constexpr std::uint16_t kUdpPort = 5353;
constexpr int kPollMs = 20;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress make_address(const std::string& address, std::uint16_t port) {
  SocketAddress made;
  if (address.find(':') != std::string::npos) {
    auto* in6 = reinterpret_cast<sockaddr_in6*>(&made.storage);
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    inet_pton(AF_INET6, address.c_str(), &in6->sin6_addr);
    made.length = sizeof(sockaddr_in6);
  } else {
    auto* in = reinterpret_cast<sockaddr_in*>(&made.storage);
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    inet_pton(AF_INET, address.c_str(), &in->sin_addr);
    made.length = sizeof(sockaddr_in);
  }
  return made;
}

std::string text_of(const SocketAddress& address, bool with_port) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  std::uint16_t port = 0;
  if (address.storage.ss_family == AF_INET6) {
    const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    inet_ntop(AF_INET6, &in6->sin6_addr, text.data(), text.size());
    port = ntohs(in6->sin6_port);
  } else {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&address.storage);
    inet_ntop(AF_INET, &in->sin_addr, text.data(), text.size());
    port = ntohs(in->sin_port);
  }
  return with_port ? fmt::format("{} {}", text.data(), port) : text.data();
}

void set(int socket, int level, int name, int value) { setsockopt(socket, level, name, &value, sizeof value); }

Fd listening(int family, int type, std::uint16_t port) {
  Fd socket{::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  set(socket.get(), SOL_SOCKET, SO_REUSEPORT, 1);
  if (family == AF_INET6) set(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  auto address = make_address(family == AF_INET6 ? "::" : "0.0.0.0", port);
  if (bind(socket.get(), address.get(), address.length) != 0) throw std::runtime_error("bind the server");
  if (type == SOCK_STREAM && listen(socket.get(), 128) != 0) throw std::runtime_error("listen");
  return socket;
}

bool wait_for(int socket, short events, std::chrono::milliseconds limit) {
  pollfd entry{socket, events, 0};
  return poll(&entry, 1, static_cast<int>(limit.count())) > 0;
}

void answer_datagram(int socket) {
  std::array<char, 2048> buffer{};
  SocketAddress peer;
  peer.length = sizeof peer.storage;
  if (recvfrom(socket, buffer.data(), buffer.size(), 0, peer.get(), &peer.length) < 0) return;
  const std::string text = text_of(peer, true);
  sendto(socket, text.data(), text.size(), 0, peer.get(), peer.length);
}

/// One connection of the server's: what it is to do is the first byte it gets.
struct Peer {
  Fd socket;
  std::string name;
  std::string unsent;
  bool echo = false;
};

/// False when the connection is over.
bool serve(Peer& peer) {
  std::array<char, 65536> buffer{};
  while (peer.unsent.size() < 1'000'000) {
    const ssize_t length = recv(peer.socket.get(), buffer.data(), buffer.size(), 0);
    if (length == 0) return false;
    if (length < 0) {
      if (errno != EAGAIN) return false;
      break;
    }
    std::string_view got{buffer.data(), static_cast<std::size_t>(length)};
    if (!peer.echo && got.front() == 'e') {
      peer.echo = true;
      got.remove_prefix(1);
    }
    if (peer.echo) {
      peer.unsent += got;
    } else {
      peer.unsent += peer.name;
    }
  }
  while (!peer.unsent.empty()) {
    const ssize_t length = send(peer.socket.get(), peer.unsent.data(), peer.unsent.size(), MSG_NOSIGNAL);
    if (length < 0) return errno == EAGAIN;
    peer.unsent.erase(0, static_cast<std::size_t>(length));
  }
  return true;
}

void serve_until(const std::atomic<bool>& stop, std::atomic<bool>& ready) {
  std::vector<Fd> listeners;
  std::vector<Fd> datagrams;
  for (const int family : {AF_INET, AF_INET6}) {
    listeners.push_back(listening(family, SOCK_STREAM, kTcpPort));
    datagrams.push_back(listening(family, SOCK_DGRAM, kUdpPort));
  }
  ready = true;
  std::map<int, Peer> peers;
  while (!stop) {
    std::vector<pollfd> entries;
    for (const auto& socket : listeners) entries.push_back({socket.get(), POLLIN, 0});
    for (const auto& socket : datagrams) entries.push_back({socket.get(), POLLIN, 0});
    for (const auto& [socket, peer] : peers) {
      const int events = peer.unsent.empty() ? POLLIN : POLLIN | POLLOUT;
      entries.push_back({socket, static_cast<short>(events), 0});
    }
    poll(entries.data(), entries.size(), kPollMs);
    for (const auto& entry : entries) {
      if (entry.revents == 0) continue;
      if (entry.fd == datagrams[0].get() || entry.fd == datagrams[1].get()) {
        answer_datagram(entry.fd);
      } else if (entry.fd == listeners[0].get() || entry.fd == listeners[1].get()) {
        SocketAddress from;
        from.length = sizeof from.storage;
        Fd accepted{accept4(entry.fd, from.get(), &from.length, SOCK_NONBLOCK | SOCK_CLOEXEC)};
        if (!accepted.valid()) continue;
        const int number = accepted.get();
        peers[number] = Peer{std::move(accepted), text_of(from, true), {}, false};
      } else if (!serve(peers.at(entry.fd))) {
        peers.erase(entry.fd);
      }
    }
  }
}

}  // namespace

Server::Server(const Namespace& space)
    : thread_{[this, &space] { space.run([this] { serve_until(stop_, ready_); }); }} {
  while (!ready_) std::this_thread::sleep_for(std::chrono::milliseconds{1});
}

Server::~Server() {
  stop_ = true;
  thread_.join();
}

Conversation::Conversation(const Namespace& space, Transport transport, const std::string& address, std::uint16_t port,
                           const AskOptions& options)
    : options_{options} {
  auto destination = make_address(address, port);
  const int family = destination.storage.ss_family;
  const bool tcp = transport == Transport::kTcp;
  space.run([&] { socket_ = Fd{socket(family, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)}; });
  if (options.no_checksum) set(socket_.get(), SOL_SOCKET, SO_NO_CHECK, 1);
  if (options.ip_options) {
    const std::array<std::uint8_t, 4> nops{1, 1, 1, 0};  // three no-operations, end of list (RFC 791, 3.1)
    setsockopt(socket_.get(), IPPROTO_IP, IP_OPTIONS, nops.data(), nops.size());
  }
  if (options.source_port != 0) {
    set(socket_.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    set(socket_.get(), SOL_SOCKET, SO_REUSEPORT, 1);
    auto own = make_address(family == AF_INET6 ? "::" : "0.0.0.0", options.source_port);
    if (bind(socket_.get(), own.get(), own.length) != 0) error_ = errno;
  }
  if (error_ == 0 && connect(socket_.get(), destination.get(), destination.length) != 0 && errno != EINPROGRESS)
    error_ = errno;
  if (error_ == 0 && tcp) {
    if (!wait_for(socket_.get(), POLLOUT, options.limit)) {
      error_ = ETIMEDOUT;
    } else {
      socklen_t length = sizeof error_;
      getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error_, &length);
    }
  }
  SocketAddress own;
  own.length = sizeof own.storage;
  getsockname(socket_.get(), own.get(), &own.length);
  own_ = text_of(own, false);
}

Answer Conversation::ask() {
  const auto start = std::chrono::steady_clock::now();
  Answer answer{.error = error_, .own = own_};
  std::array<char, 256> buffer{};
  if (answer.error == 0 && send(socket_.get(), "w", 1, MSG_NOSIGNAL) < 0) answer.error = errno;
  if (answer.error == 0 && !wait_for(socket_.get(), POLLIN, options_.limit)) answer.error = ETIMEDOUT;
  if (answer.error == 0) {
    const ssize_t length = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (length > 0) {
      answer.ok = true;
      answer.peer.assign(buffer.data(), static_cast<std::size_t>(length));
    } else {
      answer.error = length < 0 ? errno : ECONNRESET;
    }
  }
  answer.elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
  return answer;
}

bool Conversation::echo(std::size_t bytes) {
  if (error_ != 0) return false;
  std::string sent = "e";
  for (std::size_t i = 0; i < bytes; ++i) sent += static_cast<char>(i * 2654435761U >> 13);
  std::string got;
  std::size_t done = 0;
  std::array<char, 65536> buffer{};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{30};
  while (got.size() < bytes) {
    if (std::chrono::steady_clock::now() > end) return false;
    wait_for(socket_.get(), done < sent.size() ? POLLIN | POLLOUT : POLLIN, std::chrono::milliseconds{100});
    if (done < sent.size()) {
      const ssize_t length = send(socket_.get(), sent.data() + done, sent.size() - done, MSG_NOSIGNAL);
      if (length > 0) done += static_cast<std::size_t>(length);
      if (length < 0 && errno != EAGAIN) return false;
    }
    const ssize_t length = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (length > 0) got.append(buffer.data(), static_cast<std::size_t>(length));
    if (length == 0 || (length < 0 && errno != EAGAIN)) return false;
  }
  return got == sent.substr(1);
}

Answer ask(const Namespace& space, Transport transport, const std::string& address, std::uint16_t port,
           const AskOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Answer answer = Conversation{space, transport, address, port, options}.ask();
  answer.elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
  return answer;
}

Capture::Capture(const Namespace& space, const std::string& interface) {
  space.run([&] {
    socket_ = Fd{socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL))};
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
    if (bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("capture on " + interface);
    }
  });
  thread_ = std::thread([this] {
    std::vector<std::uint8_t> frame(70000);
    while (!stop_) {
      if (!wait_for(socket_.get(), POLLIN, std::chrono::milliseconds{kPollMs})) continue;
      const ssize_t length = recv(socket_.get(), frame.data(), frame.size(), 0);
      if (length <= 0) continue;
      ++frames_;
      if (!checksums_right({frame.data(), static_cast<std::size_t>(length)})) ++wrong_;
    }
  });
}

Capture::~Capture() {
  stop_ = true;
  thread_.join();
}

}  // namespace hairpin::test
