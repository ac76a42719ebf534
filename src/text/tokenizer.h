// Text ↔ token ids, from a GGUF file's metadata alone. Between chat template and scheduler on the way in, between
// sampler and caller on the way out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"

namespace tamis {

using TokenId = int32_t;
constexpr TokenId kNoToken = -1;

enum class TokenType : uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

// The special tokens of a vocabulary; kNoToken where it has none.
struct SpecialTokens {
  TokenId bos = kNoToken, eos = kNoToken, eot = kNoToken, eom = kNoToken, unk = kNoToken, sep = kNoToken,
          pad = kNoToken, cls = kNoToken, mask = kNoToken;
  std::vector<TokenId> end_of_generation;  // every token that ends an answer (EOS, EOT, EOM, …)
  bool add_bos = false;                    // the model wants BOS in front
  bool add_eos = false;
  bool add_space_prefix = false;
};

struct TokenizerOptions {
  std::string pre;  // overrides tokenizer.ggml.pre; "" = take the file's
};

struct EncodeOptions {
  bool add_special = false;    // BOS/EOS/CLS/SEP as the model says
  bool parse_special = false;  // control tokens spelled out in the text become those tokens
};

class Tokenizer {
 public:
  // Reads the vocabulary. Errors: format at the key that is wrong; unsupported for an unknown model or pre-tokenizer
  // name.
  static Result<std::shared_ptr<const Tokenizer>> from_gguf(const GgufFile& file, const TokenizerOptions& options = {});
  virtual ~Tokenizer() = default;

  virtual std::string_view model_name() const = 0;  // "gpt2", "llama", "bert", "t5"
  virtual std::string_view pre_name() const = 0;    // "" when the model has no pre-tokenizer
  virtual size_t n_vocab() const = 0;
  virtual const SpecialTokens& special() const = 0;
  virtual std::string_view token_text(TokenId id) const = 0;  // as stored in the file
  virtual TokenType token_type(TokenId id) const = 0;
  virtual bool is_end_of_generation(TokenId id) const = 0;
  virtual std::optional<TokenId> find_token(std::string_view stored_text) const = 0;

  // Any byte string, valid UTF-8 or not. Linear time, bounded stack.
  virtual std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const = 0;
  // The same, but no control token, and no user-defined token that looks like one, is recognised where it overlaps one
  // of `literal_ranges` (bytes [first, second), ascending and disjoint): there its spelling is ordinary text. Text is
  // still merged across the borders of ranges. (The base class serves tokenizers without control tokens.)
  virtual std::vector<TokenId> encode_masked(std::string_view text,
                                             std::span<const std::pair<size_t, size_t>> literal_ranges,
                                             const EncodeOptions& options) const {
    (void)literal_ranges;
    return encode(text, options);
  }
  // The bytes a token stands for; control tokens give "" unless `show_control`. Out-of-range ids give "".
  virtual std::string token_bytes(TokenId id, bool show_control = false) const = 0;
  // decode(encode(text)) == text for byte-level vocabularies, any bytes.
  virtual std::string decode(std::span<const TokenId> ids, bool show_control = false) const = 0;
};

// Turns tokens into text piece by piece; never hands out part of a UTF-8 sequence. Joined pieces equal decode() of all
// ids (with ill-formed bytes replaced by U+FFFD).
class StreamDecoder {
 public:
  // `continues`: the tokens go on from text already shown, so a leading space mark is a space (for decode() it is not).
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool continues = false)
      : tokenizer_(std::move(tokenizer)), is_first_(!continues) {}
  std::string push(TokenId id);  // text that became certain
  std::string finish();          // what was held back

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string held_;
  bool is_first_ = true;
};

}  // namespace tamis
