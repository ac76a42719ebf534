// The tokenizer of the way back: tokenizer.json for byte-level BPE, tokenizer.model for SentencePiece.
#include <algorithm>
#include <cmath>

#include "convert/convert_back.h"
#include "convert/hf_pretokenizer.h"
#include "convert/hf_sentencepiece.h"
#include "formats/json.h"
#include "text/tokenizer_models.h"
#include "text/vocab.h"

namespace tamis {
namespace {

bool is_padding(const VocabData& vocab, size_t id) {
  return vocab.types[id] == TokenType::unused && vocab.tokens[id] == fmt::format("[PAD{}]", id);
}

Json added_token(const VocabData& vocab, size_t id) {
  Json token = Json::object();
  token.set("id", Json(uint64_t{id})).set("content", vocab.tokens[id]).set("single_word", false).set("lstrip", false);
  return token.set("rstrip", false).set("normalized", false).set("special", vocab.types[id] == TokenType::control);
}

// BOS in front and EOS behind, as the vocabulary says.
Json post_processor(const VocabData& vocab) {
  const std::pair<bool, TokenId> ends[] = {{vocab.add_bos.value_or(false), vocab.special.bos},
                                           {vocab.add_eos.value_or(false), vocab.special.eos}};
  Json single = Json::array(), pair = Json::array(), tokens = Json::object();
  const auto sequence = [](const char* name) {
    Json inner = Json::object(), outer = Json::object();
    return outer.set("Sequence", inner.set("id", name).set("type_id", 0));
  };
  const auto special = [&](TokenId id) {
    const std::string_view text = vocab.tokens[static_cast<size_t>(id)];
    Json inner = Json::object(), outer = Json::object(), entry = Json::object();
    entry.set("id", text).set("ids", Json(Json::Array{Json(id)})).set("tokens", Json(Json::Array{Json(text)}));
    tokens.set(std::string(text), std::move(entry));
    return outer.set("SpecialToken", inner.set("id", text).set("type_id", 0));
  };
  for (size_t i = 0; i < 2; ++i) {
    const auto& [is_added, id] = ends[i];
    if (i == 1) single.push_back(sequence("A")), pair.push_back(sequence("A")), pair.push_back(sequence("B"));
    if (is_added && id != kNoToken) single.push_back(special(id)), pair.push_back(special(id));
  }
  if (tokens.as_object().empty()) return Json();
  Json out = Json::object();
  out.set("type", "TemplateProcessing").set("single", std::move(single)).set("pair", std::move(pair));
  return out.set("special_tokens", std::move(tokens));
}

Result<std::string> tokenizer_json(const VocabData& vocab) {
  TAMIS_TRY(Json steps, pre_tokenizer_json(vocab.has_pre ? vocab.pre : "gpt-2"));
  Json::Object entries;
  Json added = Json::array(), merges = Json::array();
  for (size_t i = 0; i < vocab.tokens.size(); ++i) {
    if (is_padding(vocab, i)) continue;
    const bool is_added = vocab.types[i] == TokenType::control || vocab.types[i] == TokenType::user_defined;
    if (is_added) added.push_back(added_token(vocab, i));
    entries.emplace_back(vocab.tokens[i], Json(uint64_t{i}));
  }
  for (const std::string_view merge : vocab.merges) {
    const size_t at = merge.find(' ', 1);
    if (at == merge.npos) continue;
    merges.push_back(Json(Json::Array{Json(merge.substr(0, at)), Json(merge.substr(at + 1))}));
  }
  Json decoder = Json::object(), model = Json::object(), out = Json::object();
  decoder.set("type", "ByteLevel").set("add_prefix_space", true).set("trim_offsets", true).set("use_regex", true);
  model.set("type", "BPE").set("dropout", nullptr).set("unk_token", nullptr).set("continuing_subword_prefix", nullptr);
  model.set("end_of_word_suffix", nullptr).set("fuse_unk", false).set("byte_fallback", false);
  model.set("ignore_merges", ignores_merges(vocab.has_pre ? vocab.pre : "gpt-2"));
  model.set("vocab", Json(std::move(entries))).set("merges", std::move(merges));
  out.set("version", "1.0").set("truncation", nullptr).set("padding", nullptr).set("added_tokens", std::move(added));
  out.set("normalizer", *steps.find("normalizer")).set("pre_tokenizer", *steps.find("pre_tokenizer"));
  out.set("post_processor", post_processor(vocab)).set("decoder", std::move(decoder)).set("model", std::move(model));
  return out.dump(1) + "\n";
}

std::string sentencepiece_bytes(const VocabData& vocab, bool is_unigram) {
  SentencePieceModel model;
  model.is_unigram = is_unigram;
  model.has_byte_fallback = std::count(vocab.types.begin(), vocab.types.end(), TokenType::byte) == 256;
  model.adds_dummy_prefix = vocab.add_space_prefix.value_or(true);
  model.removes_extra_whitespaces = vocab.remove_extra_whitespaces;
  model.unk_id = vocab.special.unk, model.bos_id = vocab.special.bos;
  model.eos_id = vocab.special.eos, model.pad_id = vocab.special.pad;
  model.charsmap = vocab.charsmap;
  for (size_t i = 0; i < vocab.tokens.size(); ++i) {
    SentencePiece piece{std::string(vocab.tokens[i]), vocab.scores.empty() ? 0 : vocab.scores[i],
                        static_cast<uint32_t>(vocab.types[i])};
    if (vocab.types[i] == TokenType::user_defined)  // kept with plain spaces in GGUF
      for (size_t at = 0; (at = piece.text.find(' ', at)) != std::string::npos; ++at)
        piece.text.replace(at, 1, "\u2581");
    model.pieces.push_back(std::move(piece));
  }
  return write_sentencepiece(model);
}

std::string tokenizer_config(const VocabData& vocab, bool is_bpe) {
  Json out = Json::object();
  out.set("tokenizer_class", is_bpe ? "PreTrainedTokenizerFast" : "LlamaTokenizer");
  const std::pair<const char*, TokenId> ids[] = {{"bos_token", vocab.special.bos}, {"eos_token", vocab.special.eos},
                                                 {"unk_token", vocab.special.unk}, {"pad_token", vocab.special.pad},
                                                 {"sep_token", vocab.special.sep}, {"cls_token", vocab.special.cls}};
  for (const auto& [key, id] : ids)
    if (id != kNoToken) out.set(key, vocab.tokens[static_cast<size_t>(id)]);
  if (vocab.add_bos) out.set("add_bos_token", *vocab.add_bos);
  if (vocab.add_eos) out.set("add_eos_token", *vocab.add_eos);
  return out.dump(2) + "\n";
}

}  // namespace

Status add_tokenizer_files(const GgufFile& file, ConvertBackPlan& plan) {
  if (file.find("tokenizer.ggml.tokens") == nullptr) return {};
  TAMIS_TRY(const VocabData vocab, load_vocab(file));
  const bool is_bpe = vocab.model == kByteLevelBpe;
  if (is_bpe) {
    const Result<std::string> text = tokenizer_json(vocab);
    if (!text) plan.warnings.push_back("no tokenizer is written: " + text.error().to_string());
    if (text) plan.files.emplace_back("tokenizer.json", *text);
  } else if (vocab.model == kSentencePieceBpe || vocab.model == kSentencePieceUnigram) {
    plan.files.emplace_back("tokenizer.model", sentencepiece_bytes(vocab, vocab.model == kSentencePieceUnigram));
  } else {
    plan.warnings.push_back(fmt::format("no tokenizer is written: model \"{}\" has no form here", vocab.model));
    return {};
  }
  plan.files.emplace_back("tokenizer_config.json", tokenizer_config(vocab, is_bpe));
  if (file.find("tokenizer.chat_template") != nullptr) {
    TAMIS_TRY(const std::string_view text, file.get_string("tokenizer.chat_template"));
    plan.files.emplace_back("chat_template.jinja", std::string(text));
  }
  return {};
}

}  // namespace tamis
