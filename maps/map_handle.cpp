// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "maps/map_handle.hpp"

#include <bpf/bpf.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace hairpin {

namespace {

/// Entries a batch; a hash bucket never holds as many, which the kernel would answer with ENOSPC.
constexpr std::uint32_t kBatch = 4096;

/// What a kernel says that has no batches for this kind of map.
bool no_batches(int error) {
  return error == EINVAL || error == EOPNOTSUPP || error == 524 /* ENOTSUPP, the kernel's */;
}

}  // namespace

Result<MapHandle> MapHandle::open(const std::filesystem::path& pin, std::size_t key_size, std::size_t value_size) {
  MapHandle handle;
  handle.fd_ = Fd{bpf_obj_get(pin.c_str())};
  handle.name_ = pin.filename();
  if (!handle.fd_.valid()) return fail(Error::system("open map " + pin.string(), errno));
  bpf_map_info info{};
  std::uint32_t size = sizeof info;
  if (bpf_map_get_info_by_fd(handle.fd_.get(), &info, &size) != 0) {
    return fail(Error::system("look at map " + pin.string(), errno));
  }
  if (info.key_size != key_size || info.value_size != value_size) {
    return fail("open map " + pin.string(), "its keys or values have another size than this version's",
                "remove it first: hairpinctl detach --all");
  }
  handle.key_size_ = info.key_size;
  handle.value_size_ = info.value_size;
  handle.max_entries_ = info.max_entries;
  return handle;
}

Error MapHandle::error(const char* what, int code) const { return Error::system(what + (" map " + name_), code); }

Result<bool> MapHandle::find(const void* key, void* value) const {
  if (bpf_map_lookup_elem(fd_.get(), key, value) == 0) return true;
  if (errno == ENOENT) return false;
  return fail(error("read", errno));
}

Result<void> MapHandle::put(const void* key, const void* value) const {
  if (bpf_map_update_elem(fd_.get(), key, value, BPF_ANY) == 0) return {};
  return fail(error("write", errno));
}

Result<void> MapHandle::put_all(const void* keys, const void* values, std::size_t count) const {
  const auto* key = static_cast<const std::uint8_t*>(keys);
  const auto* value = static_cast<const std::uint8_t*>(values);
  bpf_map_batch_opts options{};
  options.sz = sizeof options;
  for (std::size_t done = 0; done < count;) {
    auto batch = static_cast<std::uint32_t>(std::min<std::size_t>(kBatch, count - done));
    const auto* first_key = key + done * key_size_;
    const auto* first_value = value + done * value_size_;
    if (bpf_map_update_batch(fd_.get(), first_key, first_value, &batch, &options) != 0) {
      const int code = errno;
      if (!no_batches(code)) return fail(error("write", code));
      if (auto one = put(first_key, first_value); !one) return one;
      batch = 1;
    }
    done += batch;
  }
  return {};
}

Result<bool> MapHandle::erase(const void* key) const {
  if (bpf_map_delete_elem(fd_.get(), key) == 0) return true;
  if (errno == ENOENT) return false;
  return fail(error("erase from", errno));
}

Result<bool> MapHandle::pop(void* value) const {
  if (bpf_map_lookup_and_delete_elem(fd_.get(), nullptr, value) == 0) return true;
  if (errno == ENOENT) return false;
  return fail(error("pop from", errno));
}

Result<MapHandle::Entries> MapHandle::read_all() const {
  Entries entries;
  // Opaque to us: the kernel's place in the map, a key or a bucket's number.
  std::vector<std::uint8_t> place(std::max<std::size_t>(key_size_, sizeof(std::uint32_t)));
  void* from = nullptr;
  bpf_map_batch_opts options{};
  options.sz = sizeof options;
  while (true) {
    entries.keys.resize((entries.count + kBatch) * key_size_);
    entries.values.resize((entries.count + kBatch) * value_size_);
    std::uint32_t batch = kBatch;
    const int status =
        bpf_map_lookup_batch(fd_.get(), from, place.data(), entries.keys.data() + entries.count * key_size_,
                             entries.values.data() + entries.count * value_size_, &batch, &options);
    const int code = status == 0 ? 0 : errno;
    if (code != 0 && code != ENOENT) {
      if (no_batches(code) && from == nullptr) return read_one_by_one();
      return fail(error("read", code));
    }
    entries.count += batch;
    if (code == ENOENT) break;
    from = place.data();
  }
  entries.keys.resize(entries.count * key_size_);
  entries.values.resize(entries.count * value_size_);
  return entries;
}

/// For maps without batches (LRU hashes on some kernels). An entry that is erased while we stand on it sends the kernel
/// back to the start: what was seen already is not taken again, and as many steps as the map has places are enough.
Result<MapHandle::Entries> MapHandle::read_one_by_one() const {
  Entries entries;
  std::vector<std::uint8_t> key(key_size_);
  std::vector<std::uint8_t> value(value_size_);
  const void* previous = nullptr;
  std::vector<std::vector<std::uint8_t>> seen;
  for (std::uint32_t step = 0; step < max_entries_; ++step) {
    if (bpf_map_get_next_key(fd_.get(), previous, key.data()) != 0) {
      if (errno == ENOENT) break;
      return fail(error("read", errno));
    }
    auto found = find(key.data(), value.data());
    if (!found) return fail(std::move(found).error());
    if (*found) seen.push_back(key);
    previous = key.data();
  }
  std::ranges::sort(seen);
  const auto repeated = std::ranges::unique(seen);
  seen.erase(repeated.begin(), repeated.end());
  for (const auto& each : seen) {
    auto found = find(each.data(), value.data());
    if (!found) return fail(std::move(found).error());
    if (!*found) continue;
    entries.keys.insert(entries.keys.end(), each.begin(), each.end());
    entries.values.insert(entries.values.end(), value.begin(), value.end());
    ++entries.count;
  }
  return entries;
}

}  // namespace hairpin
