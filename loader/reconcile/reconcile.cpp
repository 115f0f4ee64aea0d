// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "hairpin/reconcile.hpp"

#include "loader/reconcile/contents.hpp"
#include "loader/reconcile/planner.hpp"

namespace hairpin {

const char* to_string(PortChange::Kind kind) {
  switch (kind) {
    case PortChange::Kind::kAdded:
      return "added";
    case PortChange::Kind::kChanged:
      return "changed";
    case PortChange::Kind::kRemoved:
      return "removed";
  }
  return "?";
}

namespace {

std::string title(const std::string& service, const std::string& port_name) {
  return port_name.empty() ? service : service + " " + port_name;
}

std::string list(const std::vector<Frontend>& frontends) {
  std::string text;
  for (const auto& frontend : frontends) text += (text.empty() ? "" : ", ") + describe(frontend);
  return text;
}

}  // namespace

std::string describe(const PortChange& change) {
  std::string text =
      title(change.service, change.port_name) + " " + to_string(change.kind) + ": " + list(change.frontends);
  if (change.kind == PortChange::Kind::kRemoved) return text;
  return text + ", " + std::to_string(change.endpoints) + (change.endpoints == 1 ? " endpoint" : " endpoints");
}

std::string describe(const Refusal& refusal) {
  return title(refusal.service, refusal.port_name) + " refused: " + list(refusal.frontends) + ": " + refusal.why;
}

Reconciler::Reconciler(const Maps& maps, std::unique_ptr<Planner> planner)
    : maps_{&maps}, planner_{std::move(planner)} {}
Reconciler::Reconciler(Reconciler&&) noexcept = default;
Reconciler& Reconciler::operator=(Reconciler&&) noexcept = default;
Reconciler::~Reconciler() = default;

Result<Reconciler> Reconciler::create(const Maps& maps) {
  auto contents = read_contents(maps);
  if (!contents) return fail(std::move(contents).error());
  return Reconciler{maps, std::make_unique<Planner>(*contents)};
}

Result<Changes> Reconciler::apply(const Desired& desired) {
  Changes changes;
  const Plan plan = planner_->plan(desired, Clock::now(), changes);
  if (auto written = write(plan, *maps_); !written) return fail(std::move(written).error());
  return changes;
}

Changes Reconciler::preview(const Desired& desired) const {
  Changes changes;
  Planner{*planner_}.plan(desired, Clock::now(), changes);
  return changes;
}

}  // namespace hairpin
