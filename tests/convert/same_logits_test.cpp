// Convert → load → the same logits, for every row of the registry: a Hugging Face folder is made from the weights of a
// synthetic GGUF file, its names and orders of rows undone; the converted file's logits are those of the synthetic one,
// bit for bit. scripts/check_convert.py writes such folders with names of its own.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "compute/reference.h"
#include "convert/convert.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/model.h"
#include "tests/base/temporary_dir.h"
#include "tests/models/synthetic.h"

namespace tamis {
namespace {

namespace fs = std::filesystem;

using test::Synthetic;
using Weights = std::map<std::string, std::vector<float>>;

struct Variant {
  std::string_view arch;
  bool with_experts = false;
};

// Rows that are whole blocks of 32; keys and values of one size, as config.json has one for both.
constexpr test::SpecSize kSize{.n_embd = 32, .n_ff = 64, .n_expert_ff = 32, .k_dim = 8, .v_dim = 8};
constexpr uint32_t kHeads = 6, kKeyHeads = 2;

// What the rows of a matrix, or the elements of a bias, were before the converter put RoPE's pairs side by side.
std::vector<float> halves_apart(const std::vector<float>& values, uint64_t row_len) {
  std::vector<float> out(values.size());
  const uint64_t half = kSize.k_dim / 2;
  for (uint64_t row = 0; row < values.size() / row_len; ++row) {
    const uint64_t head = row / kSize.k_dim, i = row % kSize.k_dim;
    const uint64_t from = head * kSize.k_dim + i % half * 2 + i / half;
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(from * row_len), row_len,
                out.begin() + static_cast<ptrdiff_t>(row * row_len));
  }
  return out;
}

struct HfTensor {
  std::vector<uint64_t> shape;
  std::vector<float> values;
};

// The tensors of one row of the table as the checkpoint names and orders them.
void add_hf(const ArchSpec& arch, const TensorSpec& spec, uint32_t layer, const test::SyntheticTensor& tensor,
            std::vector<float> values, std::map<std::string, HfTensor>& out) {
  const std::string name = tensor_name(spec.hf_name, layer);
  std::vector<uint64_t> shape(tensor.shape.extents.begin(), tensor.shape.extents.begin() + tensor.shape.n_dims);
  if (spec.role == Role::norm) {
    for (float& value : values) {
      const float apart = value - arch.hf_norm_offset;
      ASSERT_EQ(apart + arch.hf_norm_offset, value);  // exact both ways, or the test would test rounding
      value = apart;
    }
  }
  const bool is_rotated = spec.slot == Slot::attn_q || spec.slot == Slot::attn_k;
  if (is_rotated && arch.block.attn.rope == RopePairs::interleaved)
    values = halves_apart(values, shape.size() == 1 ? 1 : shape.back());
  const size_t mark = name.find('#');
  if (mark == name.npos) {
    out[name] = {shape, std::move(values)};
    return;
  }
  const size_t n = values.size() / shape[0];
  for (uint64_t e = 0; e < shape[0]; ++e)
    out[name.substr(0, mark) + std::to_string(e) + name.substr(mark + 1)] = {
        {shape[1], shape[2]},
        {values.begin() + static_cast<ptrdiff_t>(e * n), values.begin() + static_cast<ptrdiff_t>((e + 1) * n)}};
}

Json config_of(const ArchSpec& arch, const Synthetic& model, bool with_experts) {
  std::string_view hf_class = arch.hf_classes[0].name;
  for (const HfClass& one : arch.hf_classes)
    if (one.is_mixture == with_experts && arch.block.moe.need == Need::optional) hf_class = one.name;
  Json classes = Json::array(), config = Json::object();
  classes.push_back(hf_class);
  config.set("architectures", std::move(classes));
  const std::pair<const char*, uint32_t> numbers[] = {
      {"num_hidden_layers", 2},        {"max_position_embeddings", kSize.n_ctx},
      {"hidden_size", kSize.n_embd},   {"intermediate_size", kSize.n_ff},
      {"num_attention_heads", kHeads}, {"num_key_value_heads", kKeyHeads},
      {"head_dim", kSize.k_dim},       {"vocab_size", 30},
      {"sliding_window", 16},          {"query_pre_attn_scalar", kSize.k_dim}};
  for (const auto& [key, value] : numbers) config.set(key, Json(int64_t{value}));
  config.set("rms_norm_eps", Json(1e-5)).set("rope_theta", Json(10000.0));
  config.set("hidden_act", arch.block.ffn.activation == Activation::silu ? "silu" : "gelu_pytorch_tanh");
  config.set("tie_word_embeddings", Json(!model.has("output.weight")));
  if (with_experts) {
    for (const char* key : {"num_local_experts", "num_experts"}) config.set(key, Json(int64_t{3}));
    config.set("num_experts_per_tok", Json(int64_t{2})).set("norm_topk_prob", Json(true));
    config.set("moe_intermediate_size", Json(int64_t{kSize.n_expert_ff}));
  }
  return config;
}

class SameLogits : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    fs::create_directories(dir_.file("hf"));
    // What a checkpoint cannot say: factors beside NVFP4 matrices, divisors of RoPE without the rule they follow.
    std::erase_if(model.tensors, [](const test::SyntheticTensor& tensor) {
      return tensor.name.ends_with(".scale") || tensor.name.starts_with("rope_");
    });
  }

  // The folder of the synthetic model; `config` may have been added to.
  void write_folder(const Json& config, const test::Fill& fill = nullptr) {
    Weights weights;
    test::open_synthetic(model, [&](const std::string& name, std::vector<float>& values) {
      if (fill) fill(name, values);
      weights[name] = values;
    });
    std::map<std::string, HfTensor> tensors;
    for (const TensorSpec& spec : arch.tensors)
      for (uint32_t layer = 0; layer < (spec.is_per_layer() ? 2 : 1); ++layer)
        for (const test::SyntheticTensor& tensor : model.tensors)
          if (tensor.name == tensor_name(spec.name, layer) && !spec.hf_name.empty())
            add_hf(arch, spec, layer, tensor, weights[tensor.name], tensors);
    ASSERT_GE(tensors.size(), 10u);
    SafetensorsWriter writer;
    for (const auto& [name, tensor] : tensors)
      ASSERT_TRUE(writer.add_tensor(name, SafeType::f32, tensor.shape).has_value()) << name;
    ASSERT_TRUE(writer.begin(dir_.file("hf/model.safetensors"), true).has_value());
    for (const auto& [name, tensor] : tensors)
      ASSERT_TRUE(writer.write(std::as_bytes(std::span(tensor.values))).has_value());
    ASSERT_TRUE(writer.finish().has_value());
    ASSERT_TRUE(write_text_file(dir_.file("hf/config.json"), config.dump(), true).has_value());
  }

  // The folder as a file of that type; nothing of it may be left over but the missing tokenizer.
  Result<GgufFile> converted(const std::string& type) {
    ConvertOptions options;
    options.type = type;
    options.method = EncodeMethod::plain;
    TAMIS_TRY(ConvertPlan plan, ConvertPlan::make(dir_.file("hf"), options));
    for (const std::string& warning : plan.warnings())
      EXPECT_TRUE(warning.find("tokenizer") != warning.npos || warning.find("rows of") != warning.npos) << warning;
    const auto pool = ThreadPool::create(1);
    const std::string path = dir_.file(type + ".gguf");
    TAMIS_TRY_STATUS(plan.write(path, *pool));
    return GgufFile::open(path);
  }

  std::vector<float> logits_of(const GgufFile& file) {
    const auto backend = make_reference_backend();
    const auto loaded = load_model(file, *backend);
    EXPECT_TRUE(loaded.has_value()) << loaded.error().to_string();
    if (!loaded) return {};
    EXPECT_TRUE(loaded->warnings.empty());
    return test::all_logits(*loaded, *backend, model.ids);
  }

  const ArchSpec arch = *find_arch(GetParam().arch);
  Synthetic model = test::from_spec(arch, GetParam().with_experts, arch.block.attn.is_fused_qkv, kSize);
  const test::TemporaryDir dir_;
};

TEST_P(SameLogits, OfFloats) {
  write_folder(config_of(arch, model, GetParam().with_experts));
  const auto file = converted("f32");
  ASSERT_TRUE(file.has_value()) << file.error().to_string();
  const std::vector<float> expected = logits_of(test::open_synthetic(model));
  ASSERT_EQ(expected.size(), model.ids.size() * 30);
  EXPECT_GT(test::spread_error(expected, std::vector<float>(expected.size(), expected[0])), 0.1) << "all alike";
  EXPECT_EQ(logits_of(*file), expected);
}

// In one pass to blocks: what encoding the synthetic file's own tensors gives.
TEST_P(SameLogits, OfBlocks) {
  write_folder(config_of(arch, model, GetParam().with_experts));
  const auto file = converted("Q8_0");
  ASSERT_TRUE(file.has_value()) << file.error().to_string();
  size_t n_blocks = 0;
  for (test::SyntheticTensor& tensor : model.tensors) {
    const GgufTensor* const made = file->find_tensor(tensor.name);
    ASSERT_NE(made, nullptr) << tensor.name;
    tensor.dtype = made->dtype;
    n_blocks += made->dtype == DType::q8_0;
  }
  EXPECT_GE(n_blocks, 7u);
  EXPECT_EQ(logits_of(*file), logits_of(test::open_synthetic(model)));
}

std::vector<Variant> variants() {
  std::vector<Variant> out;
  for (const std::string_view name : arch_names()) {
    const Need moe = find_arch(name)->block.moe.need;
    if (moe != Need::required) out.push_back({name, false});
    if (moe != Need::none) out.push_back({name, true});
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Registry, SameLogits, ::testing::ValuesIn(variants()), [](const auto& row) {
  return std::string(row.param.arch) + (row.param.with_experts ? "_experts" : "_dense");
});

Json list_of(const std::vector<float>& values) {
  Json out = Json::array();
  for (const float value : values) out.push_back(Json(double{value}));
  return out;
}

// LongRoPE's two lists, for the architectures that have them.
TEST_P(SameLogits, OfLongRope) {
  if (!arch.block.attn.has_rope_long_short) return;
  const std::vector<float> longer = {1.0f, 1.5f, 3.25f, 8.0f}, shorter = {1.0f, 1.0625f, 1.125f, 2.0f};
  Json config = config_of(arch, model, GetParam().with_experts), rope = Json::object();
  rope.set("type", "longrope").set("long_factor", list_of(longer)).set("short_factor", list_of(shorter));
  config.set("rope_scaling", std::move(rope)).set("original_max_position_embeddings", Json(int64_t{16}));
  write_folder(config);
  const auto file = converted("f32");
  ASSERT_TRUE(file.has_value()) << file.error().to_string();
  model.tensors.push_back({"rope_factors_long.weight", Shape{4}});
  model.tensors.push_back({"rope_factors_short.weight", Shape{4}});
  model.set("rope.scaling.original_context_length", uint32_t{16});
  // sqrt(1 + ln(64 / 16) / ln(16)) = sqrt(1.5)
  model.set("rope.scaling.attn_factor", static_cast<float>(std::sqrt(1.5)));
  const auto fill = [&](const std::string& name, std::vector<float>& values) {
    if (name == "rope_factors_long.weight") values = longer;
    if (name == "rope_factors_short.weight") values = shorter;
  };
  EXPECT_EQ(logits_of(*file), logits_of(test::open_synthetic(model, fill)));
}

// ---- Llama 3's rule: frequencies whose wavelength is beyond the first context are divided by `factor`, those of short
// ones stay, those between are blended.

Json llama3_rope(double factor, int64_t original) {
  Json rope = Json::object();
  rope.set("rope_type", "llama3").set("factor", Json(factor));
  rope.set("low_freq_factor", Json(1.0)).set("high_freq_factor", Json(4.0));
  rope.set("original_max_position_embeddings", Json(original));
  return rope;
}

TEST_P(SameLogits, OfLlama3Rope) {
  if (!arch.block.attn.has_rope_freqs) return;
  Json config = config_of(arch, model, GetParam().with_experts);
  // Four pairs of base 10000 have wavelengths of 2π·(1, 10, 100, 1000) positions. With a first context of 1024 those
  // below 256 stay, those above 1024 are divided by 8, and at 200π the blend is
  //   s = (1024 / 200π − 1) / (4 − 1) = 0.2099155, 1 / ((1 − s) / 8 + s) = 3.2396188.
  config.set("rope_scaling", llama3_rope(8, 1024));
  write_folder(config);
  const auto file = converted("f32");
  ASSERT_TRUE(file.has_value()) << file.error().to_string();
  model.tensors.push_back({"rope_freqs.weight", Shape{4}});
  const double s = (1024 / (200 * std::acos(-1.0)) - 1) / 3;
  const auto fill = [&](const std::string& name, std::vector<float>& values) {
    if (name == "rope_freqs.weight") values = {1, 1, static_cast<float>(1 / ((1 - s) / 8 + s)), 8};
  };
  const GgufFile expected = test::open_synthetic(model, fill);
  EXPECT_EQ(logits_of(*file), logits_of(expected));
  // And the tensor tells: without it the logits are others.
  model.erase("rope_freqs.weight");
  EXPECT_NE(logits_of(*file), logits_of(test::open_synthetic(model)));
}

// Llama 3.1's own numbers: heads of 128, base 500000, factor 8 past 8192 positions. The six blended divisors were
// worked out in double precision from the rule as Meta published it (llama-models, apply_scaling); llama.cpp's
// converter works in float32, which is within 2e-7 of them.
TEST(RopeFreqs, AreLlama31s) {
  const test::TemporaryDir dir;
  const auto write = [&](const std::map<std::string, std::vector<uint64_t>>& shapes) {
    SafetensorsWriter writer;
    for (const auto& [name, shape] : shapes) ASSERT_TRUE(writer.add_tensor(name, SafeType::f32, shape).has_value());
    ASSERT_TRUE(writer.begin(dir.file("model.safetensors"), true).has_value());
    for (const auto& [name, shape] : shapes) {
      const std::vector<float> ones(shape.size() == 1 ? shape[0] : shape[0] * shape[1], 1.0f);
      ASSERT_TRUE(writer.write(std::as_bytes(std::span(ones))).has_value());
    }
    ASSERT_TRUE(writer.finish().has_value());
  };
  const std::string layer = "model.layers.0.";
  write({{"model.embed_tokens.weight", {4, 128}},
         {"model.norm.weight", {128}},
         {layer + "input_layernorm.weight", {128}},
         {layer + "post_attention_layernorm.weight", {128}},
         {layer + "self_attn.q_proj.weight", {128, 128}},
         {layer + "self_attn.k_proj.weight", {128, 128}},
         {layer + "self_attn.v_proj.weight", {128, 128}},
         {layer + "self_attn.o_proj.weight", {128, 128}},
         {layer + "mlp.gate_proj.weight", {32, 128}},
         {layer + "mlp.up_proj.weight", {32, 128}},
         {layer + "mlp.down_proj.weight", {128, 32}}});
  Json config = *Json::parse(
      R"({"architectures":["LlamaForCausalLM"],"hidden_size":128,"intermediate_size":32,"num_hidden_layers":1,
          "num_attention_heads":1,"vocab_size":4,"rms_norm_eps":1e-5,"max_position_embeddings":131072,
          "rope_theta":500000.0,"tie_word_embeddings":true})");
  config.set("rope_scaling", llama3_rope(8, 8192));
  ASSERT_TRUE(write_text_file(dir.file("config.json"), config.dump(), true).has_value());
  ConvertOptions options;
  auto plan = ConvertPlan::make(dir.path(), options);
  ASSERT_TRUE(plan.has_value()) << plan.error().to_string();
  const auto pool = ThreadPool::create(1);
  ASSERT_TRUE(plan->write(dir.file("out.gguf"), *pool).has_value());
  const auto file = GgufFile::open(dir.file("out.gguf"));
  ASSERT_TRUE(file.has_value());
  const GgufTensor* const tensor = file->find_tensor("rope_freqs.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->dtype, DType::f32);
  EXPECT_EQ(tensor->shape, Shape{64});
  std::vector<float> got(64), expected(29, 1.0f);
  ASSERT_TRUE(decode_checked(tensor->dtype, file->data(*tensor), got).has_value());
  for (const float value : {1.20748389f, 1.55341458f, 2.0263133f, 2.69452977f, 3.6842525f, 5.2573266f})
    expected.push_back(value);
  expected.resize(64, 8.0f);
  for (size_t i = 0; i < 64; ++i) EXPECT_FLOAT_EQ(got[i], expected[i]) << i;
  // The rule is written as the tensor alone: no scaling key, which would scale a second time.
  EXPECT_EQ(file->find("llama.rope.scaling.type"), nullptr);
  EXPECT_EQ(file->find("llama.rope.scaling.factor"), nullptr);
}

}  // namespace
}  // namespace tamis
