// How `tamis perplexity` shows its figures: text, JSON lines and a page with plots.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/divergence.h"

namespace tamis::cli {

// What was compared, for the reader.
struct ComparedModel {
  std::string file;   // as given
  std::string label;  // "Q4_K_M", or the file's name when it has no such label
  double bits_per_weight = 0;
  uint64_t size_bytes = 0;
  Divergence divergence;  // from the base
};

struct ComparisonRun {
  std::string base, text;  // the base model (or base file) and the text, as given
  uint32_t n_ctx = 0;
  double tokens_per_second = 0;  // of all models together
  std::vector<ComparedModel> models;
};

// One line a window, with the means so far.
std::string window_text_head();
std::string window_text(const Divergence& running);
std::string window_json(std::string_view file, const Divergence& running, double window_kl);

// The statistics of one model, as llama-perplexity lists them, or as the last JSON line.
std::string statistics_text(const ComparisonRun& run, const ComparedModel& model);
std::string statistics_json(const ComparisonRun& run, const ComparedModel& model);

// All models side by side; "" for one.
std::string overview_text(const ComparisonRun& run);

// A page that needs nothing but a browser: plots of mean KL and same top by bits a weight, and all figures.
std::string comparison_page(const ComparisonRun& run);

}  // namespace tamis::cli
