// GPTQ and AWQ folders opened as models: the same logits, bit for bit, as the same numbers stored as floats; scattered
// groups, zero points, permuted heads and stacked experts among them.
#include "convert/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>

#include "base/float16.h"
#include "base/rng.h"
#include "compute/reference.h"
#include "cpu/backend.h"
#include "formats/safetensors.h"
#include "tests/base/temporary_dir.h"
#include "tests/models/synthetic.h"

namespace tamis {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kEmbd = 64, kFf = 128, kHeads = 4, kVocab = 30;

struct Tensor {
  SafeType type;
  std::vector<uint64_t> shape;
  std::vector<std::byte> bytes;
};
using Tensors = std::map<std::string, Tensor>;

template <class T>
Tensor tensor_of(SafeType type, std::vector<uint64_t> shape, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {type, std::move(shape), {bytes.begin(), bytes.end()}};
}

// How the matrices are packed.
struct Packing {
  std::string method = "gptq";
  uint32_t bits = 4, group_len = 32;
  bool is_symmetric = false, is_scattered = false, has_long_scales = false;
};

// A module of random codes as its packed tensors, and as float32 [n_out, n_in].
class Module {
 public:
  Module(const Packing& packing, uint64_t n_in, uint64_t n_out, uint64_t seed)
      : packing_(packing), n_in_(n_in), n_out_(n_out), n_groups_(n_in / packing.group_len), group_of_(n_in) {
    Rng rng(seed);
    for (uint64_t i = 0; i < n_in; ++i) group_of_[i] = static_cast<int32_t>(i / packing.group_len);
    if (packing.is_scattered)
      for (uint64_t i = n_in; i > 1; --i) std::swap(group_of_[i - 1], group_of_[rng.next() % i]);
    codes_.resize(n_in * n_out);
    for (uint32_t& code : codes_) code = static_cast<uint32_t>(rng.next()) & ((1u << packing.bits) - 1);
    for (uint64_t i = 0; i < n_groups_ * n_out; ++i) {
      const float scale = static_cast<float>(0.5 + static_cast<double>(rng.next() % 1000) / 1000) *
                          (packing.bits == 8 ? 0.001f : 0.02f);
      scales_.push_back(packing.has_long_scales ? scale : f16_to_f32(f32_to_f16(scale)));
      // GPTQ stores one less than is meant: 1 … 2^bits.
      zeros_.push_back(packing.is_symmetric ? 1u << (packing.bits - 1)
                                            : 1 + static_cast<uint32_t>(rng.next()) % ((1u << packing.bits) - 1));
    }
  }

  std::vector<float> floats() const {
    std::vector<float> out(n_out_ * n_in_);
    for (uint64_t o = 0; o < n_out_; ++o)
      for (uint64_t i = 0; i < n_in_; ++i) {
        const uint64_t at = static_cast<uint64_t>(group_of_[i]) * n_out_ + o;
        out[o * n_in_ + i] =
            scales_[at] * static_cast<float>(static_cast<int>(codes_[i * n_out_ + o]) - static_cast<int>(zeros_[at]));
      }
    return out;
  }

  void add_to(Tensors& tensors, const std::string& module) const {
    const uint64_t n_words = n_out_ * packing_.bits / 32;
    std::vector<uint32_t> zeros(n_groups_ * n_words);
    for (uint64_t g = 0; g < n_groups_; ++g)
      for (uint64_t o = 0; o < n_out_; ++o)
        put(zeros, g * n_words, 1, o, zeros_[g * n_out_ + o] - (packing_.method == "gptq" ? 1 : 0));
    std::vector<uint32_t> codes(n_in_ * n_out_ * packing_.bits / 32);
    for (uint64_t i = 0; i < n_in_; ++i)
      for (uint64_t o = 0; o < n_out_; ++o) {
        if (packing_.method == "awq")
          put(codes, i * n_words, 1, o, codes_[i * n_out_ + o]);
        else
          put(codes, o, n_out_, i, codes_[i * n_out_ + o]);
      }
    const bool is_awq = packing_.method == "awq";
    const std::vector<uint64_t> shape =
        is_awq ? std::vector<uint64_t>{n_in_, n_words} : std::vector<uint64_t>{n_in_ * packing_.bits / 32, n_out_};
    tensors[module + "qweight"] = tensor_of(SafeType::i32, shape, codes);
    tensors[module + "qzeros"] = tensor_of(SafeType::i32, {n_groups_, n_words}, zeros);
    std::vector<uint16_t> halves;
    for (const float scale : scales_) halves.push_back(f32_to_f16(scale));
    tensors[module + "scales"] = packing_.has_long_scales ? tensor_of(SafeType::f32, {n_groups_, n_out_}, scales_)
                                                          : tensor_of(SafeType::f16, {n_groups_, n_out_}, halves);
    if (!is_awq) tensors[module + "g_idx"] = tensor_of(SafeType::i32, {n_in_}, group_of_);
  }

 private:
  // Code `i` of a run of words `stride` apart; AutoAWQ puts eight outputs in the order 0 2 4 6 1 3 5 7.
  void put(std::vector<uint32_t>& words, uint64_t first, uint64_t stride, uint64_t i, uint32_t code) const {
    constexpr uint64_t kNibbleOf[] = {0, 4, 1, 5, 2, 6, 3, 7};
    if (packing_.method == "awq") {
      words[first + i / 8] |= code << (4 * kNibbleOf[i % 8]);
      return;
    }
    for (uint32_t b = 0; b < packing_.bits; ++b) {
      const uint64_t bit = i * packing_.bits + b;
      words[first + bit / 32 * stride] |= (code >> b & 1) << (bit % 32);
    }
  }

  Packing packing_;
  uint64_t n_in_, n_out_, n_groups_;
  std::vector<int32_t> group_of_;
  std::vector<uint32_t> codes_, zeros_;
  std::vector<float> scales_;
};

class Checkpoint : public ::testing::Test {
 protected:
  static std::vector<float> noise(uint64_t n, uint64_t seed, float mean = 0) {
    Rng rng(seed);
    std::vector<float> out(n);
    for (float& x : out) x = mean + static_cast<float>(rng.normal() * 0.3);
    return out;
  }

  void write(const std::string& name, const Tensors& tensors, const std::string& config) const {
    fs::create_directories(dir_.file(name));
    SafetensorsWriter writer;
    for (const auto& [tensor, value] : tensors)
      ASSERT_TRUE(writer.add_tensor(tensor, value.type, value.shape).has_value());
    ASSERT_TRUE(writer.begin(dir_.file(name + "/model.safetensors"), true).has_value());
    for (const auto& [tensor, value] : tensors) ASSERT_TRUE(writer.write(value.bytes).has_value());
    ASSERT_TRUE(writer.finish().has_value());
    ASSERT_TRUE(write_text_file(dir_.file(name + "/config.json"), config, true).has_value());
  }

  // The same model twice: in the folder "packed" as codes, in "floats" as what they mean. `n_expert` 0: dense.
  void write_both(const Packing& packing, uint64_t n_expert) {
    Tensors packed, floats;
    uint64_t seed = 1;
    const auto both = [&](const std::string& name, const Tensor& tensor) { packed[name] = floats[name] = tensor; };
    const auto vector = [&](const std::string& name) {
      both(name, tensor_of(SafeType::f32, {kEmbd}, noise(kEmbd, ++seed, 1)));
    };
    const auto linear = [&](const std::string& module, uint64_t n_out, uint64_t n_in) {
      const Module made(packing, n_in, n_out, ++seed);
      made.add_to(packed, module + ".");
      floats[module + ".weight"] = tensor_of(SafeType::f32, {n_out, n_in}, made.floats());
    };
    both("model.embed_tokens.weight", tensor_of(SafeType::f32, {kVocab, kEmbd}, noise(kVocab * kEmbd, ++seed)));
    vector("model.norm.weight");
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
      vector(layer + "input_layernorm.weight");
      vector(layer + "post_attention_layernorm.weight");
      linear(layer + "self_attn.q_proj", kEmbd, kEmbd);
      linear(layer + "self_attn.k_proj", kEmbd / 2, kEmbd);
      linear(layer + "self_attn.v_proj", kEmbd / 2, kEmbd);
      linear(layer + "self_attn.o_proj", kEmbd, kEmbd);
      if (n_expert > 0)
        both(layer + "block_sparse_moe.gate.weight",
             tensor_of(SafeType::f32, {n_expert, kEmbd}, noise(n_expert * kEmbd, ++seed)));
      for (uint64_t e = 0; e < n_expert; ++e) {
        const std::string expert = layer + "block_sparse_moe.experts." + std::to_string(e);
        linear(expert + ".w1", kFf, kEmbd);
        linear(expert + ".w3", kFf, kEmbd);
        linear(expert + ".w2", kEmbd, kFf);
      }
      if (n_expert > 0) continue;
      linear(layer + "mlp.gate_proj", kFf, kEmbd);
      linear(layer + "mlp.up_proj", kFf, kEmbd);
      linear(layer + "mlp.down_proj", kEmbd, kFf);
    }
    std::string config = fmt::format(
        R"({{"architectures":["{}"],"hidden_size":{},"intermediate_size":{},"num_hidden_layers":2,
            "num_attention_heads":{},"num_key_value_heads":{},"vocab_size":{},"rms_norm_eps":1e-5,
            "max_position_embeddings":64,"tie_word_embeddings":true)",
        n_expert > 0 ? "MixtralForCausalLM" : "LlamaForCausalLM", kEmbd, kFf, kHeads, kHeads / 2, kVocab);
    if (n_expert > 0) config += fmt::format(R"(,"num_local_experts":{},"num_experts_per_tok":2)", n_expert);
    write("floats", floats, config + "}");
    write("packed", packed,
          config + fmt::format(R"(,"quantization_config":{{"quant_method":"{}","bits":{},"group_size":{}}}}})",
                               packing.method, packing.bits, packing.group_len));
  }

  // Logits of 9 tokens, and how many tensors are codes.
  std::vector<float> logits_of(const std::string& folder, size_t* n_codes = nullptr) {
    const auto pool = ThreadPool::create(2);
    const auto opened = open_checkpoint(dir_.file(folder), *pool);
    EXPECT_TRUE(opened.has_value()) << opened.error().to_string();
    if (!opened) return {};
    if (n_codes != nullptr) {
      *n_codes = 0;
      for (const GgufTensor& tensor : opened->file.tensors()) *n_codes += opened->affine(tensor.name, 0) != nullptr;
    }
    const auto backend = make_reference_backend();
    const auto model = load_model(opened->file, *backend, {.affine = opened->affine});
    EXPECT_TRUE(model.has_value()) << model.error().to_string();
    if (!model) return {};
    const std::vector<int32_t> ids = {2, 7, 12, 17, 22, 27, 3, 8, 13};
    return test::all_logits(*model, *backend, ids);
  }

  void expect_same(const Packing& packing, uint64_t n_expert, size_t n_codes_expected) {
    write_both(packing, n_expert);
    size_t n_codes = 0;
    const std::vector<float> packed = logits_of("packed", &n_codes), floats = logits_of("floats");
    EXPECT_EQ(n_codes, n_codes_expected);
    ASSERT_EQ(packed.size(), 9 * kVocab);
    for (const float value : packed) ASSERT_TRUE(std::isfinite(value));
    EXPECT_EQ(packed, floats);
  }

  const test::TemporaryDir dir_;
};

TEST_F(Checkpoint, GptqInOrder) { expect_same({.is_symmetric = true}, 0, 14); }
TEST_F(Checkpoint, GptqWithZeroPoints) { expect_same({.group_len = 64}, 0, 14); }
TEST_F(Checkpoint, GptqScattered) { expect_same({.is_scattered = true}, 0, 14); }
TEST_F(Checkpoint, GptqOfTwoBits) { expect_same({.bits = 2, .is_scattered = true}, 0, 14); }
TEST_F(Checkpoint, GptqOfThreeBits) { expect_same({.bits = 3}, 0, 14); }
TEST_F(Checkpoint, GptqOfEightBits) { expect_same({.bits = 8, .is_scattered = true}, 0, 14); }
TEST_F(Checkpoint, Awq) { expect_same({.method = "awq"}, 0, 14); }
TEST_F(Checkpoint, ExpertsHaveOrdersOfTheirOwn) { expect_same({.is_scattered = true}, 3, 14); }
// What no affine form holds exactly is decoded: the same numbers all the same.
TEST_F(Checkpoint, GroupsOfSixteenAreFloats) { expect_same({.group_len = 16}, 0, 0); }
TEST_F(Checkpoint, LongScalesBesideZeroPointsAreFloats) { expect_same({.has_long_scales = true}, 0, 0); }
TEST_F(Checkpoint, LongScalesAloneAreCodes) { expect_same({.is_symmetric = true, .has_long_scales = true}, 0, 14); }

std::vector<float> logits_on(Backend& backend, const GgufFile& file, const AffineTensors& affine) {
  const auto model = load_model(file, backend, {.affine = affine});
  EXPECT_TRUE(model.has_value()) << model.error().to_string();
  if (!model) return {};
  const std::vector<int32_t> ids = {2, 7, 12, 17, 22, 27, 3, 8, 13};
  return test::all_logits(*model, backend, ids);
}

// With 8-bit activations: the bits of the Q4_0 file that the same checkpoint converts to, where that is exact.
TEST_F(Checkpoint, OnTheCpuSymmetricCodesAreQ4_0) {
  write_both({.is_symmetric = true}, 0);
  const auto pool = ThreadPool::create(1);
  auto plan = ConvertPlan::make(dir_.file("packed"), {});
  ASSERT_TRUE(plan.has_value()) << plan.error().to_string();
  ASSERT_TRUE(plan->write(dir_.file("q4_0.gguf"), *pool).has_value());
  const auto file = GgufFile::open(dir_.file("q4_0.gguf"));
  ASSERT_TRUE(file.has_value());
  ASSERT_EQ(file->find_tensor("blk.0.attn_q.weight")->dtype, DType::q4_0);
  const auto opened = open_checkpoint(dir_.file("packed"), *pool);
  ASSERT_TRUE(opened.has_value());
  const auto backend = make_cpu_backend();
  ASSERT_TRUE(backend.has_value());
  EXPECT_EQ(logits_on(**backend, opened->file, opened->affine), logits_on(**backend, *file, nullptr));
}

// Scattered groups with zero points on the CPU: with exact activations as near as float32 sums in another order are
// (2^-24 each, of some 20 sums a layer), with 8-bit ones near enough to say the same.
TEST_F(Checkpoint, OnTheCpuScatteredCodesAreNearTheReference) {
  write_both({.is_scattered = true}, 0);
  const auto pool = ThreadPool::create(1);
  const auto opened = open_checkpoint(dir_.file("packed"), *pool);
  ASSERT_TRUE(opened.has_value());
  const std::vector<float> expected = logits_of("packed");
  const auto exact = make_cpu_backend(nullptr, "", CpuActivations::f32), rounded = make_cpu_backend();
  ASSERT_TRUE(exact && rounded);
  EXPECT_LT(test::spread_error(logits_on(**exact, opened->file, opened->affine), expected), 1e-5);
  EXPECT_LT(test::spread_error(logits_on(**rounded, opened->file, opened->affine), expected), 0.1);
}

TEST_F(Checkpoint, MemoryIsThatOfTheCodes) {
  write_both({}, 0);
  const auto pool = ThreadPool::create(1);
  const auto opened = open_checkpoint(dir_.file("packed"), *pool);
  ASSERT_TRUE(opened.has_value());
  const auto plan = plan_model(opened->file);
  ASSERT_TRUE(plan.has_value());
  const auto backend = make_cpu_backend();
  ASSERT_TRUE(backend.has_value());
  const auto bytes = model_bytes(*plan, **backend, opened->affine);
  ASSERT_TRUE(bytes.has_value());
  // Of 73,728 weights 4 bits each, and 64 bits for each group of 32; the tied embedding is floats.
  const auto table = (*backend)->weight_bytes(DType::f32, Shape{kVocab, kEmbd});
  EXPECT_EQ(bytes->weights, 73728 * (4 + 64 / 32) / 8 + *table);
  EXPECT_TRUE(is_checkpoint(dir_.file("packed")));
  EXPECT_FALSE(is_checkpoint(dir_.file("packed/config.json")));
  EXPECT_FALSE(is_checkpoint(dir_.path()));
}

// Numbers that the backend has a form of its own for leave the memory they were decoded into, those of the tied
// embedding do not: its rows are looked up there.
TEST_F(Checkpoint, NumbersThatAreTakenInAreForgotten) {
  write_both({}, 0);
  const std::vector<float> expected = logits_of("floats");
  const auto pool = ThreadPool::create(1);
  const auto opened = open_checkpoint(dir_.file("floats"), *pool);
  ASSERT_TRUE(opened.has_value());
  const auto backend = make_cpu_backend(nullptr, "", CpuActivations::f32);
  ASSERT_TRUE(backend.has_value());
  std::set<std::string> forgotten;
  const auto forget = [&](const GgufTensor& tensor) {
    forgotten.insert(std::string(tensor.name));
    opened->forget(tensor);
  };
  const auto model = load_model(opened->file, **backend, {.on_unread = forget});
  ASSERT_TRUE(model.has_value()) << model.error().to_string();
  const std::vector<int32_t> ids = {2, 7, 12, 17, 22, 27, 3, 8, 13};
  EXPECT_LT(test::spread_error(test::all_logits(*model, **backend, ids), expected), 1e-5);
  EXPECT_EQ(forgotten.size(), opened->file.tensors().size() - 1);
  EXPECT_FALSE(forgotten.contains("token_embd.weight"));
}

TEST_F(Checkpoint, MissingPartsAreNamed) {
  write_both({}, 0);
  const auto pool = ThreadPool::create(1);
  fs::remove(dir_.file("packed/model.safetensors"));
  const auto opened = open_checkpoint(dir_.file("packed"), *pool);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace tamis
