// What `tamis bench` found, as a table, CSV or JSON with llama-bench's field names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cpu/machine_speed.h"
#include "engine/bench.h"
#include "formats/json.h"

namespace tamis::cli {

// What all tests of one loaded model have in common.
struct BenchSubject {
  std::string path, model_type, backend, layout, activations, type_k, type_v, cpu;
  uint64_t model_bytes = 0, n_params = 0;
  uint32_t n_batch = 0, n_ubatch = 0, n_threads = 0;
};

struct BenchLine {
  BenchSubject subject;
  BenchTest test;
  BenchResult result;
  MachineSpeed machine;   // measured just before and after: the better of the two
  std::string test_time;  // when it began, UTC, ISO 8601

  std::vector<double> rates() const;  // tokens a second of each repeat
  double mean_rate() const;
  double rate_deviation() const;    // sample standard deviation; 0 for one repeat
  double read_bytes_per_s() const;  // weights and keys, at the mean time
  double macs_per_s() const;
};

Json bench_json(const BenchLine& line);

enum class BenchFormat { table, markdown, csv, json, json_lines };
// The text before the first line, one line's text, and the text after the last. `idx`: of the line. A table is printed
// whole at the end.
std::string bench_head(BenchFormat format);
std::string bench_text(BenchFormat format, const BenchLine& line, size_t idx);
std::string bench_tail(BenchFormat format, const std::vector<BenchLine>& lines);

}  // namespace tamis::cli
