// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "loader/cluster/decode.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace hairpin::cluster {

namespace {

using namespace std::string_view_literals;
using yaml::Node;
using yaml::quote;
using yaml::Reader;

constexpr std::uint64_t kMostPort = 65535;
constexpr std::array kProtocols{"TCP"sv, "UDP"sv, "SCTP"sv};
constexpr std::array kServiceTypes{"ClusterIP"sv, "NodePort"sv, "LoadBalancer"sv, "ExternalName"sv};
constexpr std::array kAddressTypes{"IPv4"sv, "IPv6"sv, "FQDN"sv};

/// Kubernetes' names become keys, file names and terminal output: nothing but what its API lets through.
bool is_name(std::string_view name, std::size_t longest, bool dots) {
  const auto fits = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || (c == '.' && dots);
  };
  return !name.empty() && name.size() <= longest && std::ranges::all_of(name, fits);
}

const yaml::Position& position_of(const Node& parent, std::string_view key) {
  const Node* const node = parent.find(key);
  return node == nullptr ? parent.position : node->position;
}

class Decoder {
 public:
  Decoder(const std::string& file, Snapshot& into) : reader_{file}, into_{into} {}

  Result<void> run(const Node& root) {
    read_document(root);
    if (!reader_.ok()) return hairpin::fail(reader_.error());
    return {};
  }

 private:
  void read_document(const Node& root) {
    if (root.kind == Node::Kind::kNull || !reader_.is_map(root, "document")) return;
    read_object(root, {}, {});
  }

  /// `kind` and `version` are what the List says its items are, which then need not say it themselves.
  void read_object(const Node& object, const std::string& list_kind, const std::string& list_version) {
    reader_.set_object({});
    const std::string kind = reader_.text(&object, "kind").value_or(list_kind);
    const std::string version = reader_.text(&object, "apiVersion").value_or(list_version);
    if (kind.empty()) {
      reader_.fail(object.position, "kind is missing, allowed is a Kubernetes object with apiVersion and kind");
    } else if (version == "v1" && kind == "List") {
      read_items(object, {}, {});
    } else if (version == "v1" && kind == "ServiceList") {
      read_items(object, "Service", version);
    } else if (version == "v1" && kind == "Service") {
      read_service(object);
    } else if (version == "discovery.k8s.io/v1" && kind == "EndpointSliceList") {
      read_items(object, "EndpointSlice", version);
    } else if (version == "discovery.k8s.io/v1" && kind == "EndpointSlice") {
      read_slice(object);
    } else if (version.empty()) {
      reader_.fail(object.position,
                   fmt::format("apiVersion is missing in the object of kind {}, allowed is a Kubernetes "
                               "object with apiVersion and kind",
                               quote(kind)));
    }
  }

  void read_items(const Node& list, const std::string& kind, const std::string& version) {
    for (const Node& item : reader_.list(&list, "items")) {
      if (!reader_.ok() || !reader_.is_map(item, "an element of items")) return;
      read_object(item, kind, version);
    }
  }

  /// Reads metadata.name and metadata.namespace, and names the object in errors from here on.
  ObjectName read_name(const Node& object, std::string_view kind, std::size_t longest, bool dots) {
    reader_.set_object(std::string{kind});
    const Node* const metadata = reader_.map(&object, "metadata");
    ObjectName name;
    name.name = reader_.text(metadata, "name").value_or("");
    name.space = reader_.text(metadata, "namespace").value_or("default");
    if (!reader_.ok()) return name;
    const Node& parent = metadata == nullptr ? object : *metadata;
    if (name.name.empty()) {
      reader_.fail(parent.position, "metadata.name is missing, allowed is a name");
    } else if (!is_name(name.name, longest, dots)) {
      refuse_name(position_of(parent, "name"), "metadata.name", name.name, longest, dots);
    } else if (!is_name(name.space, 63, false)) {
      refuse_name(position_of(parent, "namespace"), "metadata.namespace", name.space, 63, false);
    }
    reader_.set_object(fmt::format("{} {}", kind, name.to_string()));
    reader_.refuse_duplicates(object);
    return name;
  }

  void refuse_name(const yaml::Position& position, std::string_view what, std::string_view name, std::size_t longest,
                   bool dots) {
    reader_.fail(position, fmt::format("{} is {}, allowed are 1 to {} of the characters a-z, 0-9{} and -", what,
                                       quote(name), longest, dots ? ", ." : ""));
  }

  std::map<std::string, std::string> read_texts(const Node* metadata, std::string_view key) {
    std::map<std::string, std::string> values;
    if (const Node* const map = reader_.map(metadata, key)) {
      for (const Node& member : map->children) values[member.key] = reader_.text(map, member.key).value_or("");
    }
    return values;
  }

  void read_service(const Node& object) {
    Service service;
    service.name = read_name(object, "Service", 63, false);
    const Node* const metadata = reader_.map(&object, "metadata");
    service.labels = read_texts(metadata, "labels");
    service.annotations = read_texts(metadata, "annotations");
    const Node* const spec = reader_.map(&object, "spec");
    service.type = kServiceTypes.at(reader_.choice(spec, "type", kServiceTypes).value_or(0));
    service.publish_not_ready_addresses = reader_.boolean(spec, "publishNotReadyAddresses").value_or(false);
    read_cluster_ips(spec, service);
    read_service_ports(spec, service);
    if (reader_.ok()) into_.services.insert_or_assign(service.name, std::move(service));
  }

  void read_cluster_ips(const Node* spec, Service& service) {
    service.cluster_ips = reader_.texts(spec, "clusterIPs");
    if (service.cluster_ips.empty()) {  // before 1.20, and where someone wrote it by hand
      const auto one = reader_.text(spec, "clusterIP");
      if (one && !one->empty()) service.cluster_ips.push_back(*one);
    }
    for (const std::string& address : service.cluster_ips) {
      if (address == "None" || Address::parse(address)) continue;
      const Node* const list = spec->find("clusterIPs");
      const bool in_list = list != nullptr && !list->children.empty();
      reader_.fail(
          in_list ? element_position(*list, address) : position_of(*spec, "clusterIP"),
          fmt::format("cluster IP is {}, allowed are an IPv4 address, an IPv6 address and None", quote(address)));
      return;
    }
  }

  static const yaml::Position& element_position(const Node& list, std::string_view text) {
    const auto found = std::ranges::find_if(list.children, [&](const Node& node) { return node.text == text; });
    return found == list.children.end() ? list.position : found->position;
  }

  void read_service_ports(const Node* spec, Service& service) {
    std::set<std::string> names;
    for (const Node& node : reader_.list(spec, "ports")) {
      if (!reader_.ok() || !reader_.is_map(node, "an element of ports")) return;
      ServicePortSpec port;
      port.name = reader_.text(&node, "name").value_or("");
      port.protocol = read_protocol(node);
      const auto number = reader_.number(&node, "port", 1, kMostPort);
      if (!number) reader_.fail(node.position, "port is missing, allowed are whole numbers from 1 to 65535");
      if (!names.insert(port.name).second) {
        reader_.fail(position_of(node, "name"),
                     fmt::format("two ports have the name {}, allowed are names of their own", quote(port.name)));
      }
      port.port = static_cast<std::uint16_t>(number.value_or(0));
      service.ports.push_back(std::move(port));
    }
  }

  std::string read_protocol(const Node& port) {
    return std::string{kProtocols.at(reader_.choice(&port, "protocol", kProtocols).value_or(0))};
  }

  void read_slice(const Node& object) {
    EndpointSlice slice;
    slice.name = read_name(object, "EndpointSlice", 253, true);
    const Node* const labels = reader_.map(reader_.map(&object, "metadata"), "labels");
    slice.service = reader_.text(labels, "kubernetes.io/service-name").value_or("");
    const auto type = reader_.choice(&object, "addressType", kAddressTypes);
    if (!type) reader_.fail(object.position, "addressType is missing, allowed are " + yaml::enumerate(kAddressTypes));
    slice.address_type = kAddressTypes.at(type.value_or(0));
    for (const Node& node : reader_.list(&object, "endpoints")) {
      if (!reader_.ok() || !reader_.is_map(node, "an element of endpoints")) return;
      slice.endpoints.push_back(read_endpoint(node, slice.address_type));
    }
    for (const Node& node : reader_.list(&object, "ports")) {
      if (!reader_.ok() || !reader_.is_map(node, "an element of ports")) return;
      slice.ports.push_back(read_slice_port(node));
    }
    if (reader_.ok()) into_.slices.insert_or_assign(slice.name, std::move(slice));
  }

  SliceEndpoint read_endpoint(const Node& node, std::string_view type) {
    SliceEndpoint endpoint;
    endpoint.addresses = reader_.texts(&node, "addresses");
    if (endpoint.addresses.empty()) {
      reader_.fail(position_of(node, "addresses"), "an endpoint has no address, allowed is one at least");
    }
    for (const std::string& text : endpoint.addresses) {
      if (type == "FQDN") break;
      const auto address = Address::parse(text);
      if (address && (address->family() == Family::kIpv4) == (type == "IPv4")) continue;
      reader_.fail(
          element_position(*node.find("addresses"), text),
          fmt::format("endpoint address is {}, allowed is an {} address as addressType says", quote(text), type));
    }
    const Node* const conditions = reader_.map(&node, "conditions");
    endpoint.conditions.ready = reader_.boolean(conditions, "ready");
    endpoint.conditions.serving = reader_.boolean(conditions, "serving");
    endpoint.conditions.terminating = reader_.boolean(conditions, "terminating");
    endpoint.node_name = reader_.text(&node, "nodeName").value_or("");
    return endpoint;
  }

  SlicePort read_slice_port(const Node& node) {
    SlicePort port;
    port.name = reader_.text(&node, "name").value_or("");
    port.protocol = read_protocol(node);
    if (const auto number = reader_.number(&node, "port", 1, kMostPort)) {
      port.port = static_cast<std::uint16_t>(*number);
    }
    return port;
  }

  Reader reader_;
  Snapshot& into_;
};

}  // namespace

Result<void> decode(const Node& root, const std::string& file, Snapshot& into) { return Decoder{file, into}.run(root); }

Result<void> decode(std::string_view text, const std::string& file, Snapshot& into) {
  const auto documents = yaml::parse(text, file);
  if (!documents) return hairpin::fail(documents.error());
  for (const Node& document : *documents) {
    if (auto done = decode(document, file, into); !done) return done;
  }
  return {};
}

}  // namespace hairpin::cluster
