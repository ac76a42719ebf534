// y = scale · W x + bias: a matrix is cut into chunks of panels, one item of work each; a chunk meets all tokens, block
// of tokens by block, so that its codes are read and unpacked once and the tokens' codes stay in the second cache.
#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "cpu/cpu_backend.h"
#include "cpu/plane_weight.h"
#include "quants/registry.h"

namespace tamis::cpu {
namespace {

constexpr size_t kMostPanels = 8;         // of a chunk
constexpr size_t kColumnsTogether = 256;  // tokens of a block: with a chunk's result they fit the second cache

const CpuWeight& cpu_weight(const Linear& linear) { return static_cast<const CpuWeight&>(*linear.weight); }

// With so few columns reading the codes is what takes time: threads then walk stretches as long as they can.
constexpr size_t kReadingColumns = 4;

// While a thread waits it reads the beginning of what it will multiply next: this much fits its second cache beside
// what is in use. With many columns it waits for products, not for memory.
constexpr size_t kAheadBytes = size_t{256} << 10, kAheadColumns = 32;

// Panels of an item of work: whole runs of panels that lie together, unless threads would go without.
size_t chunk_panels(size_t n_panels_in_all, size_t n_columns, size_t n_threads) {
  const size_t most = n_columns <= kAheadColumns ? kPanelsTogether : kMostPanels;
  const size_t n = std::clamp<size_t>(n_panels_in_all / (n_threads * 4), 1, most);
  if (n >= kPanelsTogether) return n / kPanelsTogether * kPanelsTogether;
  return n_panels_in_all >= 3 * n_threads * kPanelsTogether ? kPanelsTogether : n;
}

}  // namespace

void CpuBackend::embed_rows(const WeightStorage& table, std::span<const int32_t> ids, float scale, TensorView out) {
  const auto& weight = static_cast<const CpuWeight&>(table);
  for (size_t first = 0; first < ids.size(); first += CpuWeight::kLookupsTogether) {
    const size_t n = std::min(CpuWeight::kLookupsTogether, ids.size() - first);
    for_ranges(n, 0, 8 * out.n_cols, [&, first, scale](size_t begin, size_t end, uint32_t) {
      for (size_t i = first + begin; i < first + end; ++i) {
        float* const row = out.row(i);
        weight.decode(static_cast<size_t>(ids[i]), 0, out.n_cols, row);
        for (size_t k = 0; k < out.n_cols; ++k) row[k] *= scale;
      }
    });
    weight.rows_were_looked_up(n);
  }
}

// One of each form and order that a group's weights read.
void CpuBackend::choose_columns(std::span<LinearGroup> groups) {
  size_t n_jobs = 0;
  for (const LinearGroup& group : groups) n_jobs += group.jobs.size();
  columns_.clear();
  columns_.reserve(n_jobs);  // jobs point into it
  for (const LinearGroup& group : groups) {
    const size_t first = columns_.size();
    for (LinearJob& job : group.jobs) {
      const CpuWeight& weight = cpu_weight(*job.linear);
      const ColumnForm form = weight.column_form();
      const std::span<const uint32_t> order = weight.input_order();
      auto found = columns_.begin() + static_cast<ptrdiff_t>(first);
      while (found != columns_.end() && !(found->form == form && std::ranges::equal(found->order, order))) ++found;
      if (found == columns_.end()) {
        columns_.push_back(
            {.x = group.x.data, .x_stride = group.x.n_cols, .n = group.x.n_rows, .form = form, .order = order});
        found = columns_.end() - 1;
      }
      job.columns = &*found;
    }
  }
}

void CpuBackend::order_columns() {
  size_t n_floats = 0;
  for (const Columns& columns : columns_) n_floats += columns.order.empty() ? 0 : columns.n * columns.order.size();
  if (n_floats == 0) return;
  if (ordered_.size() < n_floats) ordered_.resize(n_floats);
  float* out = ordered_.data();
  for (Columns& columns : columns_) {
    if (columns.order.empty()) continue;
    const size_t n_in = columns.order.size();
    for_ranges(columns.n, 0, n_in, [=, &columns](size_t begin, size_t end, uint32_t) {
      for (size_t i = begin; i < end; ++i)
        for (size_t k = 0; k < n_in; ++k) out[i * n_in + k] = columns.x[i * columns.x_stride + columns.order[k]];
    });
    columns.x = out;
    columns.x_stride = n_in;
    out += columns.n * n_in;
  }
}

void CpuBackend::pack_columns(std::span<LinearGroup> groups) {
  choose_columns(groups);
  order_columns();
  struct Part {
    Columns* columns;
    ColumnForm form;
    size_t n_blocks, first_block, offset;  // along K; among all parts; in packed_
  };
  std::vector<Part> parts;
  size_t n_blocks = 0, n_bytes = 0, n_elements = 0;
  for (Columns& columns : columns_) {
    if (columns.form == ColumnForm::f32) continue;
    parts.push_back({&columns, columns.form, columns.x_stride / form_block_len(columns.form), n_blocks, n_bytes});
    n_blocks += parts.back().n_blocks;
    n_bytes += columns.n * parts.back().n_blocks * form_block_bytes(columns.form);
    n_elements += columns.n * columns.x_stride;
  }
  if (parts.empty()) return;
  if (packed_.size() < n_bytes) packed_.resize(n_bytes);
  for (const Part& part : parts) part.columns->packed = packed_.data() + part.offset;
  for_ranges(n_blocks, 0, n_elements / n_blocks * 4, [&](size_t begin, size_t end, uint32_t) {
    for (const Part& part : parts) {
      const size_t from = std::max(begin, part.first_block), to = std::min(end, part.first_block + part.n_blocks);
      if (from < to)
        pack_blocks(*part.columns, part.form, part.n_blocks, from - part.first_block, to - part.first_block);
    }
  });
}

void CpuBackend::pack_blocks(const Columns& columns, ColumnForm form, size_t n_blocks, size_t begin, size_t end) const {
  const size_t block_len = form_block_len(form), step = Columns::step_len(columns.n, n_blocks * block_len) / block_len;
  while (begin < end) {
    const size_t first = begin / step * step, n_here = std::min(step, n_blocks - first);
    const size_t stop = std::min(end, first + n_here);
    int8_t* const out = const_cast<int8_t*>(columns.packed) + first * columns.n * form_block_bytes(form);
    kernels_.pack_columns({columns.x + first * block_len, columns.x_stride, columns.n, n_here, block_len, out},
                          begin - first, stop - begin);
    begin = stop;
  }
}

CpuBackend::Chunk CpuBackend::chunk_at(std::span<const LinearPart> parts, size_t item, size_t n_panels) {
  const LinearPart& part = *std::ranges::upper_bound(parts, item, {}, &LinearPart::end);
  const size_t n_after = (part.end - item) * n_panels;  // from here to the end, rounded up to whole chunks
  const size_t first = (part.n_panels + n_panels - 1) / n_panels * n_panels - n_after;
  return {&part, first, std::min(n_panels, part.n_panels - first)};
}

std::span<const ThreadPool::Ahead> CpuBackend::follow_course(std::span<const LinearPart> parts, size_t n_items,
                                                             size_t chunk) {
  if (pool_ == nullptr) return {};
  const WeightStorage* const first = parts.front().jobs.front().linear->weight;
  Course& course = courses_[first];
  course.begins.assign(pool_->n_threads(), {});
  for (uint32_t thread = 0; thread < pool_->n_threads(); ++thread) {
    const ItemRange items = pool_->share(n_items, 0, thread);
    if (items.begin == items.end) continue;
    const Chunk at = chunk_at(parts, items.begin, chunk);
    ThreadPool::Ahead& begin = course.begins[thread];
    begin.n_bytes = kAheadBytes / at.part->jobs.size();
    for (size_t j = 0; j < std::min(at.part->jobs.size(), std::size(begin.at)); ++j) {
      const std::span<const uint8_t> stream = cpu_weight(*at.part->jobs[j].linear).stream_from(at.first_panel);
      begin.at[j] = stream.data();
      begin.n_bytes = std::min(begin.n_bytes, stream.size());
    }
  }
  if (last_ != nullptr) courses_[last_].next = first;
  last_ = first;
  const auto next = courses_.find(courses_[first].next);
  return next != courses_.end() ? std::span<const ThreadPool::Ahead>(next->second.begins)
                                : std::span<const ThreadPool::Ahead>();
}

void CpuBackend::run_groups(std::span<LinearGroup> groups, const Activation* activation) {
  pack_columns(groups);
  std::vector<LinearPart> parts;
  size_t n_panels_in_all = 0, n_items = 0, n_columns = 0, cost = 0;
  for (const LinearGroup& group : groups) {
    const size_t n_fused = activation != nullptr ? group.jobs.size() : 1;  // with an activation, jobs go in pairs
    n_columns = std::max(n_columns, group.x.n_rows);
    for (size_t j = 0; j < group.jobs.size(); j += n_fused) {
      const size_t n = cpu_weight(*group.jobs[j].linear).n_panels();
      parts.push_back({group.jobs.subspan(j, n_fused), &group, n, 0});
      n_panels_in_all += n;
      cost += n * kPanelRows * group.x.size() * n_fused;
    }
  }
  const size_t chunk = chunk_panels(n_panels_in_all, n_columns, scratch_.size());
  for (LinearPart& part : parts) part.end = n_items += (part.n_panels + chunk - 1) / chunk;
  const bool is_reading = n_columns <= kReadingColumns;
  const size_t item_cost = cost / std::max<size_t>(n_items, 1) / 4;
  const auto run = [&](size_t begin, size_t end, uint32_t thread) {
    for (size_t item = begin; item < end;) {
      const Chunk at = chunk_at(parts, item, chunk);
      const size_t n_taken = is_reading ? std::min(end, at.part->end) - item : 1;
      const size_t n_panels = std::min(n_taken * chunk, at.part->n_panels - at.first_panel);
      run_chunk(at.part->jobs, {at.first_panel, n_panels, 0, at.part->group->x.n_rows}, activation, scratch_[thread]);
      item += n_taken;
    }
  };
  std::span<const ThreadPool::Ahead> ahead;
  // Which experts a token takes is not known before: theirs are not followed.
  if (n_columns <= kAheadColumns && groups.size() == 1) ahead = follow_course(parts, n_items, chunk);
  for_ranges(n_items, is_reading ? 0 : 1, item_cost, run, ahead);
}

void CpuBackend::run_chunk(std::span<const LinearJob> jobs, PanelRange range, const Activation* activation,
                           Scratch& scratch) const {
  const size_t n_columns = range.n_columns;
  const size_t tile_len = range.n_panels * std::min(n_columns, kColumnsTogether) * kPanelRows;
  if (scratch.tiles.size() < jobs.size() * tile_len) scratch.tiles.resize(jobs.size() * tile_len);
  for (size_t begin = 0; begin < n_columns; begin += kColumnsTogether) {
    range.first_column = begin;
    range.n_columns = std::min(kColumnsTogether, n_columns - begin);
    const size_t n = range.n_panels * range.n_columns * kPanelRows;
    for (size_t j = 0; j < jobs.size(); ++j) {
      const CpuWeight& weight = cpu_weight(*jobs[j].linear);
      float* const tiles = scratch.tiles.data() + j * n;
      weight.multiply(range, *jobs[j].columns, scratch.panel, tiles);
      scale_and_shift(*jobs[j].linear, range, tiles);
    }
    if (activation != nullptr) activate_range(scratch.tiles.data(), scratch.tiles.data() + n, n, *activation);
    write_tiles(range, scratch.tiles.data(), jobs[0].out);
  }
}

void CpuBackend::scale_and_shift(const Linear& linear, const PanelRange& range, float* tiles) {
  if (linear.bias == nullptr && linear.scale == 1.0f) return;
  for (size_t p = 0; p < range.n_panels; ++p) {
    const size_t first = (range.first_panel + p) * kPanelRows;
    float bias[kPanelRows] = {};
    if (linear.bias != nullptr)
      std::copy_n(linear.bias + first, std::min<size_t>(kPanelRows, linear.weight->n_out() - first), bias);
    for (size_t t = 0; t < range.n_columns; ++t, tiles += kPanelRows)
      for (size_t r = 0; r < kPanelRows; ++r) tiles[r] = tiles[r] * linear.scale + bias[r];
  }
}

void CpuBackend::write_tiles(const PanelRange& range, const float* tiles, TensorView out) {
  for (size_t p = 0; p < range.n_panels; ++p) {
    const size_t first = (range.first_panel + p) * kPanelRows;
    const size_t n_rows = std::min<size_t>(kPanelRows, out.n_cols - first);
    for (size_t t = 0; t < range.n_columns; ++t, tiles += kPanelRows) {
      float* const to = out.row(range.first_column + t) + first;
      if (n_rows == kPanelRows)
        std::memcpy(to, tiles, kPanelRows * sizeof(float));
      else
        std::memcpy(to, tiles, n_rows * sizeof(float));
    }
  }
}

void CpuBackend::matmul(TensorView x, const Linear& linear, TensorView out) {
  LinearJob job{&linear, out};
  LinearGroup group{x, {&job, 1}};
  run_groups({&group, 1}, nullptr);
}

void CpuBackend::qkv(TensorView x, std::span<const Linear, 3> linears, std::span<const TensorView, 3> out) {
  LinearJob jobs[] = {{&linears[0], out[0]}, {&linears[1], out[1]}, {&linears[2], out[2]}};
  LinearGroup group{x, jobs};
  run_groups({&group, 1}, nullptr);
}

void CpuBackend::gate_up(TensorView x, const Linear& gate, const Linear& up, Activation activation, TensorView out,
                         TensorView) {
  LinearJob jobs[] = {{&gate, out}, {&up, out}};
  LinearGroup group{x, jobs};
  run_groups({&group, 1}, &activation);
}

void CpuBackend::expert_gate_up(TensorView x, const Experts& experts, std::span<const ExpertRows> rows, TensorView out,
                                TensorView) {
  std::vector<std::array<LinearJob, 2>> jobs;
  jobs.reserve(rows.size());
  std::vector<LinearGroup> groups;
  for (const ExpertRows& part : rows) {
    const TensorView to = out.rows(part.first, part.n);
    jobs.push_back({LinearJob{&experts.gate[part.expert_idx], to}, LinearJob{&experts.up[part.expert_idx], to}});
    groups.push_back({x.rows(part.first, part.n), jobs.back()});
  }
  run_groups(groups, &experts.activation);
}

void CpuBackend::expert_down(TensorView x, const Experts& experts, std::span<const ExpertRows> rows, TensorView out) {
  std::vector<LinearJob> jobs;
  jobs.reserve(rows.size());
  std::vector<LinearGroup> groups;
  for (const ExpertRows& part : rows) {
    jobs.push_back({&experts.down[part.expert_idx], out.rows(part.first, part.n)});
    groups.push_back({x.rows(part.first, part.n), {&jobs.back(), 1}});
  }
  run_groups(groups, nullptr);
}

}  // namespace tamis::cpu
