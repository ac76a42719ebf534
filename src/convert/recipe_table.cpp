// The recipes of llama.cpp as tables. Source: quantization.md §1.2–1.5, checked tensor by tensor against llama.cpp by
// tests/golden/recipes.tsv.
#include "convert/recipe_table.h"

namespace tamis {
namespace {

using enum DType;

// general.file_type of each recipe.
enum Id : uint32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q8_0 = 7,
  Q5_0 = 8,
  Q5_1 = 9,
  Q2_K = 10,
  Q3_K_S = 11,
  Q3_K_M = 12,
  Q3_K_L = 13,
  Q4_K_S = 14,
  Q4_K_M = 15,
  Q5_K_S = 16,
  Q5_K_M = 17,
  Q6_K = 18,
  IQ2_XXS = 19,
  IQ2_XS = 20,
  Q2_K_S = 21,
  IQ3_XS = 22,
  IQ3_XXS = 23,
  IQ1_S = 24,
  IQ4_NL = 25,
  IQ3_S = 26,
  IQ3_M = 27,
  IQ2_S = 28,
  IQ2_M = 29,
  IQ4_XS = 30,
  IQ1_M = 31,
  BF16 = 32,
  TQ1_0 = 36,
  TQ2_0 = 37,
  MXFP4_MOE = 38,
  NVFP4 = 39,
  Q1_0 = 40,
  Q2_0 = 41,
};

constexpr Recipe kRecipes[] = {
    {"F32", F32, f32, "32 bits a weight; decodes a quantized file"},
    {"F16", F16, f16, "16 bits a weight"},
    {"BF16", BF16, bf16, "16 bits a weight, the range of F32"},
    {"Q8_0", Q8_0, q8_0, "8.5 bits; nearly the source"},
    {"Q6_K", Q6_K, q6_k, "6.56 bits"},
    {"Q5_K_M", Q5_K_M, q5_k, "Q5_K, half of attn_v and ffn_down in Q6_K"},
    {"Q5_K_S", Q5_K_S, q5_k, "Q5_K"},
    {"Q5_1", Q5_1, q5_1, "6 bits, blocks of 32"},
    {"Q5_0", Q5_0, q5_0, "5.5 bits, blocks of 32"},
    {"Q4_K_M", Q4_K_M, q4_k, "Q4_K, half of attn_v and ffn_down in Q6_K"},
    {"Q4_K_S", Q4_K_S, q4_k, "Q4_K, the first of attn_v and ffn_down in Q5_K"},
    {"Q4_1", Q4_1, q4_1, "5 bits, blocks of 32"},
    {"Q4_0", Q4_0, q4_0, "4.5 bits, blocks of 32"},
    {"IQ4_NL", IQ4_NL, iq4_nl, "4.5 bits, blocks of 32, uneven steps"},
    {"IQ4_XS", IQ4_XS, iq4_xs, "4.25 bits, uneven steps"},
    {"MXFP4_MOE", MXFP4_MOE, mxfp4, "experts in MXFP4, the rest in Q8_0"},
    {"NVFP4", NVFP4, nvfp4, "4.5 bits, blocks of 64"},
    {"Q3_K_L", Q3_K_L, q3_k, "Q3_K, attn_v, attn_output and ffn_down in Q5_K"},
    {"Q3_K_M", Q3_K_M, q3_k, "Q3_K, attn_v, attn_output and ffn_down in Q4_K"},
    {"Q3_K_S", Q3_K_S, q3_k, "Q3_K"},
    {"IQ3_M", IQ3_M, iq3_s, "IQ3_S, attn_v and attn_output in Q4_K"},
    {"IQ3_S", IQ3_S, iq3_s, "3.44 bits"},
    {"IQ3_XS", IQ3_XS, iq3_s, "IQ3_S and IQ3_XXS"},
    {"IQ3_XXS", IQ3_XXS, iq3_xxs, "3.06 bits; wants an imatrix"},
    {"Q2_K", Q2_K, q2_k, "Q2_K, attn_output and ffn_down in Q3_K"},
    {"Q2_K_S", Q2_K_S, q2_k, "Q2_K; wants an imatrix"},
    {"IQ2_M", IQ2_M, iq2_s, "IQ2_S and IQ3_S; wants an imatrix"},
    {"IQ2_S", IQ2_S, iq2_xs, "IQ2_XS and IQ3_S; wants an imatrix"},
    {"IQ2_XS", IQ2_XS, iq2_xs, "2.31 bits; wants an imatrix"},
    {"IQ2_XXS", IQ2_XXS, iq2_xxs, "2.06 bits; wants an imatrix"},
    {"Q2_0", Q2_0, q2_0, "2.25 bits, blocks of 64"},
    {"TQ2_0", TQ2_0, tq2_0, "ternary, 2.06 bits"},
    {"TQ1_0", TQ1_0, tq1_0, "ternary, 1.69 bits"},
    {"IQ1_M", IQ1_M, iq1_m, "1.75 bits; wants an imatrix"},
    {"IQ1_S", IQ1_S, iq1_s, "1.56 bits; wants an imatrix"},
    {"Q1_0", Q1_0, q1_0, "signs, 1.125 bits"},
};

template <class... Ids>
constexpr RecipeSet set(Ids... ids) {
  return ((RecipeSet{1} << ids) | ...);
}
constexpr RecipeSet kAll = ~RecipeSet{0};
constexpr RecipeSet kIQ1 = set(IQ1_S, IQ1_M);
constexpr RecipeSet kIQ2Wide = set(IQ2_S, IQ2_M);
constexpr RecipeSet kLow = kIQ1 | kIQ2Wide | set(IQ2_XXS, IQ2_XS);  // rules of their own
constexpr RecipeSet kRest = kAll & ~kLow;

constexpr Rule kRules[] = {
    // output
    {set(MXFP4_MOE), kOutput, kAlways, q8_0},
    {kAll, kOutput, kFalcon, q8_0},
    {kAll, kOutput, kRagged, q8_0},
    {kLow | set(IQ3_XXS), kOutput, kAlways, q5_k},
    {set(Q8_0), kOutput, kAlways, q8_0},
    {kAll, kOutput, kAlways, q6_k},
    // experts in MXFP4
    {set(MXFP4_MOE), kAnyKind, kStacked, mxfp4},
    {set(MXFP4_MOE), kAnyKind, kAlways, q8_0},
    // token embeddings
    {set(IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ2_M, IQ3_XXS, IQ3_XS, IQ3_S, IQ3_M, Q2_K, Q2_K_S, Q3_K_S, Q3_K_M,
         Q3_K_L, IQ4_XS, TQ1_0, TQ2_0, Q1_0, Q2_0),
     kTokenEmbd, kOwn | kPerLayer, q4_k},
    {set(IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS), kTokenEmbd, kAlways, q2_k},
    {kIQ2Wide | set(IQ3_XXS), kTokenEmbd, kAlways, iq3_s},
    {set(TQ1_0, TQ2_0, Q2_0), kTokenEmbd, kAlways, q4_k},
    // fused q, k and v, where they are not taken for v
    {set(Q3_K_M, Q3_K_L, IQ3_M), kAttnQkv, kOwn, q4_k},
    {set(Q4_K_M), kAttnQkv, kOwn, q5_k},
    {set(Q5_K_M), kAttnQkv, kOwn, q6_k},
    {set(Q2_K), kAttnQkv, kOwn, q3_k},
    {set(Q4_K_S), kAttnQkv, kOwn | kFirst4, q5_k},
    {set(Q4_K_S), kAttnQkv, kOwn, q4_k},
    {set(IQ4_NL), kAttnQkv, kOwn, iq4_nl},
    {set(IQ4_XS), kAttnQkv, kOwn, iq4_xs},
    {set(IQ3_XXS, IQ3_XS, IQ3_S) | kIQ2Wide, kAttnQkv, kOwn, iq3_s},
    {kLow | set(Q2_K_S), kAttnQkv, kOwn, q2_k},
    // 2 bits and fewer
    {kLow, kValues, kGqa4OrExperts4, q4_k},
    {kIQ2Wide, kValues, kAlways, iq3_s},
    {kLow, kValues, kAlways, q2_k},
    {kLow, kAttnK, kExperts8, q4_k},
    {kIQ2Wide, kFfnDown, kFirstEighth, iq3_s},
    {kLow, kFfnDown, kFirstEighth, q2_k},
    {kLow, kAttnOutput, kExperts8, q5_k},
    {kIQ1, kAttnOutput, kAlways, iq2_xxs},
    {kIQ2Wide, kAttnOutput, kAlways, iq3_s},
    // values
    {kRest, kValues, kExperts8, q8_0},
    {set(Q2_K, Q2_K_S, IQ3_XXS, IQ3_XS, IQ3_S), kValues, kGqa4, q4_k},
    {set(Q2_K), kValues, kAlways, q3_k},
    {set(IQ3_XXS), kValues, kNoImatrix, iq3_s},
    {set(IQ3_M), kValues, kAlways, q4_k},
    {set(Q3_K_M), kValues, kFirst2, q5_k},
    {set(Q3_K_M), kValues, kAlways, q4_k},
    {set(Q3_K_L), kValues, kAlways, q5_k},
    {set(IQ4_NL, IQ4_XS), kValues, kGqa4, q5_k},
    {set(Q4_K_M, Q5_K_M), kValues, kMoreBits, q6_k},
    {set(Q4_K_S), kValues, kFirst4, q5_k},
    // keys and queries
    {kRest, kAttnK, kExperts8, q8_0},
    {set(IQ3_XS), kAttnK | kAttnQ, kAlways, iq3_xxs},
    {set(IQ3_XXS), kAttnK | kAttnQ, kAlways, iq2_s},
    // ffn_down
    {set(Q2_K), kFfnDown, kAlways, q3_k},
    {set(Q2_K_S), kFfnDown, kFirstEighth, q4_k},
    {set(IQ3_XXS), kFfnDown, kNoImatrix | kFirstEighth, q4_k},
    {set(IQ3_XXS), kFfnDown, kNoImatrix, q3_k},
    {set(Q3_K_M), kFfnDown, kFirstSixteenth, q5_k},
    {set(Q3_K_M), kFfnDown, kNotFalcon, q4_k},
    {set(Q3_K_M), kFfnDown, kMoreBits, q4_k},
    {set(IQ3_M), kFfnDown, kFirstEighth, q4_k},
    {set(IQ3_M), kFfnDown, kExperts8 | kMoreBits, q4_k},
    {set(Q3_K_L), kFfnDown, kFalcon, q4_k},
    {set(Q3_K_L), kFfnDown, kAlways, q5_k},
    {set(Q4_K_M), kFfnDown, kFalcon | kFirstSixteenth, q6_k},
    {set(Q4_K_M), kFfnDown, kFalcon | kMoreBits, q5_k},
    {set(Q4_K_M), kFfnDown, kNotFalcon | kMoreBits, q6_k},
    {set(Q5_K_M), kFfnDown, kMoreBits, q6_k},
    {set(IQ4_NL, IQ4_XS), kFfnDown, kNoImatrix | kFirstEighth, q5_k},
    {set(Q4_K_S), kFfnDown, kNotFalcon | kFirstEighth, q5_k},
    {set(Q4_0), kFfnDown, kImatrix | kFirstEighth, q4_1},
    {set(Q5_0), kFfnDown, kImatrix | kFirstEighth, q5_1},
    // attn_output
    {set(Q2_K, IQ3_XS, IQ3_XXS, Q3_K_S, Q3_K_M, IQ4_NL, Q4_K_S, Q4_K_M, IQ3_S, IQ3_M, IQ4_XS), kAttnOutput,
     kNotFalcon | kExperts8, q5_k},
    {set(Q2_K), kAttnOutput, kNotFalcon | kNotExperts8, q3_k},
    {set(IQ3_XXS), kAttnOutput, kNotFalcon | kNotExperts8, iq3_s},
    {set(Q3_K_M, IQ3_M), kAttnOutput, kNotFalcon | kNotExperts8, q4_k},
    {set(Q3_K_L), kAttnOutput, kNotFalcon | kNotExperts8, q5_k},
    {set(Q3_K_L), kAttnOutput, kFalcon, q4_k},
    // ffn_gate and ffn_up
    {set(IQ3_XS), kFfnGate | kFfnUp, kMiddle, iq3_xxs},
};

constexpr Lift kLiftsOf70B[] = {{kValues, q3_k, q5_k}, {kValues, q4_k, q5_k}};

constexpr Fallback kFallbacks[] = {
    {iq1_s, iq4_nl, {q2_0, iq4_nl, f16}},
    {iq1_m, iq4_nl, {q2_0, iq4_nl, f16}},
    {iq2_xxs, iq4_nl, {q2_0, iq4_nl, f16}},
    {iq2_xs, iq4_nl, {q2_0, iq4_nl, f16}},
    {iq2_s, iq4_nl, {q2_0, iq4_nl, f16}},
    {iq3_xxs, iq4_nl, {iq4_nl, f16, f16}},
    {iq3_s, iq4_nl, {iq4_nl, f16, f16}},
    {iq4_xs, iq4_nl, {iq4_nl, f16, f16}},
    {q2_0, q4_0, {iq4_nl, f16, f16}},
    {q2_k, q4_0, {q2_0, iq4_nl, f16}},
    {q3_k, q4_0, {iq4_nl, f16, f16}},
    {tq1_0, q4_0, {q2_0, iq4_nl, f16}},
    {tq2_0, q4_0, {q2_0, iq4_nl, f16}},
    {q4_k, q5_0, {iq4_nl, f16, f16}},
    {q5_k, q5_1, {q5_0, f16, f16}},
    {q6_k, q8_0, {q5_1, f16, f16}},
    // None in stock, which refuses.
    {q1_0, q2_0, {q2_0, iq4_nl, f16}},
    {nvfp4, iq4_nl, {iq4_nl, f16, f16}},
};

constexpr KindName kKindNames[] = {
    {"output.weight", true, kOutput},
    {"token_embd.weight", true, kTokenEmbd},
    {"per_layer_token_embd.weight", true, kTokenEmbd},
    {"attn_qkv.weight", false, kAttnQkv},
    {"attn_kv_b.weight", false, kAttnKvB},
    {"attn_v.weight", false, kAttnV},
    {"attn_k.weight", false, kAttnK},
    {"attn_q.weight", false, kAttnQ},
    {"attn_output.weight", false, kAttnOutput},
    {"ffn_up", false, kFfnUp},
    {"ffn_gate", false, kFfnGate},
    {"ffn_down", false, kFfnDown},
};

constexpr std::string_view kKeptNameParts[] = {
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "attn_rel_b.weight",
    "position_embd",
    "token_types.weight",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    "a.rvq.codebook",
    "mm.a.code_embd",
};

constexpr DType kTypesNeedingImatrix[] = {iq3_xxs, iq2_xxs, iq2_xs, iq2_s, iq1_m, iq1_s};

}  // namespace

std::span<const Recipe> all_recipes() { return kRecipes; }
std::span<const Rule> recipe_rules() { return kRules; }
RecipeSet recipes_counting_experts() { return kLow; }
std::span<const Lift> lifts_of_70b() { return kLiftsOf70B; }
std::span<const Fallback> shape_fallbacks() { return kFallbacks; }
std::span<const KindName> kind_names() { return kKindNames; }
std::span<const std::string_view> kept_name_parts() { return kKeptNameParts; }
std::span<const DType> types_needing_imatrix() { return kTypesNeedingImatrix; }

}  // namespace tamis
