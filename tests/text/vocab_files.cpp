// Encoding of the small vocabularies.
#include "tests/text/vocab_files.h"

#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "text/byte_alphabet.h"

namespace tamis::testing {
namespace {

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Bytes that stay alive as long as the file that reads them.
class OwnedSource final : public ByteSource {
 public:
  explicit OwnedSource(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t size_bytes() const override { return bytes_.size(); }
  Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) override {
    if (offset >= bytes_.size()) return size_t{0};
    const size_t n = std::min<size_t>(out.size(), bytes_.size() - offset);
    std::memcpy(out.data(), bytes_.data() + offset, n);
    return n;
  }

 private:
  std::string bytes_;
};

}  // namespace

VocabFile& VocabFile::set(std::string key, GgufEncoded value) {
  for (auto& [name, old] : keys_)
    if (name == key) {
      old = std::move(value);
      return *this;
    }
  keys_.emplace_back(std::move(key), std::move(value));
  return *this;
}

VocabFile& VocabFile::remove(std::string_view key) {
  std::erase_if(keys_, [&](const auto& entry) { return entry.first == key; });
  return *this;
}

VocabFile& VocabFile::tokens(const std::vector<std::string>& tokens, const std::vector<int32_t>& types,
                             const std::vector<float>& scores) {
  set("tokenizer.ggml.tokens", GgufEncoded::texts(std::span<const std::string>(tokens)));
  if (!scores.empty()) set("tokenizer.ggml.scores", GgufEncoded::numbers(std::span<const float>(scores)));
  if (!types.empty()) set("tokenizer.ggml.token_type", GgufEncoded::numbers(std::span<const int32_t>(types)));
  return *this;
}

std::string VocabFile::bytes() const {
  std::string out = "GGUF";
  put<uint32_t>(out, 3);
  put<uint64_t>(out, 0);
  put<uint64_t>(out, keys_.size());
  for (const auto& [key, value] : keys_) {
    put<uint64_t>(out, key.size());
    out += key;
    put<uint32_t>(out, static_cast<uint32_t>(value.type()));
    out += value.bytes();
  }
  return out;
}

Result<GgufFile> VocabFile::open() const { return GgufFile::open(std::make_shared<OwnedSource>(bytes())); }

Result<std::shared_ptr<const Tokenizer>> VocabFile::tokenizer(const TokenizerOptions& options) const {
  TAMIS_TRY(const GgufFile file, open());
  return Tokenizer::from_gguf(file, options);
}

VocabFile bpe_vocab(std::string_view pre, const std::vector<std::string>& merges) {
  const ByteAlphabet& alphabet = ByteAlphabet::get();
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(alphabet.encode(std::string(1, static_cast<char>(byte))));
  std::vector<std::string> spelled;
  for (const std::string& merge : merges) {
    const size_t space = merge.find(' ', 1);
    const std::string left = alphabet.encode(merge.substr(0, space)), right = alphabet.encode(merge.substr(space + 1));
    spelled.push_back(left + " " + right);
    if (std::find(tokens.begin(), tokens.end(), left + right) == tokens.end()) tokens.push_back(left + right);
  }
  std::vector<int32_t> types(tokens.size(), 1);
  for (const auto& [text, type] :
       std::vector<std::pair<std::string, int32_t>>{{"<|im_start|>", 3}, {"<|im_end|>", 3}, {"<tool>", 4}}) {
    tokens.push_back(text);
    types.push_back(type);
  }
  VocabFile file;
  file.set("tokenizer.ggml.model", GgufEncoded::text("gpt2"));
  if (!pre.empty()) file.set("tokenizer.ggml.pre", GgufEncoded::text(pre));
  file.tokens(tokens, types);
  file.set("tokenizer.ggml.merges", GgufEncoded::texts(std::span<const std::string>(spelled)));
  return file;
}

std::vector<std::string> common_merges() {
  return {
      "t h", "th e", "h e",  "l l", "he ll", "hell o", "w o", "wo r", "  the",
      "i n", "1 2",  "12 3", "A A", "AA AA", "\n \n",  ". .", "a n",  "d o",
  };
}

VocabFile spm_vocab(const std::vector<std::pair<std::string, float>>& pieces) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    types.push_back(6);
  }
  std::vector<float> scores(tokens.size(), 0.0f);
  for (const auto& [text, score] : pieces) {
    tokens.push_back(text);
    types.push_back(1);
    scores.push_back(score);
  }
  VocabFile file;
  file.set("tokenizer.ggml.model", GgufEncoded::text("llama"));
  return file.tokens(tokens, types, scores);
}

VocabFile wordpiece_vocab(const std::vector<std::string>& pieces) {
  std::vector<std::string> tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]"};
  std::vector<int32_t> types = {3, 3, 3, 3};
  for (const std::string& piece : pieces) {
    tokens.push_back(piece);
    types.push_back(1);
  }
  VocabFile file;
  file.set("tokenizer.ggml.model", GgufEncoded::text("bert"));
  file.tokens(tokens, types);
  file.set("tokenizer.ggml.unknown_token_id", GgufEncoded::number(uint32_t{1}));
  file.set("tokenizer.ggml.cls_token_id", GgufEncoded::number(uint32_t{2}));
  file.set("tokenizer.ggml.seperator_token_id", GgufEncoded::number(uint32_t{3}));
  return file;
}

VocabFile unigram_vocab(const std::vector<std::pair<std::string, float>>& pieces) {
  std::vector<std::string> tokens = {"<pad>", "</s>", "<unk>"};
  std::vector<int32_t> types = {3, 3, 2};
  std::vector<float> scores = {0, 0, 0};
  for (const auto& [text, score] : pieces) {
    tokens.push_back(text);
    types.push_back(1);
    scores.push_back(score);
  }
  VocabFile file;
  file.set("tokenizer.ggml.model", GgufEncoded::text("t5"));
  file.set("tokenizer.ggml.add_space_prefix", GgufEncoded::number(true));
  return file.tokens(tokens, types, scores);
}

std::string read_golden(const std::string& name) {
  auto text = read_text_file(std::string(TAMIS_SOURCE_DIR "/tests/golden/") + name, uint64_t{16} << 20);
  return text ? *text : std::string();
}

}  // namespace tamis::testing
