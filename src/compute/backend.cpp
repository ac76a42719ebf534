// The composed ops of Backend, in terms of the simple ones: what a backend gets without writing a fused kernel.
#include "compute/backend.h"

#include <algorithm>
#include <functional>

namespace tamis {

Result<std::unique_ptr<WeightStorage>> Backend::load_affine(std::string_view tensor, const AffineRows&, uint64_t,
                                                            uint64_t) {
  return fail(ErrorCode::unsupported, "{}: backend {} has no form for packed codes", escape_for_display(tensor),
              name());
}

void Backend::qkv(TensorView x, std::span<const Linear, 3> linears, std::span<const TensorView, 3> out) {
  for (size_t i = 0; i < 3; ++i) matmul(x, linears[i], out[i]);
}

void Backend::gate_up(TensorView x, const Linear& gate, const Linear& up, Activation activation, TensorView out,
                      TensorView scratch) {
  matmul(x, gate, out);
  matmul(x, up, scratch);
  activate(out, activation, scratch);
}

void Backend::expert_gate_up(TensorView x, const Experts& experts, std::span<const ExpertRows> rows, TensorView out,
                             TensorView scratch) {
  for (const ExpertRows& part : rows)
    gate_up(x.rows(part.first, part.n), experts.gate[part.expert_idx], experts.up[part.expert_idx], experts.activation,
            out.rows(part.first, part.n), scratch.rows(part.first, part.n));
}

void Backend::expert_down(TensorView x, const Experts& experts, std::span<const ExpertRows> rows, TensorView out) {
  for (const ExpertRows& part : rows)
    matmul(x.rows(part.first, part.n), experts.down[part.expert_idx], out.rows(part.first, part.n));
}

namespace {

// The assignments of a batch, expert by expert; one is the index token · n_used + rank. Counting sort: an expert's
// tokens stay in order.
struct SortedAssignments {
  std::vector<uint32_t> assignment;  // [n_tokens · n_used]
  std::vector<ExpertRows> rows;      // of the experts that have any, those with most first
};

SortedAssignments sort_by_expert(const Routing& routing, size_t n_expert) {
  SortedAssignments sorted;
  std::vector<uint32_t> first(n_expert + 1, 0);
  for (const uint32_t e : routing.expert) ++first[e + 1];
  for (size_t e = 0; e < n_expert; ++e) first[e + 1] += first[e];
  for (uint32_t e = 0; e < n_expert; ++e)
    if (first[e + 1] != first[e]) sorted.rows.push_back({e, first[e], first[e + 1] - first[e]});
  std::ranges::stable_sort(sorted.rows, std::ranges::greater{}, &ExpertRows::n);
  sorted.assignment.resize(routing.expert.size());
  for (uint32_t i = 0; i < routing.expert.size(); ++i) sorted.assignment[first[routing.expert[i]]++] = i;
  return sorted;
}

}  // namespace

Status Backend::moe_ffn(TensorView x, const Experts& experts, const Routing& routing, TensorView out,
                        const OnExperts& on_experts) {
  const SortedAssignments sorted = sort_by_expert(routing, experts.gate.size());
  const size_t n_total = routing.expert.size(), n_ff = experts.gate[0].weight->n_out();
  TAMIS_TRY(const Buffer gathered, alloc(n_total * x.n_cols));
  TAMIS_TRY(const Buffer hidden, alloc(n_total * n_ff));
  TAMIS_TRY(const Buffer scratch, alloc(uses_scratch() ? n_total * n_ff : 0));
  TAMIS_TRY(const Buffer answers, alloc(n_total * out.n_cols));  // expert by expert
  std::vector<uint32_t> rows(n_total), place(n_total);  // place: where in `answers` entry token·n_used+rank lies
  for (uint32_t i = 0; i < n_total; ++i) {
    rows[i] = sorted.assignment[i] / routing.n_used;
    place[sorted.assignment[i]] = i;
  }
  const TensorView input = gathered.view(n_total, x.n_cols), inner = hidden.view(n_total, n_ff);
  const TensorView parts = answers.view(n_total, out.n_cols);
  gather_rows(x, rows, input);
  expert_gate_up(input, experts, sorted.rows, inner, scratch.view(n_total, n_ff));
  if (on_experts) on_experts(input, inner, sorted.rows);
  expert_down(inner, experts, sorted.rows, parts);

  std::vector<uint32_t> at(out.n_rows);
  std::vector<float> weight(out.n_rows);
  for (uint32_t rank = 0; rank < routing.n_used; ++rank) {
    for (size_t i = 0; i < out.n_rows; ++i) {
      at[i] = place[i * routing.n_used + rank];
      weight[i] = routing.weight[i * routing.n_used + rank];
    }
    add_scaled_rows(parts, at, weight, rank == 0, out);
  }
  return {};
}

}  // namespace tamis
