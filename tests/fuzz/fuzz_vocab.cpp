// fuzz: rooms=text,formats,base sources=tests/text/vocab_files.cpp
// F6: a vocabulary made of arrays drawn from the input, sometimes wrong. It is refused at a key with a reason, or it
// tokenizes and decodes anything without a fault.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>

#include "base/log.h"
#include "tests/text/vocab_files.h"

namespace {

using namespace tamis;

void require(bool holds) {
  if (!holds) std::abort();
}

class Draw {
 public:
  Draw(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint8_t byte() { return at_ < size_ ? data_[at_++] : 0; }
  size_t below(size_t n) { return byte() % n; }
  std::string rest() const { return std::string(reinterpret_cast<const char*>(data_) + at_, size_ - at_); }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

std::string token(Draw& draw) {
  static const char* const kKnown[] = {"a",
                                       "b",
                                       "ab",
                                       "\xe2\x96\x81",
                                       "\xe2\x96\x81"
                                       "a",
                                       "<unk>",
                                       "<s>",
                                       "</s>",
                                       "<|end|>",
                                       "<|im_end|>",
                                       "<|return|>",
                                       "<|call|>",
                                       "\xc4\xa0",
                                       "\xc4\xa0"
                                       "a",
                                       "<0x41>",
                                       "<0x4",
                                       "<0x-1>",
                                       "\xff",
                                       "",
                                       "<|tool_response>",
                                       "abab"};
  const size_t choice = draw.below(32);
  if (choice < std::size(kKnown)) return kKnown[choice];
  if (choice < 28) return fmt::format("<0x{:02X}>", draw.byte());
  std::string out;
  for (size_t n = draw.below(6); n > 0; --n) out += static_cast<char>(draw.byte());
  return out;
}

std::vector<uint8_t> charsmap(Draw& draw) {
  std::vector<uint8_t> blob;
  const auto n_units = static_cast<uint32_t>(draw.below(80));
  const uint32_t announced = n_units * 4 + (draw.below(8) == 0 ? static_cast<uint32_t>(draw.byte()) * 4 : 0);
  for (int k = 0; k < 4; ++k) blob.push_back(static_cast<uint8_t>(announced >> (8 * k)));
  for (uint32_t k = 0; k < n_units; ++k) {
    const uint32_t unit =
        (static_cast<uint32_t>(draw.byte()) << 10) | (static_cast<uint32_t>(draw.below(2)) << 8) | draw.byte();
    for (int b = 0; b < 4; ++b) blob.push_back(static_cast<uint8_t>(unit >> (8 * b)));
  }
  for (size_t k = draw.below(9); k > 0; --k) blob.push_back(draw.byte() % 3 == 0 ? 0 : 'x');
  return blob;
}

testing::VocabFile make(Draw& draw) {
  static const char* const kModels[] = {"gpt2", "llama", "bert", "t5", "gemma4", "llama", "t5", "no-such"};
  static const char* const kPres[] = {"gpt-2",   "qwen2",    "llama-bpe",  "default",
                                      "no-such", "superbpe", "sarvam-moe", "gpt-4o"};
  static const char* const kIds[] = {"bos",       "eos",     "eot", "eom",  "unknown",
                                     "seperator", "padding", "cls", "mask", "fim_pad"};
  testing::VocabFile file;
  file.set("tokenizer.ggml.model", GgufEncoded::text(kModels[draw.below(8)]));
  if (draw.below(4) != 0) file.set("tokenizer.ggml.pre", GgufEncoded::text(kPres[draw.below(8)]));
  std::vector<std::string> tokens;
  const size_t n = draw.below(40);
  for (size_t i = 0; i < n; ++i) tokens.push_back(token(draw));
  const size_t n_types = draw.below(12) == 0 ? draw.below(48) : n, n_scores = draw.below(12) == 0 ? draw.below(48) : n;
  std::vector<int32_t> types;
  for (size_t i = 0; i < n_types; ++i) {
    const bool is_byte = i < n && tokens[i].size() == 6 && tokens[i].substr(0, 3) == "<0x";
    types.push_back(is_byte ? 6 : draw.below(3) != 0 ? 1 : static_cast<int32_t>(draw.below(8)));
  }
  std::vector<float> scores;
  for (size_t i = 0; i < n_scores; ++i) scores.push_back(-static_cast<float>(draw.byte()) / 16);
  file.tokens(tokens, types, scores);
  std::vector<std::string> merges;
  for (size_t k = draw.below(8); k > 0; --k) merges.push_back(token(draw) + (draw.below(16) ? " " : "") + token(draw));
  file.set("tokenizer.ggml.merges", GgufEncoded::texts(std::span<const std::string>(merges)));
  for (size_t k = draw.below(5); k > 0; --k)
    file.set(std::string("tokenizer.ggml.") + kIds[draw.below(10)] + "_token_id",
             GgufEncoded::number(
                 static_cast<uint32_t>(draw.below(16) == 0 ? draw.byte() * 0x01010101u : draw.below(n + 1))));
  for (const char* flag : {"add_bos_token", "add_eos_token", "add_space_prefix", "remove_extra_whitespaces"})
    if (draw.below(3) == 0) file.set(std::string("tokenizer.ggml.") + flag, GgufEncoded::number(draw.below(2) != 0));
  if (draw.below(3) == 0) {
    const auto blob = charsmap(draw);
    file.set("tokenizer.ggml.precompiled_charsmap", GgufEncoded::numbers(std::span<const uint8_t>(blob)));
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 2048) return 0;
  set_log_level(LogLevel::quiet);
  Draw draw(data, size);
  const auto tokenizer = make(draw).tokenizer();
  if (!tokenizer) {
    require(tokenizer.error().site != nullptr && !tokenizer.error().site->subject.empty());
    require(!tokenizer.error().site->expected.empty());
    return 0;
  }
  const std::string text = draw.rest() + "ab a <|end|>\xff\xe2\x96\x81 <0x41>";
  for (const bool parse : {false, true}) {
    const auto ids = (*tokenizer)->encode(text, {.add_special = true, .parse_special = parse});
    StreamDecoder decoder(*tokenizer);
    for (const TokenId id : ids) {
      require(id >= 0 && static_cast<size_t>(id) < (*tokenizer)->n_vocab());
      decoder.push(id);
      (*tokenizer)->is_end_of_generation(id);
    }
    decoder.finish();
    (*tokenizer)->decode(ids, true);
  }
  for (const TokenId id : (*tokenizer)->special().end_of_generation) require((*tokenizer)->is_end_of_generation(id));
  return 0;
}
