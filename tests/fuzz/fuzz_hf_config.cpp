// fuzz: rooms=convert,models,engine,text,compute,quants,formats,base
// Any bytes as config.json: an error with a reason, or keys of which a reader makes sound numbers or says what is
// wrong, and RoPE factors that are finite and above 0.
#include <cmath>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "convert/hf_config.h"
#include "convert/hf_rows.h"
#include "formats/gguf.h"

namespace {

using namespace tamis;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_factors(const HfConfig& config, const Hyper& hyper) {
  const auto factors = rope_factors(config, hyper);
  if (!factors) return require(!factors.error().message.empty());
  for (const auto* list : {&factors->freqs, &factors->longer, &factors->shorter}) {
    require(list->empty() || list->size() == hyper.rope.rot_dim / 2);
    for (const float value : *list) require(std::isfinite(value) && value > 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto config = HfConfig::parse({reinterpret_cast<const char*>(data), size}, "config.json");
  if (!config) {
    require(!config.error().message.empty() && config.error().code != ErrorCode::internal);
    return 0;
  }
  const auto quantization = HfQuantization::read(config->json());
  if (!quantization) require(!quantization.error().message.empty());
  GgufWriter writer;
  require(writer.add_string("general.architecture", config->arch().name).has_value());
  const Status added = add_config_keys(*config, writer);
  if (!added) {
    require(!added.error().message.empty() && added.error().code != ErrorCode::internal);
    return 0;
  }
  require(writer.add_u32(std::string(config->arch().name) + ".vocab_size", 32).has_value());
  const std::string header = writer.header();
  const auto file = GgufFile::open(std::make_shared<MemorySource>(std::as_bytes(std::span(header))));
  require(file.has_value());
  const auto hyper = read_hyper(*file, config->arch());
  if (hyper) check_factors(*config, *hyper);
  return 0;
}
