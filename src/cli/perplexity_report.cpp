// The figures as text and JSON. KL in nats; changes of probability in percent, as llama-perplexity prints them.
#include "cli/perplexity_report.h"

#include <fmt/format.h>

#include "cli/style.h"
#include "formats/json.h"

namespace tamis::cli {
namespace {

std::string plus_minus(const Estimate& estimate, double factor = 1) {
  return fmt::format("{:.6f} ± {:.6f}", factor * estimate.value, factor * estimate.error);
}

std::string percentile_name(size_t i) {
  return i == kMedianIdx ? std::string("median") : fmt::format("{} %", kPercentiles[i]);
}

// "kl_p99", "kl_p99_9", "kl_median".
std::string percentile_key(std::string_view prefix, size_t i) {
  if (i == kMedianIdx) return fmt::format("{}_median", prefix);
  std::string number = fmt::format("{}", kPercentiles[i]);
  if (const size_t point = number.find('.'); point != std::string::npos) number[point] = '_';
  return fmt::format("{}_p{}", prefix, number);
}

void add_spread(Table& table, std::string_view what, const Spread& spread, double factor) {
  table.add({fmt::format("{}, max", what), fmt::format("{:.6f}", factor * spread.max)});
  for (size_t i = 0; i < std::size(kPercentiles); ++i)
    table.add({fmt::format("{}, {}", what, percentile_name(i)), fmt::format("{:.6f}", factor * spread.percentiles[i])});
  table.add({fmt::format("{}, min", what), fmt::format("{:.6f}", factor * spread.min)});
}

void add_spread(Json& out, std::string_view prefix, const Spread& spread) {
  out.set(fmt::format("{}_max", prefix), spread.max);
  for (size_t i = 0; i < std::size(kPercentiles); ++i) out.set(percentile_key(prefix, i), spread.percentiles[i]);
  out.set(fmt::format("{}_min", prefix), spread.min);
}

Json interval_json(const Interval& interval) {
  Json out = Json::array();
  out.push_back(interval.low);
  out.push_back(interval.high);
  return out;
}

}  // namespace

std::string window_text_head() {
  return "window            PPL        ln(PPL(Q)/PPL(base))           KL divergence               Δp RMS          same "
         "top\n";
}

std::string window_text(const Divergence& running) {
  const auto pair = [](const Estimate& estimate, double factor, int digits) {
    return fmt::format("{:>9.{}f} ± {:>8.{}f}", factor * estimate.value, digits, factor * estimate.error, digits);
  };
  return fmt::format("{:>6}  {}  {}  {}  {} %  {} %\n", running.n_windows, pair(running.perplexity, 1, 4),
                     pair(running.ln_ratio, 1, 5), pair(running.kl, 1, 5), pair(running.change_rms, 100, 3),
                     pair(running.same_top, 100, 3));
}

std::string window_json(std::string_view file, const Divergence& running, double window_kl) {
  Json out = Json::object();
  out.set("schema", 1).set("window", running.n_windows).set("file", file);
  out.set("perplexity", running.perplexity.value).set("base_perplexity", running.base_perplexity.value);
  out.set("kl", window_kl).set("kl_mean", running.kl.value).set("same_top", running.same_top.value);
  return out.dump() + "\n";
}

std::string statistics_text(const ComparisonRun& run, const ComparedModel& model) {
  const Divergence& d = model.divergence;
  Table table({Align::left, Align::left});
  table.add({"mean PPL(Q)", plus_minus(d.perplexity)});
  table.add({"mean PPL(base)", plus_minus(d.base_perplexity)});
  table.add({"cor(ln(PPL(Q)), ln(PPL(base)))", fmt::format("{:.2f} %", 100 * d.correlation)});
  table.add({"mean ln(PPL(Q)/PPL(base))", plus_minus(d.ln_ratio)});
  table.add({"mean PPL(Q)/PPL(base)", fmt::format("{}   95 % of resampled texts: {:.6f} to {:.6f}", plus_minus(d.ratio),
                                                  d.ratio_interval.low, d.ratio_interval.high)});
  table.add({"mean PPL(Q)-PPL(base)", plus_minus(d.difference)});
  table.add({"mean KLD", fmt::format("{}   95 % of resampled texts: {:.6f} to {:.6f}", plus_minus(d.kl),
                                     d.kl_interval.low, d.kl_interval.high)});
  add_spread(table, "KLD", d.kl_spread, 1);
  table.add({"mean Δp", plus_minus(d.change, 100) + " %"});
  add_spread(table, "Δp in %", d.change_spread, 100);
  table.add({"RMS Δp", plus_minus(d.change_rms, 100) + " %"});
  table.add({"same top p", plus_minus(d.same_top, 100) + " %"});
  return fmt::format("{} against {}: {} windows of {} tokens, {} scored\n", model.file, run.base, d.n_windows,
                     run.n_ctx, d.n_scored) +
         table.text();
}

std::string statistics_json(const ComparisonRun& run, const ComparedModel& model) {
  const Divergence& d = model.divergence;
  Json out = Json::object();
  out.set("schema", 1).set("file", model.file).set("base", run.base);
  out.set("perplexity", d.perplexity.value).set("stderr", d.perplexity.error);
  out.set("base_perplexity", d.base_perplexity.value).set("base_stderr", d.base_perplexity.error);
  out.set("ppl_ratio", d.ratio.value).set("ppl_ratio_stderr", d.ratio.error);
  out.set("ppl_ratio_ci95", interval_json(d.ratio_interval));
  out.set("ln_ratio", d.ln_ratio.value).set("ln_ratio_stderr", d.ln_ratio.error);
  out.set("ppl_difference", d.difference.value).set("ppl_difference_stderr", d.difference.error);
  out.set("correlation", d.correlation);
  out.set("kl_mean", d.kl.value).set("kl_stderr", d.kl.error).set("kl_ci95", interval_json(d.kl_interval));
  add_spread(out, "kl", d.kl_spread);
  out.set("dp_mean", d.change.value).set("dp_mean_stderr", d.change.error);
  add_spread(out, "dp", d.change_spread);
  out.set("dp_rms", d.change_rms.value).set("dp_rms_stderr", d.change_rms.error);
  out.set("same_top", d.same_top.value).set("same_top_stderr", d.same_top.error);
  out.set("n_windows", d.n_windows).set("n_ctx", run.n_ctx).set("n_scored", d.n_scored);
  out.set("label", model.label).set("bits_per_weight", model.bits_per_weight).set("size_bytes", model.size_bytes);
  out.set("tokens_per_second", run.tokens_per_second);
  return out.dump() + "\n";
}

std::string overview_text(const ComparisonRun& run) {
  if (run.models.size() < 2) return "";
  constexpr auto kRight = Align::right;
  Table table({Align::left, kRight, kRight, kRight, kRight, kRight, kRight});
  table.add({"file", "bits/weight", "PPL", "PPL ratio", "mean KLD", "99 % KLD", "same top"});
  constexpr size_t k99 = 1;
  static_assert(kPercentiles[k99] == 99);
  for (const ComparedModel& model : run.models) {
    const Divergence& d = model.divergence;
    table.add({model.file, fmt::format("{:.3f}", model.bits_per_weight), fmt::format("{:.4f}", d.perplexity.value),
               fmt::format("{:.5f}", d.ratio.value), fmt::format("{:.6f}", d.kl.value),
               fmt::format("{:.6f}", d.kl_spread.percentiles[k99]), fmt::format("{:.2f} %", 100 * d.same_top.value)});
  }
  return "\n" + table.text();
}

}  // namespace tamis::cli
