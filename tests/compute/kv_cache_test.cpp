// The KV cache: what is stored is what the type's own encoder and decoder say, wherever it lies; pages never move.
#include "compute/kv_cache.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "quants/registry.h"

namespace tamis {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0};

std::vector<float> random_values(size_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> out(n);
  for (float& value : out) value = static_cast<float>(rng.normal());
  return out;
}

std::vector<float> rounded(DType dtype, std::vector<float> values) {
  std::vector<std::byte> blocks(*dtype_bytes(dtype, values.size()));
  EXPECT_TRUE(encode_plain(dtype, values, blocks).has_value());
  decode(dtype, blocks.data(), values);
  return values;
}

TEST(KvCache, RowsComeBackAsTheirTypeRoundsThem) {
  // More than one page; head lengths of one block, several, and for plain types any; more than fits the copy buffer.
  for (const DType k_type : kTypes) {
    for (const DType v_type : kTypes) {
      const uint32_t k_dim = dtype_info(k_type).block_len == 1 ? 7 : 96,
                     v_dim = dtype_info(v_type).block_len == 1 ? 577 : 1120;
      const KvLayerShape shape{3, k_dim, v_dim};
      KvCache cache({{1, 64, 32}, shape}, {k_type, v_type});
      const uint32_t n = KvCache::kPageTokens + 18;
      ASSERT_TRUE(cache.reserve(n).has_value());
      EXPECT_EQ(cache.size_bytes(),
                2 * KvCache::kPageTokens *
                    (*kv_token_bytes({k_type, v_type}, {1, 64, 32}) + *kv_token_bytes({k_type, v_type}, shape)));
      const auto k = random_values(n * 3 * k_dim, 1), v = random_values(n * 3 * v_dim, 2), other = random_values(64, 3);
      for (uint32_t p = 0; p < n; ++p) {
        cache.store(1, p, k.data() + p * 3 * k_dim, v.data() + p * 3 * v_dim);
        cache.store(0, p, other.data(), other.data());
      }
      for (uint32_t p = 0; p < n; ++p) {
        for (uint32_t head = 0; head < 3; ++head) {
          const auto row_of = [&](const std::vector<float>& from, uint32_t dim) {
            const auto begin = from.begin() + (p * 3 + head) * dim;
            return std::vector<float>(begin, begin + dim);
          };
          std::vector<float> key(k_dim), value(v_dim);
          cache.read_key(1, p, head, key.data());
          cache.read_value(1, p, head, value.data());
          ASSERT_EQ(key, rounded(k_type, row_of(k, k_dim)));
          ASSERT_EQ(value, rounded(v_type, row_of(v, v_dim)));
        }
      }
    }
  }
}

TEST(KvCache, GrowsWithoutMovingAndForgets) {
  KvCache cache({{1, 3, 2}, {2, 4, 1}});
  EXPECT_EQ(cache.size_bytes(), 0u);
  ASSERT_TRUE(cache.reserve(1).has_value());
  const std::byte* const first = cache.head_page(1, 0, 1).k;
  ASSERT_TRUE(cache.reserve(KvCache::kPageTokens + 1).has_value());
  EXPECT_EQ(cache.head_page(1, KvCache::kPageTokens - 1, 1).k, first) << "one page, one place";
  EXPECT_NE(cache.head_page(1, KvCache::kPageTokens, 1).k, first);
  EXPECT_EQ(cache.size_bytes(), 2 * KvCache::kPageTokens * (5 + 2 * 5) * sizeof(float));
  cache.commit(5);
  cache.truncate(9);
  EXPECT_EQ(cache.n_tokens(), 5u);
  cache.truncate(2);
  EXPECT_EQ(cache.n_tokens(), 2u);
}

TEST(KvCache, RefusesTypesThatDoNotFit) {
  const auto types = kv_types_from_names("q8_0", "F16");
  ASSERT_TRUE(types.has_value());
  EXPECT_EQ(types->k, DType::q8_0);
  EXPECT_EQ(types->v, DType::f16);
  for (const char* name : {"q4_k", "", "f64", "int8"}) {
    const auto bad = kv_types_from_names("f16", name);
    ASSERT_FALSE(bad.has_value()) << name;
    EXPECT_EQ(bad.error().code, ErrorCode::invalid_argument);
  }
  EXPECT_TRUE(check_kv_types(*types, {2, 96, 40}).has_value());
  const Status refused = check_kv_types(*types, {2, 80, 96});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("Q8_0"), std::string::npos);
  EXPECT_NE(refused.error().message.find("80"), std::string::npos);
}

TEST(KvCache, PagesNoMachineCanHoldAreAnError) {
  KvCache cache({{UINT32_MAX, UINT32_MAX / 64, UINT32_MAX / 64}});
  const Status status = cache.reserve(1);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::out_of_memory);
}

// A cache of one layer with one head, and what it holds.
std::vector<float> keys_of(const KvCache& cache, uint32_t n) {
  std::vector<float> keys(n);
  for (uint32_t p = 0; p < n; ++p) cache.read_key(0, p, 0, &keys[p]);
  return keys;
}
void append(KvCache& cache, float value) {
  const uint32_t n = cache.n_tokens();
  ASSERT_TRUE(cache.reserve(n + 1).has_value());
  cache.store(0, n, &value, &value);
  cache.commit(n + 1);
}

TEST(KvCache, SharedPagesAreCopiedWhenWrittenTo) {
  constexpr uint32_t kPage = KvCache::kPageTokens;
  const std::vector<KvLayerShape> layers = {{1, 1, 1}};
  const auto pool = std::make_shared<KvPagePool>(*KvCache(layers).page_bytes(), 4);
  KvCache first(layers, {}, pool);
  std::vector<float> expected;
  for (uint32_t i = 0; i < kPage + 3; ++i) append(first, static_cast<float>(expected.emplace_back(i)));
  KvCache second(layers, {}, pool);
  for (size_t i = 0; i < 2; ++i) second.put_page(i, first.pages()[i]);
  second.commit(kPage + 3);
  EXPECT_EQ(keys_of(second, kPage + 3), expected);
  EXPECT_EQ(pool->n_used(), 2u);
  EXPECT_EQ(second.n_pages_to_take(kPage + 4), 1u);

  append(second, -1);
  EXPECT_EQ(pool->n_used(), 3u) << "the last page alone is copied";
  EXPECT_EQ(first.n_pages_to_take(kPage + 4), 0u) << "nobody else holds it now";
  append(first, -2);
  std::vector<float> of_first = expected, of_second = expected;
  of_first.push_back(-2);
  of_second.push_back(-1);
  EXPECT_EQ(keys_of(first, kPage + 4), of_first);
  EXPECT_EQ(keys_of(second, kPage + 4), of_second);

  // Behind a truncated end nothing is worth a copy.
  second.truncate(0);
  EXPECT_EQ(second.n_pages_to_take(1), 1u);
  append(second, 7);
  EXPECT_EQ(keys_of(first, kPage + 4), of_first);
  EXPECT_EQ(pool->n_used(), 4u);

  // The pool's end is an error that leaves everything as it was; pages come back and are used again.
  KvCache third(layers, {}, pool);
  const Status none = third.reserve(1);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::out_of_memory);
  first.clear();
  EXPECT_EQ(pool->n_used(), 2u);
  append(third, 1);
  EXPECT_EQ(keys_of(third, 1), std::vector<float>{1});
  second.clear();
  third.clear();
  EXPECT_EQ(pool->n_used(), 0u);
}

}  // namespace
}  // namespace tamis
