// Every recipe gives every tensor the type that llama.cpp gives it (tests/golden/recipes.tsv, from a run of its
// quantizer), on shapes of 8B, 70B, mixtures, fused attention, and rows that no block divides.
#include "convert/recipe.h"

#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <map>
#include <sstream>

namespace tamis {
namespace {

std::vector<std::string> cut(const std::string& text, char at) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) out.push_back(part);
  return out;
}

struct GoldenTypes {
  std::string recipe;
  bool has_imatrix = false, is_refused = false;
  std::map<std::string, std::vector<DType>> types;  // by short name, in the order of layers
};

struct GoldenModel {
  std::string name, architecture;
  RecipeFacts facts;
  std::deque<std::string> names;
  std::vector<RecipeTensor> tensors;
  std::vector<GoldenTypes> runs;

  void add(const std::vector<std::string>& fields) {
    Shape shape;
    for (const std::string& extent : cut(fields[4], ',')) shape.extents[shape.n_dims++] = std::stoull(extent);
    const DType dtype = *dtype_from_name(cut(fields[3], '/')[0]);
    const int n = std::stoi(fields[2]);
    for (int i = 0; i < std::max(n, 1); ++i) {
      std::string full = fields[1];
      if (const size_t at = full.find('%'); at != full.npos) full.replace(at, 1, std::to_string(i));
      names.push_back(full);
      tensors.push_back({names.back(), shape, dtype});
    }
  }
  uint64_t bytes(const std::vector<TypeChoice>& choices) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < tensors.size(); ++i) sum += *dtype_bytes(choices[i].type, tensors[i].shape.n_elements());
    return sum;
  }
};

GoldenTypes parse_types(const std::vector<std::string>& fields) {
  GoldenTypes out{fields[1], fields[2] == "1", fields[3] == "fails", {}};
  if (out.is_refused) return out;
  for (const std::string& group : cut(fields[3], ' ')) {
    const size_t equals = group.find('=');
    auto& types = out.types[group.substr(0, equals)];
    for (const std::string& run : cut(group.substr(equals + 1), ',')) {
      const auto parts = cut(run, '*');
      types.insert(types.end(), parts.size() > 1 ? std::stoul(parts[1]) : 1, *dtype_from_name(parts[0]));
    }
  }
  return out;
}

const std::deque<GoldenModel>& golden() {
  static const std::deque<GoldenModel> models = [] {
    std::deque<GoldenModel> out;
    std::ifstream in(TAMIS_SOURCE_DIR "/tests/golden/recipes.tsv");
    for (std::string line; std::getline(in, line);) {
      const auto fields = cut(line, '\t');
      if (fields[0] == "model") {
        GoldenModel& model = out.emplace_back();
        model.name = fields[1];
        model.architecture = fields[2];
        model.facts = {.n_layers = static_cast<uint32_t>(std::stoul(fields[3])),
                       .n_head = static_cast<uint32_t>(std::stoul(fields[4])),
                       .n_head_kv = static_cast<uint32_t>(std::stoul(fields[5])),
                       .n_expert = static_cast<uint32_t>(std::stoul(fields[6]))};
        set_recipe_exceptions(model.architecture, model.facts);
      } else if (fields[0] == "tensor") {
        out.back().add(fields);
      } else {
        out.back().runs.push_back(parse_types(fields));
      }
    }
    return out;
  }();
  return models;
}

const GoldenModel& golden(const std::string& name) {
  for (const GoldenModel& model : golden())
    if (model.name == name) return model;
  ADD_FAILURE() << "no model " << name;
  return golden().front();
}

std::string short_name(std::string name) {
  if (name.starts_with("blk.")) name = "%" + name.substr(name.find('.', 4) + 1);
  if (const size_t at = name.find(".weight"); at != name.npos) name.erase(at, 7);
  return name;
}

std::vector<TypeChoice> choose(const GoldenModel& model, const std::string& recipe, bool has_imatrix) {
  RecipeOptions options;
  options.recipe = *find_recipe(recipe);
  options.has_imatrix = has_imatrix;
  auto choices = choose_types(model.facts, model.tensors, options);
  EXPECT_TRUE(choices) << choices.error().to_string();
  return *choices;
}

TEST(Recipe, EveryTensorGetsTheTypeThatLlamaCppGivesIt) {
  ASSERT_GE(golden().size(), 16u);
  size_t n_checked = 0;
  for (const GoldenModel& model : golden()) {
    // Real files hold one kind of tensor in several types; what stays as it is then shows the first of them only.
    const bool is_real = model.name.starts_with("file:");
    const GoldenTypes* plain = nullptr;
    for (const GoldenTypes& run : model.runs) {
      if (run.is_refused) continue;
      if (!run.has_imatrix) plain = &run;
      const bool is_alone = !run.has_imatrix && (&run == &model.runs.back() || !(&run + 1)->has_imatrix);
      for (const bool has_imatrix : {false, true}) {
        if (has_imatrix != run.has_imatrix && !is_alone) continue;
        const auto choices = choose(model, run.recipe, has_imatrix);
        std::map<std::string, std::map<uint32_t, DType>> found;
        for (size_t i = 0; i < choices.size(); ++i) {
          if (is_real && choices[i].reason == TypeReason::kept) continue;
          found[short_name(std::string(model.tensors[i].name))][layer_number(model.tensors[i].name).value_or(0)] =
              choices[i].type;
        }
        for (const auto& [name, by_layer] : found) {
          const auto expected = run.types.find(name);
          ASSERT_NE(expected, run.types.end()) << model.name << " " << name;
          for (const auto& [layer, type] : by_layer) {
            EXPECT_EQ(dtype_name(type), dtype_name(expected->second[layer]))
                << model.name << " " << run.recipe << (has_imatrix ? " with imatrix " : " ") << name << " " << layer;
            ++n_checked;
          }
        }
      }
    }
    EXPECT_NE(plain, nullptr);
  }
  EXPECT_GT(n_checked, 200000u);
}

TEST(Recipe, LlamaThree8BHasTheKnownSizes) {
  const GoldenModel& model = golden("llama-8b");
  uint64_t n_params = 0;
  for (const RecipeTensor& tensor : model.tensors) n_params += tensor.shape.n_elements();
  const uint64_t norms = (32 * 2 + 1) * 4096;
  // 4,912,898,048 bytes: with the norms, which stay F32.
  EXPECT_EQ(model.bytes(choose(model, "Q4_K_M", false)) + norms * 4, 4912898048u);
  const std::pair<const char*, double> bits[] = {{"Q2_K", 3.16},   {"Q3_K_S", 3.64}, {"Q3_K_M", 4.00},
                                                 {"Q4_K_S", 4.67}, {"Q4_K_M", 4.89}, {"Q5_K_M", 5.70},
                                                 {"Q6_K", 6.56},   {"IQ4_XS", 4.46}};
  for (const auto& [name, expected] : bits)
    EXPECT_NEAR(static_cast<double>(model.bytes(choose(model, name, false))) * 8 / static_cast<double>(n_params),
                expected, 0.0051)
        << name;
  EXPECT_NEAR(static_cast<double>(model.bytes(choose(model, "IQ4_XS", true))) * 8 / static_cast<double>(n_params), 4.42,
              0.0051);
}

TEST(Recipe, NamesNumbersAliases) {
  EXPECT_EQ(find_recipe("q4_k_m")->recipe->file_type, 15u);
  EXPECT_EQ(find_recipe("15")->name(), "Q4_K_M");
  EXPECT_EQ(find_recipe("Q4_K")->name(), "Q4_K_M");
  EXPECT_EQ(find_recipe("q4_k+")->name(), "Q4_K_M+");
  EXPECT_TRUE(find_recipe("copy")->is_copy);
  EXPECT_EQ(find_recipe("0")->name(), "F32");
  for (const char* wrong : {"", "+", "Q4", "Q4_K_M++", "99", "5", "-1", "1 ", "auto"})
    EXPECT_FALSE(find_recipe(wrong)) << wrong;
}

TypeChoice choice_of(const GoldenModel& model, const std::vector<TypeChoice>& choices, std::string_view name) {
  for (size_t i = 0; i < choices.size(); ++i)
    if (model.tensors[i].name == name) return choices[i];
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

TEST(Recipe, OwnNamesPutFusedAttentionRight) {
  const GoldenModel& model = golden("phi3-fused");
  for (int layer = 0; layer < 32; ++layer) {
    const std::string name = "blk." + std::to_string(layer) + ".attn_qkv.weight";
    EXPECT_EQ(choice_of(model, choose(model, "Q4_K_M+", false), name).type, DType::q5_k);
    EXPECT_EQ(choice_of(model, choose(model, "IQ4_XS+", false), name).type, DType::iq4_xs);
  }
}

TEST(Recipe, OwnNamesCountByTheLayersNumber) {
  const GoldenModel& model = golden("llama-8b");
  const std::vector<std::string> words = {"blk\\.[01]\\.ffn_down=q8_0"};
  const auto patterns = TensorTypes::parse(words);
  ASSERT_TRUE(patterns);
  RecipeOptions options;
  options.overrides = &*patterns;
  for (const char* name : {"Q4_K_M", "Q4_K_M+"}) {
    options.recipe = *find_recipe(name);
    const auto choices = choose_types(model.facts, model.tensors, options);
    ASSERT_TRUE(choices);
    EXPECT_EQ(choice_of(model, *choices, "blk.0.ffn_down.weight").type, DType::q8_0);
    // n/8 = 4: stock has counted 2 layers less, so that layer 5 is still among "the first 4".
    EXPECT_EQ(choice_of(model, *choices, "blk.5.ffn_down.weight").type,
              options.recipe.is_own ? DType::q4_k : DType::q6_k);
  }
}

TEST(Recipe, OwnFallbacksKeepTheSize) {
  const GoldenModel& model = golden("rows-of-576-tied");
  const uint64_t stock = model.bytes(choose(model, "Q4_K_M", false)),
                 own = model.bytes(choose(model, "Q4_K_M+", false));
  EXPECT_LT(own, stock);
  EXPECT_EQ(choice_of(model, choose(model, "Q4_K_M+", false), "blk.0.attn_q.weight").type, DType::iq4_nl);
  EXPECT_EQ(choice_of(model, choose(model, "Q4_K_M", false), "blk.0.attn_q.weight").type, DType::q5_0);
  EXPECT_EQ(choice_of(model, choose(model, "Q4_K_M", false), "blk.0.attn_q.weight").reason, TypeReason::fallback);
}

// Stock has no fallback for these and refuses the file.
TEST(Recipe, TypesWithoutAStockFallbackGetASensibleOne) {
  const GoldenModel& model = golden("rows-of-576-tied");
  EXPECT_EQ(choice_of(model, choose(model, "Q1_0", false), "blk.0.attn_q.weight").type, DType::q2_0);
  EXPECT_EQ(choice_of(golden("rows-of-720"), choose(golden("rows-of-720"), "NVFP4", false), "blk.0.attn_q.weight").type,
            DType::f16);
}

// B15: an override equal to the recipe's base is kept; of two that match the first wins; names are searched, not begun.
TEST(Recipe, B15_OverridesAreExact) {
  const GoldenModel& model = golden("llama-13-layers");
  const auto types = [&](std::vector<std::string> words, std::string_view name) {
    const auto patterns = TensorTypes::parse(words);
    RecipeOptions options;
    options.recipe = *find_recipe("Q4_K_M");
    options.overrides = &*patterns;
    return choice_of(model, *choose_types(model.facts, model.tensors, options), name).type;
  };
  EXPECT_EQ(types({}, "blk.0.attn_v.weight"), DType::q6_k);
  EXPECT_EQ(types({"attn_v=q4_k"}, "blk.0.attn_v.weight"), DType::q4_k);
  EXPECT_EQ(types({"attn_v=q4_k"}, "blk.10.attn_v.weight"), DType::q4_k);
  EXPECT_EQ(types({"attn_v=q5_k", "blk.0.attn_v=q8_0"}, "blk.0.attn_v.weight"), DType::q5_k);
  EXPECT_NE(types({"blk.1.attn_v=q8_0"}, "blk.10.attn_v.weight"), DType::q8_0);  // '.' is one byte
  EXPECT_EQ(types({"blk\\.\\D=q8_0"}, "blk.0.attn_v.weight"), DType::q6_k);      // \D is not \d
  EXPECT_EQ(types({"ATTN_V=q8_0"}, "blk.0.attn_v.weight"), DType::q6_k);         // letter case counts
  EXPECT_EQ(types({"a=b|attn_v=q8_0"}, "blk.0.attn_v.weight"), DType::q8_0);     // the last '=' divides
}

TEST(Recipe, PatternsThatAreWrongOrEndlessAreErrors) {
  const auto message = [](const std::string& word) {
    const std::vector<std::string> words = {word};
    const auto parsed = TensorTypes::parse(words);
    return parsed ? std::string() : parsed.error().message;
  };
  EXPECT_NE(message("attn_v").find("PATTERN=TYPE"), std::string::npos);
  EXPECT_NE(message("=q8_0").find("PATTERN=TYPE"), std::string::npos);
  EXPECT_NE(message("attn_v=q9").find("q9"), std::string::npos);
  EXPECT_NE(message("(=q8_0").find("pattern \"(\""), std::string::npos);
  const std::vector<std::string> endless = {"(a|a)*[bc]=q8_0"};
  const auto patterns = TensorTypes::parse(endless);
  ASSERT_TRUE(patterns);
  const auto found = patterns->find(std::string(64, 'a'));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::invalid_argument);
}

TEST(Recipe, PureOutputAndEmbeddingOptions) {
  const GoldenModel& model = golden("llama-8b");
  RecipeOptions options;
  options.recipe = *find_recipe("Q4_K_M");
  options.is_pure = true;
  auto choices = *choose_types(model.facts, model.tensors, options);
  for (size_t i = 0; i < choices.size(); ++i) EXPECT_EQ(choices[i].type, DType::q4_k) << model.tensors[i].name;
  options.output_type = DType::f16;
  options.token_embd_type = DType::q8_0;
  choices = *choose_types(model.facts, model.tensors, options);
  EXPECT_EQ(choice_of(model, choices, "output.weight").type, DType::f16);
  EXPECT_EQ(choice_of(model, choices, "token_embd.weight").type, DType::q8_0);
  options.output_type = std::nullopt;
  options.leaves_output = true;
  choices = *choose_types(model.facts, model.tensors, options);
  EXPECT_EQ(choice_of(model, choices, "output.weight").reason, TypeReason::kept);
  // No fallback for a type given by name.
  options.token_embd_type = DType::q6_k;
  const GoldenModel& ragged = golden("rows-of-576-tied");
  const auto refused = choose_types(ragged.facts, ragged.tensors, options);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("token_embd.weight: rows of 576"), std::string::npos);
}

TEST(Recipe, NeedsAnImatrixBelowThreeBits) {
  const Recipe& q2_k = *find_recipe("Q2_K")->recipe;
  EXPECT_TRUE(needs_imatrix("blk.0.attn_q.weight", DType::iq2_xs, q2_k));
  EXPECT_FALSE(needs_imatrix("output.weight", DType::iq2_xs, q2_k));
  EXPECT_FALSE(needs_imatrix("token_embd.weight", DType::iq2_xs, q2_k));
  EXPECT_FALSE(needs_imatrix("blk.0.attn_q.weight", DType::q2_k, q2_k));
  EXPECT_TRUE(needs_imatrix("blk.0.attn_q.weight", DType::q2_k, *find_recipe("Q2_K_S")->recipe));
  EXPECT_FALSE(needs_imatrix("blk.0.attn_q.weight", DType::iq3_s, q2_k));
}

}  // namespace
}  // namespace tamis
