// The levels of verification, each on top of the one before.
#include "api/verify_file.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>

#include "formats/gguf.h"
#include "models/model.h"
#include "quants/registry.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace tamis {
namespace {

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";
constexpr uint64_t kChunkElements = 16384;  // a multiple of every block length; 64 KiB of floats stay in the L2 cache

bool is_integer(DType dtype) {
  return dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64;
}

bool is_all_finite(std::span<const float> values) {
  bool is_bad = false;
  for (const float value : values) is_bad |= (std::bit_cast<uint32_t>(value) & 0x7f800000u) == 0x7f800000u;
  return !is_bad;
}

// The element at `element_idx` as an error: where its block lies and what it decodes to.
tl::unexpected<Error> not_finite(const GgufFile& file, const GgufTensor& tensor, uint64_t element_idx, float value) {
  const DTypeInfo& info = dtype_info(tensor.dtype);
  ErrorSite site;
  site.file = file.path(tensor.shard_idx);
  site.byte_offset = tensor.file_offset + element_idx / info.block_len * info.block_bytes;
  site.has_offset = true;
  site.section = "data";
  site.subject = escape_for_display(tensor.name);
  site.got = fmt::format("{} at element {}", value, element_idx);
  site.expected = "finite weights and scales";
  site.tag = "E_DATA_NOT_FINITE";
  return fail_at(ErrorCode::format, std::move(site));
}

// Decodes one chunk; the index of its first non-finite element, if any.
std::optional<uint64_t> first_not_finite(const GgufTensor& tensor, std::span<const std::byte> bytes, uint64_t begin,
                                         std::span<float> scratch) {
  const DTypeInfo& info = dtype_info(tensor.dtype);
  decode(tensor.dtype, bytes.data() + begin / info.block_len * info.block_bytes, scratch);
  if (is_all_finite(scratch)) return std::nullopt;
  const auto bad = std::find_if(scratch.begin(), scratch.end(), [](float value) { return !std::isfinite(value); });
  return begin + static_cast<uint64_t>(bad - scratch.begin());
}

void lower(std::atomic<uint64_t>& least, uint64_t candidate) {
  uint64_t seen = least.load();
  while (candidate < seen && !least.compare_exchange_weak(seen, candidate)) {
  }
}

Status check_weights_of(const GgufFile& file, const GgufTensor& tensor, const VerifyOptions& options) {
  if (is_integer(tensor.dtype)) {
    if (options.progress) options.progress(tensor.size_bytes);
    return {};
  }
  const std::span<const std::byte> bytes = file.data(tensor);
  if (bytes.size() != tensor.size_bytes)
    return file.error_at_tensor(tensor, fmt::format("{} readable bytes", bytes.size()),
                                fmt::format("{}", tensor.size_bytes), "E_DATA_SHORT");
  const DTypeInfo& info = dtype_info(tensor.dtype);
  const uint64_t n_elements = tensor.shape.n_elements();
  const uint64_t n_chunks = n_elements / kChunkElements + (n_elements % kChunkElements != 0 ? 1 : 0);
  std::atomic<uint64_t> first_bad{UINT64_MAX};
  const auto scan = [&](size_t begin, size_t end, uint32_t) {
    std::vector<float> scratch(std::min(kChunkElements, n_elements));
    for (size_t chunk = begin; chunk < end; ++chunk) {
      const uint64_t start = chunk * kChunkElements;
      const uint64_t n = std::min(kChunkElements, n_elements - start);
      const auto bad = first_not_finite(tensor, bytes, start, std::span(scratch).first(n));
      if (bad) lower(first_bad, *bad);
      if (options.progress) options.progress(n / info.block_len * info.block_bytes);
    }
  };
  if (options.pool) {
    TAMIS_TRY_STATUS(options.pool->parallel_for(n_chunks, 0, scan));
  } else {
    scan(0, n_chunks, 0);
  }
  if (first_bad == UINT64_MAX) return {};
  std::vector<float> block(info.block_len);
  decode(tensor.dtype, bytes.data() + first_bad / info.block_len * info.block_bytes, block);
  return not_finite(file, tensor, first_bad, block[first_bad % info.block_len]);
}

Status check_weights(const GgufFile& file, const VerifyOptions& options) {
  for (const GgufTensor& tensor : file.tensors()) {
    if (file.size_changed()) return fail(ErrorCode::io, "the file changed its size while it was read");
    TAMIS_TRY_STATUS(check_weights_of(file, tensor, options));
  }
  return {};
}

// The conversation a template is tried on.
ChatTemplateInput sample_conversation() {
  Json message = Json::object();
  message.set("role", "user");
  message.set("content", "Hello");
  Json messages = Json::array();
  messages.push_back(std::move(message));
  ChatTemplateInput input;
  input.variables.set("messages", std::move(messages));
  input.variables.set("add_generation_prompt", true);
  input.clock = "2031-02-03T04:05:06";
  return input;
}

// A template must parse. One that parses and does not render (it may want other messages, or it exceeds a budget) is
// reported: the model still works without it.
Status check_template(const GgufFile& file, std::string_view key, std::string_view source, const Limits& limits,
                      std::vector<std::string>& warnings) {
  const Result<ChatTemplate> parsed = ChatTemplate::parse(source, limits);
  if (!parsed) return file.error_at_key(key, parsed.error().message, "a template that parses", "E_TEMPLATE_PARSE");
  const Result<std::string> rendered = parsed->render(sample_conversation());
  if (!rendered)
    warnings.push_back(
        fmt::format("{}: does not render a user's message: {}", escape_for_display(key), rendered.error().message));
  return {};
}

Status check_templates(const GgufFile& file, const Limits& limits, std::vector<std::string>& warnings) {
  for (const GgufKv& kv : file.kvs()) {
    const bool is_named = kv.key.starts_with(kTemplateKey) && kv.key.substr(kTemplateKey.size()).starts_with(".");
    if (kv.key != kTemplateKey && !is_named) continue;
    const auto source = kv.value.as_string();
    if (!source)
      return file.error_at_key(kv.key, std::string(gguf_type_name(kv.value.type())), "a string", "E_TEMPLATE_TYPE");
    TAMIS_TRY_STATUS(check_template(file, kv.key, *source, limits, warnings));
  }
  return {};
}

Status check_plan(const GgufFile& file, const Limits& limits, std::vector<std::string>& warnings) {
  TAMIS_TRY(const ModelPlan plan, plan_model(file, limits));
  if (!plan.unused.empty()) {
    const GgufTensor* tensor = file.find_tensor(plan.unused.front());
    const std::string more =
        plan.unused.size() > 1 ? fmt::format(" (and {} more)", plan.unused.size() - 1) : std::string();
    const std::string got = fmt::format("a tensor {} has no place for{}", plan.arch.name, more);
    if (tensor) return file.error_at_tensor(*tensor, got, "only the architecture's tensors", "E_TENSOR_UNUSED");
    return fail(ErrorCode::format, "tensor \"{}\": got {}", escape_for_display(plan.unused.front()), got);
  }
  warnings.insert(warnings.end(), plan.warnings.begin(), plan.warnings.end());
  return {};
}

Status check_model(const GgufFile& file, const Limits& limits, std::vector<std::string>& warnings) {
  if (!file.tensors().empty()) TAMIS_TRY_STATUS(check_plan(file, limits, warnings));
  if (file.tensors().empty() && file.find("tokenizer.ggml.model") == nullptr) return {};
  TAMIS_TRY(const auto tokenizer, Tokenizer::from_gguf(file));
  return {};
}

Status verify_into(const std::string& path, const VerifyOptions& options, VerifyReport& report) {
  GgufOptions open_options;
  open_options.mode = GgufMode::strict;
  open_options.limits = options.limits;
  TAMIS_TRY(const GgufFile file, GgufFile::open(path, open_options));
  report.size_bytes = file.size_bytes();
  report.n_kv = file.kvs().size();
  report.n_tensors = file.tensors().size();
  report.n_shards = file.n_shards();
  report.is_vocabulary = file.tensors().empty();
  report.warnings = file.warnings();
  if (options.level == VerifyLevel::container) return {};
  TAMIS_TRY_STATUS(check_model(file, options.limits, report.warnings));
  if (options.level == VerifyLevel::model) return {};
  TAMIS_TRY_STATUS(check_templates(file, options.limits, report.warnings));
  return check_weights(file, options);
}

struct LevelRow {
  VerifyLevel level;
  std::string_view name;
};
constexpr LevelRow kLevels[] = {
    {VerifyLevel::container, "container"}, {VerifyLevel::model, "model"}, {VerifyLevel::all, "all"}};

}  // namespace

std::string_view verify_level_name(VerifyLevel level) { return kLevels[static_cast<size_t>(level)].name; }

std::optional<VerifyLevel> verify_level_from_name(std::string_view name) {
  for (const LevelRow& row : kLevels)
    if (row.name == name) return row.level;
  return std::nullopt;
}

VerifyReport verify_file(const std::string& path, const VerifyOptions& options) {
  VerifyReport report;
  report.path = path;
  const Status status = verify_into(path, options, report);
  if (!status)
    report.error =
        status.error().site && !status.error().site->file.empty() ? status.error() : with_file(status.error(), path);
  return report;
}

}  // namespace tamis
