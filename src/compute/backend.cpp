// The composed ops of Backend, in terms of the simple ones: what a backend gets without writing a fused kernel.
#include "compute/backend.h"

#include <algorithm>

namespace tamis {

void Backend::qkv(TensorView x, std::span<const Linear, 3> linears, std::span<const TensorView, 3> out) {
  for (size_t i = 0; i < 3; ++i) matmul(x, linears[i], out[i]);
}

void Backend::gate_up(TensorView x, const Linear& gate, const Linear& up, Activation activation, TensorView out,
                      TensorView scratch) {
  matmul(x, gate, out);
  matmul(x, up, scratch);
  activate(out, activation, scratch);
}

namespace {

// Which rows of a batch each expert computes: expert e owns entries first[e] … first[e+1]-1 of `assignment`, each the
// index token · n_used + rank. Counting sort: tokens stay in order.
struct ExpertGroups {
  std::vector<uint32_t> first;
  std::vector<uint32_t> assignment;
};

ExpertGroups group_by_expert(const Routing& routing, size_t n_expert) {
  ExpertGroups groups;
  groups.first.assign(n_expert + 1, 0);
  groups.assignment.resize(routing.expert.size());
  for (const uint32_t e : routing.expert) ++groups.first[e + 1];
  for (size_t e = 0; e < n_expert; ++e) groups.first[e + 1] += groups.first[e];
  std::vector<uint32_t> next(groups.first.begin(), groups.first.end() - 1);
  for (uint32_t i = 0; i < routing.expert.size(); ++i) groups.assignment[next[routing.expert[i]]++] = i;
  return groups;
}

}  // namespace

Status Backend::moe_ffn(TensorView x, const Experts& experts, const Routing& routing, TensorView out) {
  const ExpertGroups groups = group_by_expert(routing, experts.gate.size());
  const size_t n_total = routing.expert.size();
  size_t n_most = 0;
  for (size_t e = 0; e + 1 < groups.first.size(); ++e)
    n_most = std::max<size_t>(n_most, groups.first[e + 1] - groups.first[e]);
  const size_t n_ff = experts.gate[0].weight->n_out();
  TAMIS_TRY(const Buffer gathered, alloc(n_most * x.n_cols));
  TAMIS_TRY(const Buffer hidden, alloc(2 * n_most * n_ff));
  TAMIS_TRY(const Buffer answers, alloc(n_total * out.n_cols));  // expert by expert

  std::vector<uint32_t> rows;
  std::vector<uint32_t> place(n_total);  // where in `answers` entry token·n_used+rank lies
  for (size_t e = 0; e < experts.gate.size(); ++e) {
    const uint32_t first = groups.first[e];
    const size_t n = groups.first[e + 1] - first;
    if (n == 0) continue;
    rows.resize(n);
    for (size_t i = 0; i < n; ++i) {
      rows[i] = groups.assignment[first + i] / routing.n_used;
      place[groups.assignment[first + i]] = first + static_cast<uint32_t>(i);
    }
    const TensorView input = gathered.view(n, x.n_cols);
    const TensorView inner = hidden.view(n, n_ff);
    gather_rows(x, rows, input);
    gate_up(input, experts.gate[e], experts.up[e], experts.activation, inner, {inner.data + n * n_ff, n, n_ff});
    matmul(inner, experts.down[e], answers.view(n_total, out.n_cols).rows(first, n));
  }

  std::vector<uint32_t> at(out.n_rows);
  std::vector<float> weight(out.n_rows);
  for (uint32_t rank = 0; rank < routing.n_used; ++rank) {
    for (size_t i = 0; i < out.n_rows; ++i) {
      at[i] = place[i * routing.n_used + rank];
      weight[i] = routing.weight[i * routing.n_used + rank];
    }
    add_scaled_rows(answers.view(n_total, out.n_cols), at, weight, rank == 0, out);
  }
  return {};
}

}  // namespace tamis
