// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// The two hooks by themselves, beside other people's programs.
#include <bpf/bpf.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <net/if.h>

#include <algorithm>

#include "hairpin/dataplane.hpp"
#include "hairpin/hook.hpp"
#include "loader/identity.hpp"
#include "tests/support/lab.hpp"

namespace hairpin::test {

namespace {

/// Somebody else's program: lets the next one run.
Fd foreign_program(const char* name) {
  const bpf_insn instructions[] = {
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .src_reg = 0, .off = 0, .imm = -1},
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  return Fd{bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, name, "GPL", instructions, 2, nullptr)};
}

std::uint32_t id_of(int program) {
  bpf_prog_info info{};
  std::uint32_t size = sizeof info;
  return bpf_prog_get_info_by_fd(program, &info, &size) == 0 ? info.id : 0;
}

std::size_t count_ours(const Hook& hook, std::uint32_t ifindex) {
  const auto attachments = hook.list(ifindex);
  REQUIRE(attachments);
  return static_cast<std::size_t>(
      std::ranges::count_if(*attachments, [](const Attachment& each) { return is_ours(each.program_id); }));
}

void check_hook(HookChoice choice) {
  Node node{{.pods = {5}}};
  node.host().run([&] {
    auto dataplane =
        Dataplane::load({.bpffs = node.bpffs(), .limits = {.flows = 16384, .services = 16, .backends = 16}});
    REQUIRE_MESSAGE(dataplane, dataplane.error().to_string());
    const auto hook = make_hook(choice);
    const auto ifindex = if_nametoindex("veth5");
    const auto pin = node.bpffs() / "links" / "x";
    const auto attach = [&] {
      const auto attached = hook->attach(ifindex, Direction::kIngress, dataplane->program(Direction::kIngress), pin);
      REQUIRE_MESSAGE(attached, attached.error().to_string());
    };
    // A program with our name but none of our maps, before ours, and one after.
    const Fd before = foreign_program("from_pod");
    REQUIRE(before.valid());
    CHECK_FALSE(is_ours(id_of(before.get())));
    Fd before_link;
    if (choice == HookChoice::kTcx) {
      before_link = Fd{bpf_link_create(before.get(), static_cast<int>(ifindex), BPF_TCX_INGRESS, nullptr)};
      REQUIRE(before_link.valid());
    }
    attach();
    CHECK(count_ours(*hook, ifindex) == 1);
    attach();
    CHECK(count_ours(*hook, ifindex) == 1);

    // A newer program takes the place of the older, beside nobody.
    auto newer = Dataplane::load({.bpffs = node.bpffs(), .limits = {.flows = 16384, .services = 16, .backends = 16}});
    REQUIRE(newer);
    REQUIRE(hook->attach(ifindex, Direction::kIngress, newer->program(Direction::kIngress), pin));
    CHECK(count_ours(*hook, ifindex) == 1);
    const auto attachments = hook->list(ifindex);
    const auto ours =
        std::ranges::find_if(*attachments, [](const Attachment& each) { return is_ours(each.program_id); });
    CHECK(ours->program_id == newer->program_id(Direction::kIngress));

    const auto removed = hook->detach(ifindex, "veth5", *ours);
    REQUIRE_MESSAGE(removed, removed.error().to_string());
    CHECK(removed->front().kind == "program");
    CHECK(count_ours(*hook, ifindex) == 0);
    CHECK(hook->list(ifindex)->size() == (before_link.valid() ? 1 : 0));
    // Once more: it is gone already, which is no failure.
    CHECK(hook->detach(ifindex, "veth5", *ours)->empty());
  });
}

}  // namespace

TEST_CASE("tcx: attach, again, replace, detach") { check_hook(HookChoice::kTcx); }

TEST_SUITE_BEGIN("everywhere");
TEST_CASE("clsact: attach, again, replace, detach") { check_hook(HookChoice::kClsact); }
TEST_SUITE_END();

TEST_CASE("attaching to an interface that has gone is ENODEV") {
  Node node{{.pods = {5}}};
  node.host().run([&] {
    auto dataplane =
        Dataplane::load({.bpffs = node.bpffs(), .limits = {.flows = 16384, .services = 16, .backends = 16}});
    REQUIRE(dataplane);
    for (const auto& hook : all_hooks()) {
      const auto attached = hook->attach(9999, Direction::kIngress, dataplane->program(Direction::kIngress),
                                         node.bpffs() / "links" / "x");
      REQUIRE_FALSE(attached);
      CHECK(attached.error().code == ENODEV);
    }
  });
}

}  // namespace hairpin::test
