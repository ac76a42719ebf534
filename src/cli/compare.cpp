// `tamis compare A.npy B.npy`: how far two logit matrices of one shape lie apart; exit 6 past a threshold. Two
// directories are traces (compare_traces.cpp).
#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "cli/compare_traces.h"
#include "cli/verb.h"
#include "engine/distribution.h"
#include "formats/json.h"
#include "formats/npy.h"

namespace tamis::cli {
namespace {

Status check_finite(const NpyMatrix& matrix, const std::string& path) {
  for (size_t i = 0; i < matrix.values.size(); ++i) {
    if (std::isfinite(matrix.values[i])) continue;
    return fail(ErrorCode::format, "{}: row {}, column {}: got {}, expected a finite number", path, i / matrix.n_cols,
                i % matrix.n_cols, matrix.values[i]);
  }
  return {};
}

std::string as_json(const LogitDifference& difference, const NpyMatrix& base, bool is_within) {
  Json out = Json::object();
  out.set("schema", 1);
  out.set("n_rows", base.n_rows);
  out.set("n_cols", base.n_cols);
  out.set("max_abs", difference.max_abs);
  out.set("max_rel", difference.max_rel);
  out.set("kl_mean", difference.kl_mean);
  out.set("kl_max", difference.kl_max);
  out.set("same_top", difference.same_top);
  out.set("within", is_within);
  return out.dump() + "\n";
}

std::string as_text(const LogitDifference& difference, const NpyMatrix& base) {
  return fmt::format(
      "rows      {} of {} values\nmax |A-B| {:.6g}   (relative {:.6g})\nKL(A|B)   mean {:.6g}, max {:.6g} nats a "
      "row\nsame top  {:.4f} %\n",
      base.n_rows, base.n_cols, difference.max_abs, difference.max_rel, difference.kl_mean, difference.kl_max,
      100 * difference.same_top);
}

Result<int> run_compare(const Args& args) {
  const std::string base_path = args.text("A"), other_path = args.text("B");
  if (std::filesystem::is_directory(base_path) && std::filesystem::is_directory(other_path))
    return compare_traces(args);
  TAMIS_TRY(const NpyMatrix base, read_npy(base_path));
  TAMIS_TRY(const NpyMatrix other, read_npy(other_path));
  if (base.n_rows != other.n_rows || base.n_cols != other.n_cols) {
    return fail(ErrorCode::shape, "{}: got shape [{}, {}], expected [{}, {}] as in {}", other_path, other.n_rows,
                other.n_cols, base.n_rows, base.n_cols, base_path);
  }
  if (base.n_cols == 0) return fail(ErrorCode::shape, "{}: got rows of 0 values, expected at least 1", base_path);
  TAMIS_TRY_STATUS(check_finite(base, base_path));
  TAMIS_TRY_STATUS(check_finite(other, other_path));
  const LogitDifference difference = compare_logits(base.values, other.values, base.n_cols);
  const bool is_kl_past = args.has("--max-kl") && difference.kl_max > args.real("--max-kl");
  const bool is_abs_past = args.has("--max-abs") && difference.max_abs > args.real("--max-abs");
  const bool is_within = !is_kl_past && !is_abs_past;
  TAMIS_TRY_STATUS(print_out(args.flag("--json") ? as_json(difference, base, is_within) : as_text(difference, base)));
  if (is_kl_past)
    return fail(ErrorCode::check_failed, "{}: KL of a row: got {:.6g}, expected <= {:.6g}", other_path,
                difference.kl_max, args.real("--max-kl"));
  if (is_abs_past)
    return fail(ErrorCode::check_failed, "{}: max |A-B|: got {:.6g}, expected <= {:.6g}", other_path,
                difference.max_abs, args.real("--max-abs"));
  return 0;
}

}  // namespace

Verb compare_verb() {
  return {
      .name = "compare",
      .summary = "how far two logit matrices (.npy, float32), or two tensor traces, lie apart",
      .details =
          "A is the base: KL(A|B) in nats a row, computed in float64. max_rel is the largest |A-B|/|A| where A is not "
          "0; same_top "
          "is the share of rows whose largest value stands in the same column. Exit 6 when a row's KL is past --max-kl "
          "or any "
          "difference is past --max-abs. Two directories written by --trace-tensors are compared tensor by tensor, in "
          "the "
          "order of computation: largest difference, and root mean square of A-B over that of A (rel_rms).",
      .positionals = {{.name = "A", .help = "base, float32 [rows, n_vocab], or a directory"},
                      {.name = "B", .help = "other, the same shape, or a directory"}},
      .options = {{.names = "--max-kl",
                   .kind = OptionKind::real,
                   .value_name = "NATS",
                   .help = "largest KL(A|B) any row may have"},
                  {.names = "--max-abs", .kind = OptionKind::real, .value_name = "X", .help = "largest |A-B| allowed"},
                  {.names = "--max-rms",
                   .kind = OptionKind::real,
                   .value_name = "X",
                   .help = "largest rel_rms of a tensor, for directories"}},
      .run = run_compare,
  };
}

}  // namespace tamis::cli
