// One row of values feeds every format.
#include "cli/bench_report.h"

#include <cmath>
#include <numeric>

#include "base/progress.h"
#include "cli/style.h"

namespace tamis::cli {
namespace {

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double center = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - center) * (value - center);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

Json numbers(const std::vector<double>& values) {
  Json out = Json::array();
  for (const double value : values) out.push_back(value);
  return out;
}

Json whole(double value) { return Json(static_cast<int64_t>(std::llround(value))); }

Json whole_numbers(const std::vector<double>& values) {
  Json out = Json::array();
  for (const double value : values) out.push_back(whole(value));
  return out;
}

std::vector<double> nanoseconds(const std::vector<double>& seconds) {
  std::vector<double> out;
  for (const double value : seconds) out.push_back(value * 1e9);
  return out;
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::vector<std::string> cells(const BenchLine& line) {
  const BenchSubject& subject = line.subject;
  const double read = line.read_bytes_per_s(), macs = line.macs_per_s();
  return {subject.model_type,
          human_bytes(subject.model_bytes),
          human_count(subject.n_params),
          subject.layout == "auto" ? subject.backend : subject.backend + " " + subject.layout,
          std::to_string(subject.n_threads),
          line.test.name(),
          fmt::format("{:.2f} ± {:.2f}", line.mean_rate(), line.rate_deviation()),
          fmt::format("{:.1f} ({:.0f} %)", read * 1e-9, 100 * share(read, line.machine.read_bytes_per_s)),
          fmt::format("{:.1f} ({:.0f} %)", macs * 1e-9, 100 * share(macs, line.machine.int8_macs_per_s))};
}

const std::vector<std::string> kTitles = {"model", "size", "params", "backend", "threads",
                                          "test",  "t/s",  "GB/s",   "GMAC/s"};

std::string markdown_row(const std::vector<std::string>& row) {
  std::string out = "|";
  for (const std::string& cell : row) out += " " + cell + " |";
  return out + "\n";
}

std::string csv_cell(const Json& value) {
  std::string text = value.is_string() ? value.as_string() : value.dump();
  for (size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, 1, '"');
  return "\"" + text + "\"";
}

std::string csv_row(const BenchLine& line, bool is_head) {
  std::string out;
  const Json row = bench_json(line);
  for (const auto& [key, value] : row.as_object()) {
    if (value.is_array() || value.is_object()) continue;
    out += (out.empty() ? "" : ",") + (is_head ? key : csv_cell(value));
  }
  return out + "\n";
}

// Where a test's time went.
std::string parts_text(const BenchLine& line) {
  if (line.result.parts.empty()) return "";
  double total = 0;
  for (const BenchPart& part : line.result.parts) total += part.seconds;
  Table table({Align::left, Align::right, Align::right});
  for (const BenchPart& part : line.result.parts)
    table.add({part.name, fmt::format("{:.2f} ms", part.seconds * 1e3),
               fmt::format("{:.1f} %", 100 * share(part.seconds, total))});
  return "\n" + line.test.name() + "\n" + table.text();
}

}  // namespace

std::vector<double> BenchLine::rates() const {
  std::vector<double> out;
  for (const double seconds : result.seconds) out.push_back(static_cast<double>(test.n_tokens()) / seconds);
  return out;
}
double BenchLine::mean_rate() const { return mean(rates()); }
double BenchLine::rate_deviation() const { return deviation(rates()); }
double BenchLine::read_bytes_per_s() const {
  return share(result.work.weight_bytes + result.work.kv_bytes, mean(result.seconds));
}
double BenchLine::macs_per_s() const { return share(result.work.macs, mean(result.seconds)); }

Json bench_json(const BenchLine& line) {
  const BenchSubject& subject = line.subject;
  const std::vector<double> ns = nanoseconds(line.result.seconds);
  Json out = Json::object();
  out.set("schema", 1).set("test", line.test.name()).set("build_version", "0.1.0").set("cpu_info", subject.cpu);
  out.set("gpu_info", "").set("backends", subject.backend).set("model_filename", subject.path);
  out.set("model_type", subject.model_type).set("model_size", subject.model_bytes);
  out.set("model_n_params", subject.n_params).set("n_batch", subject.n_batch).set("n_ubatch", subject.n_ubatch);
  out.set("n_threads", subject.n_threads).set("type_k", subject.type_k).set("type_v", subject.type_v);
  out.set("n_gpu_layers", 0).set("layout", subject.layout).set("activations", subject.activations);
  out.set("n_prompt", line.test.n_prompt).set("n_gen", line.test.n_gen).set("n_parallel", line.test.n_seqs);
  out.set("n_depth", line.test.depth).set("test_time", line.test_time);
  out.set("avg_ns", whole(mean(ns))).set("stddev_ns", whole(deviation(ns)));
  out.set("avg_ts", line.mean_rate()).set("stddev_ts", line.rate_deviation());
  out.set("weight_bytes", whole(line.result.work.weight_bytes)).set("kv_bytes", whole(line.result.work.kv_bytes));
  out.set("macs", whole(line.result.work.macs));
  const double read = line.read_bytes_per_s(), macs = line.macs_per_s();
  const MachineSpeed& machine = line.machine;
  out.set("read_bytes_per_s", read).set("machine_read_bytes_per_s", machine.read_bytes_per_s);
  out.set("read_share", share(read, machine.read_bytes_per_s));
  out.set("macs_per_s", macs).set("machine_macs_per_s", machine.int8_macs_per_s);
  out.set("mac_share", share(macs, machine.int8_macs_per_s));
  if (!line.result.parts.empty()) {
    Json parts = Json::object();
    for (const BenchPart& part : line.result.parts) parts.set(part.name, part.seconds);
    out.set("part_seconds", std::move(parts));
  }
  return out.set("samples_ns", whole_numbers(ns)).set("samples_ts", numbers(line.rates()));
}

std::string bench_head(BenchFormat format) {
  if (format == BenchFormat::json) return "[\n";
  if (format != BenchFormat::markdown) return "";
  std::string rule = "|";
  for (size_t i = 0; i < kTitles.size(); ++i) rule += i == 0 || i == 3 || i == 5 ? " --- |" : " ---: |";
  return markdown_row(kTitles) + rule + "\n";
}

std::string bench_text(BenchFormat format, const BenchLine& line, size_t idx) {
  switch (format) {
    case BenchFormat::table: return "";
    case BenchFormat::markdown: return markdown_row(cells(line));
    case BenchFormat::csv: return (idx == 0 ? csv_row(line, true) : "") + csv_row(line, false);
    case BenchFormat::json: return (idx == 0 ? "" : ",\n") + bench_json(line).dump();
    case BenchFormat::json_lines: break;
  }
  return bench_json(line).dump() + "\n";
}

std::string bench_tail(BenchFormat format, const std::vector<BenchLine>& lines) {
  if (format == BenchFormat::json) return "\n]\n";
  if (format != BenchFormat::table) return "";
  Table table({Align::left, Align::right, Align::right, Align::left, Align::right, Align::left, Align::right,
               Align::right, Align::right},
              "");
  table.add(kTitles);
  for (const BenchLine& line : lines) table.add(cells(line));
  std::string text = table.text();
  for (const BenchLine& line : lines) text += parts_text(line);
  return text;
}

}  // namespace tamis::cli
