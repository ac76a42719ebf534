// The semantic cases: one valid model, one change each. Ids and verdicts: security.md §2.5 and its head.
#include "tests/api/semantic_cases.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "base/utf8.h"

namespace tamis::testing {
namespace {

constexpr uint32_t kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;

  void add(std::string text, uint32_t type) {
    scores.push_back(type == kNormal ? -static_cast<float>(tokens.size()) : 0.0f);
    tokens.push_back(std::move(text));
    types.push_back(static_cast<int32_t>(type));
  }
};

// 3 specials, 256 bytes, 41 pieces.
Vocabulary sentencepiece_vocabulary() {
  Vocabulary vocabulary;
  vocabulary.add("<unk>", kUnknown);
  vocabulary.add("<s>", kControl);
  vocabulary.add("</s>", kControl);
  for (uint32_t byte = 0; byte < 256; ++byte) vocabulary.add(fmt::format("<0x{:02X}>", byte), kByte);
  vocabulary.add("▁", kNormal);
  for (char letter = 'a'; letter <= 'z'; ++letter) vocabulary.add(std::string(1, letter), kNormal);
  for (const char* piece : {"▁t", "he", "in", "er", "an", "▁a", "on", "▁the", "re", "▁s", "en", "▁c", "it", "▁o"})
    vocabulary.add(piece, kNormal);
  return vocabulary;
}

// GPT-2's printable stand-in for a byte: itself when printable Latin-1, else the next free code point from U+0100.
std::string byte_level_text(uint32_t byte) {
  const auto is_printable = [](uint32_t b) {
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
  };
  uint32_t code_point = byte;
  if (!is_printable(byte)) {
    code_point = 0x100;
    for (uint32_t b = 0; b < byte; ++b) code_point += is_printable(b) ? 0 : 1;
  }
  std::string out;
  utf8_append(out, code_point);
  return out;
}

Vocabulary byte_level_vocabulary() {
  Vocabulary vocabulary;
  for (uint32_t byte = 0; byte < 256; ++byte) vocabulary.add(byte_level_text(byte), kNormal);
  for (const char* piece : {"Ġt", "he", "Ġthe"}) vocabulary.add(piece, kNormal);
  vocabulary.add("<|endoftext|>", kControl);
  return vocabulary;
}

void set_configuration(GgufBytes& file) {
  file.set("general.architecture", text("llama"))
      .set("llama.block_count", u32(1))
      .set("llama.context_length", u32(64))
      .set("llama.embedding_length", u32(32))
      .set("llama.feed_forward_length", u32(64))
      .set("llama.attention.head_count", u32(4))
      .set("llama.attention.head_count_kv", u32(2))
      .set("llama.attention.layer_norm_rms_epsilon", f32(1e-5f))
      .set("llama.rope.dimension_count", u32(8))
      .set("llama.rope.freq_base", f32(10000.0f));
}

void add_tensors(GgufBytes& file, uint64_t n_vocab) {
  file.add(tensor("token_embd.weight", {32, n_vocab}));
  file.add(tensor("blk.0.attn_norm.weight", {32}));
  file.add(tensor("blk.0.attn_q.weight", {32, 32}));
  file.add(tensor("blk.0.attn_k.weight", {32, 16}));
  file.add(tensor("blk.0.attn_v.weight", {32, 16}));
  file.add(tensor("blk.0.attn_output.weight", {32, 32}));
  file.add(tensor("blk.0.ffn_norm.weight", {32}));
  file.add(tensor("blk.0.ffn_gate.weight", {32, 64}));
  file.add(tensor("blk.0.ffn_up.weight", {32, 64}));
  file.add(tensor("blk.0.ffn_down.weight", {64, 32}));
  file.add(tensor("output_norm.weight", {32}));
  file.add(tensor("output.weight", {32, n_vocab}));
}

GgufBytes spm_with(const Vocabulary& vocabulary) {
  GgufBytes file;
  set_configuration(file);
  file.set("tokenizer.ggml.model", text("llama"))
      .set("tokenizer.ggml.tokens", texts(vocabulary.tokens))
      .set("tokenizer.ggml.scores", f32s(vocabulary.scores))
      .set("tokenizer.ggml.token_type", i32s(vocabulary.types))
      .set("tokenizer.ggml.bos_token_id", u32(1))
      .set("tokenizer.ggml.eos_token_id", u32(2))
      .set("tokenizer.ggml.unknown_token_id", u32(0));
  add_tensors(file, vocabulary.tokens.size());
  return file;
}

// Collects cases: each is a valid model with one edit.
class Cases {
 public:
  using Edit = std::function<void(GgufBytes&)>;

  void refuse(std::string id, std::string what, std::string subject, const Edit& edit) {
    add({std::move(id), std::move(what), std::move(subject), false, false, {}}, valid_model(), edit);
  }
  void refuse_bpe(std::string id, std::string what, std::string subject, const Edit& edit) {
    add({std::move(id), std::move(what), std::move(subject), false, false, {}}, valid_bpe_model(), edit);
  }
  void accept(std::string id, std::string what, const Edit& edit) {
    add({std::move(id), std::move(what), "", true, true, {}}, valid_model(), edit);
  }
  void accept_bpe(std::string id, std::string what, const Edit& edit) {
    add({std::move(id), std::move(what), "", true, true, {}}, valid_bpe_model(), edit);
  }
  // Loads, and does not verify; the refusal names `subject`.
  void load_only(std::string id, std::string what, std::string subject, const Edit& edit) {
    add({std::move(id), std::move(what), std::move(subject), true, false, {}}, valid_model(), edit);
  }
  void add_files(SemanticCase added, std::vector<NamedFile> files) {
    added.files = std::move(files);
    cases_.push_back(std::move(added));
  }
  // A key of the configuration takes another value.
  void key(std::string id, const std::string& name, const std::string& shown, RawValue value) {
    refuse(std::move(id), name + " = " + shown, name, [&](GgufBytes& file) { file.set(name, std::move(value)); });
  }

  std::vector<SemanticCase> take() { return std::move(cases_); }

 private:
  void add(SemanticCase added, GgufBytes file, const Edit& edit) {
    edit(file);
    const std::string name = added.id + ".gguf";
    add_files(std::move(added), {{name, file.build()}});
  }

  std::vector<SemanticCase> cases_;
};

void add_architecture_cases(Cases& cases) {
  cases.accept("S000", "nothing changed", [](GgufBytes&) {});
  cases.refuse("S001", "no architecture", "general.architecture",
               [](GgufBytes& file) { file.erase("general.architecture"); });
  cases.key("S002", "general.architecture", "u32", u32(1));
  cases.key("S002b", "general.architecture", "no-such", text("no-such"));
  cases.refuse("S003", "no block_count", "llama.block_count", [](GgufBytes& file) { file.erase("llama.block_count"); });
  cases.key("S004", "llama.block_count", "a string", text("1"));
  cases.key("S005", "llama.block_count", "0", u32(0));
  cases.refuse("S006", "block_count 513", "blk.1.", [](GgufBytes& file) { file.set("llama.block_count", u32(513)); });
  cases.key("S007", "llama.block_count", "2^31", u32(0x80000000u));
  cases.key("S008", "llama.block_count", "2^32-1", u32(0xffffffffu));
}

void add_head_cases(Cases& cases) {
  const std::string n_head = "llama.attention.head_count", n_head_kv = "llama.attention.head_count_kv";
  cases.key("S010", n_head, "0", u32(0));
  cases.key("S011", n_head, "3, which does not divide 32", u32(3));
  cases.key("S012", n_head, "2^31", u32(0x80000000u));
  cases.refuse("S013", "no head_count", n_head, [&](GgufBytes& file) { file.erase(n_head); });
  cases.key("S014", n_head_kv, "0", u32(0));
  cases.key("S015", n_head_kv, "3, which does not divide 4", u32(3));
  cases.key("S016", n_head_kv, "8, more than the heads", u32(8));
  cases.key("S017", n_head, "[4, 4] for one layer", u32s({4, 4}));
  cases.key("S018", "llama.feed_forward_length", "an empty array", u32s({}));
  cases.key("S019", n_head_kv, "[0]", u32s({0}));
  cases.key("S019b", n_head, "an array of strings", texts({"4"}));
}

void add_width_cases(Cases& cases) {
  const std::string n_embd = "llama.embedding_length", n_ff = "llama.feed_forward_length";
  cases.key("S020", n_embd, "0", u32(0));
  cases.refuse("S021", "embedding_length 33", "", [&](GgufBytes& file) { file.set(n_embd, u32(33)); });
  cases.refuse("S022", "embedding_length 2^31", "", [&](GgufBytes& file) { file.set(n_embd, u32(0x80000000u)); });
  cases.key("S023", n_ff, "0", u32(0));
  cases.refuse("S024", "feed_forward_length 63", "blk.0.ffn_", [&](GgufBytes& file) { file.set(n_ff, u32(63)); });
  cases.refuse("S024b", "feed_forward_length 2^32-1", "", [&](GgufBytes& file) { file.set(n_ff, u32(0xffffffffu)); });
  cases.key("S025", "llama.context_length", "0", u32(0));
  cases.accept("S026", "context_length 2^32-1",
               [](GgufBytes& file) { file.set("llama.context_length", u32(0xffffffffu)); });
}

void add_number_cases(Cases& cases) {
  const std::string rot_dim = "llama.rope.dimension_count", theta = "llama.rope.freq_base";
  const std::string eps = "llama.attention.layer_norm_rms_epsilon";
  cases.key("S030", rot_dim, "0", u32(0));
  cases.key("S031", rot_dim, "7", u32(7));
  cases.key("S032", rot_dim, "16, more than a head has", u32(16));
  cases.key("S033", rot_dim, "2^31", u32(0x80000000u));
  cases.key("S034", eps, "NaN", f32(kNan));
  cases.key("S035", eps, "-1", f32(-1.0f));
  cases.key("S036", eps, "0", f32(0.0f));
  cases.key("S037", eps, "infinity", f32(kInf));
  cases.key("S037b", eps, "u32", u32(1));
  cases.key("S040", theta, "0", f32(0.0f));
  cases.key("S041", theta, "NaN", f32(kNan));
  cases.key("S042", theta, "-1", f32(-1.0f));
  cases.key("S043", "llama.embedding_length", "f32 32", f32(32.0f));
  cases.key("S044", "llama.attention.head_count", "i32 -4", i32(-4));
}

void add_expert_cases(Cases& cases) {
  const auto experts = [](uint32_t n_expert, uint32_t n_used) {
    return [=](GgufBytes& file) {
      file.set("llama.expert_count", u32(n_expert)).set("llama.expert_used_count", u32(n_used));
    };
  };
  cases.refuse("S045", "experts without tensors", "blk.0.ffn_", experts(4, 2));
  cases.refuse("S046", "more experts used than there are", "llama.expert_used_count", experts(2, 4));
  cases.refuse("S046b", "no expert used", "llama.expert_used_count", experts(2, 0));
  cases.refuse("S047", "10^9 experts", "", experts(1000000000, 2));
  cases.key("S048", "llama.attention.key_length", "0", u32(0));
  cases.key("S049", "llama.attention.key_length", "2^31", u32(0x80000000u));
  cases.refuse("S049b", "key_length 12, and tensors of 8", "blk.0.attn_", [](GgufBytes& file) {
    file.set("llama.attention.key_length", u32(12)).set("llama.attention.value_length", u32(12));
  });
}

void add_vocabulary_cases(Cases& cases) {
  const std::string tokens = "tokenizer.ggml.tokens", scores = "tokenizer.ggml.scores",
                    types = "tokenizer.ggml.token_type";
  const Vocabulary good = sentencepiece_vocabulary();
  cases.refuse("S050", "no tokens", tokens, [&](GgufBytes& file) { file.erase(tokens); });
  cases.key("S051", tokens, "none", texts({}));
  cases.key("S052", tokens, "an array of u32", u32s({1, 2, 3}));
  cases.key("S053", scores, "one less than tokens", f32s({good.scores.begin(), good.scores.end() - 1}));
  cases.key("S054", scores, "an array of u8", u8s(std::vector<uint8_t>(300)));
  cases.key("S055", types, "one less than tokens", i32s({good.types.begin(), good.types.end() - 1}));
  cases.key("S056", types, "an array of u8", u8s(std::vector<uint8_t>(300, 1)));
  std::vector<int32_t> odd_types = good.types;
  odd_types[290] = 99;
  cases.key("S057", types, "99", i32s(odd_types));
  std::vector<float> odd_scores = good.scores;
  odd_scores[290] = kNan;
  cases.key("S073", scores, "NaN", f32s(odd_scores));
}

// Cases whose one token differs from the valid vocabulary.
void add_token_cases(Cases& cases) {
  const auto with_token = [](size_t id, std::string changed) {
    return [=](GgufBytes& file) {
      Vocabulary vocabulary = sentencepiece_vocabulary();
      vocabulary.tokens[id] = changed;
      file.set("tokenizer.ggml.tokens", texts(vocabulary.tokens));
    };
  };
  cases.refuse("S058", "a token twice", "tokenizer.ggml.tokens", with_token(290, "he"));
  cases.accept("S059", "a token that is not UTF-8", with_token(290, "\xff\xfe"));
  cases.accept("S060", "a token with a NUL", with_token(290, std::string("a\0b", 3)));
  cases.accept("S061", "an empty token", with_token(290, ""));
  cases.refuse("S064", "byte token <0xZZ>", "tokenizer.ggml.tokens", with_token(68, "<0xZZ>"));
  cases.refuse("S065", "byte token <0x-1>", "tokenizer.ggml.tokens", with_token(68, "<0x-1>"));
  cases.key("S062", "tokenizer.ggml.bos_token_id", "300 of 300", u32(300));
  cases.key("S063", "tokenizer.ggml.eos_token_id", "2^31", u32(0x80000000u));
  cases.refuse("S072", "one token, and the default ids past it", "", [](GgufBytes& file) {
    file.set("tokenizer.ggml.tokens", texts({"a"})).set("tokenizer.ggml.scores", f32s({0.0f}));
    file.set("tokenizer.ggml.token_type", i32s({1}));
    file.erase("tokenizer.ggml.bos_token_id")
        .erase("tokenizer.ggml.eos_token_id")
        .erase("tokenizer.ggml.unknown_token_id");
    file.replace(tensor("token_embd.weight", {32, 1})).replace(tensor("output.weight", {32, 1}));
  });
}

void add_tokenizer_cases(Cases& cases) {
  const std::string merges = "tokenizer.ggml.merges", charsmap = "tokenizer.ggml.precompiled_charsmap";
  cases.key("S066", "tokenizer.ggml.model", "no-such", text("no-such"));
  cases.refuse("S066b", "no tokenizer model", "tokenizer.ggml.model",
               [](GgufBytes& file) { file.erase("tokenizer.ggml.model"); });
  cases.refuse_bpe("S067", "no merges", merges, [&](GgufBytes& file) { file.erase(merges); });
  cases.refuse_bpe("S068", "a merge without a space", merges, [&](GgufBytes& file) {
    file.set(merges, texts({"Ġ t", "he"}));
  });
  cases.refuse_bpe("S069", "merges of u32", merges, [&](GgufBytes& file) { file.set(merges, u32s({1, 2})); });
  cases.accept_bpe("S069b", "a merge of unknown tokens", [&](GgufBytes& file) {
    file.set(merges, texts({"Ġ t", "no such"}));
  });
  cases.refuse("S070", "charsmap of 3 bytes", charsmap, [&](GgufBytes& file) {
    file.set("tokenizer.ggml.model", text("t5")).set(charsmap, u8s({1, 2, 3}));
  });
  cases.refuse("S071", "charsmap's inner size past its end", charsmap, [&](GgufBytes& file) {
    file.set("tokenizer.ggml.model", text("t5")).set(charsmap, u8s({0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0}));
  });
}

void add_tensor_cases(Cases& cases) {
  constexpr uint32_t kQ8_0 = 8, kI8 = 24;
  cases.refuse("S080", "no attn_q", "blk.0.attn_q.weight",
               [](GgufBytes& file) { file.erase_tensor("blk.0.attn_q.weight"); });
  cases.refuse("S081", "no token_embd", "token_embd.weight",
               [](GgufBytes& file) { file.erase_tensor("token_embd.weight"); });
  cases.refuse("S082", "attn_q of another shape", "blk.0.attn_q.weight", [](GgufBytes& file) {
    file.replace(tensor("blk.0.attn_q.weight", {32, 48}));
  });
  cases.refuse("S082b", "attn_q with three dimensions", "blk.0.attn_q.weight", [](GgufBytes& file) {
    file.replace(tensor("blk.0.attn_q.weight", {32, 32, 2}));
  });
  cases.refuse("S083", "token_embd of fewer rows than tokens", "", [](GgufBytes& file) {
    file.replace(tensor("token_embd.weight", {32, 299})).replace(tensor("output.weight", {32, 299}));
  });
  cases.refuse("S084", "attn_q stored as I8", "blk.0.attn_q.weight", [](GgufBytes& file) {
    file.replace(tensor("blk.0.attn_q.weight", {32, 32}, kI8));
  });
  cases.refuse("S085", "no output_norm", "output_norm.weight",
               [](GgufBytes& file) { file.erase_tensor("output_norm.weight"); });
  cases.load_only("S086", "all weights NaN", "blk.0.attn_q.weight", [](GgufBytes& file) {
    RawTensor bad = tensor("blk.0.attn_q.weight", {32, 32});
    for (size_t i = 0; i < 32 * 32; ++i) std::memcpy(bad.bytes.data() + i * 4, &kNan, 4);
    file.replace(bad);
  });
  cases.load_only("S086b", "a NaN scale in a quantized tensor", "blk.0.ffn_up.weight", [](GgufBytes& file) {
    RawTensor bad = tensor("blk.0.ffn_up.weight", {32, 64}, kQ8_0);
    bad.bytes[34 * 40] = '\0';
    bad.bytes[34 * 40 + 1] = '\x7e';  // block 40: scale 0x7e00
    file.replace(bad);
  });
  cases.load_only("S087", "a tensor too many", "blk.0.extra.weight",
                  [](GgufBytes& file) { file.add(tensor("blk.0.extra.weight", {32})); });
  cases.refuse("S088", "a norm stored as Q8_0", "blk.0.attn_norm.weight",
               [](GgufBytes& file) { file.replace(tensor("blk.0.attn_norm.weight", {32}, kQ8_0)); });
}

// Two shards of the valid model: metadata and embedding in the first, the rest in the second.
std::vector<NamedFile> two_shards(const std::string& id, uint32_t second_no) {
  GgufBytes first = spm_with(sentencepiece_vocabulary()), second;
  for (const char* name : {"blk.0.attn_q.weight", "blk.0.attn_k.weight"}) first.erase_tensor(name);
  second.add(tensor("blk.0.attn_q.weight", {32, 32})).add(tensor("blk.0.attn_k.weight", {32, 16}));
  const RawValue count{2, std::string("\x02\x00", 2)}, total = i32(12);
  first.set("split.no", {2, std::string(2, '\0')}).set("split.count", count).set("split.tensors.count", total);
  second.set("split.no", {2, {static_cast<char>(second_no), '\0'}})
      .set("split.count", count)
      .set("split.tensors.count", total);
  return {{id + "-00001-of-00002.gguf", first.build()}, {id + "-00002-of-00002.gguf", second.build()}};
}

void add_shard_cases(Cases& cases) {
  cases.add_files({"S089", "two shards", "", true, true, {}}, two_shards("S089", 1));
  GgufBytes many = valid_model();
  many.set("split.no", {2, std::string(2, '\0')})
      .set("split.count", {2, "\xff\xff"})
      .set("split.tensors.count", i32(12));
  cases.add_files({"S090", "split.count 65535", "split.count", false, false, {}}, {{"S090.gguf", many.build()}});
  cases.add_files({"S091", "the second shard says it is the first", "split.no", false, false, {}},
                  two_shards("S091", 0));
  std::vector<NamedFile> lonely = two_shards("S092", 1);
  lonely.pop_back();
  cases.add_files({"S092", "the second shard is missing", "S092-00002-of-00002.gguf", false, false, {}},
                  std::move(lonely));
}

void add_template_cases(Cases& cases) {
  const auto with_template = [](std::string source) {
    return [=](GgufBytes& file) { file.set("tokenizer.chat_template", text(source)); };
  };
  cases.accept("S093", "a macro that calls itself", with_template("{% macro x() %}{{ x() }}{% endmacro %}{{ x() }}"));
  cases.accept("S094", "a loop of 10^9 steps", with_template("{% for i in range(1000000000) %}{% endfor %}"));
  cases.load_only("S095", "60,000 open parentheses", "tokenizer.chat_template",
                  with_template("{{ " + std::string(60000, '(') + "1" + std::string(60000, ')') + " }}"));
  cases.accept(
      "S096", "a string that doubles",
      with_template("{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}"
                    "{% endfor %}{{ ns.s }}"));
  cases.refuse("S097", "a control vector whose name counts to 2^30", "controlvector", [](GgufBytes& file) {
    file = GgufBytes();
    file.set("general.architecture", text("controlvector")).set("controlvector.layer_count", u32(1));
    file.add(tensor("direction.1073741824", {32}));
  });
}

}  // namespace

GgufBytes valid_model() { return spm_with(sentencepiece_vocabulary()); }

GgufBytes valid_bpe_model() {
  const Vocabulary vocabulary = byte_level_vocabulary();
  GgufBytes file;
  set_configuration(file);
  file.set("tokenizer.ggml.model", text("gpt2"))
      .set("tokenizer.ggml.pre", text("gpt-2"))
      .set("tokenizer.ggml.tokens", texts(vocabulary.tokens))
      .set("tokenizer.ggml.token_type", i32s(vocabulary.types))
      .set("tokenizer.ggml.merges", texts({"Ġ t", "h e", "Ġt he"}))
      .set("tokenizer.ggml.bos_token_id", u32(259))
      .set("tokenizer.ggml.eos_token_id", u32(259));
  add_tensors(file, vocabulary.tokens.size());
  return file;
}

std::vector<SemanticCase> semantic_cases() {
  Cases cases;
  add_architecture_cases(cases);
  add_head_cases(cases);
  add_width_cases(cases);
  add_number_cases(cases);
  add_expert_cases(cases);
  add_vocabulary_cases(cases);
  add_token_cases(cases);
  add_tokenizer_cases(cases);
  add_tensor_cases(cases);
  add_shard_cases(cases);
  add_template_cases(cases);
  return cases.take();
}

}  // namespace tamis::testing
