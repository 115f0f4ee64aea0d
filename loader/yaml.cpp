// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#include "loader/yaml.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <map>
#include <numeric>
#include <spanstream>
#include <unordered_set>
#include <utility>

namespace hairpin::yaml {

namespace {

constexpr std::size_t kMaxDepth = 100;           // yaml-cpp recurses; a tree of ours is about 10 deep
constexpr std::size_t kMaxAliasNodes = 1000000;  // aliases of aliases grow exponentially

Position position_of(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

YAML::Mark mark_of(const Position& position) {
  YAML::Mark mark;
  mark.line = position.line - 1;
  mark.column = position.column - 1;
  return mark;
}

[[noreturn]] void refuse(const YAML::Mark& mark, const std::string& why) { throw YAML::ParserException(mark, why); }

std::size_t count(const Node& node) {
  return std::accumulate(node.children.begin(), node.children.end(), std::size_t{1},
                         [](std::size_t sum, const Node& child) { return sum + count(child); });
}

// Builds the tree from yaml-cpp's events. Its own Node type is slower, hides second members of one name, and cannot
// tell "1" from 1.
class TreeBuilder : public YAML::EventHandler {
 public:
  std::vector<Node> documents;

  void OnDocumentStart(const YAML::Mark& /*mark*/) override { anchors_.clear(); }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node;
    node.position = position_of(mark);
    if (open_.empty()) refuse_standstill(mark);
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) refuse(mark, "an alias inside of what it stands for");
    alias_nodes_ += count(known->second);
    if (alias_nodes_ > kMaxAliasNodes)
      refuse(mark, fmt::format("aliases stand for more than {} values", kMaxAliasNodes));
    Node node = known->second;
    node.position = position_of(mark);
    add(std::move(node), YAML::NullAnchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node node;
    node.kind = Node::Kind::kScalar;
    node.quoted = tag == "!";
    node.position = position_of(mark);
    node.text = value;
    add(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(mark, Node::Kind::kSequence, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, Node::Kind::kMap, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Node node;
    YAML::anchor_t anchor;
    bool has_key = false;
    Position key_position;
    std::string key;
  };

  void open(const YAML::Mark& mark, Node::Kind kind, YAML::anchor_t anchor) {
    if (open_.size() >= kMaxDepth) refuse(mark, fmt::format("nested more than {} levels deep", kMaxDepth));
    Node node;
    node.kind = kind;
    node.position = position_of(mark);
    open_.push_back({.node = std::move(node), .anchor = anchor, .has_key = false, .key_position = {}, .key = {}});
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    add(std::move(done.node), done.anchor);
  }

  void add(Node node, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
    if (open_.empty()) {
      documents.push_back(std::move(node));
      return;
    }
    Open& parent = open_.back();
    if (wants_key()) {
      if (node.kind == Node::Kind::kSequence || node.kind == Node::Kind::kMap) {
        refuse(mark_of(node.position), "a key is not plain text");
      }
      parent.key = std::move(node.text);
      parent.key_position = node.position;
      parent.has_key = true;
      return;
    }
    if (parent.has_key) {
      node.key = std::move(parent.key);
      node.key_position = parent.key_position;
      parent.has_key = false;
    }
    parent.node.children.push_back(std::move(node));
  }

  [[nodiscard]] bool wants_key() const {
    return !open_.empty() && open_.back().node.kind == Node::Kind::kMap && !open_.back().has_key;
  }

  // yaml-cpp reads a stray comma as an empty document without moving on, and would do so forever.
  void refuse_standstill(const YAML::Mark& mark) {
    if (mark.pos == last_null_) refuse(mark, "unexpected text");
    last_null_ = mark.pos;
  }

  std::vector<Open> open_;
  std::map<YAML::anchor_t, Node> anchors_;
  std::size_t alias_nodes_ = 0;
  int last_null_ = -1;
};

std::optional<std::uint32_t> surrogate(std::string_view text, std::size_t at) {
  if (text.substr(at, 2) != "\\u" || text.size() < at + 6) return std::nullopt;
  std::uint32_t value = 0;
  const char* const end = text.data() + at + 6;
  if (std::from_chars(text.data() + at + 2, end, value, 16).ptr != end) return std::nullopt;
  return value >= 0xd800 && value < 0xe000 ? std::optional{value} : std::nullopt;
}

// JSON escapes characters beyond U+FFFF as two surrogates, which YAML does not know. In JSON a backslash stands in a
// string only, so no more than the escapes needs to be looked at.
std::string join_surrogates(std::string_view text) {
  std::string joined;
  joined.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '\\') {
      joined += text[at++];
      continue;
    }
    const auto high = surrogate(text, at);
    const auto low = high ? surrogate(text, at + 6) : std::nullopt;
    if (low && *high < 0xdc00 && *low >= 0xdc00) {
      joined += fmt::format("\\U{:08x}", 0x10000 + ((*high - 0xd800) << 10) + (*low - 0xdc00));
      at += 12;
    } else {
      joined += text.substr(at, 2);
      at += 2;
    }
  }
  return joined;
}

bool looks_like_json(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (text[first] == '{' || text[first] == '[');
}

std::string place(const std::string& file, const Position& position) {
  return fmt::format("{}:{}:{}", file, position.line, position.column);
}

Position position_in(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line_start = before.rfind('\n');
  const std::size_t column = line_start == std::string_view::npos ? offset : offset - line_start - 1;
  return {static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1, static_cast<int>(column) + 1};
}

// Some of yaml-cpp's messages end in the byte that they complain of.
std::string printable(std::string text) {
  std::ranges::replace_if(text, [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text;
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "empty";
    case Node::Kind::kSequence:
      return "a list";
    case Node::Kind::kMap:
      return "a map";
    case Node::Kind::kScalar:
      break;
  }
  return quote(node.text);
}

// Levenshtein's, in one row.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = i;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row.back();
}

}  // namespace

const Node* Node::find(std::string_view name) const {
  const auto found = std::ranges::find_if(children, [&](const Node& child) { return child.key == name; });
  return found != children.end() && found->kind != Kind::kNull ? &*found : nullptr;
}

Result<std::vector<Node>> parse(std::string_view text, const std::string& file) {
  if (const auto zero = text.find('\0'); zero != std::string_view::npos) {
    return hairpin::fail(place(file, position_in(text, zero)), "a zero byte, allowed is text in UTF-8");
  }
  std::string joined;
  if (looks_like_json(text) &&
      (text.find("\\ud") != std::string_view::npos || text.find("\\uD") != std::string_view::npos)) {
    joined = join_surrogates(text);
    text = joined;
  }
  TreeBuilder builder;
  try {
    std::ispanstream stream{std::span{text.data(), text.size()}};
    YAML::Parser parser{stream};
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& exception) {
    const bool at_end =
        exception.msg == YAML::ErrorMsg::END_OF_MAP_FLOW || exception.msg == YAML::ErrorMsg::END_OF_SEQ_FLOW;
    const Position position = at_end ? position_in(text, text.size()) : position_of(exception.mark);  // its column is 1
    return hairpin::fail(place(file, position), "not valid YAML: " + printable(exception.msg));
  }
  return std::move(builder.documents);
}

void Reader::fail(const Position& position, const std::string& why) {
  if (error_) return;
  error_ = Error{place(file_, position), object_.empty() ? why : object_ + ": " + why, {}, 0};
}

void Reader::refuse_duplicates(const Node& node) {
  if (!ok()) return;
  if (node.kind == Node::Kind::kMap) {
    std::unordered_set<std::string_view> seen;
    for (const Node& child : node.children) {
      if (seen.insert(child.key).second) continue;
      fail(child.key_position, fmt::format("key {} is there twice, allowed is once", quote(child.key)));
      return;
    }
  }
  for (const Node& child : node.children) refuse_duplicates(child);
}

void Reader::refuse_unknown(const Node& map, Words known) {
  for (const Node& child : map.children) {
    if (std::ranges::find(known, child.key) != known.end()) continue;
    const std::string_view nearest = *std::ranges::min_element(known, [&](auto a, auto b) {
      return edit_distance(child.key.substr(0, 64), a) < edit_distance(child.key.substr(0, 64), b);
    });
    fail(child.key_position, fmt::format("unknown key {}, the nearest known one is {}; allowed are {}",
                                         quote(child.key), quote(nearest), enumerate(known)));
    return;
  }
}

bool Reader::is_map(const Node& node, std::string_view what) {
  if (node.kind == Node::Kind::kMap) return true;
  fail(node.position, fmt::format("{} is {}, allowed is a map", what, describe(node)));
  return false;
}

const Node* Reader::member(const Node* parent, std::string_view key) const {
  return parent == nullptr || !ok() ? nullptr : parent->find(key);
}

const Node* Reader::map(const Node* parent, std::string_view key) {
  const Node* const node = member(parent, key);
  return node != nullptr && is_map(*node, key) ? node : nullptr;
}

std::span<const Node> Reader::list(const Node* parent, std::string_view key) {
  const Node* const node = member(parent, key);
  if (node == nullptr) return {};
  if (node->kind == Node::Kind::kSequence) return node->children;
  fail(node->position, fmt::format("{} is {}, allowed is a list", key, describe(*node)));
  return {};
}

std::optional<std::string> Reader::text(const Node* parent, std::string_view key) {
  const Node* const node = member(parent, key);
  if (node == nullptr) return std::nullopt;
  if (node->kind == Node::Kind::kScalar) return node->text;
  fail(node->position, fmt::format("{} is {}, allowed is text", key, describe(*node)));
  return std::nullopt;
}

std::optional<bool> Reader::boolean(const Node* parent, std::string_view key) {
  const Node* const node = member(parent, key);
  if (node == nullptr) return std::nullopt;
  if (node->kind == Node::Kind::kScalar && !node->quoted) {
    if (node->text == "true") return true;
    if (node->text == "false") return false;
  }
  fail(node->position,
       fmt::format("{} is {}{}, allowed are true and false", key, node->quoted ? "the text " : "", describe(*node)));
  return std::nullopt;
}

std::optional<std::uint64_t> Reader::number(const Node* parent, std::string_view key, std::uint64_t least,
                                            std::uint64_t most) {
  const Node* const node = member(parent, key);
  if (node == nullptr) return std::nullopt;
  if (node->kind == Node::Kind::kScalar && !node->quoted) {
    std::uint64_t value = 0;
    const char* const end = node->text.data() + node->text.size();
    const auto [stop, problem] = std::from_chars(node->text.data(), end, value);
    if (problem == std::errc{} && stop == end && value >= least && value <= most) return value;
  }
  fail(node->position, fmt::format("{} is {}{}, allowed are whole numbers from {} to {}", key,
                                   node->quoted ? "the text " : "", describe(*node), least, most));
  return std::nullopt;
}

std::optional<std::size_t> Reader::choice(const Node* parent, std::string_view key, Words allowed) {
  const Node* const node = member(parent, key);
  if (node == nullptr) return std::nullopt;
  const auto found = std::ranges::find(allowed, node->text);
  if (node->kind == Node::Kind::kScalar && found != allowed.end()) {
    return static_cast<std::size_t>(std::distance(allowed.begin(), found));
  }
  fail(node->position, fmt::format("{} is {}, allowed {} {}", key, describe(*node), allowed.size() == 1 ? "is" : "are",
                                   enumerate(allowed)));
  return std::nullopt;
}

std::vector<std::string> Reader::texts(const Node* parent, std::string_view key) {
  std::vector<std::string> values;
  for (const Node& node : list(parent, key)) {
    if (node.kind != Node::Kind::kScalar) {
      fail(node.position, fmt::format("an element of {} is {}, allowed is text", key, describe(node)));
      return {};
    }
    values.push_back(node.text);
  }
  return values;
}

std::string enumerate(Words words) {
  std::string text;
  std::size_t left = words.size();
  for (const std::string_view word : words) {
    text += word;
    --left;
    if (left > 0) text += left == 1 ? " and " : ", ";
  }
  return text;
}

std::string quote(std::string_view text) {
  constexpr std::size_t kMost = 64;
  if (text.size() <= kMost) return double_quote(text);
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not within a UTF-8 character
  std::string quoted = double_quote(text.substr(0, end));
  quoted.insert(quoted.size() - 1, "...");
  return quoted;
}

std::string double_quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') quoted += '\\';
    if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\u{:04x}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace hairpin::yaml
