// The one forward pass of every decoder-only architecture: reads the BlockSpec, calls the backend's ops in order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "compute/backend.h"
#include "models/model.h"

namespace tamis {

// The tokens of one step, of any number of sequences. Tokens of one sequence come in order and continue its cache
// without gaps: the first has position cache->n_tokens().
struct Batch {
  std::span<const int32_t> tokens;        // [n]; each < n_vocab
  std::span<const KvSlot> slots;          // [n]: cache of the token's sequence, position in it
  std::span<const uint32_t> logits_rows;  // indices into tokens, ascending: those whose next-token logits are wanted
  // The last layer's feed-forward and the final norm are computed for every token, for those who look at them.
  bool keeps_all_rows = false;
  // Takes the logits piece by piece, so that they need not all be in memory: rows [n, n_vocab] of consecutive
  // logits_rows, the first of them number first_row. Its error ends the step. Null: forward() returns them all.
  std::function<Status(size_t first_row, std::span<const float> rows)> on_logits = nullptr;
};

// Called with named intermediates ("attn_norm", "q", "attn_out", "ffn_out", …; layer −1: model-wide) while they are
// valid.
using Probe = std::function<void(std::string_view name, int32_t layer_idx, TensorView value)>;

// Called with the inputs of a mixture's maps, as Backend::OnExperts is.
using ExpertProbe =
    std::function<void(uint32_t layer_idx, TensorView input, TensorView hidden, std::span<const ExpertRows> rows)>;

// Runs the batch; caches are committed only when all went well. Returns logits [logits_rows.size(), n_vocab],
// row-major, host memory; nothing where on_logits takes them. A row's bits do not depend on the rest of the batch.
// Errors: invalid_argument (token or position out of range, gaps), out_of_memory, device.
Result<std::vector<float>> forward(const Model& model, Backend& backend, const Batch& batch,
                                   const Probe& probe = nullptr, const ExpertProbe& expert_probe = nullptr);

}  // namespace tamis
