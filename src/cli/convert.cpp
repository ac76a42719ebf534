// `tamis convert SRC -o OUT`: a Hugging Face folder → a GGUF file, and a GGUF file → such a folder.
#include "convert/convert.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "base/log.h"
#include "base/progress.h"
#include "cli/interrupt.h"
#include "cli/verb.h"
#include "convert/convert_back.h"
#include "formats/json.h"

namespace tamis::cli {
namespace {

// What the command line says that must stay alive while a plan is used.
struct Request {
  ConvertOptions options;
  Imatrix imatrix;
  TensorTypes tensor_types;
};

Result<std::optional<DType>> type_option(const Args& args, std::string_view name) {
  if (!args.has(name)) return std::optional<DType>();
  const std::optional<DType> type = dtype_from_name(args.text(name));
  if (!type)
    return fail(ErrorCode::invalid_argument, "{} \"{}\": no tensor type", name, escape_for_display(args.text(name)));
  return type;
}

Status read_request(const Args& args, Request& out) {
  ConvertOptions& options = out.options;
  options.type = args.text("--type");
  options.name = args.text("--name");
  options.pre = args.text("--pre");
  options.is_overwriting = args.flag("--force");
  options.method = args.text("--method") == "plain" ? EncodeMethod::plain : EncodeMethod::fast;
  options.recipe.is_pure = args.flag("--pure");
  options.recipe.leaves_output = args.flag("--leave-output-tensor");
  TAMIS_TRY(options.recipe.output_type, type_option(args, "--output-tensor-type"));
  TAMIS_TRY(options.recipe.token_embd_type, type_option(args, "--token-embedding-type"));
  TAMIS_TRY(out.tensor_types, TensorTypes::parse(args.texts("--tensor-type")));
  options.recipe.overrides = &out.tensor_types;
  if (!args.has("--imatrix")) return {};
  options.imatrix_path = args.text("--imatrix");
  TAMIS_TRY(out.imatrix, read_imatrix(options.imatrix_path));
  options.imatrix = &out.imatrix;
  return {};
}

std::string as_text(const ConvertPlan& plan, const std::string& path, bool is_dry) {
  std::string out;
  for (const ConvertedTensor& tensor : plan.tensors()) {
    if (!tensor.error) continue;
    out += fmt::format("{}: {} as {}, {}\n", tensor.name, tensor.source, dtype_name(tensor.type),
                       *tensor.error == 0 ? "the same numbers" : fmt::format("relative error {:.3e}", *tensor.error));
  }
  return out + fmt::format("{}{}: {} tensors, {}, {}\n", is_dry ? "would write " : "", path, plan.tensors().size(),
                           human_bytes(plan.data_bytes()), plan.type_name());
}

std::string as_json(const ConvertPlan& plan, const std::string& path, bool is_dry) {
  Json rows = Json::array(), warnings = Json::array();
  for (const ConvertedTensor& tensor : plan.tensors()) {
    Json row = Json::object();
    row.set("name", tensor.name).set("source", tensor.source).set("type", dtype_name(tensor.type));
    row.set("bytes", Json(tensor.size_bytes));
    if (tensor.error) row.set("relative_error", *tensor.error).set("exact", *tensor.error == 0);
    rows.push_back(std::move(row));
  }
  for (const std::string& warning : plan.warnings()) warnings.push_back(warning);
  Json out = Json::object();
  out.set("schema", 1).set("path", path).set("dry_run", is_dry).set("type", plan.type_name());
  out.set("data_bytes", Json(plan.data_bytes())).set("tensors", std::move(rows)).set("warnings", std::move(warnings));
  return out.dump() + "\n";
}

Result<int> to_gguf(const Args& args, const std::string& source, const std::string& path) {
  Request request;
  TAMIS_TRY_STATUS(read_request(args, request));
  if (!args.flag("--dry-run") && !request.options.is_overwriting && file_exists(path))
    return fail(ErrorCode::invalid_argument, "{} exists already (use --force to overwrite)", path);
  TAMIS_TRY(ConvertPlan plan, ConvertPlan::make(source, request.options));
  for (const std::string& warning : plan.warnings()) log_warning("{}", warning);
  const bool is_dry = args.flag("--dry-run");
  if (!is_dry) {
    const auto pool = ThreadPool::create(args.has("--threads") ? static_cast<uint32_t>(args.integer("--threads")) : 0);
    Progress progress("convert", ProgressUnit::bytes, plan.data_bytes());
    TAMIS_TRY_STATUS(plan.write(
        path, *pool, [&](uint64_t n_bytes) { progress.advance(n_bytes); }, &stop_flag()));
  }
  TAMIS_TRY_STATUS(print_out(args.flag("--json") ? as_json(plan, path, is_dry) : as_text(plan, path, is_dry)));
  return 0;
}

Result<int> to_folder(const Args& args, const std::string& source, const std::string& path) {
  TAMIS_TRY(const GgufFile file, GgufFile::open(source));
  ConvertBackOptions options;
  options.is_overwriting = args.flag("--force");
  if (args.has("--type") && args.text("--type") != "auto") {
    const std::optional<DType> type = dtype_from_name(args.text("--type"));
    if (type != DType::f32 && type != DType::f16 && type != DType::bf16)
      return fail(ErrorCode::invalid_argument, "--type \"{}\": a folder holds f32, f16 or bf16",
                  escape_for_display(args.text("--type")));
    options.type = type;
  }
  TAMIS_TRY(const ConvertBackPlan plan, plan_convert_back(file, options));
  for (const std::string& warning : plan.warnings) log_warning("{}", warning);
  const bool is_dry = args.flag("--dry-run");
  if (!is_dry) {
    Progress progress("convert", ProgressUnit::bytes, plan.data_bytes);
    TAMIS_TRY_STATUS(write_convert_back(
        file, plan, path, [&](uint64_t n_bytes) { progress.advance(n_bytes); }, &stop_flag()));
  }
  if (!args.flag("--json")) {
    TAMIS_TRY_STATUS(print_out(fmt::format("{}{}: {} tensors, {}\n", is_dry ? "would write " : "", path,
                                           plan.tensors.size(), human_bytes(plan.data_bytes))));
    return 0;
  }
  Json out = Json::object();
  out.set("schema", 1).set("path", path).set("dry_run", is_dry);
  out.set("n_tensors", Json(uint64_t{plan.tensors.size()})).set("data_bytes", Json(plan.data_bytes));
  TAMIS_TRY_STATUS(print_out(out.dump() + "\n"));
  return 0;
}

Result<int> run_convert(const Args& args) {
  const std::string source = args.text("SRC");
  const std::string path = args.text("--output");
  if (path.empty()) return fail(ErrorCode::invalid_argument, "convert: -o OUT is missing (tamis help convert)");
  std::error_code error;
  const bool is_gguf = !std::filesystem::is_directory(source, error) && source.ends_with(".gguf");
  return is_gguf ? to_folder(args, source, path) : to_gguf(args, source, path);
}

std::vector<OptionSpec> convert_options() {
  return {
      {.names = "-o,--output,--outfile",
       .kind = OptionKind::text,
       .value_name = "OUT",
       .help = "the file to write; a folder when SRC is a GGUF file"},
      {.names = "--type,--outtype",
       .kind = OptionKind::text,
       .value_name = "TYPE",
       .help = "auto (what SRC holds), f32, f16, bf16, or a recipe such as Q4_K_M",
       .default_text = "auto"},
      {.names = "--imatrix",
       .kind = OptionKind::text,
       .value_name = "FILE",
       .help = "importance matrix for quantized types"},
      {.names = "--method",
       .kind = OptionKind::text,
       .value_name = "NAME",
       .help = "encoders of quantized types",
       .default_text = "fast",
       .choices = {"plain", "fast"}},
      {.names = "--tensor-type",
       .kind = OptionKind::text,
       .value_name = "RE=TYPE",
       .help = "type of the tensors whose names the expression finds; the first that matches wins",
       .is_repeatable = true},
      {.names = "--output-tensor-type",
       .kind = OptionKind::text,
       .value_name = "TYPE",
       .help = "type of the output matrix"},
      {.names = "--token-embedding-type",
       .kind = OptionKind::text,
       .value_name = "TYPE",
       .help = "type of the token embedding"},
      {.names = "--pure", .help = "the recipe's base type for every tensor"},
      {.names = "--leave-output-tensor", .help = "do not quantize the output matrix"},
      {.names = "--name,--model-name",
       .kind = OptionKind::text,
       .value_name = "NAME",
       .help = "general.name; default: the folder's name"},
      {.names = "--pre",
       .kind = OptionKind::text,
       .value_name = "NAME",
       .help = "pre-tokenizer to write in place of the one found by comparing"},
      {.names = "--force", .help = "overwrite files that exist"},
      {.names = "--dry-run", .help = "say what would be written"},
  };
}

}  // namespace

Verb convert_verb() {
  return {
      .name = "convert",
      .summary = "makes a GGUF file from a Hugging Face folder, and such a folder from a GGUF file",
      .details =
          "SRC is a folder with config.json, .safetensors and a tokenizer (tokenizer.json or tokenizer.model); the "
          "tensors "
          "may be floats, 8-bit floats with scales, GPTQ or AWQ. Quantized types are made in one pass, tensor by "
          "tensor. "
          "GPTQ and AWQ codes are kept as they are where a type has room for them (symmetric in groups of 32: Q4_0 and "
          "Q8_0), and one line a tensor says how far the file's numbers are from the checkpoint's. With a .gguf file "
          "as SRC, "
          "OUT is a folder: its tensors as floats, config.json and the tokenizer.",
      .positionals = {{.name = "SRC", .help = "a Hugging Face folder, a .safetensors file of one, or a GGUF file"}},
      .options = convert_options(),
      .run = run_convert,
  };
}

}  // namespace tamis::cli
