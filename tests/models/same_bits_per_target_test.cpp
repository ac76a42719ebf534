// The promise of compute/backend.h on whole models: a token's logits are the same bits alone or among other sequences,
// on any number of threads, however the prompt was cut, after a prefix that was there before, on every target. Every
// architecture, its matrices of several types.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/thread_pool.h"
#include "compute/reference.h"
#include "cpu/backend.h"
#include "cpu/dispatch.h"
#include "quants/registry.h"
#include "tests/models/synthetic.h"

namespace tamis {
namespace {

using test::Synthetic;

constexpr size_t kTokens = 100;  // past a page of keys, and past the window

constexpr DType kTypes[] = {DType::q4_k, DType::q8_0, DType::f16,  DType::q4_0, DType::q5_1,
                            DType::q4_1, DType::bf16, DType::q5_0, DType::f32};

// `turn` decides where in the list of types the first matrix starts.
Synthetic make_model(const ArchSpec& arch, bool with_experts, size_t turn) {
  Synthetic model =
      test::from_spec(arch, with_experts, false,
                      {.n_ctx = 512, .n_embd = 256, .n_ff = 512, .n_expert_ff = 256, .k_dim = 64, .v_dim = 128});
  for (test::SyntheticTensor& tensor : model.tensors) {
    if (tensor.shape.n_dims < 2 || tensor.name.find("ffn_gate_inp") != std::string::npos) continue;
    const DType dtype = kTypes[turn++ % std::size(kTypes)];
    if (tensor.shape.row_len() % dtype_info(dtype).block_len == 0) tensor.dtype = dtype;
  }
  model.ids.resize(kTokens);
  for (size_t i = 0; i < kTokens; ++i) model.ids[i] = static_cast<int32_t>((i * i + 7 * i + turn) % 30);
  return model;
}

bool has_form(const ArchSpec& arch, bool with_experts) {
  return arch.block.moe.need != (with_experts ? Need::none : Need::required);
}

struct Sequence {
  KvCache cache;
  std::vector<int32_t> ids;
};

// Appends ids [first, last) in one step; their logits.
std::vector<float> step(const Model& model, Backend& backend, Sequence& sequence, size_t first, size_t last) {
  std::vector<KvSlot> slots;
  std::vector<uint32_t> rows(last - first);
  std::iota(rows.begin(), rows.end(), 0u);
  for (size_t i = first; i < last; ++i) slots.push_back({&sequence.cache, static_cast<uint32_t>(i)});
  auto logits = forward(model, backend, {std::span(sequence.ids).subspan(first, last - first), slots, rows});
  EXPECT_TRUE(logits.has_value());
  return *logits;
}

std::vector<float> in_chunks(const Model& model, Backend& backend, const std::vector<int32_t>& ids, size_t chunk) {
  Sequence sequence{model.make_cache(), ids};
  std::vector<float> all;
  for (size_t first = 0; first < ids.size(); first += chunk) {
    const auto logits = step(model, backend, sequence, first, std::min(first + chunk, ids.size()));
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

// Seventeen sequences, a token of each a step; the logits of the sequence in the middle.
std::vector<float> among_others(const Model& model, Backend& backend, const std::vector<int32_t>& ids) {
  constexpr size_t kSequences = 17, kOurs = 8;
  std::vector<Sequence> sequences;
  for (size_t s = 0; s < kSequences; ++s) {
    sequences.push_back({model.make_cache(), ids});
    for (int32_t& id : sequences[s].ids) id = s == kOurs ? id : static_cast<int32_t>((id * 3 + s) % 30);
  }
  std::vector<float> ours;
  std::vector<int32_t> tokens(kSequences);
  std::vector<KvSlot> slots(kSequences);
  constexpr uint32_t kRow[] = {kOurs};
  for (size_t i = 0; i < ids.size(); ++i) {
    for (size_t s = 0; s < kSequences; ++s) {
      tokens[s] = sequences[s].ids[i];
      slots[s] = {&sequences[s].cache, static_cast<uint32_t>(i)};
    }
    const auto logits = forward(model, backend, {tokens, slots, kRow});
    EXPECT_TRUE(logits.has_value());
    ours.insert(ours.end(), logits->begin(), logits->end());
  }
  return ours;
}

// The first tokens were computed with another continuation, which is forgotten.
std::vector<float> after_a_prefix(const Model& model, Backend& backend, const std::vector<int32_t>& ids) {
  constexpr size_t kKept = 70;
  Sequence sequence{model.make_cache(), ids};
  for (size_t i = kKept; i < ids.size(); ++i) sequence.ids[i] = 29 - ids[i];
  std::vector<float> all = step(model, backend, sequence, 0, ids.size());
  all.resize(kKept * model.n_vocab());
  sequence.cache.truncate(kKept);
  sequence.ids = ids;
  const auto rest = step(model, backend, sequence, kKept, ids.size());
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

std::vector<uint32_t> bits(std::span<const float> values) {
  std::vector<uint32_t> out;
  for (const float value : values) out.push_back(std::bit_cast<uint32_t>(value));
  return out;
}

void expect_same_bits(const Synthetic& synthetic, CpuActivations activations) {
  std::vector<uint32_t> expected;
  for (const cpu::KernelTable* target : cpu::available_targets()) {
    for (const uint32_t n_threads : {1u, 3u}) {
      const auto pool = ThreadPool::create(n_threads);
      const auto backend = make_cpu_backend(pool.get(), target->name, activations);
      const auto model = load_model(test::open_synthetic(synthetic), **backend);
      ASSERT_TRUE(model.has_value()) << model.error().to_string();
      const std::string where = synthetic.name + ", " + target->name + ", " + std::to_string(n_threads) + " threads";
      for (const size_t chunk : n_threads == 1 ? std::array{512, 7} : std::array{1, 64}) {
        const auto got = bits(in_chunks(*model, **backend, synthetic.ids, chunk));
        if (expected.empty()) expected = got;
        ASSERT_EQ(got, expected) << where << ", chunks of " << chunk;
      }
      if (n_threads == 1) continue;
      ASSERT_EQ(bits(among_others(*model, **backend, synthetic.ids)), expected) << where << ", 17 sequences";
      ASSERT_EQ(bits(after_a_prefix(*model, **backend, synthetic.ids)), expected) << where << ", a prefix kept";
    }
  }
  for (const uint32_t value : expected) ASSERT_TRUE(std::isfinite(std::bit_cast<float>(value)));
}

TEST(SameBits, EveryArchitectureWithIntegerActivations) {
  size_t turn = 0;
  for (const std::string_view name : arch_names()) {
    const ArchSpec arch = *find_arch(name);
    for (const bool with_experts : {false, true}) {
      if (!has_form(arch, with_experts)) continue;
      expect_same_bits(make_model(arch, with_experts, turn++), CpuActivations::q8);
    }
  }
}

// Every op is off by at most (k/16 + 10) half-ulps of its largest output, k ≤ 512, and a network of these weights (gain
// 2 at most) no more than doubles in each of its two layers what enters it; some 40 ops follow one another.
TEST(SameBits, ExactActivationsStayNearTheReference) {
  constexpr double kBound = 40 * (512 / 16 + 10) * 4 * 0x1p-24;  // of the largest logit
  const auto cpu = make_cpu_backend(nullptr, "", CpuActivations::f32);
  const auto reference = make_reference_backend();
  for (const std::string_view name : arch_names()) {
    const ArchSpec arch = *find_arch(name);
    for (const bool with_experts : {false, true}) {
      if (!has_form(arch, with_experts)) continue;
      const Synthetic synthetic = make_model(arch, with_experts, 3);
      const auto model = load_model(test::open_synthetic(synthetic), **cpu);
      const auto exact = load_model(test::open_synthetic(synthetic), *reference);
      ASSERT_TRUE(model.has_value() && exact.has_value());
      const std::vector<float> out = in_chunks(*model, **cpu, synthetic.ids, 512);
      const std::vector<float> truth = in_chunks(*exact, *reference, synthetic.ids, 512);
      double largest = 0;
      for (const float logit : truth) largest = std::max(largest, std::abs(static_cast<double>(logit)));
      for (size_t i = 0; i < truth.size(); ++i)
        ASSERT_NEAR(out[i], truth[i], kBound * largest) << name << (with_experts ? ", experts" : "") << ", logit " << i;
    }
  }
}

TEST(SameBits, WithExactActivations) {
  const ArchSpec mixture = *find_arch("llama"), windowed = *find_arch("gemma3");
  expect_same_bits(make_model(mixture, true, 4), CpuActivations::f32);
  expect_same_bits(make_model(windowed, false, 7), CpuActivations::f32);
}

}  // namespace
}  // namespace tamis
