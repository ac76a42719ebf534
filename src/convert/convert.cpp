// Planning: files, configuration, vocabulary, then a file of metadata alone, which the readers of models and
// tokenizers check as they would check the finished one.
#include "convert/convert.h"

#include <filesystem>
#include <set>
#include <system_error>

#include "base/progress.h"
#include "convert/convert_state.h"
#include "models/recipe_facts.h"

namespace tamis {
namespace {

namespace fs = std::filesystem;

// The folder's own name; "model" for the root.
std::string folder_name(const std::string& folder) {
  std::error_code error;
  const fs::path path = fs::canonical(folder, error);
  const std::string name = (error ? fs::path(folder) : path).filename().string();
  return name.empty() || name == "." || name == ".." ? "model" : name;
}

// "135M", "1.5B": parameters in at most three figures, as general.size_label has them.
std::string size_label(uint64_t n_parameters) {
  const std::pair<double, const char*> units[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}};
  for (const auto& [unit, suffix] : units) {
    const double amount = static_cast<double>(n_parameters) / unit;
    if (amount >= 1) return fmt::format("{:.{}f}{}", amount, amount < 9.95 ? 1 : 0, suffix);
  }
  return fmt::format("{:.0f}K", static_cast<double>(n_parameters) / 1e3);
}

// Defaults of sampling that the model's authors publish.
Status add_sampling_keys(const Json& generation, GgufWriter& writer) {
  const std::pair<std::string_view, std::string_view> floats[] = {
      {"top_p", "top_p"}, {"min_p", "min_p"}, {"temperature", "temp"}, {"repetition_penalty", "penalty_repeat"}};
  const Json* top_k = generation.find("top_k");
  if (top_k != nullptr && top_k->is_int() && top_k->as_int() >= 0 && top_k->as_int() <= INT32_MAX)
    TAMIS_TRY_STATUS(writer.add_i32("general.sampling.top_k", static_cast<int32_t>(top_k->as_int())));
  for (const auto& [from, to] : floats) {
    const Json* value = generation.find(from);
    if (value == nullptr || !value->is_number()) continue;
    TAMIS_TRY_STATUS(writer.add_f32("general.sampling." + std::string(to), static_cast<float>(value->as_double())));
  }
  return {};
}

Status add_imatrix_keys(const ConvertOptions& options, GgufWriter& writer) {
  const Imatrix& imatrix = *options.imatrix;
  TAMIS_TRY_STATUS(writer.add_string("quantize.imatrix.file", options.imatrix_path));
  if (!imatrix.datasets.empty()) TAMIS_TRY_STATUS(writer.add_string("quantize.imatrix.dataset", imatrix.datasets[0]));
  TAMIS_TRY_STATUS(writer.add_u32("quantize.imatrix.entries_count", static_cast<uint32_t>(imatrix.entries.size())));
  return writer.add_u32("quantize.imatrix.chunks_count", imatrix.n_chunks);
}

// The folder of a checkpoint named by one of its files.
std::string folder_of(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return path;
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// Fails where a reader of the finished file would, before anything is written.
Result<Hyper> check_metadata(const ConvertPlan::State& state, RecipeFacts& facts) {
  GgufWriter probe;
  TAMIS_TRY_STATUS(add_all_keys(state, probe));
  const std::string bytes = probe.header();
  const auto source = std::make_shared<MemorySource>(std::as_bytes(std::span(bytes)));
  TAMIS_TRY(const GgufFile file, GgufFile::open(source));
  TAMIS_TRY(Hyper hyper, read_hyper(file, state.config.arch()));
  TAMIS_TRY(facts, read_recipe_facts(file));
  if (!state.vocab) return hyper;
  TAMIS_TRY(const auto tokenizer, Tokenizer::from_gguf(file));
  return hyper;
}

// What is wrong with keys made from a folder is the folder's fault: its name, and no offset in a file that is not
// there yet.
Error in_folder(Error error, const std::string& folder) {
  if (error.site == nullptr) return with_file(std::move(error), folder);
  if (error.site->got.empty()) return with_file(error, folder + "/" + error.site->file);  // a file of the folder
  ErrorSite site = *error.site;
  site.file = folder;
  site.has_offset = false;
  return fail_at(error.code, std::move(site)).value();
}

Status read_vocab(const std::string& folder, ConvertPlan::State& state) {
  TAMIS_TRY(const HfTokenizerFiles files, HfTokenizerFiles::read(folder, state.config.json()));
  state.generation = files.generation_config;
  if (!files.has_vocab()) {
    state.warnings.push_back("no tokenizer.model and no tokenizer.json: the file will have no tokenizer");
    return {};
  }
  auto vocab = read_hf_vocab(files, {state.n_vocab, state.options.pre});
  if (!vocab) return tl::unexpected<Error>(in_folder(vocab.error(), folder));
  state.vocab = std::move(*vocab);
  state.warnings.insert(state.warnings.end(), state.vocab->warnings.begin(), state.vocab->warnings.end());
  return {};
}

// What an importance matrix says of the tensors that become blocks: found out before anything is written.
Status check_imatrix(ConvertPlan::State& state) {
  const Imatrix* const imatrix = state.options.imatrix;
  state.importance.resize(state.tensors.size());
  if (imatrix == nullptr) return {};
  const auto in_imatrix = [&](const Error& error) {
    return tl::unexpected<Error>(with_file(error, state.options.imatrix_path));
  };
  std::set<std::string_view> names;
  for (const ConvertedTensor& tensor : state.tensors) names.insert(tensor.name);
  const auto warning = check_imatrix_names(*imatrix, [&](std::string_view name) { return names.contains(name); });
  if (!warning) return in_imatrix(warning.error());
  if (!warning->empty()) state.warnings.push_back(*warning);
  for (size_t i = 0; i < state.tensors.size(); ++i) {
    const ConvertedTensor& tensor = state.tensors[i];
    const auto entry = imatrix->entries.find(tensor.name);
    const bool is_native = state.rows[i]->native_type() == tensor.type;
    if (entry == imatrix->entries.end() || dtype_info(tensor.type).block_len == 1 || is_native) continue;
    const auto fits =
        imatrix_importance(entry->second, tensor.name, tensor.shape.n_matrices(), tensor.shape.row_len(), 0);
    if (fits) {
      state.importance[i] = &entry->second;
    } else if (tensor.name == "token_embd.weight") {  // of an output matrix tied to it, in files of llama-imatrix
      state.warnings.push_back(fits.error().message + "; it is encoded without");
    } else {
      return in_imatrix(fits.error());
    }
  }
  return {};
}

}  // namespace

Status add_all_keys(const ConvertPlan::State& state, GgufWriter& writer) {
  TAMIS_TRY_STATUS(writer.add_string("general.architecture", state.config.arch().name));
  TAMIS_TRY_STATUS(writer.add_string("general.type", "model"));
  TAMIS_TRY_STATUS(writer.add_string("general.name", state.name));
  uint64_t n_parameters = 0;
  for (const ConvertedTensor& tensor : state.tensors) n_parameters += tensor.shape.n_elements();
  if (n_parameters > 0) TAMIS_TRY_STATUS(writer.add_string("general.size_label", size_label(n_parameters)));
  TAMIS_TRY_STATUS(add_sampling_keys(state.generation, writer));
  TAMIS_TRY_STATUS(add_config_keys(state.config, writer));
  const std::string arch(state.config.arch().name);
  TAMIS_TRY_STATUS(writer.add_u32(arch + ".vocab_size", static_cast<uint32_t>(state.n_vocab)));
  if (state.file_type) TAMIS_TRY_STATUS(writer.add_u32("general.file_type", *state.file_type));
  if (state.vocab) TAMIS_TRY_STATUS(add_vocab_keys(*state.vocab, writer));
  bool is_quantized = false;
  for (const ConvertedTensor& tensor : state.tensors) is_quantized |= dtype_info(tensor.type).block_len > 1;
  if (is_quantized) TAMIS_TRY_STATUS(writer.add_u32("general.quantization_version", 2));
  return is_quantized && state.options.imatrix != nullptr ? add_imatrix_keys(state.options, writer) : Status();
}

Result<ConvertPlan> ConvertPlan::make(const std::string& path, const ConvertOptions& options) {
  const std::string folder = folder_of(path);
  TAMIS_TRY(HfConfig config, HfConfig::read(folder));
  TAMIS_TRY(SafetensorsSet set, SafetensorsSet::open(path));
  auto state = std::make_unique<State>(std::move(config), std::move(set));
  state->options = options;
  state->warnings = state->set.warnings();
  state->name = options.name.empty() ? folder_name(folder) : options.name;
  auto quantization = HfQuantization::read(state->config.json());
  if (!quantization) return tl::unexpected<Error>(with_file(quantization.error(), folder + "/config.json"));
  state->quantization = *quantization;
  TAMIS_TRY(state->n_vocab, count_vocab(*state));
  TAMIS_TRY_STATUS(read_vocab(folder, *state));
  RecipeFacts facts;
  const Result<Hyper> hyper = check_metadata(*state, facts);
  if (!hyper) return tl::unexpected<Error>(in_folder(hyper.error(), folder));
  TAMIS_TRY_STATUS(find_tensors(*hyper, *state));
  TAMIS_TRY_STATUS(choose_output_types(facts, *state));
  TAMIS_TRY_STATUS(check_imatrix(*state));
  return ConvertPlan(std::move(state));
}

ConvertPlan::ConvertPlan(std::unique_ptr<State> state) : state_(std::move(state)) {}
ConvertPlan::ConvertPlan(ConvertPlan&&) noexcept = default;
ConvertPlan& ConvertPlan::operator=(ConvertPlan&&) noexcept = default;
ConvertPlan::~ConvertPlan() = default;
std::unique_ptr<ConvertPlan::State> ConvertPlan::take_state() && { return std::move(state_); }

const std::vector<ConvertedTensor>& ConvertPlan::tensors() const { return state_->tensors; }
const std::vector<std::string>& ConvertPlan::warnings() const { return state_->warnings; }

uint64_t ConvertPlan::data_bytes() const {
  uint64_t sum = 0;
  for (const ConvertedTensor& tensor : state_->tensors) sum += tensor.size_bytes;
  return sum;
}

std::string ConvertPlan::type_name() const {
  for (const Recipe& recipe : all_recipes())
    if (state_->file_type == recipe.file_type) return std::string(recipe.name);
  return "mixed";
}

}  // namespace tamis
