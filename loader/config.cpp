// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "hairpin/config.hpp"

#include <fmt/format.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <system_error>
#include <utility>

#include "loader/files.hpp"
#include "loader/yaml.hpp"

namespace hairpin {

namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;
using yaml::Node;
using yaml::quote;
using yaml::Reader;

constexpr std::uint64_t kLeastFlows = 16384;
constexpr std::uint64_t kMostFlows = 8388608;
constexpr std::uint64_t kMostServices = 1048576;
constexpr std::uint64_t kMostBackends = 4194304;
constexpr std::uint64_t kMostAffinity = std::numeric_limits<std::uint32_t>::max();

constexpr std::array kRedirects{"auto"sv, "peer"sv, "egress"sv};
constexpr std::array kHooks{"auto"sv, "tcx"sv, "clsact"sv};
constexpr std::array kLogLevels{"trace"sv, "debug"sv, "info"sv, "warning"sv, "error"sv};
constexpr std::array kModes{"enabled"sv, "allowed"sv, "disabled"sv, "audit"sv};
constexpr std::array kLogFormats{"text"sv, "json"sv};

constexpr std::array kKeys{"hairpin"sv, "source"sv, "node"sv,    "pods"sv, "localRedirect"sv, "redirect"sv, "hook"sv,
                           "limits"sv,  "bpffs"sv,  "metrics"sv, "log"sv};
constexpr std::array kSourceKeys{"manifests"sv, "kubernetes"sv};
constexpr std::array kPodsKeys{"interfaces"sv, "exclude"sv};
constexpr std::array kLimitsKeys{"flows"sv, "services"sv, "backends"sv, "affinity"sv};
constexpr std::array kLogKeys{"level"sv, "format"sv};

bool is_node_name(std::string_view name) {
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'; };
  return !name.empty() && name.size() <= 253 && std::ranges::all_of(name, fits);
}

/// Takes a config from its tree, one method a section.
class ConfigReader {
 public:
  explicit ConfigReader(const std::string& file) : reader_{file} {}

  Result<Config> run(const std::vector<Node>& documents) {
    if (documents.size() > 1) reader_.fail(documents[1].position, "a second document, allowed is one");
    if (!documents.empty() && documents[0].kind != Node::Kind::kNull) read(documents[0]);
    if (!reader_.ok()) return fail(reader_.error());
    return config_;
  }

  /// Where `source.manifests` stands; for what only the file system can tell.
  [[nodiscard]] Reader& reader() { return reader_; }
  [[nodiscard]] const yaml::Position& manifests_position() const { return manifests_position_; }

 private:
  void read(const Node& root) {
    if (!reader_.is_map(root, "the config")) return;
    reader_.refuse_duplicates(root);
    reader_.refuse_unknown(root, kKeys);
    read_mode(root);
    read_source(root);
    read_node(root);
    read_pods(root);
    if (reader_.boolean(&root, "localRedirect").value_or(false))
      not_yet(root, "localRedirect", "localRedirect: true", "false");
    if (const auto index = reader_.choice(&root, "redirect", kRedirects))
      config_.redirect = static_cast<Redirect>(*index);
    if (const auto index = reader_.choice(&root, "hook", kHooks)) config_.hook = static_cast<HookChoice>(*index);
    read_limits(root);
    read_path(&root, "bpffs", config_.bpffs);
    read_metrics(root);
    read_log(root);
  }

  void not_yet(const Node& parent, std::string_view key, std::string_view what, std::string_view allowed) {
    reader_.fail(parent.find(key)->position,
                 fmt::format("{} is not supported yet, allowed for now is {}", what, allowed));
  }

  void read_mode(const Node& root) {
    const auto index = reader_.choice(&root, "hairpin", kModes);
    if (index.value_or(0) != 0) not_yet(root, "hairpin", "hairpin: " + root.find("hairpin")->text, "enabled");
  }

  void read_source(const Node& root) {
    const Node* const source = reader_.map(&root, "source");
    if (source == nullptr) return;
    reader_.refuse_unknown(*source, kSourceKeys);
    const auto kubernetes =
        std::ranges::find_if(source->children, [](const Node& node) { return node.key == "kubernetes"; });
    if (kubernetes != source->children.end()) {
      reader_.fail(kubernetes->key_position,
                   source->find("manifests") != nullptr
                       ? "source has both manifests and kubernetes, allowed is one of them"
                       : "source.kubernetes is not supported yet, allowed for now is source.manifests");
    }
    if (const Node* const node = source->find("manifests")) {
      read_path(source, "manifests", config_.source.manifests);
      config_.source.manifests_explicit = true;
      manifests_position_ = node->position;
    }
  }

  void read_path(const Node* parent, std::string_view key, fs::path& path) {
    const auto text = reader_.text(parent, key);
    if (!text) return;
    if (!text->starts_with('/') || text->contains('\0')) {
      reader_.fail(parent->find(key)->position,
                   fmt::format("{} is {}, allowed is an absolute path", key, quote(*text)));
    }
    path = fs::path{*text}.lexically_normal();
    if (path.has_relative_path() && !path.has_filename()) path = path.parent_path();  // "/a/" is "/a"
  }

  void read_node(const Node& root) {
    const auto name = reader_.text(&root, "node");
    if (!name) return;
    if (!name->empty() && !is_node_name(*name)) {
      reader_.fail(root.find("node")->position,
                   fmt::format("node is {}, allowed are \"\" and a node's name: 1 to 253 of the characters a-z, 0-9, . "
                               "and -",
                               quote(*name)));
    }
    config_.node = *name;
  }

  void read_pods(const Node& root) {
    const Node* const pods = reader_.map(&root, "pods");
    if (pods == nullptr) return;
    reader_.refuse_unknown(*pods, kPodsKeys);
    if (const Node* const node = pods->find("interfaces")) {
      config_.pods.interfaces = read_globs(pods, "interfaces");
      if (config_.pods.interfaces.empty()) {
        reader_.fail(node->position, "interfaces is empty, allowed is a list of one glob at least, such as \"veth*\"");
      }
    }
    if (pods->find("exclude") != nullptr) config_.pods.exclude = read_globs(pods, "exclude");
  }

  std::vector<std::string> read_globs(const Node* pods, std::string_view key) {
    for (const Node& node : reader_.list(pods, key)) {
      if (node.kind != Node::Kind::kScalar || (!node.text.empty() && !node.text.contains('\0'))) continue;
      reader_.fail(node.position, fmt::format("a glob in {} is {}, allowed is an interface name or pattern, such as "
                                              "\"veth*\"",
                                              key, quote(node.text)));
    }
    return reader_.texts(pods, key);
  }

  void read_limits(const Node& root) {
    const Node* const limits = reader_.map(&root, "limits");
    if (limits == nullptr) return;
    reader_.refuse_unknown(*limits, kLimitsKeys);
    read_limit(limits, "flows", kLeastFlows, kMostFlows, config_.limits.flows);
    read_limit(limits, "services", 1, kMostServices, config_.limits.services);
    read_limit(limits, "backends", 1, kMostBackends, config_.limits.backends);
    read_limit(limits, "affinity", 1, kMostAffinity, config_.limits.affinity);
    if (config_.limits.flows % HP_CHUNKS != 0) {
      reader_.fail(limits->find("flows")->position,
                   fmt::format("flows is {}, allowed are multiples of {}, the nearest is {}", config_.limits.flows,
                               HP_CHUNKS, nearest_flows()));
    }
  }

  [[nodiscard]] std::uint32_t nearest_flows() const {
    return (config_.limits.flows + HP_CHUNKS / 2) / HP_CHUNKS * HP_CHUNKS;
  }

  void read_limit(const Node* limits, std::string_view key, std::uint64_t least, std::uint64_t most,
                  std::uint32_t& into) {
    if (const auto value = reader_.number(limits, key, least, most)) into = static_cast<std::uint32_t>(*value);
  }

  void read_metrics(const Node& root) {
    const auto address = reader_.text(&root, "metrics");
    if (address && !address->empty()) not_yet(root, "metrics", "serving metrics", "\"\"");
  }

  void read_log(const Node& root) {
    const Node* const log = reader_.map(&root, "log");
    if (log == nullptr) return;
    reader_.refuse_unknown(*log, kLogKeys);
    if (const auto index = reader_.choice(log, "level", kLogLevels)) config_.log.level = static_cast<LogLevel>(*index);
    if (reader_.choice(log, "format", kLogFormats).value_or(0) != 0) not_yet(*log, "format", "format: json", "text");
  }

  Reader reader_;
  Config config_;
  yaml::Position manifests_position_;
};

std::string quote_all(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + yaml::double_quote(text);
  return "[" + list + "]";
}

/// Paths read better bare, and are safe so: what starts with a slash is neither a number nor null.
std::string plain_or_quoted(const std::string& text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' || c == '.' ||
           c == '-' || c == '_';
  };
  return text.starts_with('/') && std::ranges::all_of(text, plain) ? text : yaml::double_quote(text);
}

}  // namespace

const char* to_string(Mode mode) {
  switch (mode) {
    case Mode::kEnabled:
      return "enabled";
  }
  return "?";
}

const char* to_string(Redirect redirect) { return kRedirects.at(static_cast<std::size_t>(redirect)).data(); }
const char* to_string(HookChoice hook) { return kHooks.at(static_cast<std::size_t>(hook)).data(); }
const char* to_string(LogLevel level) { return kLogLevels.at(static_cast<std::size_t>(level)).data(); }

Result<Config> parse_config(std::string_view text, const std::string& file) {
  const auto documents = yaml::parse(text, file);
  if (!documents) return fail(documents.error());
  return ConfigReader{file}.run(*documents);
}

Result<Config> load_config(const fs::path& path) {
  const auto text = read_file(path);
  if (!text) return fail(text.error());
  const auto documents = yaml::parse(*text, path);
  if (!documents) return fail(documents.error());
  ConfigReader reader{path};
  auto config = reader.run(*documents);
  if (!config || !config->source.manifests_explicit) return config;
  std::error_code code;
  if (!fs::exists(config->source.manifests, code)) {
    reader.reader().fail(reader.manifests_position(),
                         fmt::format("manifests is {}, which {}, allowed is a file or a folder that exists",
                                     quote(config->source.manifests.native()),
                                     code ? "cannot be looked at: " + code.message() : "does not exist"));
    return fail(reader.reader().error());
  }
  return config;
}

std::string to_yaml(const Config& config) {
  return fmt::format(R"(hairpin: {}
source:
  manifests: {}
node: {}
pods:
  interfaces: {}
  exclude: {}
localRedirect: {}
redirect: {}
hook: {}
limits: {{ flows: {}, services: {}, backends: {}, affinity: {} }}
bpffs: {}
metrics: {}
log: {{ level: {}, format: text }}
)",
                     to_string(config.mode), plain_or_quoted(config.source.manifests.native()),
                     plain_or_quoted(config.node), quote_all(config.pods.interfaces), quote_all(config.pods.exclude),
                     config.local_redirect, to_string(config.redirect), to_string(config.hook), config.limits.flows,
                     config.limits.services, config.limits.backends, config.limits.affinity,
                     plain_or_quoted(config.bpffs.native()), plain_or_quoted(config.metrics),
                     to_string(config.log.level));
}

Result<std::string> node_name(const Config& config, const char* environment) {
  if (!config.node.empty()) return config.node;
  if (environment != nullptr && *environment != '\0') {
    if (is_node_name(environment)) return environment;
    return fail("NODE_NAME", quote(environment) + " is no node's name",
                "allowed are 1 to 253 of the characters a-z, 0-9, . and -");
  }
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) return fail(Error::system("read the host's name", errno));
  std::string name = host.data();
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return name;
}

bool matches(const Config::Pods& pods, std::string_view interface) {
  const std::string name{interface};
  const auto fits = [&](const std::string& glob) { return ::fnmatch(glob.c_str(), name.c_str(), 0) == 0; };
  return std::ranges::any_of(pods.interfaces, fits) && std::ranges::none_of(pods.exclude, fits);
}

}  // namespace hairpin
