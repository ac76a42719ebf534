// The fetched models, reference backend: "The capital of France is" continues as their weights say. Ids are those of
// the models' own tokenizers (checked against llama.cpp in tests/text), so that this room needs none.
#include <gtest/gtest.h>

#include "base/env.h"
#include "base/thread_pool.h"
#include "compute/reference.h"
#include "models/decoder.h"

namespace tamis {
namespace {

// The n most likely next tokens, one after another; the prompt in one batch, then token by token.
std::vector<int32_t> greedy(const std::string& file_name, std::vector<int32_t> ids, size_t n) {
  const auto file = GgufFile::open(env::cache_dir() + "/models/" + file_name);
  if (!file) {
    ADD_FAILURE() << file.error().to_string();
    return {};
  }
  const auto pool = ThreadPool::create(0);
  const auto backend = make_reference_backend(pool.get());
  const auto model = load_model(*file, *backend);
  if (!model) {
    ADD_FAILURE() << model.error().to_string();
    return {};
  }
  EXPECT_TRUE(model->warnings.empty());
  KvCache cache = model->make_cache();
  std::vector<int32_t> answer;
  while (answer.size() < n) {
    std::vector<KvSlot> slots;
    for (size_t i = 0; i < ids.size(); ++i) slots.push_back({&cache, cache.n_tokens() + static_cast<uint32_t>(i)});
    const std::vector<uint32_t> rows = {static_cast<uint32_t>(ids.size() - 1)};
    const auto logits = forward(*model, *backend, {ids, slots, rows});
    if (!logits) {
      ADD_FAILURE() << logits.error().to_string();
      return {};
    }
    answer.push_back(static_cast<int32_t>(std::max_element(logits->begin(), logits->end()) - logits->begin()));
    ids = {answer.back()};
  }
  return answer;
}

TEST(Greedy, SmolLM2) {  // " Paris.\n\nThe answer is"
  EXPECT_EQ(greedy("SmolLM2-135M-Instruct.Q4_1.gguf", {504, 3575, 282, 4649, 314}, 7),
            (std::vector<int32_t>{7042, 30, 198, 198, 504, 2988, 314}));
}

TEST(Greedy, Qwen25Coder) {  // " Paris. Paris is"
  EXPECT_EQ(greedy("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", {785, 6722, 315, 9625, 374}, 4),
            (std::vector<int32_t>{12095, 13, 12095, 374}));
}

TEST(Greedy, Gemma3) {  // " the capital of the country of France"
  EXPECT_EQ(greedy("gemma-3-270m-q4_k_m.gguf", {2, 818, 5279, 529, 7001, 563}, 7),
            (std::vector<int32_t>{506, 5279, 529, 506, 2891, 529, 7001}));
}

}  // namespace
}  // namespace tamis
