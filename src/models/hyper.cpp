// Key by key from metadata to Hyper, in the order the checks need: sizes, heads, feed-forward, window, RoPE, scales.
#include "models/hyper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/hyper_reader.h"

namespace tamis {
namespace {

// Ranges: generous for real models, small enough that a product of two never leaves 64 bits nor of (heads, head size)
// 32 bits.
constexpr uint32_t kMaxHeads = 65535, kMaxHeadDim = 65535;
constexpr uint32_t kMaxWidth = 1u << 24;
constexpr uint32_t kMaxExperts = 65535;
constexpr uint32_t kMaxUint = std::numeric_limits<uint32_t>::max();

Status read_sizes(const HyperReader& in, const Limits& limits, Hyper& hyper) {
  TAMIS_TRY(hyper.n_layers,
            in.uint("block_count", 1, static_cast<uint32_t>(std::min<uint64_t>(limits.n_layers, kMaxUint))));
  TAMIS_TRY(hyper.n_embd, in.uint("embedding_length", 1, kMaxWidth));
  TAMIS_TRY(hyper.n_ctx_train, in.uint("context_length", 1, kMaxUint));
  hyper.layers.resize(hyper.n_layers);
  return {};
}

// The vocabulary's size: the token list rules; files without one (no tokenizer) say it in a key.
Status read_n_vocab(const HyperReader& in, const Limits& limits, Hyper& hyper) {
  const auto highest = static_cast<uint32_t>(std::min<uint64_t>(limits.n_vocab, kMaxUint));
  const std::string_view key = "tokenizer.ggml.tokens";
  if (in.file().find(key) == nullptr && !in.has("vocab_size")) {
    auto error =
        in.file().error_at_key(key, "no such key", fmt::format("it, or {}", in.key("vocab_size")), "E_HPARAM_MISSING");
    error.value().code = ErrorCode::not_found;
    return error;
  }
  if (in.file().find(key) == nullptr) {
    TAMIS_TRY(hyper.n_vocab, in.uint("vocab_size", 1, highest));
    return {};
  }
  TAMIS_TRY(const GgufArray tokens, in.file().get_array(key, GgufType::string));
  if (tokens.size() < 1 || tokens.size() > highest) {
    return in.file().error_at_key(key, fmt::format("{} tokens", tokens.size()), fmt::format("1 to {}", highest),
                                  "E_HPARAM_RANGE");
  }
  hyper.n_vocab = static_cast<uint32_t>(tokens.size());
  return {};
}

Status read_heads(const HyperReader& in, Hyper& hyper) {
  TAMIS_TRY(const auto n_head, in.per_layer("attention.head_count", hyper.n_layers, 1, kMaxHeads));
  std::vector<uint32_t> n_head_kv = n_head;
  if (in.has("attention.head_count_kv")) {
    TAMIS_TRY(n_head_kv, in.per_layer("attention.head_count_kv", hyper.n_layers, 1, kMaxHeads));
  }
  for (uint32_t i = 0; i < hyper.n_layers; ++i) {
    if (n_head[i] % n_head_kv[i] != 0) {
      return in.out_of_range("attention.head_count_kv", fmt::format("{}", n_head_kv[i]),
                             fmt::format("a divisor of head_count {}", n_head[i]));
    }
    hyper.layers[i].n_head = n_head[i];
    hyper.layers[i].n_head_kv = n_head_kv[i];
  }
  if (!in.has("attention.key_length") || !in.has("attention.value_length")) {
    if (hyper.n_embd % n_head[0] != 0) {
      return in.out_of_range(
          "attention.head_count", fmt::format("{}", n_head[0]),
          fmt::format("a divisor of embedding_length {} (or key_length and value_length)", hyper.n_embd));
    }
  }
  const uint32_t head_dim = hyper.n_embd / n_head[0];
  if (head_dim > kMaxHeadDim) {
    return in.out_of_range("attention.head_count", fmt::format("{}", n_head[0]),
                           fmt::format("heads of at most {}", kMaxHeadDim));
  }
  TAMIS_TRY(hyper.k_dim, in.uint_or("attention.key_length", 1, kMaxHeadDim, head_dim));
  TAMIS_TRY(hyper.v_dim, in.uint_or("attention.value_length", 1, kMaxHeadDim, head_dim));
  return {};
}

Status read_ffn(const HyperReader& in, const ArchSpec& arch, Hyper& hyper) {
  const MoeSpec& moe = arch.block.moe;
  TAMIS_TRY(hyper.n_expert, in.uint_or("expert_count", moe.need == Need::required ? 1 : 0,
                                       moe.need == Need::none ? 0 : kMaxExperts, 0));
  if (moe.need == Need::required && hyper.n_expert == 0) return in.missing("expert_count", "an unsigned integer");
  if (hyper.n_expert > 0) {
    TAMIS_TRY(hyper.n_expert_used, in.uint("expert_used_count", 1, hyper.n_expert));
  } else {
    TAMIS_TRY(hyper.n_expert_used, in.uint_or("expert_used_count", 0, 0, 0));
  }
  if (moe.need != Need::required || in.has("feed_forward_length")) {
    TAMIS_TRY(const auto n_ff, in.per_layer("feed_forward_length", hyper.n_layers, 1, kMaxWidth));
    for (uint32_t i = 0; i < hyper.n_layers; ++i) hyper.layers[i].n_ff = n_ff[i];
  }
  if (hyper.n_expert == 0) return {};
  if (moe.need == Need::required) {
    TAMIS_TRY(hyper.n_ff_expert, in.uint("expert_feed_forward_length", 1, kMaxWidth));
  } else {
    TAMIS_TRY(hyper.n_ff_expert, in.uint_or("expert_feed_forward_length", 1, kMaxWidth, hyper.layers[0].n_ff));
  }
  TAMIS_TRY(const double scale, in.number_or("expert_weights_scale", 0, 1e6, 1, true));
  hyper.expert_weight_scale = scale == 0 ? 1.0f : static_cast<float>(scale);  // 0: writers' way of saying none
  return {};
}

Status read_window(const HyperReader& in, const WindowSpec& window, Hyper& hyper) {
  if (!window.is_used) return {};
  TAMIS_TRY(hyper.window, in.uint_or("attention.sliding_window", 0, kMaxUint, window.default_window));
  if (hyper.window == 0) return {};
  const std::string_view pattern = "attention.sliding_window_pattern";
  const GgufValue* value = in.file().find(in.key(pattern));
  if (const auto array = value != nullptr ? value->as_array() : std::nullopt) {
    if (array->element_type() != GgufType::boolean)
      return in.wrong_type(pattern, *value, "an integer, or an array of bool");
    if (array->size() != hyper.n_layers) {
      return in.out_of_range(pattern, fmt::format("{} elements", array->size()), fmt::format("{}", hyper.n_layers));
    }
    const std::vector<GgufValue> flags = array->values();
    for (uint32_t i = 0; i < hyper.n_layers; ++i) hyper.layers[i].is_windowed = flags[i].as_bool().value_or(false);
    return {};
  }
  TAMIS_TRY(const uint32_t period, in.uint_or(pattern, 0, kMaxUint, window.default_period));
  for (uint32_t i = 0; i < hyper.n_layers; ++i) hyper.layers[i].is_windowed = period == 0 || i % period < period - 1;
  return {};
}

Status read_rope_scaling(const HyperReader& in, Hyper& hyper) {
  RopeHyper& rope = hyper.rope;
  const bool has_factor = in.has("rope.scaling.factor");
  TAMIS_TRY(const std::string_view type, in.text_or("rope.scaling.type", "linear"));
  if (type == "linear") {
    rope.scaling = RopeScaling::linear;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::yarn;
  } else if (type == "longrope") {
    rope.scaling = RopeScaling::longrope;
  } else if (type != "none") {
    auto error = in.out_of_range("rope.scaling.type", fmt::format("\"{}\"", escape_for_display(type)),
                                 "\"none\", \"linear\", \"yarn\" or \"longrope\"");
    error.value().code = ErrorCode::unsupported;
    return error;
  }
  TAMIS_TRY(rope.factor, in.number_or(has_factor ? "rope.scaling.factor" : "rope.scale_linear", 0, 1e6, 1));
  TAMIS_TRY(rope.n_ctx_original, in.uint_or("rope.scaling.original_context_length", 1, kMaxUint, hyper.n_ctx_train));
  TAMIS_TRY(rope.attn_factor, in.number_or("rope.scaling.attn_factor", 0, 1e6, 1));
  TAMIS_TRY(rope.yarn_ext_factor, in.number_or("rope.scaling.yarn_ext_factor", 0, 1, 1, true));
  TAMIS_TRY(rope.yarn_beta_fast, in.number_or("rope.scaling.yarn_beta_fast", 0, 1e6, 32));
  TAMIS_TRY(rope.yarn_beta_slow, in.number_or("rope.scaling.yarn_beta_slow", 0, 1e6, 1));
  TAMIS_TRY(rope.yarn_log_multiplier, in.number_or("rope.scaling.yarn_log_multiplier", 0, 1e6, 0, true));
  return {};
}

Status read_rope(const HyperReader& in, const WindowSpec& window, Hyper& hyper) {
  RopeHyper& rope = hyper.rope;
  TAMIS_TRY(rope.rot_dim, in.uint_or("rope.dimension_count", 2, hyper.k_dim, hyper.k_dim));
  if (rope.rot_dim % 2 != 0) {
    return in.out_of_range(in.has("rope.dimension_count") ? "rope.dimension_count" : "attention.key_length",
                           fmt::format("{}", rope.rot_dim), "an even number (elements rotate in pairs)");
  }
  TAMIS_TRY(rope.freq_base, in.number_or("rope.freq_base", 1, 1e12, 10000));
  const double windowed = window.default_freq_base > 0 ? window.default_freq_base : rope.freq_base;
  TAMIS_TRY(rope.freq_base_windowed, in.number_or("rope.freq_base_swa", 1, 1e12, windowed));
  return read_rope_scaling(in, hyper);
}

Status read_scales(const HyperReader& in, const BlockSpec& block, Hyper& hyper) {
  TAMIS_TRY(const double eps, in.number("attention.layer_norm_rms_epsilon", 0, 1));
  hyper.norm_eps = static_cast<float>(eps);
  if (!(hyper.norm_eps > 0)) {
    return in.out_of_range("attention.layer_norm_rms_epsilon", fmt::format("{}", eps),
                           "a number that float32 can hold, above 0");
  }
  const bool is_by_embd = block.attn.scale_by_embd_at_n_layers == hyper.n_layers;
  const double scaled_dim = is_by_embd ? hyper.n_embd / hyper.layers[0].n_head : hyper.k_dim;
  TAMIS_TRY(const double scale, in.number_or("attention.scale", 0, 1e6, 0, true));
  hyper.attention_scale = static_cast<float>(scale > 0 ? scale : 1.0 / std::sqrt(std::max(scaled_dim, 1.0)));
  if (block.attn.has_softcap) {
    TAMIS_TRY(const double cap, in.number_or("attn_logit_softcapping", 0, 1e6, block.attn.default_softcap, true));
    hyper.attn_softcap = static_cast<float>(cap);
  }
  if (block.has_final_softcap) {
    TAMIS_TRY(const double cap, in.number_or("final_logit_softcapping", 0, 1e6, block.default_final_softcap, true));
    hyper.final_softcap = static_cast<float>(cap);
  }
  return {};
}

}  // namespace

uint64_t Hyper::dim(Dim dim, uint32_t layer_idx) const {
  const LayerHyper& layer = layers[layer_idx];
  const uint64_t q_width = uint64_t{layer.n_head} * k_dim;
  const uint64_t k_width = uint64_t{layer.n_head_kv} * k_dim;
  const uint64_t v_width = uint64_t{layer.n_head_kv} * v_dim;
  switch (dim) {
    case Dim::none: return 0;
    case Dim::one: return 1;
    case Dim::n_embd: return n_embd;
    case Dim::n_vocab: return n_vocab;
    case Dim::q_width: return q_width;
    case Dim::k_width: return k_width;
    case Dim::v_width: return v_width;
    case Dim::qkv_width: return q_width + k_width + v_width;
    case Dim::attn_width: return uint64_t{layer.n_head} * v_dim;
    case Dim::k_dim: return k_dim;
    case Dim::n_ff: return layer.n_ff;
    case Dim::n_ff_twice: return uint64_t{2} * layer.n_ff;
    case Dim::n_ff_expert: return n_ff_expert;
    case Dim::n_expert: return n_expert;
    case Dim::rope_pairs: return rope.rot_dim / 2;
  }
  return 0;
}

Result<Hyper> read_hyper(const GgufFile& file, const ArchSpec& arch, const Limits& limits) {
  const HyperReader in(file, arch.name);
  Hyper hyper;
  TAMIS_TRY_STATUS(read_sizes(in, limits, hyper));
  TAMIS_TRY_STATUS(read_n_vocab(in, limits, hyper));
  TAMIS_TRY_STATUS(read_heads(in, hyper));
  TAMIS_TRY_STATUS(read_ffn(in, arch, hyper));
  TAMIS_TRY_STATUS(read_window(in, arch.block.attn.window, hyper));
  TAMIS_TRY_STATUS(read_rope(in, arch.block.attn.window, hyper));
  TAMIS_TRY_STATUS(read_scales(in, arch.block, hyper));
  TAMIS_TRY(const bool is_causal, in.flag_or("attention.causal", true));
  if (!is_causal)
    return fail(ErrorCode::unsupported, "{} is false: embedding models are not supported", in.key("attention.causal"));
  return hyper;
}

}  // namespace tamis
