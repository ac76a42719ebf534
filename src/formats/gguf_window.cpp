// Growing the window over the header by what is asked for and there.
#include "formats/gguf_window.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tamis {
namespace {
constexpr uint64_t kFirstBytes = uint64_t{64} << 10;
constexpr uint64_t kAheadBytes = uint64_t{256} << 10;
}  // namespace

GgufWindow::GgufWindow(ByteSource& source, uint64_t max_bytes)
    : source_(source),
      source_bytes_(source.size_bytes()),
      max_bytes_(std::min<uint64_t>(max_bytes, std::numeric_limits<uint32_t>::max())) {}

bool GgufWindow::fetch(uint64_t n) {
  if (n > bytes_left()) return false;
  if (n > max_bytes_ || position_ > max_bytes_ - n) {
    is_over_limit_ = true;
    return false;
  }
  const uint64_t end = position_ + n;
  if (end > capacity_) {
    // Doubling: should realloc have to copy, old and new block together hold at most three times the bytes read.
    if (!resize(std::min({std::max({end, 2 * capacity_, kFirstBytes}), source_bytes_, max_bytes_}))) return false;
  }
  return fill_to(end);
}

bool GgufWindow::resize(uint64_t capacity) {
  auto* grown = static_cast<std::byte*>(std::realloc(buffer_.get(), capacity));
  if (grown == nullptr) {
    failure_ = Error{ErrorCode::out_of_memory, fmt::format("no memory for {} bytes of metadata", capacity), nullptr};
    return false;
  }
  (void)buffer_.release();
  buffer_.reset(grown);
  capacity_ = capacity;
  return true;
}

// Reads until `end` is there, and a little ahead; a source may deliver less than asked at a time.
bool GgufWindow::fill_to(uint64_t end) {
  while (filled_ < end) {
    const uint64_t wanted = std::min(capacity_, end + kAheadBytes) - filled_;
    auto n = source_.read_at(filled_, {buffer_.get() + filled_, wanted});
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
    filled_ += std::min<uint64_t>(*n, wanted);
  }
  return true;
}

GgufBytes GgufWindow::release() {
  if (position_ > 0 && position_ < capacity_)
    resize(position_);  // a failure leaves the larger block, which serves as well
  filled_ = capacity_ = 0;
  return std::move(buffer_);
}

}  // namespace tamis
