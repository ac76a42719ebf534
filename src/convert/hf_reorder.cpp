// Rows in another order, shape or offset.
#include <algorithm>

#include "convert/hf_rows.h"

namespace tamis {
namespace {

// What every rearrangement passes on from the source it holds.
class Wrapped : public RowSource {
 public:
  Wrapped(Rows source, uint64_t n_rows, uint64_t row_len) : RowSource(n_rows, row_len), source_(std::move(source)) {}
  DType float_type() const override { return source_->float_type(); }
  std::string describe() const override { return source_->describe(); }
  bool is_packed() const override { return source_->is_packed(); }
  void give_back() const override { source_->give_back(); }

 protected:
  Rows source_;
};

class PermutedRows final : public Wrapped {
 public:
  PermutedRows(Rows source, uint64_t n_rows, uint64_t row_len, uint64_t head_dim, bool is_inverse)
      : Wrapped(std::move(source), n_rows, row_len), head_dim_(head_dim), is_inverse_(is_inverse) {
    if (const AffineRows* const codes = source_->affine(0)) affine_ = std::make_unique<PermutedCodes>(*this, *codes);
  }

  Status read(uint64_t first, uint64_t n, std::span<float> out) const override {
    for (uint64_t r = 0; r < n; ++r)
      TAMIS_TRY_STATUS(source_->read(from(first + r), 1, out.subspan(r * row_len(), row_len())));
    return {};
  }
  std::optional<DType> native_type() const override { return source_->native_type(); }
  bool is_native_exact() const override { return source_->is_native_exact(); }
  Status write_native(uint64_t first, uint64_t n, std::span<std::byte> out) const override {
    const uint64_t row_bytes = n == 0 ? 0 : out.size() / n;
    for (uint64_t r = 0; r < n; ++r)
      TAMIS_TRY_STATUS(source_->write_native(from(first + r), 1, out.subspan(r * row_bytes, row_bytes)));
    return {};
  }

  const AffineRows* affine(uint64_t) const override { return affine_.get(); }

 private:
  class PermutedCodes final : public AffineRows {
   public:
    PermutedCodes(const PermutedRows& rows, const AffineRows& codes) : rows_(rows), codes_(codes) {
      set_shape(codes.shape());
    }
    std::span<const uint32_t> order() const override { return codes_.order(); }
    void read(uint64_t row, uint64_t group_idx, Group& out) const override {
      codes_.read(rows_.from(row), group_idx, out);
    }
    void give_back() const override { codes_.give_back(); }

   private:
    const PermutedRows& rows_;
    const AffineRows& codes_;
  };

  uint64_t from(uint64_t row) const {
    const uint64_t head = row / head_dim_ * head_dim_, i = row % head_dim_, half = head_dim_ / 2;
    return head + (is_inverse_ ? i % half * 2 + i / half : i % 2 * half + i / 2);
  }

  uint64_t head_dim_;
  bool is_inverse_;
  std::unique_ptr<PermutedCodes> affine_;
};

class OffsetRows final : public Wrapped {
 public:
  OffsetRows(Rows source, uint64_t n_rows, uint64_t row_len, float offset)
      : Wrapped(std::move(source), n_rows, row_len), offset_(offset) {}
  Status read(uint64_t first, uint64_t n, std::span<float> out) const override {
    TAMIS_TRY_STATUS(source_->read(first, n, out));
    for (float& value : out) value += offset_;
    return {};
  }
  DType float_type() const override { return DType::f32; }

 private:
  float offset_;
};

// The same elements in rows of another length: one row to a column, or a column to one row.
class ReshapedRows final : public Wrapped {
 public:
  using Wrapped::Wrapped;
  Status read(uint64_t first, uint64_t n, std::span<float> out) const override {
    if (source_->row_len() == 1) return source_->read(first * row_len(), n * row_len(), out);
    std::vector<float> row(source_->row_len());
    TAMIS_TRY_STATUS(source_->read(0, 1, row));
    std::copy_n(row.begin() + static_cast<ptrdiff_t>(first), n, out.begin());
    return {};
  }
};

class StackedRows final : public RowSource {
 public:
  StackedRows(std::vector<Rows> parts, uint64_t n_rows)
      : RowSource(n_rows, parts[0]->row_len()), parts_(std::move(parts)) {}

  Status read(uint64_t first, uint64_t n, std::span<float> out) const override {
    return each(first, n, [&](const RowSource& part, uint64_t at, uint64_t count, uint64_t done) {
      return part.read(at, count, out.subspan(done * row_len(), count * row_len()));
    });
  }
  std::optional<DType> native_type() const override {
    for (const Rows& part : parts_)
      if (part->native_type() != parts_[0]->native_type()) return std::nullopt;
    return parts_[0]->native_type();
  }
  bool is_native_exact() const override {
    return std::all_of(parts_.begin(), parts_.end(), [](const Rows& part) { return part->is_native_exact(); });
  }
  Status write_native(uint64_t first, uint64_t n, std::span<std::byte> out) const override {
    const uint64_t row_bytes = n == 0 ? 0 : out.size() / n;
    return each(first, n, [&](const RowSource& part, uint64_t at, uint64_t count, uint64_t done) {
      return part.write_native(at, count, out.subspan(done * row_bytes, count * row_bytes));
    });
  }
  DType float_type() const override {
    for (const Rows& part : parts_)
      if (part->float_type() != parts_[0]->float_type()) return DType::f32;
    return parts_[0]->float_type();
  }
  const AffineRows* affine(uint64_t matrix_idx) const override {
    return matrix_idx < parts_.size() ? parts_[matrix_idx]->affine(0) : nullptr;
  }
  bool is_packed() const override {
    return std::any_of(parts_.begin(), parts_.end(), [](const Rows& part) { return part->is_packed(); });
  }
  std::string describe() const override { return parts_[0]->describe(); }
  void give_back() const override {
    for (const Rows& part : parts_) part->give_back();
  }

 private:
  // fn(part, first row of it, rows, rows done) over the parts that hold [first, first + n).
  template <class Fn>
  Status each(uint64_t first, uint64_t n, Fn&& fn) const {
    uint64_t begin = 0, done = 0;
    for (const Rows& part : parts_) {
      const uint64_t end = begin + part->n_rows();
      if (done < n && first + done < end) {
        const uint64_t at = first + done - begin, count = std::min(n - done, part->n_rows() - at);
        TAMIS_TRY_STATUS(fn(*part, at, count, done));
        done += count;
      }
      begin = end;
    }
    return {};
  }

  std::vector<Rows> parts_;
};

class MemoryRows final : public RowSource {
 public:
  explicit MemoryRows(std::vector<float> values) : RowSource(1, values.size()), values_(std::move(values)) {}
  Status read(uint64_t, uint64_t, std::span<float> out) const override {
    std::copy(values_.begin(), values_.end(), out.begin());
    return {};
  }
  DType float_type() const override { return DType::f32; }
  std::string describe() const override { return "made from config.json"; }
  void give_back() const override {}

 private:
  std::vector<float> values_;
};

}  // namespace

Rows permute_heads(Rows rows, uint64_t n_head, bool is_inverse) {
  const uint64_t n_rows = rows->n_rows(), row_len = rows->row_len();
  TAMIS_CHECK(n_head > 0 && n_rows % (2 * n_head) == 0);
  return std::make_unique<PermutedRows>(std::move(rows), n_rows, row_len, n_rows / n_head, is_inverse);
}

Rows add_offset(Rows rows, float offset) {
  const uint64_t n_rows = rows->n_rows(), row_len = rows->row_len();
  return std::make_unique<OffsetRows>(std::move(rows), n_rows, row_len, offset);
}

Rows stack_rows(std::vector<Rows> parts) {
  TAMIS_CHECK(!parts.empty());
  uint64_t n_rows = 0;
  for (const Rows& part : parts) n_rows += part->n_rows();
  return std::make_unique<StackedRows>(std::move(parts), n_rows);
}

Rows as_column(Rows rows) {
  const uint64_t n = rows->row_len();
  return std::make_unique<ReshapedRows>(std::move(rows), n, 1);
}

Rows as_row(Rows rows) {
  const uint64_t n = rows->n_rows();
  return std::make_unique<ReshapedRows>(std::move(rows), 1, n);
}

Rows rows_of(std::vector<float> values) { return std::make_unique<MemoryRows>(std::move(values)); }

}  // namespace tamis
