// fuzz: rooms=formats,base
// F11: any bytes as JSON. A slow reader, written from RFC 8259 a rule at a time, must say the same of them: refused, or
// the same value; and what is dumped of a value reads back as that value.
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "formats/json.h"

namespace {

using tamis::Json;

class SlowReader {
 public:
  SlowReader(std::string_view text, uint32_t max_depth) : text_(text), max_depth_(max_depth) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // which a reader may ignore (§8.1)
  }

  std::optional<Json> document() {
    auto value = element(0);
    return at_ == text_.size() ? std::move(value) : std::nullopt;
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool is_end() const { return at_ >= text_.size(); }
  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void blanks() {
    while (!is_end() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')) ++at_;
  }

  // A value between blanks.
  std::optional<Json> element(uint32_t depth) {
    blanks();
    auto value = bare(depth);
    blanks();
    return value;
  }

  std::optional<Json> bare(uint32_t depth) {
    if (take("null")) return Json();
    if (take("true")) return Json(true);
    if (take("false")) return Json(false);
    if (peek() == '"') {
      auto text = string();
      if (!text) return std::nullopt;
      return Json(*std::move(text));
    }
    if (peek() == '{' || peek() == '[') return depth >= max_depth_ ? std::nullopt : container(depth + 1);
    return number();
  }

  std::optional<Json> container(uint32_t depth) {
    const bool is_object = text_[at_++] == '{';
    const std::string_view end = is_object ? "}" : "]";
    Json out = is_object ? Json::object() : Json::array();
    blanks();
    if (take(end)) return out;
    do {
      std::optional<std::string> key;
      if (is_object) {
        blanks();
        key = string();
        blanks();
        if (!key || out.find(*key) != nullptr || !take(":")) return std::nullopt;
      }
      auto value = element(depth);
      if (!value) return std::nullopt;
      if (is_object)
        out.set(*std::move(key), *std::move(value));
      else
        out.push_back(*std::move(value));
    } while (take(","));
    if (!take(end)) return std::nullopt;
    return out;
  }

  bool digits() {
    const size_t begin = at_;
    while (!is_end() && peek() >= '0' && peek() <= '9') ++at_;
    return at_ > begin;
  }

  std::optional<Json> number() {
    const size_t begin = at_;
    take("-");
    if (!take("0") && !digits()) return std::nullopt;
    bool is_whole = true;
    if (take(".")) {
      is_whole = false;
      if (!digits()) return std::nullopt;
    }
    if (take("e") || take("E")) {
      is_whole = false;
      if (!take("+")) take("-");
      if (!digits()) return std::nullopt;
    }
    const std::string written(text_.substr(begin, at_ - begin));
    const char* const first = written.data();
    const char* const last = first + written.size();
    int64_t integer = 0;
    if (is_whole && std::from_chars(first, last, integer).ec == std::errc()) return Json(integer);
    uint64_t natural = 0;
    if (is_whole && std::from_chars(first, last, natural).ec == std::errc()) return Json(natural);
    const double real = std::strtod(written.c_str(), nullptr);
    if (!std::isfinite(real)) return std::nullopt;
    return Json(real);
  }

  std::optional<uint32_t> four_hex_digits() {
    uint32_t code = 0;
    if (text_.size() - at_ < 4) return std::nullopt;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, begin + 4, code, 16);
    if (error != std::errc() || end != begin + 4 || *begin == '-') return std::nullopt;
    at_ += 4;
    return code;
  }

  static void append_utf8(std::string& out, uint32_t code) {
    if (code < 0x80) {
      out += static_cast<char>(code);
      return;
    }
    const int n_more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    const uint32_t lead[] = {0, 0xC0, 0xE0, 0xF0};
    out += static_cast<char>(lead[n_more] | (code >> (6 * n_more)));
    for (int i = n_more - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3F));
  }

  // Behind `\u`: a code point, or the two halves of one.
  bool code_point(std::string& out) {
    const auto high = four_hex_digits();
    if (!high || (*high >= 0xDC00 && *high <= 0xDFFF)) return false;
    if (*high < 0xD800 || *high > 0xDFFF) {
      append_utf8(out, *high);
      return true;
    }
    if (!take("\\u")) return false;
    const auto low = four_hex_digits();
    if (!low || *low < 0xDC00 || *low > 0xDFFF) return false;
    append_utf8(out, 0x10000 + ((*high - 0xD800) << 10) + (*low - 0xDC00));
    return true;
  }

  // One character of Unicode, as UTF-8 writes it (RFC 3629 §4).
  bool character(std::string& out) {
    const auto byte = [&](size_t i) { return at_ + i < text_.size() ? static_cast<uint8_t>(text_[at_ + i]) : 0; };
    const uint8_t first = byte(0);
    const size_t n = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (n == 0 || first < 0x20 || at_ + n > text_.size()) return false;
    for (size_t i = 1; i < n; ++i)
      if ((byte(i) & 0xC0) != 0x80) return false;
    if (first == 0xE0 && byte(1) < 0xA0) return false;
    if (first == 0xED && byte(1) > 0x9F) return false;  // halves of code points
    if (first == 0xF0 && byte(1) < 0x90) return false;
    if (first == 0xF4 && byte(1) > 0x8F) return false;
    out += text_.substr(at_, n);
    at_ += n;
    return true;
  }

  std::optional<std::string> string() {
    if (!take("\"")) return std::nullopt;
    std::string out;
    while (!take("\"")) {
      if (is_end()) return std::nullopt;
      if (!take("\\")) {
        if (!character(out)) return std::nullopt;
        continue;
      }
      constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
      const size_t letter = is_end() ? std::string_view::npos : kLetters.find(peek());
      if (letter != std::string_view::npos) {
        out += kMeanings[letter];
        ++at_;
      } else if (!take("u") || !code_point(out)) {
        return std::nullopt;
      }
    }
    return out;
  }

  std::string_view text_;
  uint32_t max_depth_;
  size_t at_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint32_t kMaxDepth = 12;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = Json::parse(text, kMaxDepth);
  const auto expected = SlowReader(text, kMaxDepth).document();
  if (value.has_value() != expected.has_value()) std::abort();
  if (!value) return 0;
  if (*value != *expected) std::abort();
  for (const int indent : {-1, 2}) {
    const auto again = Json::parse(value->dump(indent), kMaxDepth);
    if (!again || *again != *value) std::abort();
  }
  return 0;
}
