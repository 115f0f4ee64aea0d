// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "tests/support/lab.hpp"

// Real sockets inside a namespace, every wait with an end.

namespace hairpin::test {

/// In a pod, on TCP port 8080 and UDP port 5353, both families. Answers "w" with the peer's address and port as it sees
/// them; after "e" it sends back all that it gets.
class Server {
 public:
  explicit Server(const Namespace& space);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<bool> ready_ = false;
  std::thread thread_;
};

enum class Transport : std::uint8_t { kTcp, kUdp };

struct AskOptions {
  std::uint16_t source_port = 0;  ///< 0: any
  bool no_checksum = false;       ///< UDP over IPv4: SO_NO_CHECK
  bool ip_options = false;        ///< IPv4: a header with options
  std::chrono::milliseconds limit{2000};
};

struct Answer {
  bool ok = false;
  int error = 0;     ///< errno; ETIMEDOUT where nothing came
  std::string peer;  ///< "ADDRESS PORT" of the client as the server saw it
  std::string own;   ///< the client's own address
  std::chrono::milliseconds elapsed{};
};

/// An open conversation: what was connected stays until the object goes.
class Conversation {
 public:
  Conversation(const Namespace& space, Transport transport, const std::string& address, std::uint16_t port,
               const AskOptions& options = {});

  /// Asks once more on the same socket.
  Answer ask();

  /// TCP: sends that many bytes, expects them back unchanged.
  bool echo(std::size_t bytes);

 private:
  Fd socket_;
  AskOptions options_;
  int error_ = 0;
  std::string own_;
};

/// Connects, asks who we are, closes.
Answer ask(const Namespace& space, Transport transport, const std::string& address, std::uint16_t port,
           const AskOptions& options = {});

/// Looks at every frame on an interface until it is destroyed, and verifies its sums.
class Capture {
 public:
  Capture(const Namespace& space, const std::string& interface);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  [[nodiscard]] int frames() const { return frames_; }
  [[nodiscard]] int wrong() const { return wrong_; }

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<int> frames_ = 0;
  std::atomic<int> wrong_ = 0;
  Fd socket_;
  std::thread thread_;
};

}  // namespace hairpin::test
