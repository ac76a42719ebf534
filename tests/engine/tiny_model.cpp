// Building the tiny llama of the engine tests.
#include "tests/engine/tiny_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "base/rng.h"
#include "formats/gguf_writer.h"
#include "text/byte_alphabet.h"

namespace tamis::test {
namespace {

constexpr uint32_t kLayers = 2, kEmbd = 32, kHead = 4, kHeadKv = 2, kHeadDim = 8;

void must(const Status& status) {
  if (status) return;
  std::cerr << status.error().to_string() << "\n";
  std::abort();
}

void add_metadata(GgufWriter& writer, const TinyModel& model) {
  const std::string arch = model.window > 0 ? "phi3" : "llama";
  must(writer.add_string("general.architecture", arch));
  must(writer.add_string("general.name", "tiny"));
  must(writer.add_u32(arch + ".block_count", kLayers));
  must(writer.add_u32(arch + ".context_length", model.n_ctx_train));
  must(writer.add_u32(arch + ".embedding_length", kEmbd));
  must(writer.add_u32(arch + ".feed_forward_length", model.n_ff));
  must(writer.add_u32(arch + ".attention.head_count", kHead));
  must(writer.add_u32(arch + ".attention.head_count_kv", kHeadKv));
  must(writer.add_f32(arch + ".attention.layer_norm_rms_epsilon", 1e-5f));
  if (model.window > 0) must(writer.add_u32(arch + ".attention.sliding_window", model.window));
  if (model.n_expert > 0) {
    must(writer.add_u32(arch + ".expert_count", model.n_expert));
    must(writer.add_u32(arch + ".expert_used_count", 1));
  }
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back(model.is_sentencepiece ? fmt::format("<0x{:02X}>", byte)
                                            : ByteAlphabet::get().encode(std::string(1, static_cast<char>(byte))));
  for (const char* text : {"<|bos|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"}) tokens.push_back(text);
  tokens.push_back(tokens[0] + tokens[1]);
  const std::vector<std::string> merges = {tokens[0] + " " + tokens[1]};
  constexpr int32_t kNormal = 1, kByte = 6;
  std::vector<int32_t> types(256, model.is_sentencepiece ? kByte : kNormal);
  types.resize(256 + 5, 3);
  types.push_back(kNormal);
  must(writer.add_string("tokenizer.ggml.model", model.is_sentencepiece ? "llama" : "gpt2"));
  must(writer.add_string("tokenizer.ggml.pre", model.is_sentencepiece ? "default" : "gpt-2"));
  if (model.is_sentencepiece)
    must(writer.add_numbers<float>("tokenizer.ggml.scores", std::vector<float>(tokens.size(), 0)));
  must(writer.add_strings("tokenizer.ggml.tokens", tokens));
  must(writer.add_numbers<int32_t>("tokenizer.ggml.token_type", types));
  must(writer.add_strings("tokenizer.ggml.merges", merges));
  if (model.has_bos) must(writer.add_u32("tokenizer.ggml.bos_token_id", kTinyBos));
  must(writer.add_u32("tokenizer.ggml.eos_token_id", kTinyEnd));
  must(writer.add_bool("tokenizer.ggml.add_bos_token", model.has_bos));
  if (model.has_template) must(writer.add_string("tokenizer.chat_template", model.chat_template));
}

struct TinyTensor {
  std::string name;
  Shape shape;
};

std::vector<TinyTensor> tensors(const TinyModel& model) {
  std::vector<TinyTensor> out = {{"token_embd.weight", {kTinyVocab, kEmbd}}, {"output_norm.weight", {kEmbd}}};
  for (uint32_t i = 0; i < kLayers; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    out.push_back({block + "attn_norm.weight", {kEmbd}});
    out.push_back({block + "attn_q.weight", {kHead * kHeadDim, kEmbd}});
    out.push_back({block + "attn_k.weight", {kHeadKv * kHeadDim, kEmbd}});
    out.push_back({block + "attn_v.weight", {kHeadKv * kHeadDim, kEmbd}});
    out.push_back({block + "attn_output.weight", {kEmbd, kHead * kHeadDim}});
    out.push_back({block + "ffn_norm.weight", {kEmbd}});
    const uint32_t n = model.n_expert, n_ff = model.n_ff;
    if (n > 0) {
      out.push_back({block + "ffn_gate_inp.weight", {n, kEmbd}});
      out.push_back({block + "ffn_gate_exps.weight", {n, n_ff, kEmbd}});
      out.push_back({block + "ffn_up_exps.weight", {n, n_ff, kEmbd}});
      out.push_back({block + "ffn_down_exps.weight", {n, kEmbd, n_ff}});
      continue;
    }
    const bool is_fused = model.window > 0;
    if (!is_fused) out.push_back({block + "ffn_gate.weight", {n_ff, kEmbd}});
    out.push_back({block + "ffn_up.weight", {is_fused ? 2 * n_ff : n_ff, kEmbd}});
    out.push_back({block + "ffn_down.weight", {kEmbd, n_ff}});
  }
  return out;
}

// The first two rows are opposite, so one of them beats the last, which is 0.
void kill_last_expert(std::vector<float>& router) {
  for (size_t k = 0; k < kEmbd; ++k) router[kEmbd + k] = -router[k];
  std::fill(router.end() - kEmbd, router.end(), 0.0f);
}

}  // namespace

std::string write_tiny_model(const TinyModel& model) {
  GgufWriter writer;
  add_metadata(writer, model);
  for (const TinyTensor& tensor : tensors(model)) must(writer.add_tensor(tensor.name, DType::f32, tensor.shape));
  const testing::TestInfo* const test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string path = testing::TempDir() + "tamis_tiny_" + test->test_suite_name() + "_" + test->name() + ".gguf";
  must(writer.begin(path, true));
  Rng rng(1);
  for (const TinyTensor& tensor : tensors(model)) {
    std::vector<float> values(tensor.shape.n_elements());
    const double scale = tensor.shape.n_dims == 1 ? 0 : 1.0 / std::sqrt(static_cast<double>(tensor.shape.row_len()));
    for (float& value : values) value = static_cast<float>(scale == 0 ? 1 : 2 * scale * rng.normal());
    if (model.has_dead_expert && tensor.name.ends_with("ffn_gate_inp.weight")) kill_last_expert(values);
    must(writer.write(std::as_bytes(std::span(values))));
  }
  must(writer.finish());
  return path;
}

std::shared_ptr<const Engine> load_tiny(const std::string& path, std::unique_ptr<Backend> backend,
                                        const EngineOptions& options) {
  auto engine = Engine::load(path, std::move(backend), options);
  if (!engine) {
    std::cerr << engine.error().to_string() << "\n";
    std::abort();
  }
  return *std::move(engine);
}

std::vector<float> plain_logits(const Engine& engine, const std::vector<TokenId>& prompt) {
  KvCache cache = engine.model().make_cache(engine.kv_types());
  std::vector<KvSlot> slots;
  std::vector<uint32_t> rows;
  for (uint32_t i = 0; i < prompt.size(); ++i) {
    slots.push_back({&cache, i});
    rows.push_back(i);
  }
  auto logits = engine.forward({.tokens = prompt, .slots = slots, .logits_rows = rows});
  EXPECT_TRUE(logits);
  return logits ? *std::move(logits) : std::vector<float>(prompt.size() * engine.model().n_vocab());
}

std::string too_ambiguous_grammar() {
  std::string body = "(\"a\" root?)";
  for (int i = 0; i < 40; ++i) body = "(" + body + "){0,9}";
  return "root ::= " + body + " \"b\"";
}

std::vector<TokenId> some_tokens(size_t n) {
  std::vector<TokenId> tokens(n);
  for (size_t i = 0; i < n; ++i) tokens[i] = static_cast<TokenId>((i * 41 + 3) % 256);
  return tokens;
}

std::string tiny_text(size_t n) {
  Rng rng(7);
  std::string text;
  while (text.size() < n) text += static_cast<char>('a' + rng.below(26));
  return text;
}

}  // namespace tamis::test
