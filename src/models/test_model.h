// A small model with random weights for checking a machine from end to end without a download (tamis selfcheck): qwen3,
// 4 layers, n_embd 256, 4 heads of 64, 2 heads of keys and values, feed-forward 1024, 512 tokens, output tied to the
// embedding; embedding N(0, 1), matrices N(0, 0.036²), norms 1, all f32.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "formats/gguf_writer.h"

namespace tamis {

inline constexpr uint32_t kTestModelVocab = 512;

// Adds the model's keys and tensors to `writer` (which may hold a vocabulary of kTestModelVocab tokens already) and
// writes the file. Equal seeds give equal bytes. Errors: io.
Status write_test_model(GgufWriter& writer, uint64_t seed, const std::string& path);

}  // namespace tamis
