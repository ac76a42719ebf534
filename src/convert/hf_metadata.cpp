// From config.json's names to GGUF's: sizes, heads, feed-forward, window, RoPE and caps, in that order.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "convert/hf_config.h"

namespace tamis {
namespace {

// The first name there is counts.
struct Number {
  std::string_view suffix;
  std::array<std::string_view, 3> names;
};
constexpr Number kSizes[] = {
    {"block_count", {"num_hidden_layers", "n_layer", "num_layers"}},
    {"context_length", {"max_position_embeddings", "n_positions", "max_sequence_length"}},
    {"embedding_length", {"hidden_size", "n_embd", "dim"}},
    {"feed_forward_length", {"intermediate_size", "n_inner", "hidden_dim"}},
    {"attention.head_count", {"num_attention_heads", "n_head", "n_heads"}},
    {"attention.head_count_kv", {"num_key_value_heads", "n_head_kv", "n_kv_heads"}},
    {"attention.key_length", {"head_dim"}},
    {"attention.value_length", {"head_dim"}},
};

// Kinds of activation by their names in config.json.
bool is_same_activation(Activation activation, std::string_view name) {
  const bool is_gelu = name == "gelu_pytorch_tanh" || name == "gelu" || name == "gelu_new";
  return activation == Activation::silu ? name == "silu" || name == "swish" : is_gelu;
}

class KeyWriter {
 public:
  KeyWriter(const HfConfig& config, GgufWriter& writer)
      : config_(config), block_(config.arch().block), prefix_(std::string(config.arch().name) + "."), writer_(writer) {}

  Status run() {
    TAMIS_TRY_STATUS(check_activation());
    for (const Number& number : kSizes) TAMIS_TRY_STATUS(add_size(number));
    TAMIS_TRY_STATUS(add_experts());
    TAMIS_TRY(const auto eps, config_.number("rms_norm_eps"));
    if (!eps) return missing("rms_norm_eps");
    TAMIS_TRY_STATUS(add_f32("attention.layer_norm_rms_epsilon", *eps));
    TAMIS_TRY_STATUS(add_window());
    TAMIS_TRY_STATUS(add_rope());
    return add_scales();
  }

 private:
  Status add_u32(std::string_view suffix, uint64_t value) {
    return writer_.add_u32(prefix_ + std::string(suffix), static_cast<uint32_t>(value));
  }
  Status add_f32(std::string_view suffix, double value) {
    return writer_.add_f32(prefix_ + std::string(suffix), static_cast<float>(value));
  }
  tl::unexpected<Error> missing(std::string_view key) const { return config_.bad(key, "no such key", "it"); }

  Status check_activation() const {
    std::string name = config_.text("hidden_activation");
    if (name.empty()) name = config_.text("hidden_act");
    if (name.empty() || is_same_activation(block_.ffn.activation, name)) return {};
    return config_.bad("hidden_act", escape_for_display(name),
                       block_.ffn.activation == Activation::silu ? "silu" : "gelu_pytorch_tanh",
                       ErrorCode::unsupported);
  }

  Status add_size(const Number& number) {
    for (const std::string_view name : number.names) {
      if (name.empty()) continue;
      TAMIS_TRY(const auto value, config_.uint(name));
      if (value) return add_u32(number.suffix, *value);
    }
    return {};  // read_hyper names what must be there
  }

  Status add_experts() {
    if (block_.moe.need == Need::none) return {};
    TAMIS_TRY(auto n_experts, config_.uint("num_local_experts"));
    if (!n_experts) {
      TAMIS_TRY(n_experts, config_.uint("num_experts"));
    }
    if (!n_experts || *n_experts == 0) return {};
    TAMIS_TRY(const auto n_used, config_.uint("num_experts_per_tok"));
    if (!n_used) return missing("num_experts_per_tok");
    TAMIS_TRY_STATUS(add_u32("expert_count", *n_experts));
    TAMIS_TRY_STATUS(add_u32("expert_used_count", *n_used));
    TAMIS_TRY(const auto width, config_.uint("moe_intermediate_size"));
    if (width) TAMIS_TRY_STATUS(add_u32("expert_feed_forward_length", *width));
    TAMIS_TRY(const bool is_normalised, config_.flag("norm_topk_prob", block_.moe.is_normalised));
    if (is_normalised != block_.moe.is_normalised)
      return config_.bad("norm_topk_prob", is_normalised ? "true" : "false", is_normalised ? "false" : "true",
                         ErrorCode::unsupported);
    TAMIS_TRY(const auto step, config_.uint("decoder_sparse_step"));
    const Json* dense = config_.find("mlp_only_layers");
    if ((step && *step > 1) || (dense != nullptr && dense->is_array() && !dense->as_array().empty()))
      return config_.bad("mlp_only_layers", "layers without experts", "experts in every layer", ErrorCode::unsupported);
    return {};
  }

  Status add_window() {
    const WindowSpec& window = block_.attn.window;
    if (!window.is_used) return {};
    TAMIS_TRY(const auto width, config_.uint("sliding_window"));
    TAMIS_TRY_STATUS(add_u32("attention.sliding_window", width.value_or(0)));
    const Json* types = config_.find("layer_types");
    if (!width || *width == 0) return {};
    if (types != nullptr && types->is_array()) return add_layer_types(types->as_array());
    TAMIS_TRY(auto period, config_.uint("sliding_window_pattern"));
    if (!period) {
      TAMIS_TRY(period, config_.uint("_sliding_window_pattern"));
    }
    if (period && *period != window.default_period)
      TAMIS_TRY_STATUS(add_u32("attention.sliding_window_pattern", *period));
    return {};
  }

  // Written only where the layers are not those of the architecture's own period.
  Status add_layer_types(const Json::Array& types) {
    std::vector<GgufEncoded> flags;
    bool is_default = true;
    const uint32_t period = block_.attn.window.default_period;
    for (size_t i = 0; i < types.size(); ++i) {
      const std::string type = types[i].is_string() ? types[i].as_string() : "";
      if (type != "sliding_attention" && type != "full_attention")
        return config_.bad("layer_types", escape_for_display(types[i].dump(), 40),
                           "sliding_attention or full_attention", ErrorCode::unsupported);
      const bool is_windowed = type == "sliding_attention";
      is_default = is_default && is_windowed == (period == 0 || i % period < period - 1);
      flags.push_back(GgufEncoded::number(is_windowed));
    }
    if (is_default) return {};
    return writer_.add(prefix_ + "attention.sliding_window_pattern", GgufEncoded::array(GgufType::boolean, flags));
  }

  Result<uint64_t> head_dim() const {
    TAMIS_TRY(const auto given, config_.uint("head_dim"));
    TAMIS_TRY(const auto width, config_.uint("hidden_size"));
    TAMIS_TRY(const auto n_heads, config_.uint("num_attention_heads"));
    if (given) return *given;
    if (!width || !n_heads || *n_heads == 0) return missing("head_dim");
    return *width / *n_heads;
  }

  // "rope_theta" at the top, or among the RoPE parameters of new files.
  Result<std::optional<double>> freq_base(const Json* rope) const {
    const Json* inner = rope == nullptr ? nullptr : rope->find("rope_theta");
    if (inner != nullptr && inner->is_number()) return std::optional<double>(inner->as_double());
    return config_.number("rope_theta");
  }

  Status add_rope() {
    TAMIS_TRY(const uint64_t dim, head_dim());
    TAMIS_TRY(const auto rotated, config_.number("partial_rotary_factor"));
    if (rotated && !(*rotated > 0 && *rotated <= 1))
      return config_.bad("partial_rotary_factor", fmt::format("{}", *rotated), "above 0 and at most 1");
    TAMIS_TRY_STATUS(
        add_u32("rope.dimension_count", static_cast<uint64_t>(rotated.value_or(1) * static_cast<double>(dim))));
    const Json* rope = config_.rope_scaling();
    TAMIS_TRY(const auto base, freq_base(rope));
    if (base) TAMIS_TRY_STATUS(add_f32("rope.freq_base", *base));
    if (block_.attn.window.default_freq_base > 0) {
      const Json* all = config_.find("rope_parameters");
      const Json* windowed = all == nullptr ? nullptr : all->find("sliding_attention");
      TAMIS_TRY(auto local, config_.number("rope_local_base_freq"));
      if (windowed != nullptr && windowed->find("rope_theta") != nullptr) {
        TAMIS_TRY(local, freq_base(windowed));
      }
      if (local) TAMIS_TRY_STATUS(add_f32("rope.freq_base_swa", *local));
    }
    return rope == nullptr ? Status() : add_scaling(*rope);
  }

  Result<std::optional<double>> scaling_number(const Json& rope, std::string_view key) const {
    const Json* value = rope.find(key);
    if (value == nullptr || value->is_null()) return std::optional<double>();
    if (!value->is_number()) return config_.bad(key, escape_for_display(value->dump(), 40), "a number");
    return std::optional<double>(value->as_double());
  }

  Result<std::optional<uint64_t>> scaling_length(const Json& rope, std::string_view key) const {
    TAMIS_TRY(const auto value, scaling_number(rope, key));
    if (!value) return std::optional<uint64_t>();
    if (!(*value >= 1 && *value <= 4294967295.0))
      return config_.bad(key, fmt::format("{}", *value), "a length of 1 to 4294967295");
    return std::optional<uint64_t>(static_cast<uint64_t>(*value));
  }

  Status add_scaling(const Json& rope) {
    const std::string type = config_.rope_type();
    if (type == "default" || type == "mrope") return {};
    if (type == "llama3") return block_.attn.has_rope_freqs ? Status() : unknown_scaling(type);
    if (type == "longrope" || type == "su")
      return block_.attn.has_rope_long_short ? add_longrope(rope) : unknown_scaling(type);
    if (type != "linear" && type != "yarn") return unknown_scaling(type);
    TAMIS_TRY(const auto factor, scaling_number(rope, "factor"));
    if (!factor) return missing("factor");
    TAMIS_TRY_STATUS(writer_.add_string(prefix_ + "rope.scaling.type", type));
    TAMIS_TRY_STATUS(add_f32("rope.scaling.factor", *factor));
    if (type == "linear") return {};
    TAMIS_TRY(const auto original, scaling_length(rope, "original_max_position_embeddings"));
    if (original) TAMIS_TRY_STATUS(add_u32("rope.scaling.original_context_length", *original));
    TAMIS_TRY(const auto fast, scaling_number(rope, "beta_fast"));
    TAMIS_TRY(const auto slow, scaling_number(rope, "beta_slow"));
    if (fast) TAMIS_TRY_STATUS(add_f32("rope.scaling.yarn_beta_fast", *fast));
    if (slow) TAMIS_TRY_STATUS(add_f32("rope.scaling.yarn_beta_slow", *slow));
    return {};
  }

  tl::unexpected<Error> unknown_scaling(const std::string& type) const {
    return config_.bad("rope_scaling", "rule \"" + escape_for_display(type) + "\"",
                       "default, linear, yarn, or llama3 or longrope where the architecture has them",
                       ErrorCode::unsupported);
  }

  // Attention grows with the context: sqrt(1 + ln(context / original) / ln(original)), arXiv:2402.13753 as published
  // models compute it.
  Status add_longrope(const Json& rope) {
    TAMIS_TRY(const auto context, config_.uint("max_position_embeddings"));
    TAMIS_TRY(auto original, config_.uint("original_max_position_embeddings"));
    TAMIS_TRY(const auto inner, scaling_length(rope, "original_max_position_embeddings"));
    if (!original) original = inner;
    if (!context || !original || *original < 2) return missing("original_max_position_embeddings");
    const double scale = static_cast<double>(*context) / static_cast<double>(*original);
    TAMIS_TRY(const auto given, scaling_number(rope, "attention_factor"));
    const double grown = scale > 1 ? std::sqrt(1 + std::log(scale) / std::log(static_cast<double>(*original))) : 1;
    TAMIS_TRY_STATUS(add_u32("rope.scaling.original_context_length", *original));
    return add_f32("rope.scaling.attn_factor", given.value_or(grown));
  }

  Status add_scales() {
    const std::pair<bool, std::pair<std::string_view, std::string_view>> caps[] = {
        {block_.attn.has_softcap, {"attn_logit_softcapping", "attn_logit_softcapping"}},
        {block_.has_final_softcap, {"final_logit_softcapping", "final_logit_softcapping"}}};
    for (const auto& [is_used, names] : caps) {
      if (!is_used) continue;
      TAMIS_TRY(const auto cap, config_.number(names.second));
      if (cap) TAMIS_TRY_STATUS(add_f32(names.first, *cap));
    }
    // Attention divides by sqrt(query_pre_attn_scalar); a key is needed only where that is not what readers assume.
    TAMIS_TRY(const auto scalar, config_.number("query_pre_attn_scalar"));
    if (!scalar || block_.attn.scale_by_embd_at_n_layers == 0 || !(*scalar > 0)) return {};
    TAMIS_TRY(const uint64_t dim, head_dim());
    TAMIS_TRY(const auto n_layers, config_.uint("num_hidden_layers"));
    TAMIS_TRY(const auto width, config_.uint("hidden_size"));
    TAMIS_TRY(const auto n_heads, config_.uint("num_attention_heads"));
    uint64_t assumed = dim;
    if (n_layers && width && n_heads && *n_heads > 0 && *n_layers == block_.attn.scale_by_embd_at_n_layers)
      assumed = *width / *n_heads;
    return *scalar == static_cast<double>(assumed) ? Status() : add_f32("attention.scale", 1 / std::sqrt(*scalar));
  }

  const HfConfig& config_;
  const BlockSpec& block_;
  const std::string prefix_;
  GgufWriter& writer_;
};

Result<std::vector<float>> factor_list(const HfConfig& config, const Json& rope, std::string_view key, size_t n_pairs) {
  const Json* list = rope.find(key);
  if (list == nullptr || !list->is_array() || list->as_array().size() != n_pairs)
    return config.bad(key, "no such list", fmt::format("{} numbers", n_pairs));
  std::vector<float> out;
  for (const Json& value : list->as_array()) {
    const float factor = value.is_number() ? static_cast<float>(value.as_double()) : 0.0f;
    if (!(factor > 0) || !std::isfinite(factor))
      return config.bad(key, escape_for_display(value.dump(), 40), "numbers above 0 that float32 can hold");
    out.push_back(factor);
  }
  return out;
}

// Frequencies whose wavelength is past the original context are divided by `factor`, short ones stay, those between
// are blended. Source: Llama 3.1's reference code.
Result<std::vector<float>> llama3_factors(const HfConfig& config, const Json& rope, const Hyper& hyper) {
  const std::pair<std::string_view, double> keys[] = {
      {"factor", 8}, {"low_freq_factor", 1}, {"high_freq_factor", 4}, {"original_max_position_embeddings", 8192}};
  double values[4] = {};
  for (size_t i = 0; i < 4; ++i) {
    const Json* value = rope.find(keys[i].first);
    values[i] = value != nullptr && value->is_number() ? value->as_double() : keys[i].second;
    if (!(values[i] >= 1e-9 && values[i] <= 1e9)) return config.bad(keys[i].first, value->dump(), "1e-9 to 1e9");
  }
  const auto [factor, low, high, original] = values;
  if (low == high) return config.bad("low_freq_factor", fmt::format("{}", low), "another than high_freq_factor");
  std::vector<float> out;
  for (uint32_t i = 0; i < hyper.rope.rot_dim / 2; ++i) {
    const double frequency = std::pow(hyper.rope.freq_base, -2.0 * i / hyper.rope.rot_dim);
    const double wavelength = 2 * std::numbers::pi / frequency;
    if (wavelength < original / high) {
      out.push_back(1);
    } else if (wavelength > original / low) {
      out.push_back(static_cast<float>(factor));
    } else {
      const double smooth = (original / wavelength - low) / (high - low);
      out.push_back(static_cast<float>(1 / ((1 - smooth) / factor + smooth)));
    }
  }
  return out;
}

}  // namespace

Status add_config_keys(const HfConfig& config, GgufWriter& writer) { return KeyWriter(config, writer).run(); }

Result<RopeFactors> rope_factors(const HfConfig& config, const Hyper& hyper) {
  RopeFactors out;
  const Json* rope = config.rope_scaling();
  if (rope == nullptr) return out;
  const std::string type = config.rope_type();
  if (type == "llama3") {
    TAMIS_TRY(out.freqs, llama3_factors(config, *rope, hyper));
  } else if (type == "longrope" || type == "su") {
    TAMIS_TRY(out.longer, factor_list(config, *rope, "long_factor", hyper.rope.rot_dim / 2));
    TAMIS_TRY(out.shorter, factor_list(config, *rope, "short_factor", hyper.rope.rot_dim / 2));
  }
  return out;
}

}  // namespace tamis
