// Generated for every row of the registry: a file with exactly the table's tensors loads; one missing is an error that
// names it; one more is a warning that names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compute/reference.h"
#include "tests/models/synthetic.h"

namespace tamis {
namespace {

using test::Synthetic;
using ::testing::HasSubstr;

struct Variant {
  std::string_view arch;
  bool with_experts, with_fused_qkv;
};

std::vector<Variant> variants() {
  std::vector<Variant> out;
  for (const std::string_view name : arch_names()) {
    const Need moe = find_arch(name)->block.moe.need;
    for (const bool with_experts : {false, true}) {
      if ((with_experts && moe == Need::none) || (!with_experts && moe == Need::required)) continue;
      for (const bool with_fused_qkv : {false, true}) out.push_back({name, with_experts, with_fused_qkv});
    }
  }
  return out;
}

class Closure : public ::testing::TestWithParam<Variant> {
 protected:
  const ArchSpec arch = *find_arch(GetParam().arch);
  Synthetic model = test::from_spec(arch, GetParam().with_experts, GetParam().with_fused_qkv);
  std::unique_ptr<Backend> backend = make_reference_backend();

  bool is_required(const std::string& name) const {
    for (const TensorSpec& spec : arch.tensors) {
      for (uint32_t i = 0; i < 2; ++i) {
        if (tensor_name(spec.name, i) == name) return spec.is_required;
      }
    }
    return true;
  }
};

TEST_P(Closure, EveryTensorHasItsPlace) {
  const auto loaded = load_model(test::open_synthetic(model), *backend);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().to_string();
  EXPECT_TRUE(loaded->warnings.empty()) << loaded->warnings[0];
  const std::vector<float> logits = test::all_logits(*loaded, *backend, model.ids);
  for (const float value : logits) ASSERT_TRUE(std::isfinite(value));
}

TEST_P(Closure, OneTensorLessIsNamed) {
  for (const test::SyntheticTensor& tensor : model.tensors) {
    Synthetic less = model;
    less.erase(tensor.name);
    const auto loaded = load_model(test::open_synthetic(less), *backend);
    if (!is_required(tensor.name)) {
      EXPECT_TRUE(loaded.has_value()) << tensor.name << ": " << loaded.error().to_string();
      continue;
    }
    // Without attn_q the split form's first tensor, the converter's own form decides which name is asked for.
    ASSERT_FALSE(loaded.has_value()) << tensor.name;
    EXPECT_EQ(loaded.error().code, ErrorCode::not_found) << tensor.name;
    const std::string text = loaded.error().to_string();
    if (tensor.name.find(".attn_q.weight") != std::string::npos ||
        tensor.name.find(".attn_qkv.weight") != std::string::npos) {
      EXPECT_THAT(text, HasSubstr(arch.block.attn.is_fused_qkv ? ".attn_qkv.weight" : ".attn_q.weight"));
    } else {
      EXPECT_THAT(text, HasSubstr(tensor.name));
    }
  }
}

TEST_P(Closure, OneTensorMoreIsNamed) {
  model.tensors.push_back({"blk.1.no_such_part.weight", Shape{4}});
  const auto loaded = load_model(test::open_synthetic(model), *backend);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().to_string();
  ASSERT_EQ(loaded->warnings.size(), 1u);
  EXPECT_THAT(loaded->warnings[0], HasSubstr("blk.1.no_such_part.weight"));
}

TEST_P(Closure, EveryShapeIsChecked) {
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    Synthetic other = model;
    other.tensors[i].shape.extents[0] += 1;
    const auto loaded = load_model(test::open_synthetic(other), *backend);
    ASSERT_FALSE(loaded.has_value()) << other.tensors[i].name;
    EXPECT_EQ(loaded.error().code, ErrorCode::shape) << loaded.error().to_string();
    EXPECT_THAT(loaded.error().to_string(), HasSubstr(other.tensors[i].name));
    EXPECT_TRUE(loaded.error().site->has_offset);
  }
}

TEST_P(Closure, EveryTypeIsChecked) {
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    for (const DType never : {DType::i8, DType::i32, DType::f64}) {
      Synthetic other = model;
      other.tensors[i].dtype = never;
      const auto loaded = load_model(test::open_synthetic(other), *backend);
      ASSERT_FALSE(loaded.has_value()) << other.tensors[i].name;
      EXPECT_EQ(loaded.error().site->tag, "E_TENSOR_TYPE");
      EXPECT_THAT(loaded.error().to_string(), HasSubstr(other.tensors[i].name));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Closure, ::testing::ValuesIn(variants()), [](const auto& row) {
  return std::string(row.param.arch) + (row.param.with_experts ? "_experts" : "_dense") +
         (row.param.with_fused_qkv ? "_fused" : "_split");
});

TEST(Registry, ProjectorsAreRefusedByName) {
  const auto arch = find_arch("clip");
  ASSERT_FALSE(arch.has_value());
  EXPECT_EQ(arch.error().code, ErrorCode::unsupported);
  EXPECT_THAT(arch.error().message, HasSubstr("projector"));
}

TEST(Registry, UnknownNamesAreRefusedWithTheKnownOnes) {
  const auto arch = find_arch("no-such\n");
  ASSERT_FALSE(arch.has_value());
  EXPECT_EQ(arch.error().code, ErrorCode::unsupported);
  EXPECT_THAT(arch.error().message, HasSubstr("no-such\\x0a"));
  EXPECT_THAT(arch.error().message, HasSubstr("qwen3moe"));
}

TEST(Registry, NamesAreThoseOfTheSpecs) {
  for (const std::string_view name : arch_names()) EXPECT_EQ(find_arch(name)->name, name);
}

TEST(Plan, ExpertsStoredApartEqualStackedOnes) {
  const Synthetic& stacked = test::golden_case("llama_experts");
  Synthetic apart = stacked;
  apart.tensors.clear();
  std::map<std::string, std::pair<std::string, uint64_t>> origin;  // name of one expert -> stacked name, its index
  for (const test::SyntheticTensor& tensor : stacked.tensors) {
    const size_t at = tensor.name.find("_exps");
    if (at == std::string::npos) {
      apart.tensors.push_back(tensor);
      continue;
    }
    for (uint64_t e = 0; e < tensor.shape[0]; ++e) {
      const std::string name = tensor.name.substr(0, at) + "." + std::to_string(e) + ".weight";
      apart.tensors.push_back({name, Shape{tensor.shape[1], tensor.shape[2]}});
      origin[name] = {tensor.name, e};
    }
  }
  std::map<std::string, std::vector<float>> kept;
  const GgufFile stacked_file =
      test::open_synthetic(stacked, [&](const std::string& name, std::vector<float>& values) { kept[name] = values; });
  const GgufFile apart_file = test::open_synthetic(apart, [&](const std::string& name, std::vector<float>& values) {
    if (const auto it = origin.find(name); it != origin.end()) {
      const auto begin =
          kept[it->second.first].begin() + static_cast<std::ptrdiff_t>(it->second.second * values.size());
      values.assign(begin, begin + static_cast<std::ptrdiff_t>(values.size()));
    }
  });
  const auto backend = make_reference_backend();
  const auto a = load_model(stacked_file, *backend), b = load_model(apart_file, *backend);
  ASSERT_TRUE(a.has_value());
  ASSERT_TRUE(b.has_value()) << b.error().to_string();
  EXPECT_TRUE(b->warnings.empty());
  EXPECT_EQ(test::all_logits(*a, *backend, stacked.ids), test::all_logits(*b, *backend, stacked.ids));

  apart.erase("blk.1.ffn_up.3.weight");
  const auto broken = load_model(test::open_synthetic(apart), *backend);
  ASSERT_FALSE(broken.has_value());
  EXPECT_THAT(broken.error().to_string(), HasSubstr("blk.1.ffn_up.3.weight"));
}

}  // namespace
}  // namespace tamis
