// config.json of a Hugging Face folder: which architecture, its numbers with the class's own defaults, and the GGUF
// keys made of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf_writer.h"
#include "formats/json.h"
#include "models/arch.h"
#include "models/hyper.h"

namespace tamis {

class HfConfig {
 public:
  // Errors: not_found, io, format; unsupported for an architecture tamis does not have, naming it and the known ones.
  static Result<HfConfig> read(const std::string& folder);
  // The same of the file's text; `path` is for messages.
  static Result<HfConfig> parse(std::string_view text, const std::string& path);

  const ArchSpec& arch() const { return arch_; }
  const Json& json() const { return root_; }
  std::string_view hf_class() const { return hf_class_; }

  // A value of the language model: from "text_config" where there is one, else from the top; null when absent.
  const Json* find(std::string_view key) const;
  // Errors: format for another type. Nothing when absent and without a default of the class.
  Result<std::optional<uint64_t>> uint(std::string_view key) const;
  Result<std::optional<double>> number(std::string_view key) const;
  Result<bool> flag(std::string_view key, bool fallback) const;
  std::string text(std::string_view key) const;  // "" when absent or no string

  // RoPE's parameters of the layers that see everything: "rope_parameters" of new files, "rope_scaling" of older ones;
  // null when there are none.
  const Json* rope_scaling() const;
  // The rule's name: "rope_type" or "type"; "default" when there is none.
  std::string rope_type() const;

  tl::unexpected<Error> bad(std::string_view key, std::string got, std::string expected,
                            ErrorCode code = ErrorCode::format) const;

 private:
  std::string path_, hf_class_;
  Json root_;
  ArchSpec arch_;
};

// Adds ARCH.* keys as llama.cpp's converter names them. Errors: format; unsupported for a rule or value the
// architecture's forward pass does not follow (activation, scaling rule, router), naming the key.
Status add_config_keys(const HfConfig& config, GgufWriter& writer);

// Divisors of the RoPE frequencies that the configuration gives: rope_freqs (Llama 3), or LongRoPE's long and short
// factors; empty where there are none. [rot_dim / 2] each.
struct RopeFactors {
  std::vector<float> freqs, longer, shorter;
};
Result<RopeFactors> rope_factors(const HfConfig& config, const Hyper& hyper);

}  // namespace tamis
