// PCRE2 behind TensorTypes: the only place of it.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "convert/recipe_pattern.h"

#include <pcre2.h>

namespace tamis {
namespace {

// Steps of one search over a name of at most 64 bytes: far above what a sane pattern takes, milliseconds at worst.
constexpr uint32_t kMatchLimit = 100000;

std::string pcre_message(int code) {
  PCRE2_UCHAR text[256];
  const int n = pcre2_get_error_message(code, text, sizeof text);
  return n < 0 ? std::string("error ") + std::to_string(code)
               : std::string(reinterpret_cast<const char*>(text), static_cast<size_t>(n));
}

Result<std::shared_ptr<const void>> compile(std::string_view pattern) {
  int code = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_NEVER_UTF, &code, &at, nullptr);
  if (compiled == nullptr)
    return fail(ErrorCode::invalid_argument, "pattern \"{}\": {} at character {}", escape_for_display(pattern),
                pcre_message(code), at + 1);
  return std::shared_ptr<const void>(
      compiled, [](const void* p) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(p))); });
}

}  // namespace

Result<TensorTypes> TensorTypes::parse(std::span<const std::string> words) {
  TensorTypes out;
  for (const std::string& word : words) {
    const size_t equals = word.rfind('=');
    if (equals == std::string::npos || equals == 0)
      return fail(ErrorCode::invalid_argument, "tensor type \"{}\": expected PATTERN=TYPE, such as attn_v=q6_k",
                  escape_for_display(word));
    Entry entry{word.substr(0, equals), DType::f32, nullptr};
    const auto type = dtype_from_name(std::string_view(word).substr(equals + 1));
    if (!type)
      return fail(ErrorCode::invalid_argument, "tensor type \"{}\": no type is called \"{}\"", escape_for_display(word),
                  escape_for_display(word.substr(equals + 1)));
    entry.type = *type;
    TAMIS_TRY(entry.code, compile(entry.pattern));
    out.entries_.push_back(std::move(entry));
  }
  return out;
}

Result<std::optional<size_t>> TensorTypes::find(std::string_view name) const {
  if (entries_.empty()) return std::optional<size_t>();
  const std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> context(
      pcre2_match_context_create(nullptr), pcre2_match_context_free);
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(pcre2_match_data_create(1, nullptr),
                                                                            pcre2_match_data_free);
  if (context == nullptr || data == nullptr) return fail(ErrorCode::out_of_memory, "no memory for a pattern");
  pcre2_set_match_limit(context.get(), kMatchLimit);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const int code =
        pcre2_match(static_cast<const pcre2_code*>(entries_[i].code.get()), reinterpret_cast<PCRE2_SPTR>(name.data()),
                    name.size(), 0, 0, data.get(), context.get());
    if (code >= 0) return std::optional<size_t>(i);
    if (code != PCRE2_ERROR_NOMATCH)
      return fail(ErrorCode::invalid_argument, "pattern \"{}\" on \"{}\": {}", escape_for_display(entries_[i].pattern),
                  escape_for_display(name), pcre_message(code));
  }
  return std::optional<size_t>();
}

}  // namespace tamis
