// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include <algorithm>
#include <iostream>
#include <memory>

#include "maps/catalogue.hpp"
#include "tools/hairpinctl/context.hpp"

namespace hairpin::ctl {

namespace {

/// Why a service may hairpin; with one mode there is one answer.
constexpr const char* kHairpinReason = "mode enabled";

Json with_reason(const ServiceView& view) {
  Json json = to_json(view);
  json["hairpinReason"] = kHairpinReason;
  return json;
}

std::string frontend_text(const ServiceView& view) {
  return view.frontend.to_string() + "/" + protocol_name(view.protocol);
}

std::string endpoints_text(const ServiceView& view) {
  std::string text = view.endpoints.empty() ? "none (refused)" : std::to_string(view.endpoints.size());
  if (!view.draining.empty()) text += ", " + std::to_string(view.draining.size()) + " draining";
  return text;
}

int list(const Context& context, Dataplane& dataplane) {
  auto views = read_services(dataplane.maps());
  if (!views) return Context::complain(views.error());
  Json services = Json::array();
  Grid grid{{"SERVICE", "FRONTEND", "KIND", "ENDPOINTS", "HAIRPIN"}};
  for (const auto& view : *views) {
    services.push_back(with_reason(view));
    grid.add({view.service, frontend_text(view), kind_name(view.kind), endpoints_text(view), "yes"});
  }
  context.print({{"services", services}}, [&] {
    if (grid.empty()) {
      std::cout << "no services\n";
    } else {
      grid.print(std::cout, context.colour());
    }
  });
  return kDone;
}

void print_details(const std::vector<ServiceView>& views, std::size_t flows, std::size_t hairpins, bool colour) {
  std::cout << printable(views.front().service) << "\n  hairpin  yes (" << kHairpinReason << ")\n  flows    " << flows
            << ", " << hairpins << " of them hairpins\n\n";
  Grid grid{{"FRONTEND", "KIND", "ENDPOINT", "STATE"}};
  for (const auto& view : views) {
    if (view.endpoints.empty() && view.draining.empty()) {
      grid.add({frontend_text(view), kind_name(view.kind), "none", "refused"});
    }
    for (const auto& endpoint : view.endpoints) {
      grid.add(
          {frontend_text(view), kind_name(view.kind), endpoint.at.to_string(), backend_state_name(endpoint.state)});
    }
    for (const auto& endpoint : view.draining) {
      grid.add({frontend_text(view), kind_name(view.kind), endpoint.at.to_string(), "draining"});
    }
  }
  grid.print(std::cout, colour);
}

int show(const std::string& name, const Context& context, Dataplane& dataplane) {
  auto views = read_services(dataplane.maps());
  if (!views) return Context::complain(views.error());
  std::erase_if(*views, [&](const ServiceView& view) { return view.service != name; });
  if (views->empty()) {
    return Context::complain({"show service " + name, "there is none of that name",
                              "hairpinctl service list shows them as NAMESPACE/NAME", 0});
  }
  auto flows = read_flows(dataplane.maps());
  if (!flows) return Context::complain(flows.error());
  std::erase_if(*flows, [&](const FlowView& flow) { return flow.service != name; });
  const auto hairpins = static_cast<std::size_t>(std::ranges::count_if(*flows, &FlowView::hairpin));

  Json frontends = Json::array();
  for (const auto& view : *views) frontends.push_back(with_reason(view));
  const Json document{{"service", name},        {"hairpin", true},          {"hairpinReason", kHairpinReason},
                      {"flows", flows->size()}, {"hairpinFlows", hairpins}, {"frontends", frontends}};
  context.print(document, [&] { print_details(*views, flows->size(), hairpins, context.colour()); });
  return kDone;
}

}  // namespace

void add_service(CLI::App& app, Command& command) {
  auto* service = add_command(app, "service", "Look at services as the dataplane has them", "hairpinctl service list");
  service->require_subcommand(1);
  add_command(*service, "list", "Every frontend with its endpoints", "hairpinctl service list")->callback([&command] {
    command = [](const Context& context) {
      return context.with_dataplane([&](Dataplane& dataplane) { return list(context, dataplane); });
    };
  });
  auto name = std::make_shared<std::string>();
  auto* show_command = add_command(*service, "show", "One service in full", "hairpinctl service show shop/web");
  show_command->add_option("NAMESPACE/NAME", *name, "The service")->required();
  show_command->callback([&command, name] {
    command = [name](const Context& context) {
      return context.with_dataplane([&](Dataplane& dataplane) { return show(*name, context, dataplane); });
    };
  });
}

}  // namespace hairpin::ctl
