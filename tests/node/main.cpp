// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>

#include <iostream>

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  // Listing needs no rights. Everything else happens in namespaces that end with this process: mounts, and the network
  // that the main thread sees.
  doctest::Context context{argc, argv};
  const bool only_lists = argc > 1 && std::string_view{argv[1]}.starts_with("--list");
  if (!only_lists &&
      (unshare(CLONE_NEWNS | CLONE_NEWNET) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)) {
    std::cerr << "hairpin_node_tests: cannot make namespaces (run as root)\n";
    return 1;
  }
  return context.run();
}
