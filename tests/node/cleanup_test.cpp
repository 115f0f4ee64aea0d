// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// detach: removes what is ours, leaves what is not.
#include <bpf/bpf.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <linux/bpf.h>
#include <signal.h>

#include "tests/support/lab.hpp"
#include "tests/support/traffic.hpp"

namespace hairpin::test {

namespace {

/// Puts somebody else's filter on an interface that has a clsact qdisc.
void add_foreign_filter(const Node& node, const std::string& interface) {
  const bpf_insn instructions[] = {
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .src_reg = 0, .off = 0, .imm = -1},
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
  const Fd program{bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "foreign", "GPL", instructions, 2, nullptr)};
  const std::string pin = node.folder() / "bpf" / "foreign";
  REQUIRE(bpf_obj_pin(program.get(), pin.c_str()) == 0);
  node.host().sh(fmt::format("tc filter add dev {} ingress prio 7 bpf da object-pinned {}", interface, pin));
}

std::string filters(const Node& node, const std::string& interface, const std::string& direction) {
  return node.host().sh(fmt::format("tc filter show dev {} {}", interface, direction));
}

}  // namespace

TEST_SUITE_BEGIN("everywhere");

TEST_CASE("detach --all leaves nothing of ours and everything of others") {
  for (const char* hook : {"clsact", "auto"}) {
    CAPTURE(hook);
    Node node{{.hook = hook}};
    node.host().sh("tc qdisc add dev veth5 clsact");
    add_foreign_filter(node, "veth5");
    const std::string before = filters(node, "veth5", "ingress");
    const Server self{node.pod(5)};
    node.write_manifest("a.yaml", service_manifest("web", 10, {5}));
    node.start_agent();
    CHECK(ask(node.pod(5), Transport::kTcp, "10.96.0.10", 80).ok);
    node.kill_agent(SIGKILL);

    const std::string report = node.ctl("detach --all");
    CHECK_MESSAGE(report.find("0 programs, 0 pins, 0 qdiscs left") != std::string::npos, report);
    CHECK(filters(node, "veth5", "ingress") == before);
    CHECK(filters(node, "veth6", "ingress").empty());
    CHECK(node.host().sh("tc qdisc show dev veth6").find("clsact") == std::string::npos);
    CHECK(node.host().sh("tc qdisc show dev veth5").find("clsact") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(node.bpffs()));
    CHECK(node.ctl("detach --all").find("nothing to remove") != std::string::npos);
  }
}

TEST_SUITE_END();

TEST_CASE("detach --all without a bpffs, and with pins that are gone") {
  for (const char* damage : {"umount -l {0}/bpf", "rm -r {0}/bpf/hairpin", "rm {0}/bpf/hairpin/maps/hp_flows"}) {
    CAPTURE(damage);
    Node node{{.hook = "clsact"}};
    node.start_agent();
    node.kill_agent(SIGKILL);
    node.host().sh(fmt::format(fmt::runtime(damage), node.folder().string()));
    const std::string report = node.ctl("detach --all");
    CHECK_MESSAGE(report.find("0 programs, 0 pins, 0 qdiscs left") != std::string::npos, report);
    CHECK(report.find("from_pod") != std::string::npos);
    CHECK(node.host().sh("tc qdisc show").find("clsact") == std::string::npos);
  }
}

TEST_CASE("detach --all finds interfaces that were renamed or moved to another bridge") {
  Node node;
  node.start_agent();
  node.kill_agent(SIGKILL);
  node.host().sh("ip link set veth5 down && ip link set veth5 name something.5 && ip link set something.5 up");
  node.host().sh("ip link add br9 type bridge && ip link set veth6 master br9");
  const std::string report = node.ctl("detach --all");
  CHECK(report.find("something.5") != std::string::npos);
  CHECK(report.find("0 programs, 0 pins, 0 qdiscs left") != std::string::npos);
}

TEST_CASE("detach of one interface leaves the others") {
  Node node;
  const Server self{node.pod(5)};
  const Server other{node.pod(6)};
  node.write_manifest("a.yaml", service_manifest("web", 10, {5}) + service_manifest("other", 11, {6}));
  node.start_agent();
  node.kill_agent(SIGTERM);
  std::string output;
  CHECK(node.ctl("detach veth5 nosuch0", output) == 2);
  CHECK(node.ctl("status").find("veth5") != std::string::npos);
  node.ctl("detach veth5");
  CHECK(node.ctl("status").find("veth5") == std::string::npos);
  CHECK_FALSE(ask(node.pod(5), Transport::kTcp, "10.96.0.10", 80, {.limit = std::chrono::milliseconds{300}}).ok);
  CHECK(ask(node.pod(6), Transport::kTcp, "10.96.0.11", 80).ok);
}

}  // namespace hairpin::test
