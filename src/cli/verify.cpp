// `tamis verify FILE…`: reads every byte strictly and says whether the file is what it claims to be. Exit 0, or 3 when
// a file is not.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "api/verify_file.h"
#include "base/progress.h"
#include "cli/program.h"
#include "cli/style.h"
#include "cli/verb.h"
#include "formats/json.h"

namespace tamis::cli {
namespace {

constexpr int kBadFile = 3;

// A file is bad for whatever is wrong inside it, a missing key or tensor included; otherwise it could not be read.
int exit_code_of(const VerifyReport& report) {
  if (report.is_good()) return 0;
  switch (report.error->code) {
    case ErrorCode::io:
    case ErrorCode::out_of_memory:
    case ErrorCode::cancelled:
    case ErrorCode::internal: return exit_code(report.error->code);
    case ErrorCode::not_found: return report.size_bytes == 0 ? exit_code(report.error->code) : kBadFile;
    default: return kBadFile;
  }
}

// What the progress bar counts to; 0 (unknown) when the file is not one that can be measured.
uint64_t bytes_of(const std::string& path) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(path, ignored);
  return ignored ? 0 : size;
}

Json error_json(const Error& error) {
  Json out = Json::object();
  out.set("code", std::string(error_code_name(error.code)));
  out.set("message", error.message);
  if (error.site) {
    if (error.site->has_offset) out.set("byte_offset", error.site->byte_offset);
    if (!error.site->section.empty()) out.set("section", error.site->section);
    if (error.site->index >= 0) out.set("index", error.site->index);
    if (!error.site->subject.empty()) out.set("subject", error.site->subject);
    if (!error.site->got.empty()) out.set("got", error.site->got);
    if (!error.site->expected.empty()) out.set("expected", error.site->expected);
    if (!error.site->tag.empty()) out.set("tag", error.site->tag);
  }
  return out;
}

std::string as_json(const VerifyReport& report, VerifyLevel level) {
  Json out = Json::object();
  out.set("schema", 1);
  out.set("file", report.path);
  out.set("level", std::string(verify_level_name(level)));
  out.set("ok", report.is_good());
  Json warnings = Json::array();
  for (const std::string& warning : report.warnings) warnings.push_back(warning);
  out.set("warnings", std::move(warnings));
  if (report.size_bytes > 0) {
    out.set("size_bytes", report.size_bytes);
    out.set("n_shards", report.n_shards);
    out.set("n_kv", report.n_kv);
    out.set("n_tensors", report.n_tensors);
    out.set("is_vocabulary", report.is_vocabulary);
  }
  if (!report.is_good()) out.set("error", error_json(*report.error));
  return out.dump() + "\n";
}

std::string as_text(const VerifyReport& report, VerifyLevel level, const Style& style) {
  std::string out = escape_for_display(report.path, 4096) + ": ";
  if (report.is_good()) {
    const std::string what =
        report.is_vocabulary ? "a vocabulary" : fmt::format("{} tensors", with_commas(report.n_tensors));
    out += fmt::format("{} (level {}: {}, {} keys, {})\n", style.paint(Color::green, "ok"), verify_level_name(level),
                       what, with_commas(report.n_kv), human_bytes(report.size_bytes));
  } else {
    out += style.paint(Color::red, "refused") + fmt::format(" (level {})\n", verify_level_name(level));
  }
  for (const std::string& warning : report.warnings)
    out += "  " + style.paint(Color::yellow, "warning") + ": " + warning + "\n";
  return out;
}

Result<int> run_verify(const Args& args) {
  const VerifyLevel level = verify_level_from_name(args.text("--level")).value_or(VerifyLevel::all);
  const Style style = Style::from_args(args);
  const bool is_json = args.flag("--json");
  const auto pool = ThreadPool::create(args.has("--threads") ? static_cast<uint32_t>(args.integer("--threads")) : 0);
  int code = 0;
  for (const std::string& path : args.texts("FILE")) {
    Progress progress("verify", ProgressUnit::bytes, bytes_of(path));
    VerifyOptions options;
    options.level = level;
    options.pool = pool.get();
    options.progress = [&](uint64_t n_bytes) { progress.advance(n_bytes); };
    const VerifyReport report = verify_file(path, options);
    if (!report.is_good()) print_error(*report.error, is_json);
    TAMIS_TRY_STATUS(print_out(is_json ? as_json(report, level) : as_text(report, level, style)));
    const int own = exit_code_of(report);
    if (own == kBadFile || code == 0) code = own == 0 ? code : own;
  }
  return code;
}

}  // namespace

Verb verify_verb() {
  return {
      .name = "verify",
      .summary = "reads every byte of GGUF files strictly; exit 3 when one is not what it claims to be",
      .details =
          "Level container checks header, metadata, tensor table, ranges and padding. Level model also checks the "
          "configuration, every "
          "tensor's existence, shape and type, and the tokenizer. Level all also parses the chat template and reads "
          "every weight, which "
          "must be finite.\n\n"
          "Verifying is stricter than loading: what a load accepts with a warning (a gap, trailing bytes, a tensor "
          "nothing uses) is "
          "refused. A file without tensors passes as a vocabulary. A chat template that parses but cannot render a "
          "conversation is a "
          "warning. One line a file on stdout, the reason of a refusal on stderr; several files: exit 3 if any is bad.",
      .positionals = {{.name = "FILE", .help = "a GGUF file, or any shard of a set", .is_repeatable = true}},
      .options = {{.names = "--level",
                   .kind = OptionKind::text,
                   .value_name = "LEVEL",
                   .help = "how much to check",
                   .default_text = "all",
                   .choices = {"container", "model", "all"}}},
      .run = run_verify,
  };
}

}  // namespace tamis::cli
