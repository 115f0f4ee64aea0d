// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>

#include "hairpin/links.hpp"
#include "maps/catalogue.hpp"
#include "tools/hairpinctl/context.hpp"

namespace hairpin::ctl {

namespace {

struct Filter {
  std::string service;  ///< "namespace/name"
  std::string pod;      ///< an address
  bool hairpin = false;
};

bool passes(const FlowView& flow, const Filter& filter, const std::optional<Address>& pod) {
  if (filter.hairpin && !flow.hairpin) return false;
  if (!filter.service.empty() && flow.service != filter.service) return false;
  return !pod || flow.request.source.address == *pod || flow.reply.source.address == *pod;
}

std::map<std::uint32_t, std::string> interface_names() {
  std::map<std::uint32_t, std::string> names;
  if (auto links = list_links()) {
    for (auto& link : *links) names[link.ifindex] = std::move(link.name);
  }
  return names;
}

int list(const Filter& filter, const Context& context, Dataplane& dataplane) {
  const auto pod = Address::parse(filter.pod);
  if (!filter.pod.empty() && !pod) {
    return Context::complain({"flow list --pod " + filter.pod, "not an address", "an IPv4 or IPv6 address of a pod", 0},
                             kWrongInput);
  }
  auto flows = read_flows(dataplane.maps());
  if (!flows) return Context::complain(flows.error());
  std::erase_if(*flows, [&](const FlowView& flow) { return !passes(flow, filter, pod); });
  const auto names = interface_names();
  Json documents = Json::array();
  Grid grid{{"SERVICE", "PROTO", "STATE", "CLIENT", "FRONTEND", "ENDPOINT", "IDLE", "HAIRPIN"}};
  for (const auto& flow : *flows) {
    const auto name = names.find(flow.ifindex);
    Json document = to_json(flow);
    document["interface"] = name == names.end() ? "" : name->second;
    documents.push_back(std::move(document));
    grid.add({flow.service.empty() ? "(direct)" : flow.service, protocol_name(flow.protocol),
              flow_state_name(flow.state), flow.request.source.to_string(), flow.request.destination.to_string(),
              flow.reply.source.to_string(), short_duration(flow.idle.count()), flow.hairpin ? "yes" : ""});
  }
  context.print({{"flows", documents}}, [&] {
    if (grid.empty()) {
      std::cout << "no flows\n";
    } else {
      grid.print(std::cout, context.colour());
    }
  });
  return kDone;
}

int flush(const Context& context, Dataplane& dataplane) {
  auto ended = dataplane.flush_flows();
  if (!ended) return Context::complain(ended.error());
  context.print({{"ended", *ended}},
                [&] { std::cout << *ended << (*ended == 1 ? " flow ended\n" : " flows ended\n"); });
  return kDone;
}

}  // namespace

void add_flow(CLI::App& app, Command& command) {
  auto* flow = add_command(app, "flow", "Look at live flows, or end them", "hairpinctl flow list --hairpin");
  flow->require_subcommand(1);
  auto filter = std::make_shared<Filter>();
  auto* list_command = add_command(*flow, "list", "Live flows with state, idle time and both tuples",
                                   "hairpinctl flow list --service shop/web");
  list_command->add_option("--service", filter->service, "Only this service's")->type_name("NAMESPACE/NAME");
  list_command->add_option("--pod", filter->pod, "Only those from or to this pod")->type_name("ADDRESS");
  list_command->add_flag("--hairpin", filter->hairpin, "Only those of pods to themselves");
  list_command->callback([&command, filter] {
    command = [filter](const Context& context) {
      return context.with_dataplane([&](Dataplane& dataplane) { return list(*filter, context, dataplane); });
    };
  });
  add_command(*flow, "flush", "End every flow; connections through services are cut", "hairpinctl flow flush")
      ->callback([&command] {
        command = [](const Context& context) {
          return context.with_dataplane([&](Dataplane& dataplane) { return flush(context, dataplane); });
        };
      });
}

}  // namespace hairpin::ctl
