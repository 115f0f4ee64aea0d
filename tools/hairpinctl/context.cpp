// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "tools/hairpinctl/context.hpp"

#include <bpf/libbpf.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <map>

namespace hairpin::ctl {

void Context::add_options(CLI::App& app) {
  static const std::map<std::string, Format> formats{
      {"table", Format::kTable}, {"json", Format::kJson}, {"yaml", Format::kYaml}};
  app.add_option("-o,--output", format_, "How to print: table, json or yaml")
      ->transform(CLI::CheckedTransformer(formats).description("table|json|yaml"))
      ->type_name("FORMAT");
  app.add_option("--config", config_path_, std::string{"The agent's config, "} + kDefaultConfigPath + " if it is there")
      ->type_name("FILE");
  app.add_option("--bpffs", bpffs_, "The folder with the pins, instead of the config's")->type_name("PATH");
  app.add_flag("--no-color", no_color_, "No colours, as NO_COLOR in the environment");
  app.add_flag("-v,--verbose", verbose_, "Say on stderr what libbpf says");
}

int Context::prepare() {
  if (!verbose_) libbpf_set_print(nullptr);
  const bool named = !config_path_.empty();
  auto config = load_config(named ? config_path_ : kDefaultConfigPath);
  if (config) {
    config_ = std::move(*config);
  } else if (named || config.error().code != ENOENT) {
    return complain(config.error(), kWrongInput);
  }
  if (!bpffs_.empty()) config_.bpffs = std::filesystem::absolute(bpffs_).lexically_normal();
  return kDone;
}

bool Context::colour() const {
  const char* unwanted = std::getenv("NO_COLOR");
  return !no_color_ && (unwanted == nullptr || *unwanted == '\0') && isatty(STDOUT_FILENO) != 0;
}

void Context::print(const Json& document, const std::function<void()>& table) const {
  switch (format_) {
    case Format::kTable:
      table();
      return;
    case Format::kJson:
      std::cout << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
      return;
    case Format::kYaml:
      std::cout << to_yaml(document);
      return;
  }
}

int Context::with_dataplane(const std::function<int(Dataplane&)>& use) const {
  auto dataplane = Dataplane::open(bpffs());
  if (!dataplane) return complain(dataplane.error(), dataplane.error().code == ENOENT ? kNotLoaded : kFailed);
  return use(*dataplane);
}

int Context::complain(const Error& error, int status) {
  std::cerr << "hairpinctl: " << printable(error.to_string()) << '\n';
  return status;
}

CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& description,
                      const std::string& example) {
  auto* command = parent.add_subcommand(name, description);
  command->fallthrough();
  command->footer("Example:\n  " + example);
  return command;
}

}  // namespace hairpin::ctl
