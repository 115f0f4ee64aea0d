// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>

#include "hairpin/config.hpp"
#include "hairpin/dataplane.hpp"
#include "hairpin/result.hpp"
#include "tools/hairpinctl/output.hpp"

namespace hairpin::ctl {

// The contract's exit codes.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kWrongInput = 2;
inline constexpr int kNotLoaded = 3;

enum class Format : std::uint8_t { kTable, kJson, kYaml };

/// What every command is given: the global options, and the ways to say something.
class Context {
 public:
  /// Adds the global options to the command line.
  void add_options(CLI::App& app);

  /// Reads the config, once the command line is read. An exit code other than kDone has been explained on stderr.
  int prepare();

  [[nodiscard]] const Config& config() const { return config_; }
  [[nodiscard]] const std::filesystem::path& bpffs() const { return config_.bpffs; }
  [[nodiscard]] bool colour() const;

  /// Prints the document, or, where a table is wanted, what the function prints.
  void print(const Json& document, const std::function<void()>& table) const;

  /// What is loaded. Calls `use` with it and returns its exit code; explains where there is nothing.
  int with_dataplane(const std::function<int(Dataplane&)>& use) const;

  /// "hairpinctl: WHAT: WHY (ADVICE)" on stderr; returns the exit code.
  static int complain(const Error& error, int status = kFailed);

 private:
  Format format_ = Format::kTable;
  std::string config_path_;
  std::string bpffs_;
  bool no_color_ = false;
  bool verbose_ = false;
  Config config_;
};

/// What the command line asked for, to be run when all of it has been read.
using Command = std::function<int(const Context&)>;

// One a file, named after the object: adds the object's subcommands, which set `command` when they are given.
void add_load(CLI::App& app, Command& command);
void add_attach(CLI::App& app, Command& command);
void add_apply(CLI::App& app, Command& command);
void add_status(CLI::App& app, Command& command);
void add_map(CLI::App& app, Command& command);
void add_service(CLI::App& app, Command& command);
void add_flow(CLI::App& app, Command& command);
void add_detach(CLI::App& app, Command& command);

/// A subcommand that leaves global options behind it to the top, with an example in its help.
CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& description,
                      const std::string& example);

}  // namespace hairpin::ctl
