#include "formats/gguf_window.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tamis {
namespace {
constexpr uint64_t kFirstReadBytes = uint64_t{64} << 10;
}

GgufWindow::GgufWindow(ByteSource& source, uint64_t max_bytes)
    : source_(source),
      source_bytes_(source.size_bytes()),
      max_bytes_(std::min<uint64_t>(max_bytes, std::numeric_limits<uint32_t>::max())) {}

bool GgufWindow::fetch(uint64_t n) {
  if (TAMIS_CHECKED(1, n > bytes_left())) return false;
  if (n > max_bytes_ || position_ > max_bytes_ - n) {
    is_over_limit_ = true;
    return false;
  }
  const uint64_t end = position_ + n;
  if (end > capacity_) {
    // Doubling: at the moment of copying old and new block together hold at most three times the bytes read.
    const uint64_t wanted = std::min({std::max({end, 2 * capacity_, kFirstReadBytes}), source_bytes_, max_bytes_});
    std::unique_ptr<std::byte[]> grown(new std::byte[wanted]);
    if (filled_ > 0) std::memcpy(grown.get(), buffer_.get(), filled_);
    buffer_ = std::move(grown);
    capacity_ = wanted;
  }
  return fill_to(end);
}

// Reads until `end` is there, ahead as far as the block reaches; a source may deliver less than asked at a time.
bool GgufWindow::fill_to(uint64_t end) {
  while (filled_ < end) {
    auto n = source_.read_at(filled_, {buffer_.get() + filled_, capacity_ - filled_});
    if (!n) {
      failure_ = std::move(n).error();
      return false;
    }
    if (*n == 0) {
      ErrorSite site;
      site.byte_offset = filled_;
      site.has_offset = true;
      site.section = "header";
      site.got = "the end of the file";
      site.expected = fmt::format("the {} bytes it had when opened", source_bytes_);
      site.tag = "E_FILE_SHRANK";
      failure_ = fail_at(ErrorCode::io, std::move(site)).value();
      return false;
    }
    filled_ += std::min<uint64_t>(*n, capacity_ - filled_);
  }
  return true;
}

std::unique_ptr<std::byte[]> GgufWindow::release() {
  if (capacity_ > position_) {
    std::unique_ptr<std::byte[]> exact(new std::byte[position_]);
    if (position_ > 0) std::memcpy(exact.get(), buffer_.get(), position_);
    buffer_ = std::move(exact);
  }
  filled_ = capacity_ = 0;
  return std::move(buffer_);
}

}  // namespace tamis
