// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "loader/hooks/tcx.hpp"

#include <bpf/bpf.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "hairpin/fd.hpp"
#include "loader/identity.hpp"

namespace hairpin {

namespace {

bpf_attach_type attach_type(Direction direction) {
  return direction == Direction::kIngress ? BPF_TCX_INGRESS : BPF_TCX_EGRESS;
}

std::string hook_name(Direction direction, std::uint32_t ifindex) {
  return std::string{"tcx "} + to_string(direction) + " of interface " + std::to_string(ifindex);
}

/// What a kernel without tcx, or one built without it, answers.
bool unsupported(int error) { return error == EINVAL || error == EOPNOTSUPP; }

Result<std::vector<Attachment>> list_direction(std::uint32_t ifindex, Direction direction) {
  // Sixty-four is the kernel's own limit for one hook (BPF_MPROG_MAX, include/linux/bpf_mprog.h).
  std::array<std::uint32_t, 64> programs{};
  std::array<std::uint32_t, 64> links{};
  LIBBPF_OPTS(bpf_prog_query_opts, options);
  options.prog_ids = programs.data();
  options.link_ids = links.data();
  options.count = static_cast<std::uint32_t>(programs.size());
  if (bpf_prog_query_opts(static_cast<int>(ifindex), attach_type(direction), &options) != 0) {
    const int error = errno;
    // A kernel without the hook, and one where nothing was ever on it, or an interface that has gone.
    if (unsupported(error) || error == ENOENT || error == ENODEV) return std::vector<Attachment>{};
    return fail(Error::system("list " + hook_name(direction, ifindex), error));
  }
  std::vector<Attachment> attachments;
  attachments.reserve(options.count);
  for (std::uint32_t i = 0; i < options.count; ++i) {
    attachments.push_back(
        {.kind = HookKind::kTcx, .direction = direction, .program_id = programs.at(i), .link_id = links.at(i)});
  }
  return attachments;
}

Result<std::optional<Attachment>> find_ours(std::uint32_t ifindex, Direction direction) {
  auto attachments = list_direction(ifindex, direction);
  if (!attachments) return fail(std::move(attachments).error());
  for (const auto& attachment : *attachments) {
    if (is_ours(attachment.program_id)) return attachment;
  }
  return std::nullopt;
}

Result<void> pin_link(const Fd& link, const std::filesystem::path& pin) {
  std::error_code ignored;
  std::filesystem::remove(pin, ignored);  // of an earlier interface with this index
  if (bpf_obj_pin(link.get(), pin.c_str()) != 0) return fail(Error::system("pin link to " + pin.string(), errno));
  return {};
}

bool pinned_here(std::uint32_t link_id, const std::filesystem::path& pin) {
  const Fd link{bpf_obj_get(pin.c_str())};
  if (!link.valid()) return false;
  bpf_link_info info{};
  std::uint32_t size = sizeof info;
  return bpf_link_get_info_by_fd(link.get(), &info, &size) == 0 && info.id == link_id;
}

}  // namespace

Result<std::vector<Attachment>> TcxHook::list(std::uint32_t ifindex) const {
  auto ingress = list_direction(ifindex, Direction::kIngress);
  if (!ingress) return ingress;
  auto egress = list_direction(ifindex, Direction::kEgress);
  if (!egress) return egress;
  ingress->insert(ingress->end(), egress->begin(), egress->end());
  return ingress;
}

Result<void> TcxHook::attach(std::uint32_t ifindex, Direction direction, int program,
                             const std::filesystem::path& pin) const {
  auto existing = find_ours(ifindex, direction);
  if (!existing) return fail(std::move(existing).error());
  if (*existing) {
    const Fd link{bpf_link_get_fd_by_id((*existing)->link_id)};
    if (!link.valid() || bpf_link_update(link.get(), program, nullptr) != 0) {
      return fail(Error::system("replace our program on " + hook_name(direction, ifindex), errno));
    }
    return pinned_here((*existing)->link_id, pin) ? Result<void>{} : pin_link(link, pin);
  }
  LIBBPF_OPTS(bpf_link_create_opts, options);
  const Fd link{bpf_link_create(program, static_cast<int>(ifindex), attach_type(direction), &options)};
  if (!link.valid()) {
    const int error = errno;
    return fail(Error::system("attach to " + hook_name(direction, ifindex), error,
                              unsupported(error) ? "this kernel has no tcx: set hook: clsact" : ""));
  }
  return pin_link(link, pin);
}

Result<std::vector<Removed>> TcxHook::detach(std::uint32_t ifindex, const std::string& interface,
                                             const Attachment& attachment) const {
  // A pin keeps a link that was detached before; the hook knows better.
  auto attachments = list_direction(ifindex, attachment.direction);
  if (!attachments) return fail(std::move(attachments).error());
  if (std::ranges::find(*attachments, attachment.link_id, &Attachment::link_id) == attachments->end()) {
    return std::vector<Removed>{};
  }
  const std::string name = program_name(attachment.program_id);
  const std::string where = interface + " tcx " + to_string(attachment.direction);
  const Fd link{bpf_link_get_fd_by_id(attachment.link_id)};
  if (!link.valid()) {
    return fail(Error::system("open the link of " + name + " on " + where, errno));
  }
  if (bpf_link_detach(link.get()) != 0) return fail(Error::system("detach " + name + " from " + where, errno));
  return std::vector<Removed>{{"program", name, where}};
}

bool tcx_supported() {
  constexpr int kLoopback = 1;  // has this index in every network namespace
  LIBBPF_OPTS(bpf_prog_query_opts, options);
  return bpf_prog_query_opts(kLoopback, BPF_TCX_INGRESS, &options) == 0 || !unsupported(errno);
}

}  // namespace hairpin
