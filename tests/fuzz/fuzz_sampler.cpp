// fuzz: rooms=engine,text,formats,base
// Any logits, any parameters, any accepted tokens: a token of the vocabulary with a finite logit, or an error; never a
// read or write outside. Also the steps that trust no caller about ids.
//
// Input: 16 bytes of parameters, then token ids (i32) until half of the rest, then logits (f32).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/sampler.h"

namespace {

constexpr size_t kParams = 16;

// A byte as one of a few values, odd ones among them.
float number(uint8_t byte) {
  const float values[] = {0.0f,  0.5f, 1.0f, -1.0f, 2.0f,   1e-40f, 3e38f, std::numeric_limits<float>::quiet_NaN(),
                          0.05f, 0.9f, 1.1f, 1e-5f, -3e38f, 7.0f,   0.1f,  1.75f};
  return values[byte % 16];
}

tamis::SamplingParams params_from(const uint8_t* bytes) {
  tamis::SamplingParams params;
  params.seed = bytes[0];
  params.temp = number(bytes[1]);
  params.top_k = static_cast<int8_t>(bytes[2]);
  params.top_p = number(bytes[3]);
  params.min_p = number(bytes[4]);
  params.typical_p = number(bytes[5]);
  params.xtc_probability = number(bytes[6]);
  params.xtc_threshold = number(bytes[7]);
  params.min_keep = 1 + bytes[8] % 4;
  params.repeat_last_n = static_cast<int8_t>(bytes[9]);
  params.repeat_penalty = number(bytes[10]);
  params.frequency_penalty = number(bytes[11]);
  params.dry_multiplier = number(bytes[12]);
  params.dry_base = number(bytes[13]);
  params.dry_allowed_length = bytes[14] % 4;
  params.mirostat = bytes[15] % 4;
  return params;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kParams) return 0;
  const size_t n_words = std::min<size_t>((size - kParams) / 4, 256);
  std::vector<tamis::TokenId> ids(n_words / 2);
  std::vector<float> logits(n_words - ids.size());
  if (!ids.empty()) std::memcpy(ids.data(), data + kParams, 4 * ids.size());
  if (!logits.empty()) std::memcpy(logits.data(), data + kParams + 4 * ids.size(), 4 * logits.size());

  std::unordered_map<tamis::TokenId, uint32_t> counts;
  for (const tamis::TokenId id : ids) ++counts[id];
  std::vector<float> penalised = logits;
  tamis::apply_penalties(penalised, counts, {.repeat = 1.5f, .frequency = 0.5f, .presence = 0.5f});
  tamis::apply_dry(penalised, ids, ids.size(), {.multiplier = 1.0f, .base = 2.0f, .allowed_length = 1});

  auto chain = tamis::SamplerChain::create(params_from(data), logits.size());
  if (!chain) return 0;
  for (const tamis::TokenId id : ids)
    chain->accept(logits.empty() ? id : id % static_cast<tamis::TokenId>(logits.size() + 1));
  for (int i = 0; i < 3; ++i) {
    const auto token = chain->sample(logits);
    if (!token) return 0;
    if (*token < 0 || static_cast<size_t>(*token) >= logits.size()) std::abort();
    if (!std::isfinite(logits[static_cast<size_t>(*token)])) std::abort();
    chain->accept(*token);
  }
  return 0;
}
