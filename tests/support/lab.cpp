// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "tests/support/lab.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace hairpin::test {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void throw_errno(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream{path}.rdbuf();
  return text.str();
}

/// The bridge's MAC differs from its ports'.
constexpr const char* kBridgeMac = "02:aa:00:00:00:01";

std::string v4(int pod) { return fmt::format("10.244.1.{}", pod); }
std::string v6(int pod) { return fmt::format("fd00:244:1::{}", pod); }

}  // namespace

// ---- Namespace
// -------------------------------------------------------------------------------------------------------

Namespace::Namespace() {
  std::exception_ptr error;
  std::thread([&] {
    try {
      if (unshare(CLONE_NEWNET) != 0) throw_errno("unshare");
      fd_ = Fd{open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)};
      if (!fd_.valid()) throw_errno("open the namespace");
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
  sh("ip link set lo up");
}

void Namespace::run(const std::function<void()>& function) const {
  std::exception_ptr error;
  std::thread([&] {
    try {
      if (setns(fd_.get(), CLONE_NEWNET) != 0) throw_errno("setns");
      function();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
}

int Namespace::sh(const std::string& command, std::string& output) const {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno("pipe");
  const pid_t pid = fork();
  if (pid < 0) throw_errno("fork");
  if (pid == 0) {
    if (setns(fd_.get(), CLONE_NEWNET) != 0) _exit(126);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  const Fd reader{ends[0]};
  close(ends[1]);
  std::array<char, 4096> buffer{};
  for (ssize_t length = 0; (length = read(reader.get(), buffer.data(), buffer.size())) > 0;) {
    output.append(buffer.data(), static_cast<std::size_t>(length));
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string Namespace::sh(const std::string& command) const {
  std::string output;
  if (const int status = sh(command, output); status != 0) {
    throw std::runtime_error(fmt::format("{}: exit status {}: {}", command, status, output));
  }
  return output;
}

std::string Namespace::path() const { return fmt::format("/proc/{}/fd/{}", getpid(), fd_.get()); }

// ---- Process
// ---------------------------------------------------------------------------------------------------------

Process::Process(const Namespace& space, std::vector<std::string> arguments, const fs::path& output) {
  pid_ = fork();
  if (pid_ < 0) throw_errno("fork");
  if (pid_ == 0) {
    const int log = open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (log < 0 || setns(space.fd(), CLONE_NEWNET) != 0) _exit(126);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    std::vector<char*> raw;
    for (auto& argument : arguments) raw.push_back(argument.data());
    raw.push_back(nullptr);
    execv(raw.front(), raw.data());
    _exit(127);
  }
}

Process::~Process() {
  if (!running()) return;
  signal(SIGKILL);
  wait();
}

void Process::signal(int number) const {
  if (pid_ > 0) kill(pid_, number);
}

bool Process::running() {
  if (pid_ <= 0) return false;
  if (waitpid(pid_, &status_, WNOHANG) == 0) return true;
  pid_ = -1;
  return false;
}

int Process::wait() {
  if (pid_ > 0) waitpid(pid_, &status_, 0);
  pid_ = -1;
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
}

// ---- Node
// ------------------------------------------------------------------------------------------------------------

Node::Node(NodeOptions options) : options_{std::move(options)} {
  std::string pattern = fs::temp_directory_path() / "hairpin-test-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) throw_errno("mkdtemp");
  folder_ = pattern;
  fs::create_directories(folder_ / "bpf");
  fs::create_directories(manifests());
  if (mount("bpf", (folder_ / "bpf").c_str(), "bpf", 0, nullptr) != 0) throw_errno("mount a bpffs");
  std::ofstream{folder_ / "hairpin.yaml"}
      << fmt::format("source: {{manifests: {}}}\nbpffs: {}\nhook: {}\nredirect: {}\nlimits: {}\n", manifests().string(),
                     bpffs().string(), options_.hook, options_.redirect, options_.limits);

  host_.sh("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv6.conf.default.accept_dad=0");
  if (options_.topology == Topology::kBridge) make_bridge();
  for (const int number : options_.pods) add_pod(number);
}

Node::~Node() {
  agent_.reset();
  pods_.clear();
  umount2((folder_ / "bpf").c_str(), MNT_DETACH);
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void Node::make_bridge() const {
  host_.sh(fmt::format(
      "ip link add cni0 address {} type bridge && ip link set cni0 up && ip addr add 10.244.1.1/24 dev cni0 && "
      "ip -6 addr add fd00:244:1::1/64 dev cni0 nodad",
      kBridgeMac));
  std::string ignored;
  // Where the kernel has no br_netfilter there is nothing to set.
  host_.sh(fmt::format("sysctl -qw net.bridge.bridge-nf-call-iptables={0} net.bridge.bridge-nf-call-ip6tables={0}",
                       options_.bridge_netfilter ? 1 : 0),
           ignored);
}

const Namespace& Node::pod(int number) const {
  for (const auto& pod : pods_) {
    if (pod->number == number) return pod->space;
  }
  throw std::runtime_error(fmt::format("no pod {}", number));
}

void Node::add_pod(int number) {
  pods_.push_back(std::make_unique<Pod>(Pod{number, {}}));
  connect(*pods_.back());
}

void Node::remove_pod(int number) {
  host_.sh(fmt::format("ip link del veth{}", number));
  std::erase_if(pods_, [&](const auto& pod) { return pod->number == number; });
}

void Node::connect(const Pod& pod) const {
  const int number = pod.number;
  const Namespace& space = pod.space;
  space.sh(
      "sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 "
      "net.ipv4.ip_unprivileged_port_start=0");
  host_.sh(fmt::format("ip link add veth{} type veth peer name eth0 netns {}", number, space.path()));
  space.sh("ip link set eth0 up");
  if (options_.topology == Topology::kBridge) {
    host_.sh(fmt::format("ip link set veth{0} master cni0 up && bridge link set dev veth{0} hairpin {1}", number,
                         options_.port_hairpin ? "on" : "off"));
    space.sh(
        fmt::format("ip addr add {}/24 dev eth0 && ip -6 addr add {}/64 dev eth0 nodad && "
                    "ip route add default via 10.244.1.1 && ip -6 route add default via fd00:244:1::1",
                    v4(number), v6(number)));
  } else {
    host_.sh(
        fmt::format("ip link set veth{0} up && ip addr add 169.254.1.1/32 dev veth{0} && "
                    "ip -6 addr add fe80::1/64 dev veth{0} nodad && ip route add {1}/32 dev veth{0} && "
                    "ip -6 route add {2}/128 dev veth{0}",
                    number, v4(number), v6(number)));
    space.sh(
        fmt::format("ip addr add {}/32 dev eth0 && ip -6 addr add {}/128 dev eth0 nodad && "
                    "ip route add 169.254.1.1 dev eth0 scope link && ip route add default via 169.254.1.1 && "
                    "ip -6 route add default via fe80::1 dev eth0",
                    v4(number), v6(number)));
  }
  if (!options_.offloads) {
    const char* off = "ethtool -K {} tx off rx off tso off gso off gro off >/dev/null";
    host_.sh(fmt::format(fmt::runtime(off), fmt::format("veth{}", number)));
    space.sh(fmt::format(fmt::runtime(off), "eth0"));
  }
}

void Node::write_manifest(const std::string& name, const std::string& text) const {
  const fs::path beside = manifests() / ("." + name + ".new");
  std::ofstream{beside} << text;
  fs::rename(beside, manifests() / name);
}

void Node::start_agent() {
  agent_ = std::make_unique<Process>(host_, std::vector<std::string>{HAIRPIND, "--config", folder_ / "hairpin.yaml"},
                                     folder_ / "agent.log");
  // By its pid: a predecessor that was killed had said of itself that it is synced.
  const std::string pid = fmt::format("\"pid\": {},", agent_->pid());
  const bool synced = eventually(
      [&] {
        std::string output;
        return ctl("status -o json", output) == 0 && output.find(pid) != std::string::npos &&
               output.find("\"synced\": true") != std::string::npos;
      },
      std::chrono::seconds{60});
  if (!synced) throw std::runtime_error("the agent does not sync: " + agent_log());
}

void Node::kill_agent(int signal) {
  agent_->signal(signal);
  agent_->wait();
}

std::string Node::agent_log() const { return read_file(folder_ / "agent.log"); }

int Node::ctl(const std::string& arguments, std::string& output) const {
  return host_.sh(fmt::format("{} --config {} {}", HAIRPINCTL, (folder_ / "hairpin.yaml").string(), arguments), output);
}

std::string Node::ctl(const std::string& arguments) const {
  std::string output;
  if (const int status = ctl(arguments, output); status != 0) {
    throw std::runtime_error(fmt::format("hairpinctl {}: exit status {}: {}", arguments, status, output));
  }
  return output;
}

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  return true;
}

std::string service_manifest(const std::string& name, int number, const std::vector<int>& pods) {
  std::string text = fmt::format(R"(apiVersion: v1
kind: Service
metadata: {{name: {0}, namespace: shop}}
spec:
  clusterIP: 10.96.0.{1}
  clusterIPs: [10.96.0.{1}, "fd00:96::{1}"]
  ports:
  - {{name: http, port: 80, protocol: TCP}}
  - {{name: same, port: 8080, protocol: TCP}}
  - {{name: dns, port: 53, protocol: UDP}}
  - {{name: mdns, port: 5353, protocol: UDP}}
)",
                                 name, number);
  for (const bool ipv6 : {false, true}) {
    text += fmt::format(R"(---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {0}-{1}, namespace: shop, labels: {{kubernetes.io/service-name: {0}}}}}
addressType: {2}
ports:
- {{name: http, port: 8080, protocol: TCP}}
- {{name: same, port: 8080, protocol: TCP}}
- {{name: dns, port: 5353, protocol: UDP}}
- {{name: mdns, port: 5353, protocol: UDP}}
endpoints:
)",
                        name, ipv6 ? "v6" : "v4", ipv6 ? "IPv6" : "IPv4");
    for (const int pod : pods) text += fmt::format("- {{addresses: [\"{}\"]}}\n", ipv6 ? v6(pod) : v4(pod));
    if (pods.empty()) text += "  []\n";
  }
  return text + "---\n";
}

}  // namespace hairpin::test
