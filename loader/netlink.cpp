// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "loader/netlink.hpp"

#include <linux/rtnetlink.h>

#include <cerrno>
#include <vector>

namespace hairpin::netlink {

namespace {

constexpr std::size_t kReceiveSize = 32768;  // what the kernel fills a dump's buffers with at most

int forward(const nlmsghdr* message, void* data) {
  const auto& on_message = *static_cast<const std::function<void(const nlmsghdr&)>*>(data);
  if (on_message) on_message(*message);
  return MNL_CB_OK;
}

int forward_attribute(const nlattr* attribute, void* data) {
  (*static_cast<const std::function<void(const nlattr&)>*>(data))(*attribute);
  return MNL_CB_OK;
}

void* pass(const std::function<void(const nlattr&)>& function) {
  return const_cast<std::function<void(const nlattr&)>*>(&function);
}

}  // namespace

Result<Socket> open_route_socket(std::uint32_t groups) {
  Socket socket{mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC)};
  if (!socket || mnl_socket_bind(socket.get(), groups, MNL_SOCKET_AUTOPID) != 0) {
    return fail(Error::system("open a netlink socket", errno));
  }
  return socket;
}

Request::Request(std::uint16_t type, std::uint16_t flags) : header_{mnl_nlmsg_put_header(buffer_.data())} {
  header_->nlmsg_type = type;
  header_->nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
  header_->nlmsg_seq = 1;  // one request a socket
}

Result<void> talk(Request& request, const char* what, const std::function<void(const nlmsghdr&)>& on_message) {
  auto socket = open_route_socket();
  if (!socket) return fail(std::move(socket).error());
  nlmsghdr* header = request.header();
  if ((header->nlmsg_flags & NLM_F_DUMP) != NLM_F_DUMP) header->nlmsg_flags |= NLM_F_ACK;
  if (mnl_socket_sendto(socket->get(), header, header->nlmsg_len) < 0) return fail(Error::system(what, errno));

  std::vector<std::uint8_t> buffer(kReceiveSize);
  const unsigned int port = mnl_socket_get_portid(socket->get());
  int more = MNL_CB_OK;
  while (more > MNL_CB_STOP) {
    const ssize_t length = mnl_socket_recvfrom(socket->get(), buffer.data(), buffer.size());
    if (length < 0) return fail(Error::system(what, errno));
    more = mnl_cb_run(buffer.data(), static_cast<std::size_t>(length), header->nlmsg_seq, port, forward,
                      const_cast<std::function<void(const nlmsghdr&)>*>(&on_message));
    if (more == MNL_CB_ERROR) return fail(Error::system(what, errno));
  }
  return {};
}

void for_attributes(const nlmsghdr& message, std::size_t extra_size,
                    const std::function<void(const nlattr&)>& on_attribute) {
  mnl_attr_parse(&message, static_cast<unsigned int>(extra_size), forward_attribute, pass(on_attribute));
}

void for_nested(const nlattr& attribute, const std::function<void(const nlattr&)>& on_attribute) {
  mnl_attr_parse_nested(&attribute, forward_attribute, pass(on_attribute));
}

}  // namespace hairpin::netlink
