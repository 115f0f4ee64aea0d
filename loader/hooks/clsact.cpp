// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "loader/hooks/clsact.hpp"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "loader/identity.hpp"
#include "loader/netlink.hpp"

namespace hairpin {

namespace {

/// Where our filters stand among others': "HA" in ASCII, after the low numbers that most agents use. Not what they are
/// known by.
constexpr std::uint16_t kPriority = 0x4841;

constexpr const char* kQdisc = "clsact";
constexpr const char* kClassifier = "bpf";

std::uint32_t parent(Direction direction) {
  return TC_H_MAKE(TC_H_CLSACT, direction == Direction::kIngress ? TC_H_MIN_INGRESS : TC_H_MIN_EGRESS);
}

std::string hook_name(Direction direction, std::uint32_t ifindex) {
  return std::string{"clsact "} + to_string(direction) + " of interface " + std::to_string(ifindex);
}

tcmsg& put_tc_header(netlink::Request& request, std::uint32_t ifindex, std::uint32_t parent_handle) {
  auto& header = request.extra<tcmsg>();
  header.tcm_family = AF_UNSPEC;
  header.tcm_ifindex = static_cast<int>(ifindex);
  header.tcm_parent = parent_handle;
  return header;
}

void put_filter_header(netlink::Request& request, std::uint32_t ifindex, Direction direction, std::uint16_t priority,
                       std::uint32_t handle) {
  auto& header = put_tc_header(request, ifindex, parent(direction));
  header.tcm_handle = handle;
  header.tcm_info = TC_H_MAKE(static_cast<std::uint32_t>(priority) << 16, htons(ETH_P_ALL));
  mnl_attr_put_strz(request.header(), TCA_KIND, kClassifier);
}

/// Every filter there is, whoever's and of whatever kind; those that are no BPF programs have program id 0.
Result<std::vector<Attachment>> list_filters(std::uint32_t ifindex, Direction direction) {
  std::vector<Attachment> filters;
  netlink::Request request{RTM_GETTFILTER, NLM_F_DUMP};
  put_tc_header(request, ifindex, parent(direction));
  auto listed = netlink::talk(request, "list tc filters", [&](const nlmsghdr& message) {
    if (message.nlmsg_type != RTM_NEWTFILTER) return;
    const auto& header = *static_cast<const tcmsg*>(mnl_nlmsg_get_payload(&message));
    // A kernel that knows no such parent answers with the filters of the device's other qdiscs.
    if (header.tcm_ifindex != static_cast<int>(ifindex) || header.tcm_parent != parent(direction)) return;
    Attachment filter{.kind = HookKind::kClsact,
                      .direction = direction,
                      .priority = static_cast<std::uint16_t>(TC_H_MAJ(header.tcm_info) >> 16),
                      .handle = header.tcm_handle};
    netlink::for_attributes(message, sizeof(tcmsg), [&](const nlattr& attribute) {
      if (mnl_attr_get_type(&attribute) != TCA_OPTIONS) return;
      netlink::for_nested(attribute, [&](const nlattr& option) {
        if (mnl_attr_get_type(&option) == TCA_BPF_ID) filter.program_id = mnl_attr_get_u32(&option);
      });
    });
    filters.push_back(filter);
  });
  // No such qdisc, or no such interface any more.
  if (!listed && listed.error().code != EINVAL && listed.error().code != ENODEV) return fail(std::move(listed).error());
  return filters;
}

Result<void> add_qdisc(std::uint32_t ifindex) {
  netlink::Request request{RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL};
  put_tc_header(request, ifindex, TC_H_CLSACT).tcm_handle = TC_H_MAKE(TC_H_CLSACT, 0);
  mnl_attr_put_strz(request.header(), TCA_KIND, kQdisc);
  auto added = netlink::talk(request, "add a clsact qdisc");
  if (!added && added.error().code == EEXIST) return {};
  return added;
}

Result<void> remove_qdisc(std::uint32_t ifindex) {
  netlink::Request request{RTM_DELQDISC, 0};
  put_tc_header(request, ifindex, TC_H_CLSACT).tcm_handle = TC_H_MAKE(TC_H_CLSACT, 0);
  mnl_attr_put_strz(request.header(), TCA_KIND, kQdisc);
  return netlink::talk(request, "remove the clsact qdisc");
}

/// With handle 0 a filter of ours is added beside what is there, else the one of that handle is replaced.
Result<void> put_filter(std::uint32_t ifindex, Direction direction, int program, std::uint16_t priority,
                        std::uint32_t handle) {
  const bool replace = handle != 0;
  netlink::Request request{RTM_NEWTFILTER,
                           static_cast<std::uint16_t>(replace ? NLM_F_REPLACE : NLM_F_CREATE | NLM_F_EXCL)};
  put_filter_header(request, ifindex, direction, priority, handle);
  nlattr* options = mnl_attr_nest_start(request.header(), TCA_OPTIONS);
  mnl_attr_put_u32(request.header(), TCA_BPF_FD, static_cast<std::uint32_t>(program));
  mnl_attr_put_strz(request.header(), TCA_BPF_NAME,
                    direction == Direction::kIngress ? "hairpin:from_pod" : "hairpin:to_pod");
  mnl_attr_put_u32(request.header(), TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
  mnl_attr_nest_end(request.header(), options);
  return netlink::talk(request, "put a tc filter");
}

Result<void> remove_filter(std::uint32_t ifindex, const Attachment& filter) {
  netlink::Request request{RTM_DELTFILTER, 0};
  put_filter_header(request, ifindex, filter.direction, filter.priority, filter.handle);
  return netlink::talk(request, "remove a tc filter");
}

Result<bool> any_filter_left(std::uint32_t ifindex) {
  for (const Direction direction : {Direction::kIngress, Direction::kEgress}) {
    auto filters = list_filters(ifindex, direction);
    if (!filters) return fail(std::move(filters).error());
    if (!filters->empty()) return true;
  }
  return false;
}

/// The same error, with the hook it happened on.
Error on_hook(Error error, Direction direction, std::uint32_t ifindex) {
  error.what += " on " + hook_name(direction, ifindex);
  return error;
}

}  // namespace

Result<std::vector<Attachment>> ClsactHook::list(std::uint32_t ifindex) const {
  std::vector<Attachment> attachments;
  for (const Direction direction : {Direction::kIngress, Direction::kEgress}) {
    auto filters = list_filters(ifindex, direction);
    if (!filters) return filters;
    std::ranges::copy_if(*filters, std::back_inserter(attachments),
                         [](const Attachment& filter) { return filter.program_id != 0; });
  }
  return attachments;
}

Result<void> ClsactHook::attach(std::uint32_t ifindex, Direction direction, int program,
                                const std::filesystem::path& /*pin*/) const {
  if (auto added = add_qdisc(ifindex); !added) return fail(on_hook(std::move(added).error(), direction, ifindex));
  auto filters = list_filters(ifindex, direction);
  if (!filters) return fail(on_hook(std::move(filters).error(), direction, ifindex));
  const auto ours = std::ranges::find_if(*filters, [](const Attachment& filter) { return is_ours(filter.program_id); });
  auto put = ours == filters->end() ? put_filter(ifindex, direction, program, kPriority, 0)
                                    : put_filter(ifindex, direction, program, ours->priority, ours->handle);
  if (!put) return fail(on_hook(std::move(put).error(), direction, ifindex));
  return {};
}

Result<std::vector<Removed>> ClsactHook::detach(std::uint32_t ifindex, const std::string& interface,
                                                const Attachment& attachment) const {
  // Handles are given away again: what is there now must still be the program that was meant.
  auto filters = list_filters(ifindex, attachment.direction);
  if (!filters) return fail(on_hook(std::move(filters).error(), attachment.direction, ifindex));
  const auto still_there = std::ranges::any_of(*filters, [&](const Attachment& filter) {
    return filter.priority == attachment.priority && filter.handle == attachment.handle &&
           filter.program_id == attachment.program_id;
  });
  if (!still_there) return std::vector<Removed>{};

  std::vector<Removed> removed{
      {"program", program_name(attachment.program_id), interface + " clsact " + to_string(attachment.direction)}};
  if (auto gone = remove_filter(ifindex, attachment); !gone) {
    return fail(on_hook(std::move(gone).error(), attachment.direction, ifindex));
  }
  auto left = any_filter_left(ifindex);
  if (!left) return fail(std::move(left).error());
  if (*left) return removed;
  if (auto gone = remove_qdisc(ifindex); !gone) {
    return fail(on_hook(std::move(gone).error(), attachment.direction, ifindex));
  }
  removed.push_back({"qdisc", kQdisc, interface});
  return removed;
}

}  // namespace hairpin
