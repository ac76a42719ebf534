// tokenizer.json's pre-tokenizer as a list of patterns, and that list against the table.
#include "convert/hf_pretokenizer.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "text/pretokenizer.h"
#include "text/unicode.h"

namespace tamis {
namespace {

// Names that mean the same as a later, telling row: never written.
constexpr std::string_view kVagueNames[] = {"default", "llama3", "llama-v3"};

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

std::string hex_escape(char32_t code) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string hex;
  for (auto rest = static_cast<uint32_t>(code); rest != 0 || hex.empty(); rest >>= 4)
    hex.insert(0, 1, digits[rest & 15]);
  return "\\x{" + hex + "}";
}

// The hexadecimal digits at `at`, up to `n_max` of them.
std::string_view hex_at(std::string_view text, size_t at, size_t n_max) {
  size_t n = 0;
  while (n < n_max && at + n < text.size() && is_hex(text[at + n])) ++n;
  return text.substr(at, n);
}

char32_t code_of(std::string_view hex) {
  uint32_t code = 0;
  for (const char c : hex) code = code * 16 + static_cast<uint32_t>(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
  return code;
}

// An escape at `at` (a backslash): appends its canonical form, returns the bytes it took.
size_t canonical_escape(std::string_view pattern, size_t at, std::string& out) {
  if (at + 1 >= pattern.size()) return out += '\\', 1;
  const char next = pattern[at + 1];
  if (next == 'u' || (next == 'x' && at + 2 < pattern.size() && pattern[at + 2] != '{')) {
    const std::string_view hex = hex_at(pattern, at + 2, next == 'u' ? 4 : 2);
    if (!hex.empty()) return out += hex_escape(code_of(hex)), 2 + hex.size();
  }
  if (next == 'x') {
    const std::string_view hex = hex_at(pattern, at + 3, 6);
    if (!hex.empty() && at + 3 + hex.size() < pattern.size() && pattern[at + 3 + hex.size()] == '}')
      return out += hex_escape(code_of(hex)), 4 + hex.size();
  }
  constexpr std::string_view needs_none = "\"#%&',/:;<=>@_`~! ";
  if (needs_none.find(next) == needs_none.npos) out += '\\';
  return out += next, 2;
}

std::string escaped_literal(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view(R"(\^$.|?*+()[]{})").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

const SplitRule& gpt2_rule() { return *find_pre_tokenizer("gpt-2")->rule; }

bool flag_of(const Json& object, std::string_view key, bool fallback) {
  const Json* value = object.find(key);
  return value != nullptr && value->is_bool() ? value->as_bool() : fallback;
}

std::string type_of(const Json& object) {
  const Json* type = object.find("type");
  return type != nullptr && type->is_string() ? type->as_string() : "";
}

// What one tokenizer.json does to text before merging.
struct Splitting {
  std::vector<std::string> patterns;  // canonical
  bool is_nfc = false, ignores_merges = false;
  bool is_understood = true;  // false: a step no pattern stands for
};

void add_split(const Json& step, Splitting& out) {
  const Json* pattern = step.find("pattern");
  const Json* regex = pattern == nullptr ? nullptr : pattern->find("Regex");
  const Json* literal = pattern == nullptr ? nullptr : pattern->find("String");
  const Json* behavior = step.find("behavior");
  const std::string how = behavior != nullptr && behavior->is_string() ? behavior->as_string() : "";
  const bool is_inverted = flag_of(step, "invert", false);
  // Removing what lies between matches of a pattern that covers every text is isolating the matches.
  const bool is_plain = (how == "Isolated" && !is_inverted) || (how == "Removed" && is_inverted);
  if (regex != nullptr && regex->is_string() && is_plain)
    out.patterns.push_back(canonical_pattern(regex->as_string()));
  else if (literal != nullptr && literal->is_string() && is_plain)
    out.patterns.push_back(canonical_pattern(escaped_literal(literal->as_string())));
  else
    out.is_understood = false;
}

void add_step(const Json& step, Splitting& out) {
  const std::string type = type_of(step);
  if (type == "Sequence") {
    const Json* parts = step.find("pretokenizers");
    if (parts == nullptr || !parts->is_array()) out.is_understood = false;
    if (parts != nullptr && parts->is_array())
      for (const Json& part : parts->as_array()) add_step(part, out);
  } else if (type == "Split") {
    add_split(step, out);
  } else if (type == "Digits") {
    out.patterns.push_back(flag_of(step, "individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
  } else if (type == "ByteLevel") {
    if (flag_of(step, "add_prefix_space", true)) out.is_understood = false;
    if (flag_of(step, "use_regex", true))
      for (const std::string_view pattern : gpt2_rule().patterns) out.patterns.push_back(canonical_pattern(pattern));
  } else {
    out.is_understood = false;
  }
}

void add_normalizer(const Json* normalizer, Splitting& out) {
  if (normalizer == nullptr || normalizer->is_null()) return;
  const Json* parts = normalizer->find("normalizers");
  if (type_of(*normalizer) == "NFC") {
    out.is_nfc = true;
  } else if (type_of(*normalizer) == "Sequence" && parts != nullptr && parts->is_array()) {
    for (const Json& part : parts->as_array()) add_normalizer(&part, out);
  } else {
    out.is_understood = false;
  }
}

bool is_same(const PreTokenizerRow& row, const Splitting& splitting) {
  const SplitRule& rule = *row.rule;
  if (rule.digits != DigitGrouping::none || !rule.is_byte_level || rule.escapes_spaces) return false;
  if (row.nfc != splitting.is_nfc || row.ignore_merges != splitting.ignores_merges) return false;
  return std::equal(rule.patterns.begin(), rule.patterns.end(), splitting.patterns.begin(), splitting.patterns.end(),
                    [](std::string_view ours, const std::string& theirs) { return canonical_pattern(ours) == theirs; });
}

}  // namespace

std::string canonical_pattern(std::string_view pattern) {
  std::string out;
  for (size_t at = 0; at < pattern.size();) {
    const char c = pattern[at];
    if (c == '\\') {
      at += canonical_escape(pattern, at, out);
    } else if (static_cast<uint8_t>(c) >= 0x80) {
      const unicode::Char next = unicode::char_at(pattern, at);
      out += hex_escape(next.code_point);
      at += next.length;
    } else {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : std::string(1, c);
      ++at;
    }
  }
  for (size_t at = 0; (at = out.find("[\\p{", at)) != std::string::npos; ++at) {  // [\p{L}] is \p{L}
    const size_t end = out.find('}', at);
    if (end == std::string::npos || end + 1 >= out.size() || out[end + 1] != ']') continue;
    out.erase(end + 1, 1);
    out.erase(at, 1);
  }
  return out;
}

Result<std::string> find_pre_name(const Json& tokenizer) {
  Splitting splitting;
  add_normalizer(tokenizer.find("normalizer"), splitting);
  const Json* steps = tokenizer.find("pre_tokenizer");
  if (steps != nullptr && !steps->is_null()) add_step(*steps, splitting);
  if (const Json* model = tokenizer.find("model")) splitting.ignores_merges = flag_of(*model, "ignore_merges", false);
  if (splitting.is_understood) {
    for (const PreTokenizerRow& row : pre_tokenizer_table()) {
      const bool is_vague =
          std::find(std::begin(kVagueNames), std::end(kVagueNames), row.name) != std::end(kVagueNames);
      if (!is_vague && is_same(row, splitting)) return std::string(row.name);
    }
  }
  const Json* normalizer = tokenizer.find("normalizer");
  return fail(
      ErrorCode::unsupported,
      "this pre-tokenizer is none of the {} known ones (--pre NAME takes one of them all the same): pre_tokenizer "
      "{}, normalizer {}, ignore_merges {}",
      pre_tokenizer_table().size(), escape_for_display(steps == nullptr ? "null" : steps->dump(), 2000),
      escape_for_display(normalizer == nullptr ? "null" : normalizer->dump(), 500), splitting.ignores_merges);
}

bool ignores_merges(std::string_view pre_name) {
  const PreTokenizerRow* row = find_pre_tokenizer(pre_name);
  return row != nullptr && row->ignore_merges;
}

Result<Json> pre_tokenizer_json(std::string_view pre_name) {
  const PreTokenizerRow* row = find_pre_tokenizer(pre_name);
  if (row == nullptr || row->rule->digits != DigitGrouping::none || !row->rule->is_byte_level)
    return fail(ErrorCode::not_found, "pre-tokenizer \"{}\" has no form in tokenizer.json",
                escape_for_display(pre_name));
  Json steps = Json::array();
  for (const std::string_view pattern : row->rule->patterns) {
    Json regex = Json::object(), step = Json::object();
    regex.set("Regex", pattern);
    step.set("type", "Split").set("pattern", std::move(regex)).set("behavior", "Isolated").set("invert", false);
    steps.push_back(std::move(step));
  }
  Json byte_level = Json::object();
  byte_level.set("type", "ByteLevel").set("add_prefix_space", false).set("trim_offsets", true).set("use_regex", false);
  steps.push_back(std::move(byte_level));
  Json sequence = Json::object(), nfc = Json::object(), out = Json::object();
  sequence.set("type", "Sequence").set("pretokenizers", std::move(steps));
  if (row->nfc) nfc.set("type", "NFC");
  out.set("normalizer", row->nfc ? std::move(nfc) : Json()).set("pre_tokenizer", std::move(sequence));
  return out;
}

}  // namespace tamis
