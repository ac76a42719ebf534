// A Hugging Face folder made here → GGUF: values, order of rows, offsets and types; what is refused names what is
// wrong and leaves nothing behind. scripts/check_convert.py does the same for every architecture, apart from this code.
#include "convert/convert.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "convert/convert_back.h"
#include "convert/hf_pretokenizer.h"
#include "convert/hf_sentencepiece.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"

namespace tamis {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = R"({"architectures":["LlamaForCausalLM"],"hidden_size":32,"intermediate_size":64,
"num_hidden_layers":1,"num_attention_heads":2,"num_key_value_heads":1,"head_dim":16,"vocab_size":6,"rms_norm_eps":1e-5,
"max_position_embeddings":64,"tie_word_embeddings":true})";

struct Tensor {
  SafeType type;
  std::vector<uint64_t> shape;
  std::string bytes;
};
using Tensors = std::map<std::string, Tensor>;

template <class T>
Tensor tensor_of(SafeType type, std::vector<uint64_t> shape, const std::vector<T>& values) {
  return {type, std::move(shape), {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)}};
}

Tensor floats(std::vector<uint64_t> shape, float first = 0) {
  uint64_t n = 1;
  for (const uint64_t extent : shape) n *= extent;
  std::vector<float> values(n);
  for (uint64_t i = 0; i < n; ++i) values[i] = first + static_cast<float>(i);
  return tensor_of(SafeType::f32, std::move(shape), values);
}

Tensors llama_tensors() {
  const std::string layer = "model.layers.0.";
  return {{"model.embed_tokens.weight", floats({6, 32})},
          {"model.norm.weight", floats({32})},
          {layer + "input_layernorm.weight", floats({32})},
          {layer + "post_attention_layernorm.weight", floats({32})},
          {layer + "self_attn.q_proj.weight", floats({32, 32})},
          {layer + "self_attn.k_proj.weight", floats({16, 32}, 5000)},
          {layer + "self_attn.v_proj.weight", floats({16, 32})},
          {layer + "self_attn.o_proj.weight", floats({32, 32})},
          {layer + "mlp.gate_proj.weight", floats({64, 32})},
          {layer + "mlp.up_proj.weight", floats({64, 32})},
          {layer + "mlp.down_proj.weight", floats({32, 64})}};
}

class Convert : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    path_ = fs::path(testing::TempDir()) / (std::string("convert-") + info->name());
    fs::remove_all(path_);
    fs::create_directories(path_ / "hf");
  }
  void TearDown() override { fs::remove_all(path_); }
  std::string folder() const { return (path_ / "hf").string(); }
  std::string out() const { return (path_ / "out.gguf").string(); }

  void write(const Tensors& tensors, std::string_view config = kConfig) const {
    SafetensorsWriter writer;
    for (const auto& [name, tensor] : tensors)
      ASSERT_TRUE(writer.add_tensor(name, tensor.type, tensor.shape).has_value());
    ASSERT_TRUE(writer.begin(folder() + "/model.safetensors", true).has_value());
    for (const auto& [name, tensor] : tensors)
      ASSERT_TRUE(writer.write(std::as_bytes(std::span(tensor.bytes))).has_value());
    ASSERT_TRUE(writer.finish().has_value());
    ASSERT_TRUE(write_text_file(folder() + "/config.json", config, true).has_value());
  }

  Result<ConvertPlan> plan(const std::string& type = "auto") const {
    ConvertOptions options;
    options.type = type;
    return ConvertPlan::make(folder(), options);
  }

  std::string refusal() const {
    const auto made = plan();
    return made ? "" : made.error().to_string();
  }

  GgufFile converted(ConvertPlan& made) const {
    const auto pool = ThreadPool::create(1);
    const Status written = made.write(out(), *pool);
    EXPECT_TRUE(written.has_value()) << written.error().to_string();
    return *GgufFile::open(out());
  }

  static std::vector<float> values(const GgufFile& file, std::string_view name) {
    const GgufTensor* tensor = file.find_tensor(name);
    EXPECT_NE(tensor, nullptr) << name;
    std::vector<float> result(tensor == nullptr ? 0 : tensor->shape.n_elements());
    if (tensor != nullptr) decode(tensor->dtype, file.data(*tensor).data(), result);
    return result;
  }

  fs::path path_;
};

TEST_F(Convert, RowsOfQueriesAndKeysLieSideBySide) {
  write(llama_tensors());
  auto made = plan();
  ASSERT_TRUE(made.has_value()) << made.error().to_string();
  const GgufFile file = converted(*made);
  // Row i of q begins with 32·i. Of each head of 16 rows, 0 and 8 come first, then 1 and 9.
  const std::vector<float> q = values(file, "blk.0.attn_q.weight"), k = values(file, "blk.0.attn_k.weight");
  const float expected[] = {0, 8, 1, 9, 2, 10, 3, 11};
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(q[32 * i], 32 * expected[i]) << i;
    EXPECT_EQ(q[32 * (16 + i)], 32 * (16 + expected[i])) << i;
    EXPECT_EQ(k[32 * i], 5000 + 32 * expected[i]) << i;
  }
  EXPECT_EQ(values(file, "blk.0.attn_v.weight")[32], 32) << "values keep their order";
  EXPECT_EQ(file.find_tensor("output.weight"), nullptr);
  EXPECT_EQ(*file.get_uint("general.file_type"), 0u);
}

TEST_F(Convert, MissingTensorsAreNamed) {
  Tensors tensors = llama_tensors();
  tensors.erase("model.layers.0.mlp.up_proj.weight");
  write(tensors);
  const std::string text = refusal();
  EXPECT_NE(text.find("model.layers.0.mlp.up_proj.weight"), std::string::npos) << text;
  EXPECT_NE(text.find("blk.0.ffn_up.weight"), std::string::npos) << text;
  EXPECT_EQ(plan().error().code, ErrorCode::not_found);
}

TEST_F(Convert, ShapesMustFitTheConfiguration) {
  Tensors tensors = llama_tensors();
  tensors["model.layers.0.mlp.up_proj.weight"] = floats({63, 32});
  write(tensors);
  EXPECT_EQ(plan().error().code, ErrorCode::shape);
  EXPECT_NE(refusal().find("[63, 32]"), std::string::npos) << refusal();
}

TEST_F(Convert, LeftoversAreListed) {
  Tensors tensors = llama_tensors();
  tensors["model.layers.0.extra.weight"] = floats({1});
  tensors["vision_tower.a.weight"] = floats({1});
  tensors["vision_tower.b.weight"] = floats({1});
  tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = floats({8});
  write(tensors);
  const auto made = plan();
  ASSERT_TRUE(made.has_value());
  std::string all;
  for (const std::string& warning : made->warnings()) all += warning + "\n";
  EXPECT_NE(all.find("model.layers.0.extra.weight"), std::string::npos) << all;
  EXPECT_NE(all.find("vision_tower: 2 tensors"), std::string::npos) << all;
  EXPECT_EQ(all.find("inv_freq"), std::string::npos) << all;
}

TEST_F(Convert, ArchitecturesAreNamed) {
  const auto with_class = [&](const std::string& name) {
    write(llama_tensors(), R"({"architectures":[")" + name + R"("],"hidden_size":32})");
    EXPECT_EQ(plan().error().code, ErrorCode::unsupported);
    return refusal();
  };
  const std::string unknown = with_class("NoSuchForCausalLM");
  EXPECT_NE(unknown.find("NoSuchForCausalLM"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("Qwen3ForCausalLM"), std::string::npos) << "the known ones are listed: " << unknown;
  EXPECT_NE(with_class("SiglipVisionModel").find("projector"), std::string::npos);
  write(llama_tensors(), "{}");
  EXPECT_EQ(plan().error().code, ErrorCode::format);
}

TEST_F(Convert, StoppedWorkLeavesNothing) {
  write(llama_tensors());
  auto made = plan();
  ASSERT_TRUE(made.has_value());
  const auto pool = ThreadPool::create(1);
  const std::atomic<bool> stop = true;
  EXPECT_EQ(made->write(out(), *pool, nullptr, &stop).error().code, ErrorCode::cancelled);
  EXPECT_EQ(std::distance(fs::directory_iterator(path_), fs::directory_iterator()), 1) << "the folder hf alone";
}

TEST_F(Convert, EveryRecipeTypeIsChosenTensorByTensor) {
  write(llama_tensors());
  auto made = plan("q8_0");
  ASSERT_TRUE(made.has_value()) << made.error().to_string();
  const GgufFile file = converted(*made);
  EXPECT_EQ(file.find_tensor("blk.0.attn_q.weight")->dtype, DType::q8_0);
  EXPECT_EQ(file.find_tensor("blk.0.attn_norm.weight")->dtype, DType::f32);
  EXPECT_EQ(plan("q9_9").error().code, ErrorCode::invalid_argument);
}

TEST_F(Convert, SymmetricGptqIsQ4_0ToTheBit) {
  Tensors tensors = llama_tensors();
  const std::string module = "model.layers.0.self_attn.o_proj.";
  tensors.erase(module + "weight");
  // Input i of output o has code (i + o) % 16, zero point 8 (stored as 7), scale 0.25 in every group of 32.
  std::vector<int32_t> codes(4 * 32), zeros(4, 0x77777777);
  for (uint32_t word = 0; word < 4; ++word)
    for (uint32_t o = 0; o < 32; ++o) {
      uint32_t packed = 0;
      for (uint32_t j = 0; j < 8; ++j) packed |= ((word * 8 + j + o) % 16) << (4 * j);
      codes[word * 32 + o] = static_cast<int32_t>(packed);
    }
  tensors[module + "qweight"] = tensor_of(SafeType::i32, {4, 32}, codes);
  tensors[module + "qzeros"] = tensor_of(SafeType::i32, {1, 4}, zeros);
  tensors[module + "scales"] = tensor_of(SafeType::f16, {1, 32}, std::vector<uint16_t>(32, 0x3400));
  std::string config = kConfig;
  config.back() = ',';
  write(tensors, config + R"("quantization_config":{"quant_method":"gptq","bits":4,"group_size":32}})");
  auto made = plan();
  ASSERT_TRUE(made.has_value()) << made.error().to_string();
  const GgufFile file = converted(*made);
  EXPECT_EQ(file.find_tensor("blk.0.attn_output.weight")->dtype, DType::q4_0);
  const std::vector<float> got = values(file, "blk.0.attn_output.weight");
  for (uint32_t o = 0; o < 32; ++o)
    for (uint32_t i = 0; i < 32; ++i)
      ASSERT_EQ(got[o * 32 + i], 0.25f * (static_cast<float>((i + o) % 16) - 8)) << o << " " << i;
  for (const ConvertedTensor& tensor : made->tensors()) EXPECT_EQ(tensor.error.value_or(0), 0) << tensor.name;
}

TEST_F(Convert, BackToTheSameFolder) {
  const Tensors tensors = llama_tensors();
  write(tensors);
  auto made = plan();
  ASSERT_TRUE(made.has_value());
  const GgufFile file = converted(*made);
  const auto back = plan_convert_back(file, {});
  ASSERT_TRUE(back.has_value()) << back.error().to_string();
  const std::string path = (path_ / "back").string();
  ASSERT_TRUE(write_convert_back(file, *back, path).has_value());
  const auto set = SafetensorsSet::open(path);
  ASSERT_TRUE(set.has_value()) << set.error().to_string();
  ASSERT_EQ(set->tensors().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const SafeTensor* found = set->find(name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(std::memcmp(set->data(*found).data(), tensor.bytes.data(), tensor.bytes.size()), 0) << name;
  }
  EXPECT_EQ(write_convert_back(file, *back, path).error().code, ErrorCode::invalid_argument) << "nothing overwritten";
}

TEST(HfPreTokenizer, PatternsHaveOneSpelling) {
  EXPECT_EQ(canonical_pattern("[一-龥]\\\"\\u00e9\n"), "[\\x{4E00}-\\x{9FA5}]\"\\x{E9}\\n");
  EXPECT_EQ(canonical_pattern("[\\p{L}]+[^\\p{L}]"), "\\p{L}+[^\\p{L}]");
}

TEST(HfPreTokenizer, UnknownOnesArePrinted) {
  const auto json = Json::parse(
      R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"[aeiou]+"},"behavior":"Isolated"},"model":{}})");
  const auto name = find_pre_name(*json);
  ASSERT_FALSE(name.has_value());
  EXPECT_EQ(name.error().code, ErrorCode::unsupported);
  EXPECT_NE(name.error().message.find("[aeiou]+"), std::string::npos) << name.error().message;
}

TEST(HfPreTokenizer, EveryNameFindsItsOwnRule) {
  for (const std::string_view name : {"llama-bpe", "gpt-4o", "tekken", "deepseek-v3", "gpt-2"}) {
    Json tokenizer = *pre_tokenizer_json(name), model = Json::object();
    tokenizer.set("model", model.set("ignore_merges", ignores_merges(name)));
    const auto found = find_pre_name(tokenizer);
    ASSERT_TRUE(found.has_value()) << name;
    EXPECT_EQ(*found, name);
  }
}

TEST(HfSentencePiece, ReadsBackWhatIsWrittenAndRefusesCuts) {
  SentencePieceModel model;
  model.is_unigram = false;
  model.has_byte_fallback = true;
  model.adds_dummy_prefix = false;
  model.pieces = {{"<unk>", 0, 2}, {"<s>", 0, 3}, {"<0x41>", 0, 6}, {"\u2581a", -1.5f, 1}};
  const std::string bytes = write_sentencepiece(model);
  const auto again = read_sentencepiece(bytes);
  ASSERT_TRUE(again.has_value()) << again.error().to_string();
  EXPECT_EQ(write_sentencepiece(*again), bytes);
  EXPECT_FALSE(again->adds_dummy_prefix);
  EXPECT_EQ(again->pieces[3].score, -1.5f);
  // A cut is an error, or (between two messages) a model with fewer pieces: never one that reads past the end.
  for (size_t n = 0; n < bytes.size(); ++n) {
    const auto cut = read_sentencepiece(std::string_view(bytes).substr(0, n));
    EXPECT_LE(cut ? cut->pieces.size() : 0, model.pieces.size()) << n;
  }
  EXPECT_FALSE(read_sentencepiece(std::string_view(bytes).substr(0, 3)).has_value());
}

}  // namespace
}  // namespace tamis
