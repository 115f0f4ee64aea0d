// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "maps/maps.hpp"

namespace hairpin {

namespace {

/// Opens one map after another; after the first that fails, none.
class Opener {
 public:
  explicit Opener(std::filesystem::path folder) : folder_{std::move(folder)} {}

  template <typename Map>
  Opener& open(Map& map, const char* name) {
    if (!done_) return *this;
    auto opened = Map::open(folder_ / name);
    if (opened) {
      map = std::move(*opened);
    } else {
      done_ = fail(std::move(opened).error());
    }
    return *this;
  }

  [[nodiscard]] const Result<void>& done() const { return done_; }

 private:
  std::filesystem::path folder_;
  Result<void> done_;
};

}  // namespace

Result<Maps> Maps::open(const std::filesystem::path& folder) {
  Maps maps;
  const auto done = Opener{folder}
                        .open(maps.frontends, "hp_frontends")
                        .open(maps.services, "hp_services")
                        .open(maps.slots, "hp_slots")
                        .open(maps.backends, "hp_backends")
                        .open(maps.tuples, "hp_tuples")
                        .open(maps.flows, "hp_flows")
                        .open(maps.chunks, "hp_chunks")
                        .open(maps.direct, "hp_direct")
                        .open(maps.interfaces, "hp_interfaces")
                        .open(maps.counters, "hp_counters")
                        .open(maps.config, "hp_config")
                        .open(maps.names, "hp_names")
                        .done();
  if (!done) return fail(done.error());
  return maps;
}

}  // namespace hairpin
