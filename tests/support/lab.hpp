// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hairpin/fd.hpp"

// A throw-away node with pods, in network namespaces that have no name and end with the objects. Everything that is
// started is ended by the destructors; the test binary's main gives it a mount namespace of its own.

namespace hairpin::test {

/// A network namespace without a name: it lives as long as this object, or a process in it.
class Namespace {
 public:
  Namespace();

  /// Runs the function on a thread in the namespace and waits for it.
  void run(const std::function<void()>& function) const;

  /// Runs a shell command in the namespace; its output. Throws std::runtime_error if it fails.
  std::string sh(const std::string& command) const;

  /// The same, giving the exit status back instead; output of both streams.
  int sh(const std::string& command, std::string& output) const;

  /// A path to the namespace for `ip link ... netns PATH`, good for child processes of this process.
  [[nodiscard]] std::string path() const;

  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  Fd fd_;
};

/// A program running in a namespace; killed by the destructor if it has not ended.
class Process {
 public:
  Process(const Namespace& space, std::vector<std::string> arguments, const std::filesystem::path& output);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const;

  /// Waits for the end; the exit status, or 128 + the signal.
  int wait();

  [[nodiscard]] bool running();
  [[nodiscard]] int pid() const { return pid_; }

 private:
  int pid_ = -1;
  int status_ = 0;
};

enum class Topology : std::uint8_t { kBridge, kRouted };

struct NodeOptions {
  Topology topology = Topology::kBridge;
  bool port_hairpin = false;      ///< hairpin mode of the bridge's ports
  bool bridge_netfilter = false;  ///< net.bridge.bridge-nf-call-ip[6]tables
  bool offloads = true;           ///< checksum and segmentation offload at both ends of each veth
  std::string hook = "auto";      ///< config key
  std::string redirect = "auto";  ///< config key
  std::string limits = "{flows: 16384, services: 256, backends: 1024}";  ///< config key; small maps are made quickly
  std::vector<int> pods{5, 6, 7};                                        ///< 10.244.1.N and fd00:244:1::N
};

/// A node: its namespace, its pods, a folder for files, a bpffs. Its interfaces are called vethN.
class Node {
 public:
  explicit Node(NodeOptions options = {});
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  [[nodiscard]] const Namespace& host() const { return host_; }
  [[nodiscard]] const Namespace& pod(int number) const;
  void add_pod(int number);
  void remove_pod(int number);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::filesystem::path bpffs() const { return folder_ / "bpf" / "hairpin"; }
  [[nodiscard]] std::filesystem::path manifests() const { return folder_ / "manifests"; }

  /// Writes a manifest the way editors do: beside, then renamed.
  void write_manifest(const std::string& name, const std::string& text) const;

  /// Starts the agent and waits until it says that it is synced.
  void start_agent();
  void kill_agent(int signal);
  [[nodiscard]] bool agent_running() { return agent_ && agent_->running(); }
  [[nodiscard]] std::string agent_log() const;

  /// Runs hairpinctl with this node's config; output of both streams.
  int ctl(const std::string& arguments, std::string& output) const;
  std::string ctl(const std::string& arguments) const;  ///< throws if it fails

 private:
  struct Pod {
    int number;
    Namespace space;
  };

  void make_bridge() const;
  void connect(const Pod& pod) const;

  NodeOptions options_;
  Namespace host_;
  std::vector<std::unique_ptr<Pod>> pods_;
  std::filesystem::path folder_;
  std::unique_ptr<Process> agent_;
};

/// Polls until the condition holds or the time is up; whether it held.
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit = std::chrono::seconds{5});

/// A Service and its EndpointSlices as manifests: "shop/NAME" with TCP port 80 to 8080, TCP 8080 to 8080, UDP 53 to
/// 5353 and UDP 5353 to 5353, for the cluster IPs 10.96.0.N and fd00:96::N, and the pods with these numbers behind it.
std::string service_manifest(const std::string& name, int number, const std::vector<int>& pods);

}  // namespace hairpin::test
