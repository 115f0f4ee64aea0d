// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "loader/cluster/decode.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <string_view>

#include "hairpin/manifests.hpp"

using namespace hairpin;
using namespace std::string_literals;
using cluster::ObjectName;
using cluster::Snapshot;

namespace {

Snapshot decoded(std::string_view text) {
  Snapshot snapshot;
  const auto done = cluster::decode(text, "f", snapshot);
  REQUIRE_MESSAGE(done, done.error().to_string());
  return snapshot;
}

std::string error_of(std::string_view text) {
  Snapshot snapshot;
  const auto done = cluster::decode(text, "f", snapshot);
  return done ? "none" : done.error().to_string();
}

/// A Service whose spec is `spec`, in YAML's flow form, on line 2 from column 1.
std::string service(std::string_view spec) {
  return fmt::format("{{apiVersion: v1, kind: Service, metadata: {{name: web, namespace: shop}}, spec:\n{}}}", spec);
}

/// An IPv4 EndpointSlice with these further members, on line 2 from column 1.
std::string slice(std::string_view members) {
  return fmt::format(
      "{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: web-1, namespace: shop}},\n{}}}",
      members);
}

}  // namespace

TEST_CASE("single objects, Lists of all kinds and several documents are read") {
  const std::string web = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\n";
  const std::string item = "{apiVersion: v1, kind: Service, metadata: {name: api}}";
  struct {
    std::string what;
    std::string text;
    std::size_t services;
    std::size_t slices;
  } const rows[] = {
      {"nothing", "", 0, 0},
      {"white space and a comment", "\n  \n# nothing\n", 0, 0},
      {"a document mark", "---\n", 0, 0},
      {"empty documents", "---\n---\n---\n...\n---\n", 0, 0},
      {"null", "null\n", 0, 0},
      {"one object", web, 1, 0},
      {"documents", "---\n" + web + "---\n# empty\n---\n" + item + "\n...\n---\n", 2, 0},
      {"carriage returns", "apiVersion: v1\r\nkind: Service\r\nmetadata:\r\n  name: web\r\n", 1, 0},
      {"a byte order mark", "\xef\xbb\xbf" + web, 1, 0},
      {"List", "apiVersion: v1\nkind: List\nitems:\n- " + item + "\n- {apiVersion: v1, kind: Pod}\n", 1, 0},
      {"empty List", "apiVersion: v1\nkind: List\nitems: []\n", 0, 0},
      {"null List", "apiVersion: v1\nkind: List\nitems: null\n", 0, 0},
      {"List without items", "apiVersion: v1\nkind: List\n", 0, 0},
      {"List in a List", "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List, items: [" + item + "]}]\n",
       1, 0},
      {"ServiceList", "apiVersion: v1\nkind: ServiceList\nitems: [{metadata: {name: a}}, {metadata: {name: b}}]\n", 2,
       0},
      {"EndpointSliceList",
       "apiVersion: discovery.k8s.io/v1\nkind: EndpointSliceList\nitems: [{metadata: {name: a.b}, addressType: "
       "IPv6}]\n",
       0, 1},
      {"other kinds", "{apiVersion: v1, kind: Pod, spec: 7}\n---\n{apiVersion: apps/v1, kind: DaemonSet}\n", 0, 0},
      {"someone else's Service", "{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: web}}", 0, 0},
      {"PodList", "{apiVersion: v1, kind: PodList, items: [{metadata: {}}]}", 0, 0},
      {"JSON", R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"web"}})", 1, 0},
      {"JSON with tabs",
       "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Service\",\n\t\"metadata\": {\n\t\t\"name\": \"web\"\n\t}\n}\n", 1,
       0},
      {"JSON after JSON",
       "{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}\n{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":"
       "\"web\"}}\n",
       1, 0},
      {"an anchor and its alias",
       "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Service, metadata: &m {name: a}}, "
       "{apiVersion: v1, kind: Service, metadata: *m}]",
       1, 0},
  };
  for (const auto& row : rows) {
    CAPTURE(row.what);
    const Snapshot snapshot = decoded(row.text);
    CHECK(snapshot.services.size() == row.services);
    CHECK(snapshot.slices.size() == row.slices);
  }
}

TEST_CASE("a Service is read as the API means it") {
  const Snapshot snapshot = decoded(R"(
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: shop
  creationTimestamp: null
  labels: {app: web, empty: ""}
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: |
      {"kind":"Service","spec":{"ports":[{"port":99999}]}}
  managedFields:
  - fieldsV1:
      f:spec:
        f:ports:
          k:{"port":80,"protocol":"TCP"}:
            .: {}
            f:port: {}
          v:"10.0.0.1": {}
spec:
  clusterIP: 10.96.0.1
  clusterIPs: [10.96.0.1, "fd00::1"]
  publishNotReadyAddresses: true
  type: NodePort
  ports:
  - {name: http, port: 80, protocol: TCP, targetPort: http, nodePort: 30080}
  - {name: dns, port: 53, protocol: UDP}
  - {name: "7", port: 7}
status: {loadBalancer: {}}
)");
  const cluster::Service& service = snapshot.services.at({"shop", "web"});
  CHECK(service.type == "NodePort");
  CHECK(service.publish_not_ready_addresses);
  CHECK(service.cluster_ips == std::vector<std::string>{"10.96.0.1", "fd00::1"});
  CHECK(service.labels == std::map<std::string, std::string>{{"app", "web"}, {"empty", ""}});
  CHECK(service.annotations.size() == 1);
  REQUIRE(service.ports.size() == 3);
  CHECK(service.ports[0].name == "http");
  CHECK(service.ports[0].port == 80);
  CHECK(service.ports[1].protocol == "UDP");
  CHECK(service.ports[2].name == "7");
  CHECK(service.ports[2].protocol == "TCP");
}

TEST_CASE("what a Service leaves out or has null is the API's default") {
  for (const std::string spec :
       {"{}", "null", "{type: null, clusterIP: null, clusterIPs: null, ports: null, publishNotReadyAddresses: null}",
        "{clusterIP: \"\", clusterIPs: [], ports: []}"}) {
    CAPTURE(spec);
    const Snapshot snapshot = decoded(service(spec));
    const cluster::Service& made = snapshot.services.at({"shop", "web"});
    CHECK(made.type == "ClusterIP");
    CHECK_FALSE(made.publish_not_ready_addresses);
    CHECK(made.cluster_ips.empty());
    CHECK(made.ports.empty());
  }
  CHECK(decoded(service("{clusterIP: 10.96.0.1}")).services.begin()->second.cluster_ips ==
        std::vector<std::string>{"10.96.0.1"});
  CHECK(decoded("{apiVersion: v1, kind: Service, metadata: {name: web}}").services.contains({"default", "web"}));
}

TEST_CASE("an EndpointSlice is read as the API means it") {
  const Snapshot snapshot = decoded(R"(
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-abc.1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv6
endpoints:
- {addresses: ["fd00::1", "fd00::2"], nodeName: node-a, conditions: {ready: true, serving: false, terminating: null}}
- {addresses: ["fd00::3"], conditions: null}
- {addresses: ["fd00::4"]}
ports:
- {name: http, port: 8080, protocol: TCP}
- {name: null, port: null, protocol: null}
)");
  const cluster::EndpointSlice& made = snapshot.slices.at({"shop", "web-abc.1"});
  CHECK(made.service == "web");
  CHECK(made.address_type == "IPv6");
  REQUIRE(made.endpoints.size() == 3);
  CHECK(made.endpoints[0].addresses == std::vector<std::string>{"fd00::1", "fd00::2"});
  CHECK(made.endpoints[0].node_name == "node-a");
  CHECK(made.endpoints[0].conditions.ready == true);
  CHECK(made.endpoints[0].conditions.serving == false);
  CHECK_FALSE(made.endpoints[0].conditions.terminating.has_value());
  CHECK_FALSE(made.endpoints[1].conditions.ready.has_value());
  REQUIRE(made.ports.size() == 2);
  CHECK(made.ports[0].port == 8080);
  CHECK_FALSE(made.ports[1].port.has_value());
  CHECK(made.ports[1].protocol == "TCP");

  const Snapshot empty = decoded(slice("addressType: IPv4, endpoints: null, ports: null"));
  CHECK(empty.slices.begin()->second.endpoints.empty());
  CHECK(decoded(slice("addressType: FQDN, endpoints: [{addresses: [example.org]}]")).slices.size() == 1);
}

TEST_CASE("the later of two objects of one name holds") {
  const Snapshot snapshot = decoded(service("{type: NodePort}") + "\n---\n" + service("{type: LoadBalancer}"));
  REQUIRE(snapshot.services.size() == 1);
  CHECK(snapshot.services.begin()->second.type == "LoadBalancer");
}

TEST_CASE("JSON's escapes are read") {
  const Snapshot snapshot = decoded(
      R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"web","annotations":{)"
      R"("a":"\u003c\u0026\u003e \/ \" \\ \b\f\n\r\t \u00e9","b":"\ud83d\ude00 \\ud83d","c":"\\\ud83d\ude00"}}})");
  const auto& annotations = snapshot.services.begin()->second.annotations;
  CHECK(annotations.at("a") == "<&> / \" \\ \b\f\n\r\t \u00e9");
  CHECK(annotations.at("b") == "\U0001f600 \\ud83d");
  CHECK(annotations.at("c") == "\\\U0001f600");
}

TEST_CASE("what is wrong is told with its place, the object and what is allowed") {
  struct {
    std::string text;
    std::string error;
  } const rows[] = {
      {service("{ports: [{port: 70000}]}"),
       "f:2:17: Service shop/web: port is \"70000\", allowed are whole numbers from 1 to 65535"},
      {service("{ports: [{port: 0}]}"),
       "f:2:17: Service shop/web: port is \"0\", allowed are whole numbers from 1 to 65535"},
      {service("{ports: [{port: -1}]}"),
       "f:2:17: Service shop/web: port is \"-1\", allowed are whole numbers from 1 to 65535"},
      {service("{ports: [{port: 80.5}]}"),
       "f:2:17: Service shop/web: port is \"80.5\", allowed are whole numbers from 1 to 65535"},
      {service("{ports: [{port: \"80\"}]}"),
       "f:2:17: Service shop/web: port is the text \"80\", allowed are whole numbers from 1 to 65535"},
      {service("{ports: [{port: [80]}]}"),
       "f:2:17: Service shop/web: port is a list, allowed are whole numbers from 1 to 65535"},
      {service("{ports: [{name: x}]}"),
       "f:2:10: Service shop/web: port is missing, allowed are whole numbers from 1 to 65535"},
      {service("{ports: [{port: 80, protocol: FOO}]}"),
       "f:2:31: Service shop/web: protocol is \"FOO\", allowed are TCP, UDP and SCTP"},
      {service("{ports: [{port: 80}, {port: 81}]}"),
       "f:2:22: Service shop/web: two ports have the name \"\", allowed are names of their own"},
      {service("{ports: {port: 80}}"), "f:2:9: Service shop/web: ports is a map, allowed is a list"},
      {service("{ports: [80]}"), "f:2:10: Service shop/web: an element of ports is \"80\", allowed is a map"},
      {service("{ports: [null]}"), "f:2:10: Service shop/web: an element of ports is empty, allowed is a map"},
      {service("{type: Cluster}"),
       "f:2:8: Service shop/web: type is \"Cluster\", allowed are ClusterIP, NodePort, LoadBalancer and ExternalName"},
      {service("{clusterIPs: [10.96.0.1, 10.96.0.300]}"),
       "f:2:26: Service shop/web: cluster IP is \"10.96.0.300\", allowed are an IPv4 address, an IPv6 address and "
       "None"},
      {service("{clusterIP: nowhere}"),
       "f:2:13: Service shop/web: cluster IP is \"nowhere\", allowed are an IPv4 address, an IPv6 address and None"},
      {service("{clusterIPs: [{}]}"), "f:2:15: Service shop/web: an element of clusterIPs is a map, allowed is text"},
      {service("{publishNotReadyAddresses: \"true\"}"),
       "f:2:28: Service shop/web: publishNotReadyAddresses is the text \"true\", allowed are true and false"},
      {service("{publishNotReadyAddresses: maybe}"),
       "f:2:28: Service shop/web: publishNotReadyAddresses is \"maybe\", allowed are true and false"},
      {service("{type: NodePort, ports: [], type: ClusterIP}"),
       "f:2:29: Service shop/web: key \"type\" is there twice, allowed is once"},
      {service("[]"), "f:2:1: Service shop/web: spec is a list, allowed is a map"},
      {slice("addressType: IPv4, ports: [{port: 65536}]"),
       "f:2:35: EndpointSlice shop/web-1: port is \"65536\", allowed are whole numbers from 1 to 65535"},
      {slice("addressType: IPv4, ports: [{port: 80, protocol: tcp}]"),
       "f:2:49: EndpointSlice shop/web-1: protocol is \"tcp\", allowed are TCP, UDP and SCTP"},
      {slice("addressType: IPv4, endpoints: [{addresses: [10.0.0.1.1]}]"),
       "f:2:45: EndpointSlice shop/web-1: endpoint address is \"10.0.0.1.1\", allowed is an IPv4 address as "
       "addressType "
       "says"},
      {slice("addressType: IPv4, endpoints: [{addresses: [\"fd00::1\"]}]"),
       "f:2:45: EndpointSlice shop/web-1: endpoint address is \"fd00::1\", allowed is an IPv4 address as addressType "
       "says"},
      {slice("addressType: IPv6, endpoints: [{addresses: [10.0.0.1]}]"),
       "f:2:45: EndpointSlice shop/web-1: endpoint address is \"10.0.0.1\", allowed is an IPv6 address as addressType "
       "says"},
      {slice("addressType: IPv4, endpoints: [{addresses: []}]"),
       "f:2:44: EndpointSlice shop/web-1: an endpoint has no address, allowed is one at least"},
      {slice("addressType: IPv4, endpoints: [{}]"),
       "f:2:32: EndpointSlice shop/web-1: an endpoint has no address, allowed is one at least"},
      {slice("addressType: IPv4, endpoints: [{addresses: [10.0.0.1], conditions: {ready: 1}}]"),
       "f:2:76: EndpointSlice shop/web-1: ready is \"1\", allowed are true and false"},
      {slice("endpoints: []"),
       "f:1:1: EndpointSlice shop/web-1: addressType is missing, allowed are IPv4, IPv6 and FQDN"},
      {slice("addressType: IPv5"),
       "f:2:14: EndpointSlice shop/web-1: addressType is \"IPv5\", allowed are IPv4, IPv6 and FQDN"},
      {"apiVersion: v1\nkind: Service\nmetadata: {}\n", "f:3:11: Service: metadata.name is missing, allowed is a name"},
      {"apiVersion: v1\nkind: Service\n", "f:1:1: Service: metadata.name is missing, allowed is a name"},
      {"apiVersion: v1\nkind: Service\nmetadata: {name: Web}\n",
       "f:3:18: Service: metadata.name is \"Web\", allowed are 1 to 63 of the characters a-z, 0-9 and -"},
      {"apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: ../x}\n",
       "f:3:32: Service: metadata.namespace is \"../x\", allowed are 1 to 63 of the characters a-z, 0-9 and -"},
      {"a: b\n", "f:1:1: kind is missing, allowed is a Kubernetes object with apiVersion and kind"},
      {"kind: Service\n",
       "f:1:1: apiVersion is missing in the object of kind \"Service\", allowed is a Kubernetes object with apiVersion "
       "and "
       "kind"},
      {"just text\n", "f:1:1: document is \"just text\", allowed is a map"},
      {"- a\n", "f:1:1: document is a list, allowed is a map"},
      {"apiVersion: v1\nkind: List\nitems: {}\n", "f:3:8: items is a map, allowed is a list"},
      {"apiVersion: v1\nkind: List\nitems: [1]\n", "f:3:9: an element of items is \"1\", allowed is a map"},
      {"{\"a\": 1", "f:1:8: not valid YAML: end of map flow not found"},
      {"a: b: c\n", "f:1:5: not valid YAML: illegal map value"},
      {"a: 1\n b: 2\n", "f:2:3: not valid YAML: illegal map value"},
      {"[a]: 1\n", "f:1:1: not valid YAML: a key is not plain text"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK(error_of(row.text) == row.error);
  }
}

TEST_CASE("absurd input is refused or read, in good time and without a crash") {
  const auto repeat = [](std::string_view text, std::size_t times) {
    std::string all;
    for (std::size_t i = 0; i < times; ++i) all += text;
    return all;
  };
  std::string binary;
  for (int i = 0; i < 4096; ++i) binary += static_cast<char>(i * 7919 % 251 + 1);
  std::string deep_blocks;
  for (std::size_t i = 0; i < 2000; ++i) deep_blocks += repeat(" ", i) + "a:\n";
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    laughs += fmt::format("a{}: &a{} [{}]\n", i, i, repeat(fmt::format("*a{}, ", i - 1), 10));
  }
  struct {
    std::string what;
    std::string text;
    std::string error;
  } const rows[] = {
      {"a zero byte", "kind: x\n\0y"s, "f:2:1: a zero byte, allowed is text in UTF-8"},
      {"an ELF header",
       "\x7f"
       "ELF\x02\x01\x01\0\0\0"s,
       "f:1:8: a zero byte, allowed is text in UTF-8"},
      {"binary", binary, "f:"},
      {"deep lists", repeat("[", 100000), "f:1:51: not valid YAML: nested more than 100 levels deep"},
      {"deep maps", repeat("{a: ", 100000), "f:"},
      {"deep block lists", repeat("- ", 100000), "f:1:201: not valid YAML: nested more than 100 levels deep"},
      {"deep blocks", deep_blocks, "f:101:101: not valid YAML: nested more than 100 levels deep"},
      {"deep keys", repeat("? ", 100000), "f:1:201: not valid YAML: nested more than 100 levels deep"},
      {"a stray brace", "{}}", "f:1:3: not valid YAML: illegal flow end"},
      {"a stray brace after an object", "{apiVersion: v1, kind: Pod}}", "f:1:28: not valid YAML: illegal flow end"},
      {"a stray comma", ",", "f:1:1: not valid YAML: unexpected text"},
      {"a stray bracket", "kind: x\n]\n", "f:"},
      {"aliases of aliases", laughs, "f:"},
      {"an alias to itself", "&a [*a]\n", "f:1:5: not valid YAML: an alias inside of what it stands for"},
      {"an unknown alias", "*a\n", "f:1:"},
      {"a lone surrogate", R"({"a":"\ud83d"})", "f:"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.what);
    const auto start = std::chrono::steady_clock::now();
    const std::string error = error_of(row.text);
    CHECK(error.substr(0, row.error.size()) == row.error);
    CHECK(error.find('\n') == std::string::npos);
    CHECK(error.size() < 500);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds{20});
  }
}

TEST_CASE("a text of five megabytes is read, and is not repeated in an error") {
  const std::string big(5000000, 'x');
  CHECK(decoded("{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {a: \"" + big + "\"}}}")
            .services.begin()
            ->second.annotations.at("a")
            .size() == big.size());
  CHECK(error_of(service("{type: " + big + "}")).size() < 300);
  CHECK(error_of("{apiVersion: v1, kind: Service, metadata: {name: \"" + big + "\"}}").size() < 300);
}

TEST_CASE("many objects are read in a time that grows with their number") {
  std::string text = R"({"apiVersion":"v1","kind":"List","items":[)";
  for (int i = 0; i < 5000; ++i) {
    text += fmt::format(
        R"({}{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"s{}"}},"spec":{{"ports":[{{"port":80}}]}}}})",
        i == 0 ? "" : ",", i);
  }
  text += "]}";
  const auto start = std::chrono::steady_clock::now();
  CHECK(decoded(text).services.size() == 5000);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds{20});
}
