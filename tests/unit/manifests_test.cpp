// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "hairpin/manifests.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

using namespace hairpin;
namespace fs = std::filesystem;

namespace {

/// A folder of the test's own, taken away at its end.
class TempFolder {
 public:
  TempFolder() {
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
    real_ = fs::canonical(path_);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() { fs::remove_all(real_); }

  [[nodiscard]] fs::path operator/(const std::string& name) const { return real_ / name; }
  [[nodiscard]] const fs::path& path() const { return real_; }

 private:
  std::string path_ = (fs::temp_directory_path() / "hairpin-manifests-XXXXXX").string();
  fs::path real_;
};

std::string service(const std::string& name) {
  return fmt::format("apiVersion: v1\nkind: Service\nmetadata: {{name: {}}}\n", name);
}

void write(const fs::path& path, const std::string& text) { std::ofstream{path} << text; }

std::string names(const Result<cluster::Snapshot>& read) {
  if (!read) return read.error().to_string();
  std::string all;
  for (const auto& [name, object] : read->services) all += (all.empty() ? "" : " ") + name.name;
  return all;
}

/// Whether the watch says so within a while; what has happened already is there to read at once.
bool notices(ManifestWatch& watch) {
  pollfd poll{watch.fd(), POLLIN, 0};
  return ::poll(&poll, 1, 0) > 0 && watch.drain();
}

}  // namespace

TEST_CASE("a text or a file is read") {
  CHECK(names(parse_manifests(service("a") + "---\n" + service("b"), "<text>")) == "a b");
  CHECK(names(parse_manifests("{", "<text>")).starts_with("<text>:1:"));
  const TempFolder folder;
  write(folder / "anything.txt", service("a"));
  CHECK(names(read_manifests(folder / "anything.txt")) == "a");
  write(folder / "bad", "kind: Service\nmetadata: 7");
  CHECK(names(read_manifests(folder / "bad")).starts_with((folder / "bad").string() + ":1:1: "));
  CHECK(read_manifests(folder / "none").error().code == ENOENT);
  CHECK(names(read_manifests(folder / "none")) == (folder / "none").string() + ": No such file or directory");
}

TEST_CASE("of a folder the manifests are read, and nothing else") {
  const TempFolder folder;
  CHECK(names(read_manifests(folder.path())).empty());
  write(folder / "a.yaml", service("a"));
  write(folder / "b.yml", service("b"));
  write(folder / "c.json", R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"c"}})");
  write(folder / "d.txt", "not read: [");
  write(folder / "e.yaml~", "not read: [");
  write(folder / ".f.yaml", "not read: [");
  write(folder / "yaml", "not read: [");
  fs::create_directory(folder / "g.yaml");
  write(folder / "g.yaml/h.yaml", "not read: [");
  REQUIRE(::mkfifo((folder / "i.yaml").c_str(), 0600) == 0);
  write(folder / "target", service("j"));
  fs::create_symlink("target", folder / "j.yaml");
  write(folder / "k.yaml", "");
  CHECK(names(read_manifests(folder.path())) == "a b c j");

  fs::create_symlink(folder.path(), folder / "l.yaml");
  CHECK(names(read_manifests(folder / "l.yaml")) == "a b c j");
  write(folder / "m.yaml", service("m") + "spec: {type: X}\n");
  CHECK(names(read_manifests(folder.path())) ==
        (folder / "m.yaml").string() +
            ":4:14: Service default/m: type is \"X\", allowed are ClusterIP, NodePort, LoadBalancer and ExternalName");
  fs::remove(folder / "m.yaml");
  fs::create_symlink("nowhere", folder / "n.yaml");
  CHECK(names(read_manifests(folder.path())) ==
        (folder / "n.yaml").string() + ": No such file or directory (the link must point to a file)");
}

TEST_CASE("the file whose name sorts last wins over one object") {
  const TempFolder folder;
  write(folder / "b.yaml", service("a") + "spec: {type: NodePort}\n");
  write(folder / "a.yaml", service("a") + "spec: {type: LoadBalancer}\n");
  CHECK(read_manifests(folder.path())->services.begin()->second.type == "NodePort");
}

TEST_CASE("a pipe or a device is refused, not waited for") {
  const TempFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(names(read_manifests(folder / "pipe")) == (folder / "pipe").string() + ": not a regular file");
  CHECK(names(read_manifests("/dev/zero")) == "/dev/zero: not a regular file");
}

TEST_CASE("what concerns a folder's manifests is noticed, and nothing else") {
  const TempFolder folder;
  write(folder / "a.yaml", "");
  write(folder / "other", "");
  auto watch = ManifestWatch::create(folder.path());
  REQUIRE(watch);
  CHECK_FALSE(watch->drain());
  struct {
    std::string what;
    std::function<void()> act;
    bool noticed;
  } const rows[] = {
      {"written in place", [&] { write(folder / "a.yaml", "x"); }, true},
      {"made", [&] { write(folder / "b.yaml", "x"); }, true},
      {"renamed over", [&] { fs::rename(folder / "other", folder / "b.yaml"); }, true},
      {"renamed away", [&] { fs::rename(folder / "b.yaml", folder / ".b"); }, true},
      {"removed", [&] { fs::remove(folder / "a.yaml"); }, true},
      {"a link", [&] { fs::create_symlink("target", folder / "l.json"); }, true},
      {"the link's target", [&] { write(folder / "target", "x"); }, true},
      {"a second name", [&] { fs::create_hard_link(folder / "target", folder / "h.yml"); }, true},
      {"another name", [&] { write(folder / "README", "x"); }, false},
      {"a hidden one", [&] { write(folder / ".c.yaml", "x"); }, false},
      {"an editor's copy", [&] { write(folder / "a.yaml~", "x"); }, false},
      {"only read", [&] { std::ifstream{folder / "README"}.get(); }, false},
  };
  for (const auto& row : rows) {
    CAPTURE(row.what);
    row.act();
    CHECK(notices(*watch) == row.noticed);
    CHECK_FALSE(notices(*watch));
  }
}

TEST_CASE("a file counts when its writer has closed it") {
  const TempFolder folder;
  auto watch = ManifestWatch::create(folder.path());
  REQUIRE(watch);
  std::ofstream file{folder / "a.yaml"};
  file << "half" << std::flush;
  CHECK_FALSE(notices(*watch));
  file.close();
  CHECK(notices(*watch));
}

TEST_CASE("a single file is followed, missing, written, replaced and removed") {
  const TempFolder folder;
  const fs::path file = folder / "cluster.yaml";
  auto watch = ManifestWatch::create(file);
  REQUIRE(watch);
  write(file, "x");
  CHECK(notices(*watch));
  write(folder / "b.yaml", "x");
  CHECK_FALSE(notices(*watch));
  fs::rename(folder / "b.yaml", file);
  CHECK(notices(*watch));
  fs::remove(file);
  CHECK(notices(*watch));
  write(file, "x");
  CHECK(notices(*watch));
}

TEST_CASE("a folder that is made, replaced or moved later is followed") {
  const TempFolder folder;
  const fs::path manifests = folder / "etc/hairpin/manifests";
  auto watch = ManifestWatch::create(manifests);
  REQUIRE(watch);
  fs::create_directories(folder / "etc");
  CHECK(notices(*watch));
  fs::create_directories(manifests);
  CHECK(notices(*watch));
  write(manifests / "a.yaml", "x");
  CHECK(notices(*watch));

  fs::create_directory(folder / "new");
  write(folder / "new/a.yaml", "y");
  CHECK_FALSE(notices(*watch));
  fs::rename(manifests, folder / "old");
  fs::rename(folder / "new", manifests);
  CHECK(notices(*watch));
  write(folder / "old/a.yaml", "x");
  CHECK_FALSE(notices(*watch));
  write(manifests / "a.yaml", "z");
  CHECK(notices(*watch));

  fs::rename(folder / "etc", folder / "etc.old");
  CHECK(notices(*watch));
  fs::create_directories(manifests);
  CHECK(notices(*watch));
  write(manifests / "a.yaml", "x");
  CHECK(notices(*watch));
  fs::remove_all(folder / "etc");
  CHECK(notices(*watch));
  fs::create_directories(manifests);
  write(manifests / "b.yaml", "x");  // between the folder's making and its watching
  CHECK(notices(*watch));
}

TEST_CASE("links on the way are followed, as in a ConfigMap volume") {
  const TempFolder folder;
  const fs::path volume = folder / "volume";
  const auto publish = [&](const std::string& version, const std::string& name) {
    fs::create_directories(volume / ("..v" + version));
    write(volume / ("..v" + version) / "a.yaml", service(name));
    fs::create_symlink("..v" + version, volume / "..data_tmp");
    fs::rename(volume / "..data_tmp", volume / "..data");
  };
  publish("1", "one");
  fs::create_symlink("..data/a.yaml", volume / "a.yaml");
  fs::create_directory_symlink(volume, folder / "manifests");

  auto by_folder = ManifestWatch::create(folder / "manifests");
  auto by_file = ManifestWatch::create(folder / "manifests/a.yaml");
  REQUIRE(by_folder);
  REQUIRE(by_file);
  CHECK(names(read_manifests(folder / "manifests")) == "one");
  publish("2", "two");
  fs::remove_all(volume / "..v1");
  CHECK(notices(*by_folder));
  CHECK(notices(*by_file));
  CHECK(names(read_manifests(folder / "manifests")) == "two");

  write(volume / "..v2/a.yaml", service("three"));
  CHECK(notices(*by_folder));
  CHECK(notices(*by_file));

  fs::create_directory(folder / "elsewhere");
  fs::remove(folder / "manifests");
  fs::create_directory_symlink("elsewhere", folder / "manifests");
  CHECK(notices(*by_folder));
  CHECK(notices(*by_file));
  write(folder / "elsewhere/a.yaml", service("four"));
  CHECK(notices(*by_folder));
  CHECK(notices(*by_file));
}

TEST_CASE("links in a circle do no harm") {
  const TempFolder folder;
  fs::create_symlink("b.yaml", folder / "a.yaml");
  fs::create_symlink("a.yaml", folder / "b.yaml");
  CHECK(names(read_manifests(folder / "a.yaml")) ==
        (folder / "a.yaml").string() + ": Too many levels of symbolic links");
  auto watch = ManifestWatch::create(folder.path());
  REQUIRE(watch);
  fs::remove(folder / "a.yaml");
  write(folder / "a.yaml", service("a"));
  CHECK(notices(*watch));
  CHECK(names(read_manifests(folder.path())) == "a");
}

TEST_CASE("a watch may be moved") {
  const TempFolder folder;
  auto made = ManifestWatch::create(folder.path());
  REQUIRE(made);
  ManifestWatch watch = std::move(*made);
  write(folder / "a.yaml", "");
  CHECK(notices(watch));
  watch = std::move(*ManifestWatch::create(folder / "b"));
  write(folder / "b", "");
  CHECK(notices(watch));
}
