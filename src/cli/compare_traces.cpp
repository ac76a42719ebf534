// Names sort in the order of computation, so the first tensor past the limit is where the trouble begins.
#include "cli/compare_traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>

#include "cli/style.h"
#include "formats/json.h"
#include "formats/npy.h"

namespace tamis::cli {
namespace {

namespace fs = std::filesystem;

struct TensorDifference {
  std::string name;  // of the file, without .npy
  uint64_t n_rows = 0, n_cols = 0;
  double max_abs = 0;      // infinite where only one of two values is finite
  double rel_rms = 0;      // sqrt(Σ(a-b)² / Σa²); 0 where both are all 0
  std::string missing_in;  // the directory that lacks it; "" when both have it
};

Result<std::set<std::string>> names_in(const std::string& dir) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".npy") names.insert(it->path().stem().string());
  if (error) return fail(ErrorCode::io, "{}: {}", escape_for_display(dir), error.message());
  if (names.empty()) return fail(ErrorCode::not_found, "{}: got no .npy files, expected a trace", dir);
  return names;
}

Result<TensorDifference> difference_of(const std::string& base_dir, const std::string& other_dir,
                                       const std::string& name) {
  TAMIS_TRY(const NpyMatrix base, read_npy(fmt::format("{}/{}.npy", base_dir, name)));
  TAMIS_TRY(const NpyMatrix other, read_npy(fmt::format("{}/{}.npy", other_dir, name)));
  if (base.n_rows != other.n_rows || base.n_cols != other.n_cols)
    return fail(ErrorCode::shape, "{}/{}.npy: got shape [{}, {}], expected [{}, {}] as in {}", other_dir, name,
                other.n_rows, other.n_cols, base.n_rows, base.n_cols, base_dir);
  TensorDifference out{.name = name, .n_rows = base.n_rows, .n_cols = base.n_cols};
  double squares = 0, base_squares = 0;
  for (size_t i = 0; i < base.values.size(); ++i) {
    const double a = base.values[i], b = other.values[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      base_squares += std::isfinite(a) ? a * a : 0;
      continue;
    }
    const double distance = std::isfinite(a - b) ? std::abs(a - b) : INFINITY;
    out.max_abs = std::max(out.max_abs, distance);
    squares += distance * distance;
    base_squares += std::isfinite(a) ? a * a : 0;
  }
  out.rel_rms = squares == 0 ? 0 : base_squares == 0 ? INFINITY : std::sqrt(squares / base_squares);
  return out;
}

struct Limits {
  std::optional<double> max_abs, max_rms;  // neither: any difference is past the limit, and no failure

  bool are_given() const { return max_abs || max_rms; }
  bool is_past(const TensorDifference& difference) const {
    if (!difference.missing_in.empty()) return true;
    if (!are_given()) return difference.max_abs > 0;
    return (max_abs && difference.max_abs > *max_abs) || (max_rms && difference.rel_rms > *max_rms);
  }
};

std::string tensor_json(const TensorDifference& difference) {
  Json out = Json::object();
  out.set("schema", 1).set("tensor", difference.name);
  if (!difference.missing_in.empty()) return out.set("missing_in", difference.missing_in).dump() + "\n";
  out.set("n_rows", difference.n_rows).set("n_cols", difference.n_cols);
  return out.set("max_abs", difference.max_abs).set("rel_rms", difference.rel_rms).dump() + "\n";
}

std::string as_json(const std::vector<TensorDifference>& all, const TensorDifference* first) {
  std::string text;
  for (const TensorDifference& difference : all) text += tensor_json(difference);
  Json last = Json::object();
  last.set("schema", 1).set("n_tensors", uint64_t{all.size()});
  last.set("first_past", first == nullptr ? Json() : Json(first->name));
  return text + last.dump() + "\n";
}

std::string as_text(const std::vector<TensorDifference>& all, const TensorDifference* first, const Style& style) {
  Table table({Align::left, Align::right, Align::right, Align::right}, "");
  table.add({"tensor", "shape", "max |A-B|", "rel rms"});
  for (const TensorDifference& difference : all) {
    const std::string name = &difference == first ? style.paint(Color::red, difference.name) : difference.name;
    if (!difference.missing_in.empty())
      table.add({name, "", "", "missing in " + difference.missing_in});
    else
      table.add({name, fmt::format("{} x {}", difference.n_rows, difference.n_cols),
                 fmt::format("{:.3g}", difference.max_abs), fmt::format("{:.3g}", difference.rel_rms)});
  }
  return table.text() + (first == nullptr ? "none is past the limit\n" : "first past the limit: " + first->name + "\n");
}

}  // namespace

Result<int> compare_traces(const Args& args) {
  const std::string base_dir = args.text("A"), other_dir = args.text("B");
  TAMIS_TRY(const std::set<std::string> base_names, names_in(base_dir));
  TAMIS_TRY(const std::set<std::string> other_names, names_in(other_dir));
  std::set<std::string> names = base_names;
  names.insert(other_names.begin(), other_names.end());
  std::vector<TensorDifference> all;
  for (const std::string& name : names) {
    if (!base_names.contains(name)) {
      all.push_back({.name = name, .missing_in = base_dir});
    } else if (!other_names.contains(name)) {
      all.push_back({.name = name, .missing_in = other_dir});
    } else {
      TAMIS_TRY(TensorDifference difference, difference_of(base_dir, other_dir, name));
      all.push_back(std::move(difference));
    }
  }
  Limits limits;
  if (args.has("--max-abs")) limits.max_abs = args.real("--max-abs");
  if (args.has("--max-rms")) limits.max_rms = args.real("--max-rms");
  const auto found = std::ranges::find_if(all, [&](const TensorDifference& d) { return limits.is_past(d); });
  const TensorDifference* const first = found == all.end() ? nullptr : &*found;
  TAMIS_TRY_STATUS(print_out(args.flag("--json") ? as_json(all, first) : as_text(all, first, Style::from_args(args))));
  if (first == nullptr || (!limits.are_given() && first->missing_in.empty())) return 0;
  if (!first->missing_in.empty())
    return fail(ErrorCode::check_failed, "{}: got no tensor {}, expected it as in the other", first->missing_in,
                first->name);
  return fail(ErrorCode::check_failed, "{}: {}: got max |A-B| {:.6g}, rel rms {:.6g}, past the limit", other_dir,
              first->name, first->max_abs, first->rel_rms);
}

}  // namespace tamis::cli
