// Reading what requests of several dialects have in common.
#include "server/call_fields.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace tamis::server {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr size_t kMaxStopBytes = 4096;
constexpr size_t kMaxTemplateKwargs = 64;
constexpr size_t kMaxMetadata = 16, kMaxMetadataName = 64, kMaxMetadataText = 512;

std::optional<int64_t> token_id(std::string_view text) {
  int64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return id;
}

void add_bias(Fields& fields, const CallLimits& limits, std::optional<int64_t> id, const Json& bias,
              SamplingParams& sampling) {
  if (!id || *id < 0 || *id >= limits.n_vocab)
    return fields.fail("logit_bias", fmt::format("expected token ids from 0 to {}", int64_t{limits.n_vocab} - 1));
  const bool is_ban = bias == Json(false);
  if (!is_ban && (!bias.is_number() || !(bias.as_double() >= -100 && bias.as_double() <= 100)))
    return fields.fail("logit_bias", fmt::format("token {}: expected a number from -100 to 100, or false", *id));
  const float value = is_ban ? -std::numeric_limits<float>::infinity() : static_cast<float>(bias.as_double());
  sampling.logit_bias.push_back({static_cast<TokenId>(*id), value});
}

}  // namespace

std::optional<std::string> content_text(Fields& fields, const std::string& place, const Json& content,
                                        std::initializer_list<std::string_view> types) {
  if (content.is_string()) return content.as_string();
  if (!content.is_array()) {
    fields.fail(place, fmt::format("got {}, expected a string or an array of text parts", kind_of(content)));
    return std::nullopt;
  }
  std::string text;
  for (size_t i = 0; i < content.as_array().size(); ++i) {
    const Json& part = content.as_array()[i];
    const Json* const type = part.find("type");
    const Json* const piece = part.find("text");
    const bool is_text =
        type != nullptr && std::ranges::any_of(types, [&](std::string_view each) { return *type == Json(each); });
    if (!is_text || piece == nullptr || !piece->is_string()) {
      std::string names;
      for (const std::string_view each : types) names += fmt::format("{}\"{}\"", names.empty() ? "" : " or ", each);
      fields.fail(fmt::format("{}[{}]", place, i),
                  fmt::format(R"(expected {{"type": {}, "text": …}}: only text is supported)", names));
      return std::nullopt;
    }
    read_cache_control(fields, fmt::format("{}[{}]", place, i), part);
    if (i > 0) text += "\n";
    text += piece->as_string();
  }
  return text;
}

void read_common_sampling(Fields& fields, SamplingParams& sampling) {
  fields.real("temperature", 0, 100, sampling.temp);
  fields.real("top_p", 0, 1, sampling.top_p);
  fields.real("min_p", 0, 1, sampling.min_p);
  fields.integer("top_k", -1, kMaxInt32, sampling.top_k);
  fields.real("typical_p", 0, 1, sampling.typical_p);
  fields.real("presence_penalty", -2, 2, sampling.presence_penalty);
  fields.real("frequency_penalty", -2, 2, sampling.frequency_penalty);
  fields.real("repeat_penalty", 0.01, 100, sampling.repeat_penalty);
  fields.integer("repeat_last_n", -1, kMaxInt32, sampling.repeat_last_n);
  fields.integer("mirostat", 0, 2, sampling.mirostat);
  fields.real("mirostat_tau", 0.001, 1000, sampling.mirostat_ent);
  fields.real("mirostat_eta", 0.0001, 100, sampling.mirostat_lr);
  read_seed(fields, sampling);
}

void read_seed(Fields& fields, SamplingParams& sampling) {
  int64_t seed = -1;
  fields.integer("seed", -1, std::numeric_limits<int64_t>::max(), seed);
  if (seed >= 0) sampling.seed = static_cast<uint64_t>(seed);
}

void read_token_ids(Fields& fields, std::string_view field, const Json& list, const CallLimits& limits,
                    std::vector<TokenId>& out) {
  for (const Json& id : list.as_array()) {
    if (!id.is_int() || id.as_int() < 0 || id.as_int() >= limits.n_vocab)
      return fields.fail(field, fmt::format("expected token ids from 0 to {}", int64_t{limits.n_vocab} - 1));
    out.push_back(static_cast<TokenId>(id.as_int()));
  }
}

void read_prompt_ids(Fields& fields, std::string_view field, const Json& list, const CallLimits& limits,
                     std::vector<TokenId>& out) {
  if (const size_t n = list.as_array().size(); n > limits.n_ctx)
    return fields.fail(field, fmt::format("got {} tokens, the context holds {}", n, limits.n_ctx));
  read_token_ids(fields, field, list, limits, out);
}

void read_stops(Fields& fields, std::string_view name, GenerateRequest& request) {
  if (!fields.texts(name, GenerationCall::kMaxStops, request.stop)) return;
  for (const std::string& stop : request.stop)
    if (stop.empty() || stop.size() > kMaxStopBytes)
      fields.fail(name, fmt::format("expected strings of 1 to {} bytes", kMaxStopBytes));
}

void read_logit_bias(Fields& fields, const CallLimits& limits, SamplingParams& sampling) {
  const Json* const biases = fields.any("logit_bias");
  if (biases == nullptr) return;
  const size_t n = biases->is_object()  ? biases->as_object().size()
                   : biases->is_array() ? biases->as_array().size()
                                        : GenerationCall::kMaxBiases + 1;
  if (n > GenerationCall::kMaxBiases)
    return fields.fail("logit_bias", fmt::format("expected an object or array of at most {} token ids and biases",
                                                 GenerationCall::kMaxBiases));
  if (biases->is_object()) {
    for (const auto& [key, bias] : biases->as_object()) add_bias(fields, limits, token_id(key), bias, sampling);
    return;
  }
  for (const Json& pair : biases->as_array()) {
    if (!pair.is_array() || pair.as_array().size() != 2 || !pair.as_array()[0].is_int())
      return fields.fail("logit_bias", "expected pairs [token id, bias]");
    add_bias(fields, limits, pair.as_array()[0].as_int(), pair.as_array()[1], sampling);
  }
}

void read_sampling(Fields& fields, const CallLimits& limits, GenerateRequest& request) {
  SamplingParams& sampling = request.sampling;
  read_common_sampling(fields, sampling);
  fields.real("repetition_penalty", 0.01, 100, sampling.repeat_penalty);
  fields.real("xtc_probability", 0, 1, sampling.xtc_probability);
  fields.real("xtc_threshold", 0, 1, sampling.xtc_threshold);
  fields.real("dry_multiplier", 0, 1000, sampling.dry_multiplier);
  fields.real("dry_base", 1, 1000, sampling.dry_base);
  fields.integer("dry_allowed_length", 0, kMaxInt32, sampling.dry_allowed_length);
  fields.integer("dry_penalty_last_n", -1, kMaxInt32, sampling.dry_penalty_last_n);
  fields.texts("dry_sequence_breakers", GenerationCall::kMaxStops, sampling.dry_sequence_breakers);
  fields.integer("min_keep", 0, kMaxInt32, sampling.min_keep);
  sampling.min_keep = std::max(sampling.min_keep, 1);
  read_logit_bias(fields, limits, sampling);
  fields.boolean("ignore_eos", request.ignore_eos);
  fields.integer("min_tokens", 0, limits.n_ctx, request.min_tokens);
  fields.integer("priority", -100, 100, request.priority);
  if (fields.text("cache_salt", request.cache_salt) && (request.cache_salt.empty() || request.cache_salt.size() > 256))
    fields.fail("cache_salt", "expected 1 to 256 bytes");
}

void read_openai_metadata(Fields& fields) {
  const Json* const metadata = fields.object("metadata");
  if (metadata == nullptr) return;
  if (metadata->as_object().size() > kMaxMetadata)
    return fields.fail("metadata", fmt::format("at most {} are allowed", kMaxMetadata));
  for (const auto& [name, value] : metadata->as_object()) {
    if (!value.is_string()) return fields.fail("metadata", fmt::format("got {}, expected strings", kind_of(value)));
    if (n_characters(name) > kMaxMetadataName || n_characters(value.as_string()) > kMaxMetadataText)
      return fields.fail("metadata", fmt::format("expected names of at most {} characters and texts of at most {}",
                                                 kMaxMetadataName, kMaxMetadataText));
  }
}

void read_openai_inert(Fields& fields) {
  fields.inert_text("user");
  fields.inert_text("safety_identifier", 64);
  fields.inert_text("prompt_cache_key");
  fields.inert_choice("prompt_cache_retention", {"in_memory", "in-memory", "24h"});  // documented with "-" at first
  fields.inert_choice("service_tier", {"auto", "default", "flex", "scale", "priority"});
}

void read_cache_control(Fields& fields, const std::string& place, const Json& holder) {
  const Json* const control = holder.find("cache_control");
  if (control == nullptr || control->is_null()) return;
  const std::string at = place + ".cache_control";
  if (!control->is_object()) return fields.fail(at, fmt::format("got {}, expected an object", kind_of(*control)));
  Fields inner(*control, fields.place() + at + ".");
  inner.only("type", "ephemeral", R"(expected "ephemeral")");
  inner.inert_choice("ttl", {"5m", "1h"});
  fields.finish_inner(inner);
}

void read_verbosity(Fields& fields) { fields.inert_choice("verbosity", {"low", "medium", "high"}); }

void read_obfuscation(Fields& options) { options.inert_boolean("include_obfuscation"); }

void read_template_kwargs(Fields& fields, GenerationCall& call) {
  const Json* const kwargs = fields.object("chat_template_kwargs");
  if (kwargs == nullptr) return;
  if (kwargs->as_object().size() > kMaxTemplateKwargs)
    return fields.fail("chat_template_kwargs", fmt::format("at most {} are allowed", kMaxTemplateKwargs));
  constexpr std::string_view kOurs[] = {"messages",  "tools",     "documents",       "add_generation_prompt",
                                        "bos_token", "eos_token", "raise_exception", "strftime_now"};
  for (const auto& [name, value] : kwargs->as_object()) {
    if (std::find(std::begin(kOurs), std::end(kOurs), name) != std::end(kOurs))
      return fields.fail("chat_template_kwargs." + name, "is not the caller's to set");
    call.variables.set(name, value);
  }
}

}  // namespace tamis::server
