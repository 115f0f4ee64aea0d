// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include <signal.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "tools/hairpinctl/context.hpp"

namespace {

using namespace hairpin::ctl;

/// What the reader closed is no error of ours.
int finish(int status) {
  std::cout.flush();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  // A closed pipe shows as a failed write, which nobody minds, instead of ending us with a signal's status.
  signal(SIGPIPE, SIG_IGN);
  CLI::App app{"Inspects, operates and removes Hairpin's dataplane. Needs no agent."};
  app.set_version_flag("--version", "hairpinctl " HAIRPIN_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.footer("Example:\n  hairpinctl service list");
  Context context;
  Command command;
  context.add_options(app);
  add_status(app, command);
  add_service(app, command);
  add_flow(app, command);
  add_map(app, command);
  add_load(app, command);
  add_attach(app, command);
  add_apply(app, command);
  add_detach(app, command);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return finish(app.exit(error));  // --help, --version
    std::cerr << "hairpinctl: command line: " << printable(error.what()) << " (hairpinctl --help lists the commands)\n";
    return kWrongInput;
  }
  if (const int status = context.prepare(); status != kDone) return status;
  return finish(command(context));
}
