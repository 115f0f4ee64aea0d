// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "hairpin/result.hpp"
#include "maps/layout.h"

// The agent's configuration, hairpin.yaml, as a value. Its defaults stand here and nowhere else.

namespace hairpin {

inline constexpr const char* kDefaultConfigPath = "/etc/hairpin/hairpin.yaml";

/// Which services a pod may reach itself through.
enum class Mode : std::uint8_t { kEnabled = HP_MODE_ENABLED };

/// How a packet gets back into the pod that it came from. kAuto: whatever works best on this node.
enum class Redirect : std::uint8_t {
  kAuto,
  kPeer,    ///< bpf_redirect_peer: straight into the pod's end of the veth
  kEgress,  ///< bpf_redirect: through the queue of the host's end
};

/// Which kernel interface the programs are attached with. kAuto: tcx where the kernel has it.
enum class HookChoice : std::uint8_t { kAuto, kTcx, kClsact };

enum class LogLevel : std::uint8_t { kTrace, kDebug, kInfo, kWarning, kError };

/// What hairpin.yaml says; every member that the file leaves out has the default below.
struct Config {
  struct Source {
    std::filesystem::path manifests = "/etc/hairpin/manifests";  ///< a file or a folder; absolute
    bool manifests_explicit = false;                             ///< named in the file; only the default may be missing

    friend bool operator==(const Source&, const Source&) = default;
  };

  /// Which links are pods': shell globs over the names of the host's ends.
  struct Pods {
    std::vector<std::string> interfaces{"veth*", "cali*", "lxc*"};
    std::vector<std::string> exclude;

    friend bool operator==(const Pods&, const Pods&) = default;
  };

  /// Sizes of the maps, in entries.
  struct Limits {
    std::uint32_t flows = 262144;  ///< a multiple of HP_CHUNKS
    std::uint32_t services = 65536;
    std::uint32_t backends = 262144;
    std::uint32_t affinity = 65536;

    friend bool operator==(const Limits&, const Limits&) = default;
  };

  struct Log {
    LogLevel level = LogLevel::kInfo;

    friend bool operator==(const Log&, const Log&) = default;
  };

  Mode mode = Mode::kEnabled;  ///< key `hairpin`
  Source source;
  std::string node;  ///< empty: see node_name()
  Pods pods;
  bool local_redirect = false;
  Redirect redirect = Redirect::kAuto;
  HookChoice hook = HookChoice::kAuto;
  Limits limits;
  std::filesystem::path bpffs = "/sys/fs/bpf/hairpin";
  std::string metrics;  ///< ADDRESS:PORT to serve on; empty: off
  Log log;

  friend bool operator==(const Config&, const Config&) = default;
};

/// "enabled"; "auto", "peer", "egress"; "auto", "tcx", "clsact"; "info", ...: as the file spells them.
const char* to_string(Mode mode);
const char* to_string(Redirect redirect);
const char* to_string(HookChoice hook);
const char* to_string(LogLevel level);

/// Reads hairpin.yaml's text. Looks at nothing but the text. An Error reads "FILE:LINE:COLUMN: what is wrong, what is
/// allowed".
Result<Config> parse_config(std::string_view text, const std::string& file);

/// Reads and parses the file, and checks that a manifests path which it names exists. Error::code is ENOENT where the
/// config itself is missing.
Result<Config> load_config(const std::filesystem::path& path);

/// The config as hairpin.yaml, every key spelled out. parse_config() reads it back to an equal value, except that the
/// manifests path is then an explicit one.
std::string to_yaml(const Config& config);

/// This node's name: the config's, else `environment` (the value of NODE_NAME, may be null), else the host's name in
/// lower case, as the kubelet registers it.
Result<std::string> node_name(const Config& config, const char* environment);

/// Whether a link of this name may be a pod's: some glob of `interfaces` matches and none of `exclude` does.
bool matches(const Config::Pods& pods, std::string_view interface);

}  // namespace hairpin
