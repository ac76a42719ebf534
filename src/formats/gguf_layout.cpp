// Where tensors lie: every range inside the file, none over another, and in strict mode no byte that nothing describes.
#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/fault.h"
#include "formats/gguf_parser.h"

namespace tamis {

// Offset of a tensor's `offset` field, which ends its table entry.
static uint64_t offset_field(const GgufTensor& tensor) {
  return tensor.info_offset + 8 + tensor.name.size() + 4 + 8 * uint64_t{tensor.shape.n_dims} + 4;
}

Status GgufParser::check_layout() {
  auto& tensors = state_->tensors;
  const uint64_t data_offset = state_->shards[0].data_offset;
  subject_bytes_ = 0;
  section_ = "tensor";
  std::vector<uint32_t> by_offset(tensors.size());
  for (uint32_t i = 0; i < by_offset.size(); ++i) by_offset[i] = i;
  const auto is_before = [&](uint32_t a, uint32_t b) {
    return std::pair(tensors[a].file_offset, a) < std::pair(tensors[b].file_offset, b);
  };
  if (!std::is_sorted(by_offset.begin(), by_offset.end(), is_before))
    std::sort(by_offset.begin(), by_offset.end(), is_before);

  for (size_t i = 0; i < tensors.size(); ++i) TAMIS_TRY_STATUS(check_wrap(tensors[i], static_cast<int64_t>(i)));

  uint64_t end = 0;  // of the tensors so far, relative to the data section
  int64_t previous = -1;
  for (const uint32_t i : by_offset) {
    TAMIS_TRY_STATUS(check_range(tensors[i], i, end, previous));
    end = tensors[i].file_offset + tensors[i].size_bytes;
    previous = i;
  }
  for (GgufTensor& tensor : tensors) tensor.file_offset += data_offset;
  section_ = "data";
  index_ = -1;
  field_ = {};
  return check_trailing(end);
}

Status GgufParser::check_wrap(const GgufTensor& tensor, int64_t index) {
  if (checked_add(tensor.file_offset, tensor.size_bytes)) return {};
  index_ = index;
  const std::string name = escape_for_display(tensor.name);
  field_ = name;
  return bad(offset_field(tensor), fmt::format("{} bytes at data offset {}", tensor.size_bytes, tensor.file_offset),
             "an end below 2^64", "E_TENSOR_RANGE");
}

Status GgufParser::check_range(const GgufTensor& tensor, int64_t index, uint64_t previous_end, int64_t previous_idx) {
  index_ = index;
  const std::string name = escape_for_display(tensor.name);
  field_ = name;
  const uint64_t file_bytes = window_.source_bytes();
  const uint64_t data_offset = state_->shards[0].data_offset;
  const uint64_t data_bytes = file_bytes > data_offset ? file_bytes - data_offset : 0;
  const uint64_t start = tensor.file_offset;
  const uint64_t end = start + tensor.size_bytes;  // does not wrap: check_wrap
  if (TAMIS_CHECKED(7, start < previous_end)) {
    const GgufTensor& other = state_->tensors[static_cast<size_t>(previous_idx)];
    const GgufTensor& later = index > previous_idx ? tensor : other;
    const GgufTensor& earlier = index > previous_idx ? other : tensor;
    const std::string later_name = escape_for_display(later.name);
    index_ = std::max(index, previous_idx);
    field_ = later_name;
    return bad(offset_field(later), fmt::format("data at offset {}", later.file_offset),
               fmt::format("no overlap with \"{}\" at [{}, {})", escape_for_display(earlier.name), earlier.file_offset,
                           earlier.file_offset + earlier.size_bytes),
               "E_TENSOR_OVERLAP");
  }
  const uint64_t contiguous = checked_pad(previous_end, state_->alignment).value_or(previous_end);
  if (TAMIS_CHECKED(3, end > data_bytes)) {
    const std::string got = fmt::format("{} bytes at data offset {}", tensor.size_bytes, start);
    const std::string expected = fmt::format("an end within the {} bytes of data in the file", data_bytes);
    // After a gap the offset is what is wrong; where it follows its neighbour the file was cut short, at its end.
    if (start > contiguous) return bad(offset_field(tensor), got, expected, "E_TENSOR_RANGE");
    section_ = "data";
    return bad(file_bytes, got, expected, "E_TRUNCATED");
  }
  if (start > contiguous)
    return oddity(offset_field(tensor), fmt::format("data offset {}", start),
                  fmt::format("{}, where the data before it ends", contiguous), "E_TENSOR_GAP");
  return {};
}

// Up to alignment - 1 bytes after the last tensor's padding are taken for padding too; more is something nobody
// described.
Status GgufParser::check_trailing(uint64_t end) {
  const uint64_t data_offset = state_->shards[0].data_offset;
  const auto padded = checked_pad(end, state_->alignment);
  const auto described = padded ? checked_add(data_offset, *padded) : std::nullopt;
  const uint64_t file_bytes = window_.source_bytes();
  if (!has_zero_padding_) {
    section_ = "header";
    warn(state_->shards[0].metadata_bytes, "padding bytes that are not zero", "zeros before the tensor data",
         "W_PADDING");
    section_ = "data";
  }
  if (!described || file_bytes <= *described || file_bytes - *described < state_->alignment) return {};
  const uint64_t extra = file_bytes - *described;
  return oddity(*described, fmt::format("{} bytes that no tensor describes", extra), "the end of the file",
                "E_TRAILING");
}

// Looks at the bytes between the tensor table and the data (fewer than the alignment), which should be zeros.
Status GgufParser::check_padding() {
  uint64_t at = window_.position();
  const uint64_t end = std::min(state_->shards[0].data_offset, window_.source_bytes());
  std::byte block[512];
  while (at < end && has_zero_padding_) {
    TAMIS_TRY(const size_t n,
              state_->shards[0].source->read_at(at, {block, std::min<uint64_t>(end - at, sizeof block)}));
    if (n == 0) return {};  // the file has shrunk since: its size is compared once more when all is read
    has_zero_padding_ = std::all_of(block, block + n, [](std::byte b) { return b == std::byte{0}; });
    at += n;
  }
  return {};
}

}  // namespace tamis
