// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
//
// Links by rtnetlink: what is a pod's, and following them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "hairpin/links.hpp"
#include "tests/support/lab.hpp"

namespace hairpin::test {

namespace {

Link find(const std::vector<Link>& links, const std::string& name) {
  const auto found = std::ranges::find(links, name, &Link::name);
  REQUIRE(found != links.end());
  return *found;
}

}  // namespace

TEST_SUITE_BEGIN("everywhere");

TEST_CASE("a pod's link is a veth whose other end is in another namespace") {
  Node node{{.pods = {5}}};
  node.host().sh("ip link add vetha type veth peer name vethb && ip link add d0 type bridge");
  node.host().run([&] {
    const auto links = list_links();
    REQUIRE(links);
    CHECK(is_pod(find(*links, "veth5")));
    CHECK(find(*links, "veth5").bridge == find(*links, "cni0").ifindex);
    CHECK_FALSE(is_pod(find(*links, "vetha")));
    CHECK_FALSE(is_pod(find(*links, "d0")));
    CHECK_FALSE(is_pod(find(*links, "cni0")));
    CHECK(find(*links, "d0").kind == "bridge");
    CHECK(find(*links, "vetha").bridge == 0);
  });
}

TEST_CASE("links are followed: new, renamed, enslaved, gone, two hundred at once") {
  const Node node{{.pods = {}}};
  const Namespace pods;
  node.host().run([&] {
    auto watch = LinkWatch::create();
    REQUIRE(watch);
    std::vector<LinkEvent> events;
    const auto saw = [&](const std::function<bool(const LinkEvent&)>& wanted) {
      return eventually([&] {
        auto more = watch->drain();
        CHECK_FALSE(more.overrun);
        std::ranges::move(more.events, std::back_inserter(events));
        return std::ranges::any_of(events, wanted);
      });
    };
    node.host().sh("ip link add v1 type veth peer name eth0 netns " + pods.path());
    CHECK(saw([](const LinkEvent& event) { return event.link.name == "v1" && is_pod(event.link); }));
    node.host().sh("ip link set v1 name v2");
    CHECK(saw([](const LinkEvent& event) { return event.link.name == "v2" && !event.removed; }));
    node.host().sh("ip link set v2 master cni0");
    CHECK(saw([](const LinkEvent& event) { return event.link.name == "v2" && event.link.bridge != 0; }));
    node.host().sh("ip link del v2");
    CHECK(saw([](const LinkEvent& event) { return event.link.name == "v2" && event.removed; }));
    events.clear();
    std::string batch;
    for (int i = 0; i < 200; ++i)
      batch += fmt::format("link add w{0} type veth peer name e{0} netns {1}\n", i, pods.path());
    node.host().sh("ip -batch - <<'END'\n" + batch + "END");
    CHECK(saw([](const LinkEvent& event) { return event.link.name == "w199"; }));
    CHECK(std::ranges::count_if(events, [](const LinkEvent& event) { return is_pod(event.link); }) >= 200);
  });
}

TEST_SUITE_END();

}  // namespace hairpin::test
