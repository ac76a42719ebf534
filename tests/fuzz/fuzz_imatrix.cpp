// fuzz: rooms=formats,base
// Any bytes as an importance matrix: an error, or one whose numbers are sound and come from the bytes, that can be
// merged with itself and looked at.
#include <cmath>
#include <cstdlib>

#include "formats/imatrix_statistics.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  auto imatrix = tamis::read_imatrix(std::make_shared<tamis::MemorySource>(std::as_bytes(bytes)));
  if (!imatrix) return 0;
  size_t n_values = 0;
  for (const auto& [name, entry] : imatrix->entries) {
    if (entry.n_mat() == 0 || entry.n_cols() == 0 || entry.sums.size() != entry.n_mat() * entry.n_cols()) std::abort();
    n_values += entry.sums.size() + entry.counts.size();
    for (uint64_t i = 0; i < entry.n_mat(); ++i) {
      const auto importance = tamis::imatrix_importance(entry, name, entry.n_mat(), entry.n_cols(), i);
      if (!importance) std::abort();
      for (const float value : importance->values)
        if (!std::isfinite(value) || value < 0) std::abort();
    }
  }
  if (n_values > size) std::abort();  // four bytes each in the file
  for (const auto& [name, correlations] : imatrix->correlations) {
    const auto products = tamis::input_products(imatrix->entries.at(name), *correlations);
    if (!products) std::abort();
    for (const float value : *products)
      if (!std::isfinite(value)) std::abort();
  }
  const tamis::Imatrix copy = *imatrix;
  if (!tamis::merge_imatrix(*imatrix, copy)) std::abort();
  if (tamis::summarise(*imatrix).weights.size() != imatrix->entries.size()) std::abort();
  return 0;
}
