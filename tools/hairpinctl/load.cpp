// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include <iostream>

#include "tools/hairpinctl/context.hpp"

namespace hairpin::ctl {

namespace {

int load(const Context& context) {
  const Config& config = context.config();
  auto dataplane =
      Dataplane::load({.bpffs = config.bpffs, .limits = config.limits, .redirect = config.redirect, .idle = {}});
  if (!dataplane) return Context::complain(dataplane.error());
  context.print({{"loaded", true}, {"bpffs", config.bpffs.string()}},
                [&] { std::cout << "loaded into " << config.bpffs.string() << '\n'; });
  return kDone;
}

}  // namespace

void add_load(CLI::App& app, Command& command) {
  add_command(app, "load", "Load and pin programs and maps; replace older programs in place", "hairpinctl load")
      ->callback([&command] { command = load; });
}

}  // namespace hairpin::ctl
