// `tamis imatrix -m M -f TEXT -o OUT`: calibration (engine/calibrate.h), merging and conversion of importance matrices,
// and what they say (formats/imatrix_statistics.h).
#include "formats/imatrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "cli/interrupt.h"
#include "cli/load_engine.h"
#include "cli/style.h"
#include "engine/calibrate.h"
#include "formats/imatrix_statistics.h"
#include "formats/json.h"
#include "quants/hessian.h"

namespace tamis::cli {
namespace {

constexpr uint64_t kMaxTextBytes = uint64_t{4} << 30;

// ---- where the matrix goes

struct Output {
  std::string path;
  ImatrixFormat format = ImatrixFormat::gguf;
  bool overwrite = false;
};

Result<Output> output_of(const Args& args) {
  Output output{args.text("-o"), ImatrixFormat::gguf, args.flag("--force")};
  const std::string format = args.text("--output-format");
  if (format == "dat" || (format.empty() && output.path.ends_with(".dat"))) output.format = ImatrixFormat::dat;
  if (!output.overwrite && file_exists(output.path))
    return fail(ErrorCode::invalid_argument, "{} exists; --force overwrites it", output.path);
  return output;
}

// The matrices of all --in-file options, added up; an empty one without any.
Result<Imatrix> merged_inputs(const Args& args, uint32_t chunk_size) {
  Imatrix merged;
  for (const std::string& path : args.texts("--in-file")) {
    TAMIS_TRY(const Imatrix input, read_imatrix(path, chunk_size));
    if (Status status = merge_imatrix(merged, input); !status)
      return tl::unexpected<Error>(with_file(std::move(status).error(), path));
  }
  return merged;
}

void warn_of_unseen_experts(const Imatrix& imatrix) {
  for (const auto& [name, entry] : imatrix.entries) {
    const auto n_unseen = std::ranges::count(entry.counts, 0.0);
    if (n_unseen != 0)
      log_warning("{}: {} of {} experts were never chosen; their count stays 0", name, n_unseen, entry.n_mat());
  }
}

// ---- statistics

// What error feedback may leave of the error, weight by weight: InputHessian::room().
using Rooms = std::map<std::string, double, std::less<>>;

Result<Rooms> rooms_of(const Imatrix& imatrix, ThreadPool& pool) {
  Rooms out;
  std::map<const Correlations*, double> shared;
  for (const auto& [name, correlations] : imatrix.correlations) {
    const auto [it, is_new] = shared.try_emplace(correlations.get(), 0);
    if (is_new) {
      TAMIS_TRY(std::vector<float> products, input_products(imatrix.entries.find(name)->second, *correlations));
      auto hessian = InputHessian::create(std::move(products), correlations->n_cols(), {}, pool);
      if (!hessian) return fail(ErrorCode::format, "{}: its correlations: {}", name, hessian.error().message);
      it->second = hessian->room();
    }
    out.emplace(name, it->second);
  }
  return out;
}

Json statistics_json(const ImatrixStatistics& weight, const Rooms& rooms) {
  Json row = Json::object();
  row.set("schema", 1).set("tensor", weight.name).set("n", weight.n).set("sum", weight.sum).set("min", weight.min);
  row.set("max", weight.max).set("mean", weight.mean).set("stddev", weight.deviation).set("active", weight.active);
  row.set("entropy", weight.entropy).set("normalised_entropy", weight.normalised_entropy).set("zd", weight.outlying);
  row.set("cos_sim", weight.cosine ? Json(*weight.cosine) : Json());
  if (const auto room = rooms.find(weight.name); room != rooms.end()) row.set("room", room->second);
  return row;
}

std::string statistics_table(const ImatrixSummary& summary, const Rooms& rooms) {
  constexpr auto kRight = Align::right;
  Table weights({Align::left, kRight, kRight, kRight, kRight, kRight, kRight, kRight, kRight, kRight, kRight, kRight});
  weights.add({"tensor", "sum", "min", "max", "mean", "sd", "% active", "N", "entropy", "E (norm)", "ZD", "cos-sim"});
  for (const ImatrixStatistics& row : summary.weights) {
    weights.add({row.name, fmt::format("{:.2f}", row.sum), fmt::format("{:.4f}", row.min),
                 fmt::format("{:.4f}", row.max), fmt::format("{:.4f}", row.mean), fmt::format("{:.4f}", row.deviation),
                 fmt::format("{:.2f}", 100 * row.active), std::to_string(row.n), fmt::format("{:.4f}", row.entropy),
                 fmt::format("{:.2f} %", 100 * row.normalised_entropy), fmt::format("{:.2f} %", 100 * row.outlying),
                 row.cosine ? fmt::format("{:.4f}", *row.cosine) : "-"});
  }
  Table layers({kRight, kRight, kRight, kRight});
  layers.add({"layer", "sum", "ZD", "cos-sim"});
  for (const ImatrixLayerStatistics& row : summary.layers) {
    layers.add({std::to_string(row.layer_idx), fmt::format("{:.2f}", row.sum),
                fmt::format("{:.4f} %", 100 * row.outlying), row.cosine ? fmt::format("{:.4f}", *row.cosine) : "-"});
  }
  std::string text = weights.text() + "\nmeans of the layers, weighted by values\n" + layers.text();
  if (rooms.empty()) return text;
  Table feedback({Align::left, kRight});
  feedback.add({"tensor", "room"});
  for (const auto& [name, room] : rooms) feedback.add({name, fmt::format("{:.3f}", room)});
  return text + "\nroom: what quantize --method hessian may leave of the error of the outputs\n" + feedback.text();
}

Result<int> show_statistics(const Args& args, const Imatrix& imatrix) {
  if (args.texts("--in-file").empty())
    return fail(ErrorCode::invalid_argument, "--show-statistics needs --in-file FILE: the matrix to look at");
  const ImatrixSummary summary = summarise(imatrix);
  const auto pool = ThreadPool::create(static_cast<uint32_t>(args.integer("--threads")));
  TAMIS_TRY(const Rooms rooms, rooms_of(imatrix, *pool));
  if (!args.flag("--json")) {
    TAMIS_TRY_STATUS(print_out(statistics_table(summary, rooms)));
    return 0;
  }
  for (const ImatrixStatistics& weight : summary.weights)
    TAMIS_TRY_STATUS(print_out(statistics_json(weight, rooms).dump() + "\n"));
  return 0;
}

// ---- calibration

// The windows of all texts, taken from each in turn, so that a limit keeps the mix.
struct Text {
  std::vector<std::vector<TokenId>> files;
  std::vector<std::span<const TokenId>> windows;
};

Result<Text> read_texts(const Args& args, const Tokenizer& tokenizer, uint32_t n_ctx) {
  Text text;
  size_t most_windows = 0;
  for (const std::string& path : args.texts("-f")) {
    TAMIS_TRY(const std::string content, read_text_file(path, kMaxTextBytes));
    text.files.push_back(
        tokenizer.encode(content, {.add_special = true, .parse_special = args.flag("--parse-special")}));
    const size_t n = text.files.back().size() / n_ctx;
    if (n == 0) log_warning("{}: {} tokens are less than a window of {}", path, text.files.back().size(), n_ctx);
    most_windows = std::max(most_windows, n);
  }
  for (size_t i = 0; i < most_windows; ++i) {
    for (const std::vector<TokenId>& file : text.files)
      if ((i + 1) * n_ctx <= file.size()) text.windows.push_back(std::span(file).subspan(i * n_ctx, n_ctx));
  }
  return text;
}

struct Checkpoints {
  uint32_t every = 10;      // windows between writes of the output; 0 = at the end only
  uint32_t keep_every = 0;  // windows between copies that are kept as OUT.at_N; 0 = none
};

class Calibration {
 public:
  Calibration(const Args& args, Output output, Imatrix start)
      : args_(args), output_(std::move(output)), start_(std::move(start)) {}

  Result<int> run();

 private:
  Result<std::span<const std::span<const TokenId>>> chosen_windows(const Text& text, uint32_t n_ctx) const;
  Result<Imatrix> total(const Calibrator& calibrator) const;
  Status save(const Calibrator& calibrator, const std::string& path, bool overwrite) const;
  Status add_windows(Calibrator& calibrator, std::span<const std::span<const TokenId>> windows, uint32_t n_ctx);
  Status report(const Calibrator& calibrator, uint32_t n_ctx, double seconds) const;

  const Args& args_;
  Output output_;
  Imatrix start_;
  Checkpoints checkpoints_;
  bool is_written_ = false;
};

Result<std::span<const std::span<const TokenId>>> Calibration::chosen_windows(const Text& text, uint32_t n_ctx) const {
  TAMIS_TRY(const uint32_t first, integer_option(args_, "--from-chunk", 0, 0));
  TAMIS_TRY(const uint32_t most, integer_option(args_, "--chunks", UINT32_MAX));
  if (first >= text.windows.size()) {
    return fail(ErrorCode::invalid_argument, "the text has {} windows of {} tokens, none from number {} on",
                text.windows.size(), n_ctx, first);
  }
  const std::span<const std::span<const TokenId>> rest = std::span(text.windows).subspan(first);
  return rest.first(std::min<size_t>(rest.size(), most));
}

Result<Imatrix> Calibration::total(const Calibrator& calibrator) const {
  Imatrix collected = calibrator.imatrix();
  collected.datasets = args_.texts("-f");
  Imatrix out = start_;
  TAMIS_TRY_STATUS(merge_imatrix(out, collected));
  return out;
}

Status Calibration::save(const Calibrator& calibrator, const std::string& path, bool overwrite) const {
  TAMIS_TRY(const Imatrix imatrix, total(calibrator));
  return write_imatrix(imatrix, path, output_.format, overwrite);
}

Status Calibration::add_windows(Calibrator& calibrator, std::span<const std::span<const TokenId>> windows,
                                uint32_t n_ctx) {
  const std::atomic<bool>& stop = stop_flag();
  Progress progress("imatrix", ProgressUnit::tokens, uint64_t{windows.size()} * n_ctx);
  for (size_t i = 0; i < windows.size(); ++i) {
    TAMIS_TRY_STATUS(calibrator.add(windows[i]));
    progress.set(uint64_t{i + 1} * n_ctx);
    const auto n_done = static_cast<uint32_t>(i + 1);
    const bool is_stopped = stop.load();
    if (is_stopped || n_done == windows.size() || (checkpoints_.every != 0 && n_done % checkpoints_.every == 0)) {
      TAMIS_TRY_STATUS(save(calibrator, output_.path, output_.overwrite || is_written_));
      is_written_ = true;
    }
    if (checkpoints_.keep_every != 0 && n_done % checkpoints_.keep_every == 0)
      TAMIS_TRY_STATUS(save(calibrator, fmt::format("{}.at_{}", output_.path, n_done), true));
    if (is_stopped && n_done < windows.size())
      return fail(ErrorCode::cancelled, "stopped after {} of {} windows, which {} holds", n_done, windows.size(),
                  output_.path);
  }
  return {};
}

Status Calibration::report(const Calibrator& calibrator, uint32_t n_ctx, double seconds) const {
  TAMIS_TRY(const Imatrix imatrix, total(calibrator));
  warn_of_unseen_experts(imatrix);
  const double speed = seconds > 0 ? static_cast<double>(uint64_t{calibrator.n_windows()} * n_ctx) / seconds : 0;
  const Perplexity& perplexity = calibrator.perplexity().state();
  if (args_.flag("--json")) {
    Json out = Json::object();
    out.set("schema", 1).set("file", output_.path).set("n_chunks", imatrix.n_chunks).set("chunk_size", n_ctx);
    out.set("n_entries", uint64_t{imatrix.entries.size()}).set("tokens_per_second", speed);
    if (perplexity.n_windows > 0) out.set("perplexity", perplexity.perplexity).set("stderr", perplexity.standard_error);
    return print_out(out.dump() + "\n");
  }
  std::string text = fmt::format("{}: {} weights over {} windows of {} tokens, {:.1f} tokens/s\n", output_.path,
                                 imatrix.entries.size(), imatrix.n_chunks, n_ctx, speed);
  if (perplexity.n_windows > 0)
    text += fmt::format("perplexity {:.4f} ± {:.4f}\n", perplexity.perplexity, perplexity.standard_error);
  return print_out(text);
}

Result<int> Calibration::run() {
  CalibrationOptions options;
  TAMIS_TRY(options.n_ctx, integer_option(args_, "-c", 512, 4));
  TAMIS_TRY(checkpoints_.every, integer_option(args_, "-ofreq", 10, 0));
  TAMIS_TRY(checkpoints_.keep_every, integer_option(args_, "--save-frequency", 0, 0));
  options.has_output = args_.flag("--process-output");
  options.has_correlations = args_.flag("--hessian");
  if (options.has_correlations && output_.format == ImatrixFormat::dat)
    return fail(ErrorCode::invalid_argument, "--hessian needs a GGUF file; a .dat file holds no correlations");
  options.has_perplexity = !args_.flag("--no-ppl");
  EngineOptions engine_options;
  engine_options.n_ctx = options.n_ctx;
  engine_options.n_batch = static_cast<uint32_t>(args_.integer("-b"));
  TAMIS_TRY(const LoadedEngine loaded, load_engine(args_, engine_options));
  options.pool = loaded.pool.get();
  const GgufFile& file = loaded.engine->model().file;
  TAMIS_TRY_STATUS(
      check_imatrix_names(start_, [&](std::string_view name) { return file.find_tensor(name) != nullptr; }));
  TAMIS_TRY(const Text text, read_texts(args_, *loaded.engine->tokenizer(), options.n_ctx));
  TAMIS_TRY(const auto windows, chosen_windows(text, options.n_ctx));
  TAMIS_TRY(Calibrator calibrator, Calibrator::create(loaded.engine, options));
  if (const uint64_t needed = calibrator.pair_bytes(), usable = usable_memory_bytes(); needed > usable / 10 * 8)
    return fail(ErrorCode::out_of_memory, "--hessian needs {:.1f} GB of memory for this model, {:.1f} GB are usable",
                static_cast<double>(needed) * 1e-9, static_cast<double>(usable) * 1e-9);
  // An input matrix of another model is found out before the work, not after it.
  TAMIS_TRY(const Imatrix empty, total(calibrator));
  const auto start = std::chrono::steady_clock::now();
  TAMIS_TRY_STATUS(add_windows(calibrator, windows, options.n_ctx));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  TAMIS_TRY_STATUS(report(calibrator, options.n_ctx, seconds.count()));
  return 0;
}

Result<int> write_merged(const Args& args, const Output& output, const Imatrix& imatrix) {
  TAMIS_TRY_STATUS(write_imatrix(imatrix, output.path, output.format, output.overwrite));
  warn_of_unseen_experts(imatrix);
  if (args.flag("--json")) {
    Json out = Json::object();
    out.set("schema", 1).set("file", output.path).set("n_chunks", imatrix.n_chunks);
    out.set("chunk_size", imatrix.chunk_size).set("n_entries", uint64_t{imatrix.entries.size()});
    TAMIS_TRY_STATUS(print_out(out.dump() + "\n"));
    return 0;
  }
  TAMIS_TRY_STATUS(print_out(fmt::format("{}: {} weights over {} windows of {} tokens\n", output.path,
                                         imatrix.entries.size(), imatrix.n_chunks, imatrix.chunk_size)));
  return 0;
}

Result<int> run_imatrix(const Args& args) {
  TAMIS_TRY(const uint32_t chunk_size, integer_option(args, "-c", kImatrixChunkSize, 4));
  TAMIS_TRY(Imatrix start, merged_inputs(args, chunk_size));
  if (args.flag("--show-statistics")) return show_statistics(args, start);
  const bool has_text = !args.texts("-f").empty();
  if (!has_text && args.texts("--in-file").empty())
    return fail(ErrorCode::invalid_argument, "-f TEXT is needed: what to calibrate on (or --in-file FILE, to merge)");
  TAMIS_TRY(Output output, output_of(args));
  if (!has_text) return write_merged(args, output, start);
  return Calibration(args, std::move(output), std::move(start)).run();
}

OptionSpec count_option(std::string_view names, std::string_view help, double minimum) {
  return {.names = names, .kind = OptionKind::integer, .value_name = "N", .help = help, .minimum = minimum};
}

std::vector<OptionSpec> imatrix_options() {
  return {
      {.names = "-f,--file",
       .kind = OptionKind::text,
       .value_name = "TEXT",
       .help = "text to calibrate on, UTF-8; several are taken from in turn, window by window",
       .is_repeatable = true},
      {.names = "-o,--output,--output-file",
       .kind = OptionKind::text,
       .value_name = "FILE",
       .help = "the matrix to write",
       .default_text = "imatrix.gguf"},
      {.names = "--output-format",
       .kind = OptionKind::text,
       .value_name = "FORMAT",
       .help = "default: dat for a FILE that ends in .dat, else gguf",
       .choices = {"gguf", "dat"}},
      context_option("tokens a window; default: 512"),
      batch_option(),
      count_option("--chunks", "windows at most; default: all", 1),
      count_option("--from-chunk,--chunk", "windows to pass over first", 0),
      count_option("-ofreq,--output-frequency", "windows between writes of FILE; 0: at the end only; default: 10", 0),
      count_option("--save-frequency", "windows between copies that are kept as FILE.at_N; default: 0, none", 0),
      {.names = "--process-output", .help = "collect for the output matrix too"},
      {.names = "--hessian", .help = "look at inputs in pairs too, for quantize --method hessian"},
      {.names = "--no-ppl", .help = "do not compute logits and perplexity on the way"},
      {.names = "--ppl", .help = "compute perplexity on the way (the default)"},
      {.names = "--parse-special", .help = "read control tokens in the text as such"},
      {.names = "--in-file",
       .kind = OptionKind::text,
       .value_name = "FILE",
       .help = "a matrix to add to, GGUF or .dat; without -f all of them are merged into one",
       .is_repeatable = true},
      {.names = "--show-statistics", .help = "print what the matrices of --in-file say, weight by weight"},
      {.names = "--force", .help = "overwrite FILE"},
  };
}

}  // namespace

Verb imatrix_verb() {
  return {
      .name = "imatrix",
      .summary = "measure which inputs of each weight matter, for quantize",
      .details =
          "As llama-imatrix: the text is cut into windows of -c tokens, the first token of each is BOS when the "
          "vocabulary adds one, and for every weight the squares of its inputs are summed, for mixtures expert by "
          "expert (an expert never chosen keeps the count 0). The file is written every -ofreq windows, whole each "
          "time: after a kill, go on with --in-file FILE --from-chunk N.\n\n"
          "Without -f, the --in-file matrices are merged or converted. --show-statistics prints sum, least, largest, "
          "mean and deviation of the mean squares, the share above 1e-5, their number, their entropy, the share more "
          "than a deviation from the mean (ZD) and the likeness to the layer before; of inputs seen in pairs also the "
          "room that error feedback has.",
      .positionals = {},
      .options = model_options() + imatrix_options(),
      .run = run_imatrix,
  };
}

}  // namespace tamis::cli
