// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "loader/reconcile/contents.hpp"

namespace hairpin {

namespace {

template <typename Value>
Result<void> read_array(const Table<std::uint32_t, Value>& table, std::vector<Value>& into) {
  auto entries = table.read_all();
  if (!entries) return fail(std::move(entries).error());
  into.resize(table.max_entries());
  for (const auto& [index, value] : *entries) into.at(index) = value;
  return {};
}

template <typename Key, typename Value>
Result<void> read_hash(const Table<Key, Value>& table, std::vector<std::pair<Key, Value>>& into) {
  auto entries = table.read_all();
  if (!entries) return fail(std::move(entries).error());
  into = std::move(*entries);
  return {};
}

template <typename Key, typename Value>
Result<void> put_all(const Table<Key, Value>& table, const std::vector<std::pair<Key, Value>>& entries) {
  std::vector<Key> keys;
  std::vector<Value> values;
  keys.reserve(entries.size());
  values.reserve(entries.size());
  for (const auto& [key, value] : entries) {
    keys.push_back(key);
    values.push_back(value);
  }
  return table.put_all(keys, values);
}

template <typename Key, typename Value>
Result<void> erase_all(const Table<Key, Value>& table, const std::vector<Key>& keys) {
  for (const auto& key : keys) {
    if (auto erased = table.erase(key); !erased) return fail(std::move(erased).error());
  }
  return {};
}

}  // namespace

Result<Contents> read_contents(const Maps& maps) {
  Contents contents;
  contents.max_services = maps.services.max_entries();
  if (auto read = read_hash(maps.frontends, contents.gate); !read) return fail(std::move(read).error());
  if (auto read = read_hash(maps.services, contents.services); !read) return fail(std::move(read).error());
  if (auto read = read_array(maps.slots, contents.slots); !read) return fail(std::move(read).error());
  if (auto read = read_array(maps.backends, contents.backends); !read) return fail(std::move(read).error());
  if (auto read = read_hash(maps.names, contents.names); !read) return fail(std::move(read).error());
  return contents;
}

Result<void> write(const Plan& plan, const Maps& maps) {
  if (auto done = put_all(maps.names, plan.names); !done) return done;
  if (auto done = put_all(maps.backends, plan.backends); !done) return done;
  if (auto done = put_all(maps.slots, plan.slots); !done) return done;
  if (auto done = put_all(maps.frontends, plan.gate); !done) return done;
  if (auto done = put_all(maps.services, plan.services); !done) return done;
  if (auto done = erase_all(maps.services, plan.services_gone); !done) return done;
  if (auto done = put_all(maps.frontends, plan.gate_less); !done) return done;
  if (auto done = erase_all(maps.frontends, plan.gate_gone); !done) return done;
  if (auto done = put_all(maps.backends, plan.backends_gone); !done) return done;
  return erase_all(maps.names, plan.names_gone);
}

}  // namespace hairpin
