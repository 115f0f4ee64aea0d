// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "hairpin/cleanup.hpp"

#include <bpf/bpf.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>
#include <utility>

#include "hairpin/dataplane.hpp"
#include "hairpin/fd.hpp"
#include "hairpin/links.hpp"
#include "loader/identity.hpp"
#include "loader/pins.hpp"

namespace hairpin {

namespace {

namespace fs = std::filesystem;

/// A program of ours on some interface.
struct Found {
  const Hook* hook;
  Link link;
  Attachment attachment;
};

class Cleanup {
 public:
  explicit Cleanup(CleanupOptions options) : options_{std::move(options)} {}

  void remove_programs(const std::vector<Link>& links) {
    for (const auto& found : find_programs(links)) {
      if (options_.dry_run) {
        report_.removed.push_back({"program", program_name(found.attachment.program_id), place(found)});
        continue;
      }
      auto removed = found.hook->detach(found.link.ifindex, found.link.name, found.attachment);
      if (!removed) {
        failed({"program", program_name(found.attachment.program_id), place(found)}, std::move(removed).error());
        continue;
      }
      std::ranges::move(*removed, std::back_inserter(report_.removed));
    }
  }

  /// Links before maps: while a program runs somewhere it should have its maps.
  void remove_pins() {
    for (const auto& [folder, kind] : pin_folders()) {
      for (const auto& pin : pins_in(folder)) remove({kind, pin.filename(), folder.string()}, pin);
      remove_folder(folder);
    }
    remove_folder(options_.bpffs);
  }

  void remove_link_pins(std::uint32_t ifindex) {
    for (const Direction direction : {Direction::kIngress, Direction::kEgress}) {
      const auto pin = pins::link(options_.bpffs, ifindex, direction);
      std::error_code error;
      if (fs::exists(pin, error)) remove({"link", pin.filename(), pin.parent_path().string()}, pin);
    }
  }

  void look_again(const std::vector<Link>& links) {
    const auto programs = find_programs(links);
    report_.left.programs = static_cast<std::uint32_t>(programs.size());
    std::set<std::uint32_t> with_qdisc;
    for (const auto& found : programs) {
      if (found.attachment.kind == HookKind::kClsact) with_qdisc.insert(found.link.ifindex);
    }
    report_.left.qdiscs = static_cast<std::uint32_t>(with_qdisc.size());
    for (const auto& [folder, kind] : pin_folders()) {
      report_.left.pins += static_cast<std::uint32_t>(pins_in(folder).size());
    }
  }

  void failed(Removed object, Error error) { report_.failed.push_back({std::move(object), std::move(error)}); }

  [[nodiscard]] CleanupReport take_report() { return std::move(report_); }

 private:
  struct PinFolder {
    fs::path folder;
    const char* kind;
  };

  [[nodiscard]] std::vector<PinFolder> pin_folders() const {
    return {{pins::links(options_.bpffs), "link"},
            {pins::programs(options_.bpffs), "program"},
            {pins::maps(options_.bpffs), "map"}};
  }

  std::vector<Found> find_programs(const std::vector<Link>& links) {
    std::vector<Found> found;
    for (const auto& link : links) {
      for (const auto& hook : hooks_) {
        auto attachments = hook->list(link.ifindex);
        if (!attachments) {
          failed({"program", "?", link.name}, std::move(attachments).error());
          continue;
        }
        for (const auto& attachment : *attachments) {
          if (is_ours(attachment.program_id)) found.push_back({hook.get(), link, attachment});
        }
      }
    }
    return found;
  }

  static std::string place(const Found& found) {
    return found.link.name + " " + to_string(found.attachment.kind) + " " + to_string(found.attachment.direction);
  }

  /// Only what is a BPF object of ours by its own word; a stranger's pin in our folder stays.
  static bool is_our_pin(const fs::path& pin) {
    const Fd object{bpf_obj_get(pin.c_str())};
    if (!object.valid()) return false;
    // The kernel fills in whatever kind of info fits the descriptor: its kind has to be known before.
    std::error_code error;
    const std::string kind = fs::read_symlink("/proc/self/fd/" + std::to_string(object.get()), error);
    if (kind.ends_with("bpf-map")) {
      bpf_map_info map{};
      std::uint32_t size = sizeof map;
      return bpf_map_get_info_by_fd(object.get(), &map, &size) == 0 &&
             std::string_view{map.name}.starts_with(kMapPrefix);
    }
    if (kind.ends_with("bpf-prog")) {
      bpf_prog_info program{};
      std::uint32_t size = sizeof program;
      return bpf_prog_get_info_by_fd(object.get(), &program, &size) == 0 && is_ours(program.id);
    }
    bpf_link_info link{};
    std::uint32_t size = sizeof link;
    return bpf_link_get_info_by_fd(object.get(), &link, &size) == 0 && is_ours(link.prog_id);
  }

  static std::vector<fs::path> pins_in(const fs::path& folder) {
    std::vector<fs::path> pins;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator{folder, error}) {
      if (is_our_pin(entry.path())) pins.push_back(entry.path());
    }
    std::ranges::sort(pins);
    return pins;
  }

  void remove(Removed object, const fs::path& path) {
    if (!options_.dry_run) {
      std::error_code error;
      if (!fs::remove(path, error) && error) {
        const std::string what = "remove " + path.string();
        failed(std::move(object), Error::system(what, error.value()));
        return;
      }
    }
    report_.removed.push_back(std::move(object));
  }

  void remove_folder(const fs::path& folder) {
    std::error_code error;
    if (!pins::on_bpffs(folder) || !fs::is_directory(folder, error)) return;
    const bool to_be_emptied = options_.dry_run || fs::is_empty(folder, error);
    if (to_be_emptied) remove({"directory", folder.filename(), folder.parent_path().string()}, folder);
  }

  CleanupOptions options_;
  std::array<std::unique_ptr<Hook>, 2> hooks_ = all_hooks();
  CleanupReport report_;
};

Result<std::vector<Link>> find_links(const std::vector<std::string>& names) {
  auto all = list_links();
  if (!all) return all;
  std::vector<Link> links;
  for (const auto& name : names) {
    const auto link = std::ranges::find(*all, name, &Link::name);
    if (link == all->end()) return fail("detach " + name, "there is no such interface");
    links.push_back(*link);
  }
  return links;
}

}  // namespace

CleanupReport detach_all(const CleanupOptions& options) {
  Cleanup cleanup{options};
  auto links = list_links();
  if (!links) {
    cleanup.failed({"program", "?", "every interface"}, std::move(links).error());
    links = std::vector<Link>{};
  }
  cleanup.remove_programs(*links);
  cleanup.remove_pins();
  cleanup.look_again(*links);
  return cleanup.take_report();
}

Result<CleanupReport> detach_interfaces(const std::vector<std::string>& names, const CleanupOptions& options) {
  auto links = find_links(names);
  if (!links) return fail(std::move(links).error());
  Cleanup cleanup{options};
  cleanup.remove_programs(*links);
  for (const auto& link : *links) cleanup.remove_link_pins(link.ifindex);
  if (auto dataplane = Dataplane::open(options.bpffs); dataplane && !options.dry_run) {
    for (const auto& link : *links) {
      if (auto forgotten = dataplane->forget(link.ifindex); !forgotten) {
        cleanup.failed({"map", "hp_interfaces", link.name}, std::move(forgotten).error());
      }
    }
  }
  CleanupReport report = cleanup.take_report();
  Cleanup again{options};
  again.look_again(*links);
  report.left = again.take_report().left;
  report.left.pins = 0;  // maps and programs stay for the other interfaces
  return report;
}

}  // namespace hairpin
