// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "hairpin/result.hpp"
#include "loader/cluster/model.hpp"

// Kubernetes objects from files, as `kubectl get -o yaml|json` prints them: Lists, multi-document YAML, single objects.
// Kinds that the dataplane does not need are passed over. An Error reads "FILE:LINE:COLUMN: OBJECT: what is wrong,
// what is allowed".

namespace hairpin {

/// Reads a file, or every manifest of a folder: regular files (or links to such) called *.yaml, *.yml or *.json, not
/// hidden, in the order of their names, not those of folders inside it. An object that comes twice is there once, as it
/// was read last. Error::code is ENOENT where there is nothing at `path`.
Result<cluster::Snapshot> read_manifests(const std::filesystem::path& path);

/// Reads standard input up to its end; errors call it "<stdin>".
Result<cluster::Snapshot> read_manifests_from_stdin();

/// Reads a text; `name` is what errors call it.
Result<cluster::Snapshot> parse_manifests(std::string_view text, const std::string& name);

/// Tells when read_manifests(path) may have a new answer. Owns an inotify instance that watches every folder on the way
/// to the path and through the links on that way, so that a file, a folder or a link that is written, renamed, removed,
/// replaced or made later is noticed, a ConfigMap volume's swap of ..data included. A file counts when its writer has
/// closed it, not before. To be used as: create, read the manifests, then read them again each time drain() says so;
/// no change gets lost in between.
class ManifestWatch {
 public:
  static Result<ManifestWatch> create(const std::filesystem::path& path);

  ManifestWatch(ManifestWatch&& other) noexcept;
  ManifestWatch& operator=(ManifestWatch&& other) noexcept;
  ManifestWatch(const ManifestWatch&) = delete;
  ManifestWatch& operator=(const ManifestWatch&) = delete;
  ~ManifestWatch();

  /// Readable when there is something to drain(). Non-blocking, close-on-exec.
  [[nodiscard]] int fd() const { return fd_; }

  /// Takes what is there to read; true if anything of it concerns the manifests. Never blocks.
  bool drain();

 private:
  /// What counts in one watched folder.
  struct Interest {
    std::filesystem::path folder;
    std::set<std::string, std::less<>> names;  ///< these entries,
    bool manifests = false;                    ///< and every entry that is called like a manifest

    friend bool operator==(const Interest&, const Interest&) = default;
  };
  using Interests = std::map<std::filesystem::path, Interest>;

  ManifestWatch(int fd, std::filesystem::path path) : fd_{fd}, path_{std::move(path)} {}

  bool follow();
  [[nodiscard]] Interests find_interests() const;
  static void add_way(Interests& interests, const std::filesystem::path& path);
  [[nodiscard]] bool concerns(int watch, std::uint32_t mask, std::string_view name) const;

  int fd_ = -1;
  std::filesystem::path path_;
  std::map<int, Interest> watches_;  ///< by inotify's watch descriptor
};

}  // namespace hairpin
