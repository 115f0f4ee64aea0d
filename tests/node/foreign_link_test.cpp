// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Somebody else's program on the same tcx hook outlives us.
#include <bpf/bpf.h>
#include <doctest/doctest.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <signal.h>

#include <array>

#include "tests/support/lab.hpp"
#include "tests/support/traffic.hpp"

namespace hairpin::test {

namespace {

/// The ids of the programs on the interface's hook, in their order.
std::array<std::uint32_t, 4> programs_on(int ifindex) {
  std::array<std::uint32_t, 4> ids{};
  struct bpf_prog_query_opts options{};
  options.sz = sizeof options;
  options.prog_ids = ids.data();
  options.prog_cnt = ids.size();
  REQUIRE(bpf_prog_query_opts(ifindex, BPF_TCX_INGRESS, &options) == 0);
  return ids;
}

}  // namespace

TEST_CASE("detach --all leaves another's tcx link as it was") {
  Node node{{.hook = "tcx", .pods = {5}}};
  const Server self{node.pod(5)};
  node.write_manifest("a.yaml", service_manifest("web", 10, {5}));
  const bpf_insn instructions[] = {
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .src_reg = 0, .off = 0, .imm = -1},
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  const Fd program{bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "from_pod", "GPL", instructions, 2, nullptr)};
  REQUIRE(program.valid());
  Fd first;
  int ifindex = 0;
  const auto link = [&] {
    ifindex = static_cast<int>(if_nametoindex("veth5"));
    return Fd{bpf_link_create(program.get(), ifindex, BPF_TCX_INGRESS, nullptr)};
  };
  node.host().run([&] { first = link(); });
  REQUIRE(first.valid());
  std::array<std::uint32_t, 4> before{};
  node.host().run([&] { before = programs_on(ifindex); });
  node.start_agent();
  CHECK(ask(node.pod(5), Transport::kTcp, "10.96.0.10", 80).ok);
  node.kill_agent(SIGKILL);
  node.ctl("detach --all");
  node.host().run([&] { CHECK(programs_on(ifindex) == before); });
  CHECK_FALSE(std::filesystem::exists(node.bpffs()));
}

}  // namespace hairpin::test
