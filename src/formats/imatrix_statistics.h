// What an importance matrix says of itself: the figures of llama-imatrix --show-statistics.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/imatrix.h"

namespace tamis {

// Of the mean squares of one weight's inputs; experts never chosen are left out.
struct ImatrixStatistics {
  std::string name;                   // "blk.3.attn_q.weight"
  std::optional<uint32_t> layer_idx;  // 3
  std::string kind;                   // "attn_q.weight": the name without its layer
  uint64_t n = 0;                     // values
  double sum = 0, min = 0, max = 0, mean = 0, deviation = 0;
  double active = 0;              // share of values above 1e-5
  double entropy = 0;             // of value / sum, bits
  double normalised_entropy = 0;  // entropy / log2 n
  double outlying = 0;            // share of values more than a standard deviation from the mean ("ZD")
  std::optional<double> cosine;   // similarity to the same kind in the layer before
};

// Means over the weights of one layer, weighted by their number of values.
struct ImatrixLayerStatistics {
  uint32_t layer_idx = 0;
  double sum = 0, outlying = 0;
  std::optional<double> cosine;
};

struct ImatrixSummary {
  std::vector<ImatrixStatistics> weights;      // most important first: by sum
  std::vector<ImatrixLayerStatistics> layers;  // in order
};

ImatrixSummary summarise(const Imatrix& imatrix);

}  // namespace tamis
