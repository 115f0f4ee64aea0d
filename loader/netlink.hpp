// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <libmnl/libmnl.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "hairpin/result.hpp"

namespace hairpin::netlink {

struct SocketCloser {
  void operator()(mnl_socket* socket) const { mnl_socket_close(socket); }
};
using Socket = std::unique_ptr<mnl_socket, SocketCloser>;

/// A socket to rtnetlink in the calling thread's network namespace, subscribed to `groups` (RTMGRP_*, or-ed).
Result<Socket> open_route_socket(std::uint32_t groups = 0);

/// One message under construction: `extra` (tcmsg, ifinfomsg) follows the header, then come attributes.
class Request {
 public:
  Request(std::uint16_t type, std::uint16_t flags);

  /// The message's fixed part, zeroed. To be called once, before attributes are added.
  template <typename Extra>
  Extra& extra() {
    return *static_cast<Extra*>(mnl_nlmsg_put_extra_header(header_, sizeof(Extra)));
  }

  [[nodiscard]] nlmsghdr* header() { return header_; }

 private:
  // Everything that is sent fits: an interface name, a kind, a handful of numbers.
  alignas(nlmsghdr) std::array<std::uint8_t, 1024> buffer_{};
  nlmsghdr* header_;
};

/// Sends the request on a socket of its own and calls back for every message of the answer, until the acknowledgement
/// or the end of the dump. Error::code is the kernel's errno; `what` names the operation in it.
Result<void> talk(Request& request, const char* what, const std::function<void(const nlmsghdr&)>& on_message = {});

/// Calls back for each attribute between the message's fixed part and its end.
void for_attributes(const nlmsghdr& message, std::size_t extra_size,
                    const std::function<void(const nlattr&)>& on_attribute);

/// The same for a nested attribute's.
void for_nested(const nlattr& attribute, const std::function<void(const nlattr&)>& on_attribute);

}  // namespace hairpin::netlink
