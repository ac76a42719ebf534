// fuzz: rooms=engine,models,text,compute,formats,quants,base
// Any bytes as a base file of KL divergence: an error, or a file whose records can be read to the last, each an error
// or log-probabilities that are finite.
#include <cmath>
#include <cstdlib>

#include "engine/kl_base.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  const auto file = tamis::KlBaseFile::open(std::make_shared<tamis::MemorySource>(std::as_bytes(bytes)));
  if (!file) return 0;
  if (file->tokens().size() > size / 4) std::abort();
  for (uint32_t chunk = 0; chunk < file->n_chunks(); ++chunk) {
    for (uint32_t row = 0; row < file->n_scored(); ++row) {
      const auto record = file->read(chunk, row);
      if (!record) continue;
      for (size_t i = 0; i < file->n_vocab(); ++i)
        if (!std::isfinite(record->log_p(i))) std::abort();
    }
  }
  return 0;
}
