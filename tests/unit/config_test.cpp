// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "hairpin/config.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

using namespace hairpin;
namespace fs = std::filesystem;

namespace {

Config parsed(const std::string& text) {
  const auto config = parse_config(text, "f");
  REQUIRE_MESSAGE(config, config.error().to_string());
  return *config;
}

std::string error_of(const std::string& text) {
  const auto config = parse_config(text, "f");
  return config ? "none" : config.error().to_string();
}

}  // namespace

TEST_CASE("an empty config is the defaults") {
  const Config defaults;
  CHECK(defaults.source.manifests == "/etc/hairpin/manifests");
  CHECK_FALSE(defaults.source.manifests_explicit);
  CHECK(defaults.limits.flows == 262144);
  for (const std::string text :
       {"", "# nothing\n", "---\n", "{}", "null\n",
        "hairpin:\nsource:\nnode:\npods:\nlocalRedirect:\nredirect:\nhook:\nlimits:\nbpffs:\nmetrics:\nlog:\n",
        "source: {manifests: }\npods: {interfaces: , exclude: }\nlimits: {flows: }\nlog: {level: , format: }\n"}) {
    CAPTURE(text);
    CHECK(parsed(text) == defaults);
  }
}

TEST_CASE("every key is read") {
  const Config config = parsed(R"(
hairpin: enabled
source:
  manifests: /srv/cluster/
node: node-a.example
pods:
  interfaces: ["veth*", "eth-?"]
  exclude: [veth-host]
localRedirect: false
redirect: egress
hook: clsact
limits: { flows: 16384, services: 1, backends: 4194304, affinity: 7 }
bpffs: /run/bpf/hairpin
metrics: ""
log: { level: debug, format: text }
)");
  CHECK(config.mode == Mode::kEnabled);
  CHECK(config.source.manifests == "/srv/cluster");
  CHECK(config.source.manifests_explicit);
  CHECK(config.node == "node-a.example");
  CHECK(config.pods.interfaces == std::vector<std::string>{"veth*", "eth-?"});
  CHECK(config.pods.exclude == std::vector<std::string>{"veth-host"});
  CHECK(config.redirect == Redirect::kEgress);
  CHECK(config.hook == HookChoice::kClsact);
  CHECK(config.limits.flows == 16384);
  CHECK(config.limits.services == 1);
  CHECK(config.limits.backends == 4194304);
  CHECK(config.limits.affinity == 7);
  CHECK(config.bpffs == "/run/bpf/hairpin");
  CHECK(config.metrics.empty());
  CHECK(config.log.level == LogLevel::kDebug);
}

TEST_CASE("a config printed and read again is the same") {
  Config odd;
  odd.source = {"/a b/\"c\"/\\d: #e", true};
  odd.node = "null";
  odd.pods = {{"*", "a'b", "[x]"}, {"- y", "~"}};
  odd.redirect = Redirect::kPeer;
  odd.hook = HookChoice::kTcx;
  odd.limits = {8388608, 1048576, 1, 1};
  odd.bpffs = "/bpf";
  odd.log.level = LogLevel::kError;
  CHECK(parsed(to_yaml(odd)) == odd);

  Config defaults;
  defaults.source.manifests_explicit = true;
  CHECK(parsed(to_yaml(Config{})) == defaults);
  CHECK(to_yaml(Config{}) == R"(hairpin: enabled
source:
  manifests: /etc/hairpin/manifests
node: ""
pods:
  interfaces: ["veth*", "cali*", "lxc*"]
  exclude: []
localRedirect: false
redirect: auto
hook: auto
limits: { flows: 262144, services: 65536, backends: 262144, affinity: 65536 }
bpffs: /sys/fs/bpf/hairpin
metrics: ""
log: { level: info, format: text }
)");
}

TEST_CASE("what is wrong is told in one line, with its place and what is allowed") {
  struct {
    std::string text;
    std::string error;
  } const rows[] = {
      {"hok: auto",
       "f:1:1: unknown key \"hok\", the nearest known one is \"hook\"; allowed are hairpin, source, node, pods, "
       "localRedirect, redirect, hook, limits, bpffs, metrics and log"},
      {"\nlimits:\n  flow: 1",
       "f:3:3: unknown key \"flow\", the nearest known one is \"flows\"; allowed are flows, services, backends and "
       "affinity"},
      {"source: {manifest: /x}",
       "f:1:10: unknown key \"manifest\", the nearest known one is \"manifests\"; allowed are manifests and "
       "kubernetes"},
      {"pods: {excludes: []}",
       "f:1:8: unknown key \"excludes\", the nearest known one is \"exclude\"; allowed are interfaces and exclude"},
      {"log: {lvl: info}",
       "f:1:7: unknown key \"lvl\", the nearest known one is \"level\"; allowed are level and format"},
      {"hook: auto\nhook: tcx", "f:2:1: key \"hook\" is there twice, allowed is once"},
      {"hook: xdp", "f:1:7: hook is \"xdp\", allowed are auto, tcx and clsact"},
      {"hook: [tcx]", "f:1:7: hook is a list, allowed are auto, tcx and clsact"},
      {"redirect: ingress", "f:1:11: redirect is \"ingress\", allowed are auto, peer and egress"},
      {"hairpin: on", "f:1:10: hairpin is \"on\", allowed are enabled, allowed, disabled and audit"},
      {"hairpin: audit", "f:1:10: hairpin: audit is not supported yet, allowed for now is enabled"},
      {"hairpin: disabled", "f:1:10: hairpin: disabled is not supported yet, allowed for now is enabled"},
      {"source: {kubernetes: {}}",
       "f:1:10: source.kubernetes is not supported yet, allowed for now is source.manifests"},
      {"source: {kubernetes: }", "f:1:10: source.kubernetes is not supported yet, allowed for now is source.manifests"},
      {"source: {manifests: /x, kubernetes: {}}",
       "f:1:25: source has both manifests and kubernetes, allowed is one of them"},
      {"source: {manifests: x}", "f:1:21: manifests is \"x\", allowed is an absolute path"},
      {"source: {manifests: \"\"}", "f:1:21: manifests is \"\", allowed is an absolute path"},
      {"source: {manifests: [/x]}", "f:1:21: manifests is a list, allowed is text"},
      {"source: /x", "f:1:9: source is \"/x\", allowed is a map"},
      {"node: A",
       "f:1:7: node is \"A\", allowed are \"\" and a node's name: 1 to 253 of the characters a-z, 0-9, . and -"},
      {"pods: {interfaces: []}",
       "f:1:20: interfaces is empty, allowed is a list of one glob at least, such as \"veth*\""},
      {"pods: {interfaces: veth*}", "f:1:20: interfaces is \"veth*\", allowed is a list"},
      {"pods: {interfaces: [\"\"]}",
       "f:1:21: a glob in interfaces is \"\", allowed is an interface name or pattern, such as \"veth*\""},
      {"pods: {exclude: [{}]}", "f:1:18: an element of exclude is a map, allowed is text"},
      {"pods: {exclude: [a, null]}", "f:1:21: an element of exclude is empty, allowed is text"},
      {"localRedirect: true", "f:1:16: localRedirect: true is not supported yet, allowed for now is false"},
      {"localRedirect: yes", "f:1:16: localRedirect is \"yes\", allowed are true and false"},
      {"limits: {flows: 16000}", "f:1:17: flows is \"16000\", allowed are whole numbers from 16384 to 8388608"},
      {"limits: {flows: 20000}", "f:1:17: flows is 20000, allowed are multiples of 512, the nearest is 19968"},
      {"limits: {flows: 8389120}", "f:1:17: flows is \"8389120\", allowed are whole numbers from 16384 to 8388608"},
      {"limits: {services: 0}", "f:1:20: services is \"0\", allowed are whole numbers from 1 to 1048576"},
      {"limits: {backends: 4194305}", "f:1:20: backends is \"4194305\", allowed are whole numbers from 1 to 4194304"},
      {"limits: {backends: 1e3}", "f:1:20: backends is \"1e3\", allowed are whole numbers from 1 to 4194304"},
      {"limits: {affinity: -1}", "f:1:20: affinity is \"-1\", allowed are whole numbers from 1 to 4294967295"},
      {"limits: {affinity: \"1\"}",
       "f:1:20: affinity is the text \"1\", allowed are whole numbers from 1 to 4294967295"},
      {"bpffs: bpf", "f:1:8: bpffs is \"bpf\", allowed is an absolute path"},
      {"metrics: 127.0.0.1:9465", "f:1:10: serving metrics is not supported yet, allowed for now is \"\""},
      {"log: {level: loud}", "f:1:14: level is \"loud\", allowed are trace, debug, info, warning and error"},
      {"log: {format: json}", "f:1:15: format: json is not supported yet, allowed for now is text"},
      {"log: {format: xml}", "f:1:15: format is \"xml\", allowed are text and json"},
      {"{}\n---\n{}", "f:3:1: a second document, allowed is one"},
      {"- a", "f:1:1: the config is a list, allowed is a map"},
      {"hook: \"a\\nb\"", "f:1:7: hook is \"a\\u000ab\", allowed are auto, tcx and clsact"},
      {"hook: [", "f:1:8: not valid YAML: end of sequence flow not found"},
      {"a:\n\tb: 1", "f:2:3: not valid YAML: illegal map value"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK(error_of(row.text) == row.error);
  }
}

TEST_CASE("a named manifests path must exist, the default one need not") {
  std::string folder = (fs::temp_directory_path() / "hairpin-config-XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const fs::path file = fs::path{folder} / "hairpin.yaml";
  const auto load = [&](const std::string& text) {
    std::ofstream{file} << text;
    return load_config(file);
  };
  CHECK(load("hook: tcx\n"));
  CHECK(load("source: {manifests: " + folder + "}\n"));
  const auto missing = load("source:\n  manifests: " + folder + "/none\n");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().to_string() == file.string() + ":2:14: manifests is \"" + folder +
                                           "/none\", which does not exist, allowed is a file or a folder that exists");
  const auto wrong = load("hook: xdp\n");
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().to_string() == file.string() + ":1:7: hook is \"xdp\", allowed are auto, tcx and clsact");

  CHECK(load_config(fs::path{folder} / "none.yaml").error().code == ENOENT);
  CHECK(load_config(folder).error().code == EISDIR);
  fs::remove_all(folder);
}

TEST_CASE("the node's name is the config's, else the environment's, else the host's") {
  Config config;
  CHECK(node_name(config, "node-b") == "node-b");
  CHECK_FALSE(node_name(config, "Node B"));
  CHECK_FALSE(node_name(config, "")->empty());
  CHECK(node_name(config, nullptr) == node_name(config, ""));
  config.node = "node-a";
  CHECK(node_name(config, "node-b") == "node-a");
}

TEST_CASE("globs decide which links may be pods'") {
  const Config::Pods defaults;
  CHECK(matches(defaults, "veth0"));
  CHECK(matches(defaults, "veth"));
  CHECK(matches(defaults, "cali1234"));
  CHECK(matches(defaults, "lxc_health"));
  CHECK_FALSE(matches(defaults, "eth0"));
  CHECK_FALSE(matches(defaults, "xveth0"));
  CHECK_FALSE(matches(defaults, ""));

  const Config::Pods some{{"veth*", "p[0-9]", "x?"}, {"veth-host", "veth-h2*"}};
  CHECK(matches(some, "veth-a"));
  CHECK(matches(some, "p7"));
  CHECK(matches(some, "xa"));
  CHECK_FALSE(matches(some, "p77"));
  CHECK_FALSE(matches(some, "x"));
  CHECK_FALSE(matches(some, "veth-host"));
  CHECK_FALSE(matches(some, "veth-h23"));
}
