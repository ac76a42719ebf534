// JSON's white space, strings and values as parts of a grammar.
#include "text/grammar/json_parts.h"

#include "base/utf8.h"
#include "text/grammar/front_ends.h"

namespace tamis {
namespace {

constexpr size_t kMostStates = 20000;  // of one string's or number's automaton

}  // namespace

// Requires: a pattern of this program's own.
PartId JsonParts::regex(std::string_view pattern) {
  const auto parsed = parse_regex(pattern, CharForm::utf8, source_);
  return parsed ? parsed->part : source_.never();
}

PartId JsonParts::space() {
  if (!space_) space_ = regex(R"(( |\n{1,2}[ \t]{0,20})?)");
  return *space_;
}

PartId JsonParts::any_char() {
  if (!any_char_) {
    auto dfa = source_.to_dfa(source_.chars({{0, 0x10ffff}}, CharForm::json_any), kMostStates);
    any_char_ = dfa ? source_.automaton(std::make_shared<const Dfa>(*std::move(dfa))) : source_.never();
  }
  return *any_char_;
}

const Dfa& JsonParts::any_content() {
  if (!any_content_)
    any_content_ = source_.to_dfa(source_.repeat(any_char(), 0, kUnbounded), kMostStates).value_or(Dfa{});
  return *any_content_;
}

std::optional<Dfa> JsonParts::content_of_length(uint32_t min, uint32_t max) {
  const uint64_t n = max == kUnbounded ? min : max;
  if (n > kMostStates) return std::nullopt;
  return source_.to_dfa(source_.repeat(any_char(), min, max), kMostStates);
}

PartId JsonParts::any_string() {
  if (!any_string_) any_string_ = quoted(any_content());
  return *any_string_;
}

PartId JsonParts::string_of_length(uint32_t min, uint32_t max) {
  if (min == 0 && max == kUnbounded) return any_string();
  return quoted(source_.repeat(any_char(), min, max));
}

PartId JsonParts::quoted(PartId content) {
  const PartId quote = source_.literal("\"");
  return source_.sequence({quote, content, quote});
}

PartId JsonParts::quoted(const Dfa& content) {
  const PartId part = quoted(source_.automaton(std::make_shared<const Dfa>(content)));
  if (part == source_.never()) return part;
  // One terminal, quotes and all.
  auto whole = source_.to_dfa(part, kMostStates);
  return whole ? source_.automaton(std::make_shared<const Dfa>(*std::move(whole))) : part;
}

PartId JsonParts::fixed_string(std::string_view text, CharForm form) {
  std::vector<PartId> parts;
  std::string plain = "\"";
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_sequence_length(text, i);
    const char32_t c = length == 0 ? U'\ufffd' : utf8_code_point(text, i, length);
    if (form == CharForm::json && c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
      plain += static_cast<char>(c);
    } else {
      parts.push_back(source_.literal(plain));
      plain.clear();
      parts.push_back(source_.chars({{c, c}}, form));
    }
    i += std::max<size_t>(1, length);
  }
  parts.push_back(source_.literal(plain + "\""));
  return source_.sequence(std::move(parts));
}

PartId JsonParts::number() {
  // Exponents up to the largest double's.
  if (!number_) number_ = regex(R"(-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?(\d{1,2}|[0-2]\d\d|30[0-8]))?)");
  return *number_;
}

PartId JsonParts::integer() {
  if (!integer_) integer_ = regex(R"(0|-?[1-9]\d*)");
  return *integer_;
}

std::optional<PartId> JsonParts::bounded_number(const NumberBounds& bounds) {
  if (!bounds.least && !bounds.most && bounds.multiple_of == 0) return bounds.integers_only ? integer() : number();
  const bool is_sign_only = bounds.least && bounds.least->is_zero() && !bounds.most && bounds.multiple_of == 0;
  if (is_sign_only && !bounds.integers_only)
    return regex(R"((0|[1-9]\d*)(\.\d+)?([eE][+-]?(\d{1,2}|[0-2]\d\d|30[0-8]))?)");
  auto dfa = number_automaton(bounds, kMostStates, source_.budget());
  if (!dfa) return std::nullopt;
  return source_.automaton(std::make_shared<const Dfa>(*std::move(dfa)));
}

PartId JsonParts::comma() { return source_.sequence({source_.literal(","), space()}); }

PartId JsonParts::key(std::string_view name) {
  return source_.sequence({fixed_string(name), source_.literal(":"), space()});
}

PartId JsonParts::bracketed(std::string_view open, PartId inner, std::string_view close) {
  return source_.sequence({source_.literal(open), space(), inner, space(), source_.literal(close)});
}

PartId JsonParts::value(const Json& value) {
  if (value.is_string()) return fixed_string(value.as_string());
  if (value.is_double()) {
    const std::string text = value.dump();
    // 1.0 and 1 are one number.
    return text.ends_with(".0")
               ? source_.choice({source_.literal(text), source_.literal(text.substr(0, text.size() - 2))})
               : source_.literal(text);
  }
  if (!value.is_array() && !value.is_object()) return source_.literal(value.dump());
  std::vector<PartId> parts;
  if (value.is_array()) {
    for (const Json& item : value.as_array()) {
      if (!parts.empty()) parts.push_back(comma());
      parts.push_back(this->value(item));
    }
    return bracketed("[", source_.sequence(std::move(parts)), "]");
  }
  for (const auto& [name, member] : value.as_object()) {
    if (!parts.empty()) parts.push_back(comma());
    parts.push_back(key(name));
    parts.push_back(this->value(member));
  }
  return bracketed("{", source_.sequence(std::move(parts)), "}");
}

void JsonParts::define_any_value() {
  if (any_value_) return;
  any_value_ = source_.add_rule("any value");
  any_object_ = source_.add_rule("any object");
  const PartId element = source_.reference(*any_value_);
  const auto list_of = [&](PartId item) {
    return source_.optional(source_.sequence({item, source_.repeat(source_.sequence({comma(), item}), 0, kUnbounded)}));
  };
  const PartId member = source_.sequence({any_string(), source_.literal(":"), space(), element});
  source_.define(*any_object_, bracketed("{", list_of(member), "}"));
  const PartId words = source_.choice({source_.literal("null"), source_.literal("true"), source_.literal("false")});
  source_.define(*any_value_, source_.choice({words, number(), any_string(), bracketed("[", list_of(element), "]"),
                                              source_.reference(*any_object_)}));
}

PartId JsonParts::any_value() {
  define_any_value();
  return source_.reference(*any_value_);
}

PartId JsonParts::any_object() {
  define_any_value();
  return source_.reference(*any_object_);
}

}  // namespace tamis
