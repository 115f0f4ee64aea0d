// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "hairpin/links.hpp"

#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <optional>

#include "loader/netlink.hpp"

namespace hairpin {

namespace {

/// Room for the events of some thousand links, so that a burst of pods is not an overrun.
constexpr int kReceiveBuffer = 4 * 1024 * 1024;

struct LinkInfo {
  std::string kind;
  std::string port_kind;  ///< what the link's master is, as far as the link has data of its own for it
};

LinkInfo read_info(const nlattr& attribute) {
  LinkInfo info;
  netlink::for_nested(attribute, [&](const nlattr& nested) {
    if (mnl_attr_get_type(&nested) == IFLA_INFO_KIND) info.kind = mnl_attr_get_str(&nested);
    if (mnl_attr_get_type(&nested) == IFLA_INFO_SLAVE_KIND) info.port_kind = mnl_attr_get_str(&nested);
  });
  return info;
}

std::optional<Link> read_link(const nlmsghdr& message) {
  const auto& header = *static_cast<const ifinfomsg*>(mnl_nlmsg_get_payload(&message));
  // Bridges and others send messages of their own family about their ports.
  if (header.ifi_family != AF_UNSPEC) return std::nullopt;
  Link link{.ifindex = static_cast<std::uint32_t>(header.ifi_index)};
  std::uint32_t master = 0;
  LinkInfo info;
  netlink::for_attributes(message, sizeof(ifinfomsg), [&](const nlattr& attribute) {
    switch (mnl_attr_get_type(&attribute)) {
      case IFLA_IFNAME:
        link.name = mnl_attr_get_str(&attribute);
        break;
      case IFLA_MASTER:
        master = mnl_attr_get_u32(&attribute);
        break;
      case IFLA_LINK_NETNSID:
        link.peer_elsewhere = true;
        break;
      case IFLA_LINKINFO:
        info = read_info(attribute);
        break;
      default:
        break;
    }
  });
  link.kind = info.kind;
  if (info.port_kind == "bridge") link.bridge = master;
  return link;
}

}  // namespace

bool is_pod(const Link& link) { return link.kind == "veth" && link.peer_elsewhere; }

Result<std::vector<Link>> list_links() {
  std::vector<Link> links;
  netlink::Request request{RTM_GETLINK, NLM_F_DUMP};
  request.extra<ifinfomsg>().ifi_family = AF_UNSPEC;
  auto listed = netlink::talk(request, "list the links", [&](const nlmsghdr& message) {
    if (message.nlmsg_type != RTM_NEWLINK) return;
    if (auto link = read_link(message)) links.push_back(std::move(*link));
  });
  if (!listed) return fail(std::move(listed).error());
  return links;
}

Result<LinkWatch> LinkWatch::create() {
  Fd watch{socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)};
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  if (!watch.valid() || bind(watch.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail(Error::system("follow the links", errno));
  }
  // Beyond the system's limit for ordinary users; without the right to it the default has to do.
  setsockopt(watch.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBuffer, sizeof kReceiveBuffer);
  return LinkWatch{std::move(watch)};
}

LinkEvents LinkWatch::drain() {
  LinkEvents result;
  alignas(nlmsghdr) std::array<std::uint8_t, 32768> buffer{};
  while (true) {
    const ssize_t length = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && errno == ENOBUFS) {
      result.overrun = true;
      continue;
    }
    if (length <= 0) return result;
    int left = static_cast<int>(length);
    for (const auto* message = reinterpret_cast<const nlmsghdr*>(buffer.data()); mnl_nlmsg_ok(message, left);
         message = mnl_nlmsg_next(message, &left)) {
      if (message->nlmsg_type != RTM_NEWLINK && message->nlmsg_type != RTM_DELLINK) continue;
      if (auto link = read_link(*message)) {
        result.events.push_back({std::move(*link), message->nlmsg_type == RTM_DELLINK});
      }
    }
  }
}

}  // namespace hairpin
