// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hairpin/result.hpp"

// YAML (and JSON, which is read as YAML) as a tree of plain values in which everything knows where it stood, and a
// reader that takes typed values from it and makes error lines of what is wrong.

namespace hairpin::yaml {

using Words = std::span<const std::string_view>;

struct Position {
  int line = 1;    ///< from 1
  int column = 1;  ///< from 1, in bytes
};

struct Node {
  enum class Kind : std::uint8_t { kNull, kScalar, kSequence, kMap };

  Kind kind = Kind::kNull;
  bool quoted = false;  ///< a scalar that cannot be a number or a boolean
  Position position;
  Position key_position;
  std::string key;  ///< of a map's member
  std::string text;
  std::vector<Node> children;  ///< a sequence's elements, a map's members

  /// The member of that name; null if there is none or its value is null, which mean the same in Kubernetes' API.
  [[nodiscard]] const Node* find(std::string_view name) const;
};

/// All documents of a text. Aliases are resolved; merge keys and tags are not.
Result<std::vector<Node>> parse(std::string_view text, const std::string& file);

/// Takes typed values from a tree. The first thing that is wrong is kept as the error and everything after it reads as
/// missing, so that decoders can be written straight down and look at ok() once.
class Reader {
 public:
  explicit Reader(std::string file) : file_{std::move(file)} {}

  /// Names what is being read; a prefix of the error's text.
  void set_object(std::string object) { object_ = std::move(object); }

  [[nodiscard]] bool ok() const { return !error_; }
  [[nodiscard]] const Error& error() const { return error_.value(); }

  /// Records an error unless there is one already.
  void fail(const Position& position, const std::string& why);

  /// Refuses a second member of the same name, anywhere below `node`.
  void refuse_duplicates(const Node& node);

  /// Refuses members other than these, and tells the nearest of them.
  void refuse_unknown(const Node& map, Words known);

  /// Whether `node` is a map; else records that `what` is not one.
  bool is_map(const Node& node, std::string_view what);

  // All below look at a member of `parent` (null: nothing there), and record an error if it has another type.

  const Node* map(const Node* parent, std::string_view key);
  std::span<const Node> list(const Node* parent, std::string_view key);
  std::optional<std::string> text(const Node* parent, std::string_view key);
  std::optional<bool> boolean(const Node* parent, std::string_view key);
  std::optional<std::uint64_t> number(const Node* parent, std::string_view key, std::uint64_t least,
                                      std::uint64_t most);
  /// One of `allowed`, by its index.
  std::optional<std::size_t> choice(const Node* parent, std::string_view key, Words allowed);
  /// Scalars only; nulls are refused.
  std::vector<std::string> texts(const Node* parent, std::string_view key);

 private:
  [[nodiscard]] const Node* member(const Node* parent, std::string_view key) const;

  std::string file_;
  std::string object_;
  std::optional<Error> error_;
};

/// The words as "a, b and c".
std::string enumerate(Words words);

/// Quotes text that came from outside for an error: on one line and short.
std::string quote(std::string_view text);

/// A scalar in YAML's (and JSON's) double quotes, whole.
std::string double_quote(std::string_view text);

}  // namespace hairpin::yaml
