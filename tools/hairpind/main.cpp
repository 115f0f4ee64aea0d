// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "agent.hpp"
#include "hairpin/cleanup.hpp"

namespace {

// The contract's exit codes (docs/reference/cli.md).
constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kWrongInput = 2;

int complain(const hairpin::Error& error, int status) {
  std::cerr << "hairpind: " << error.to_string() << '\n';
  return status;
}

int serve(hairpin::ConfigFile file, hairpin::Config config, bool detach_on_exit) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("hairpind"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
  auto agent = hairpin::Agent::start(std::move(file), std::move(config));
  if (!agent) return complain(agent.error(), kFailed);
  if (auto ran = (*agent)->run(); !ran) return complain(ran.error(), kFailed);
  if (!detach_on_exit) return kDone;
  const auto report = hairpin::detach_all({.bpffs = (*agent)->config().bpffs});
  for (const auto& failure : report.failed) complain(failure.error, kFailed);
  return report.clean() ? kDone : kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Hairpin's node agent: every pod reaches every Service, itself included."};
  app.footer("Example:\n  hairpind --config /etc/hairpin/hairpin.yaml");
  app.set_version_flag("--version", "hairpind " HAIRPIN_VERSION);
  hairpin::ConfigFile file{.path = hairpin::kDefaultConfigPath};
  bool check_only = false;
  bool detach_on_exit = false;
  const auto* named = app.add_option("--config", file.path, "The config file")->capture_default_str();
  app.add_flag("--check", check_only, "Validate the config, print it resolved, exit");
  app.add_flag("--detach-on-exit", detach_on_exit, "Remove programs, maps and pins when told to stop");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << "hairpind: command line: " << error.what() << " (hairpind --help lists the options)\n";
    return kWrongInput;
  }
  file.named = named->count() > 0;
  auto config = file.read();
  if (!config) return complain(config.error(), kWrongInput);
  if (!check_only) return serve(std::move(file), std::move(*config), detach_on_exit);
  std::cout << hairpin::to_yaml(*config);
  return kDone;
}
