// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "tests/support/flow_view.hpp"

#include <fmt/format.h>

#include <array>

namespace hairpin::test {
namespace {

constexpr std::array kReasonNames = {
#define HP_REASON(enumerator, name, text) name,
#include "maps/reasons.def"
#undef HP_REASON
};

constexpr std::array kStateNames = {"free", "opening", "new", "established", "closing"};

std::string only_in(const std::string& where, const std::set<std::string>& a, const std::set<std::string>& b) {
  std::string out;
  for (const std::string& line : a)
    if (!b.contains(line)) out += fmt::format("  only {}: {}\n", where, line);
  return out;
}

std::set<std::string> lines(const std::map<std::string, std::uint64_t>& counters) {
  std::set<std::string> out;
  for (const auto& [name, value] : counters) out.insert(fmt::format("counter {} = {}", name, value));
  return out;
}

}  // namespace

std::string reason_name(std::size_t reason) { return kReasonNames.at(reason); }

std::string describe(const FlowView& flow) {
  return fmt::format("request {}, reply {}, {}{}{}{}, backend {} epoch {} service {}", describe(flow.request),
                     describe(flow.reply), kStateNames.at(flow.state), flow.hairpin ? " hairpin" : "",
                     flow.fin_request ? " fin-request" : "", flow.fin_reply ? " fin-reply" : "", flow.backend,
                     flow.epoch, flow.service);
}

std::string difference(const State& program, const State& model) {
  return only_in("in the program's flows", program.flows, model.flows) +
         only_in("in the model's flows", model.flows, program.flows) +
         only_in("in the program's direct entries", program.direct, model.direct) +
         only_in("in the model's direct entries", model.direct, program.direct) +
         only_in("of the program", lines(program.counters), lines(model.counters)) +
         only_in("of the model", lines(model.counters), lines(program.counters));
}

}  // namespace hairpin::test
