// The spilling thread and its file.
#include "engine/kv_spill.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>

#include "base/log.h"

namespace tamis {
namespace {

constexpr double kFirstRate = 500e6;  // bytes a second: a plain SSD
constexpr double kMovingShare = 0.2;  // of the newest rate

std::span<std::byte> bytes_of(const KvPage& page, size_t n) { return {page.get(), n}; }
uint64_t hash_of(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace

Result<std::unique_ptr<KvSpill>> KvSpill::create(const std::string& dir, size_t page_bytes, size_t n_pages) {
  TAMIS_TRY(ScratchFile file, ScratchFile::create(dir));
  return std::unique_ptr<KvSpill>(new KvSpill(std::move(file), page_bytes, n_pages));
}

KvSpill::KvSpill(ScratchFile file, size_t page_bytes, size_t n_pages)
    : file_(std::move(file)),
      page_bytes_(page_bytes),
      n_places_(n_pages),
      free_(n_pages),
      write_rate_(kFirstRate),
      read_rate_(kFirstRate) {
  std::iota(free_.rbegin(), free_.rend(), size_t{0});  // the first places are taken first
  thread_ = std::thread([this] { run(); });
}

KvSpill::~KvSpill() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    if (queue_.size() > 1) queue_.erase(queue_.begin() + 1, queue_.end());
  }
  wake_.notify_all();
  thread_.join();
}

void KvSpill::notify(std::function<void()> on_moved) {
  const std::lock_guard lock(mutex_);
  on_moved_ = std::move(on_moved);
}

std::shared_ptr<SpilledPages> KvSpill::write(std::vector<KvPage> pages, size_t first_page, uint32_t n_tokens) {
  if (pages.empty() || pages.size() > free_.size()) return nullptr;
  auto spilled = std::make_shared<SpilledPages>(first_page, n_tokens);
  spilled->places_.assign(free_.end() - static_cast<ptrdiff_t>(pages.size()), free_.end());
  const size_t n = pages.size();
  spilled->pages_ = std::move(pages);
  kept_.reserve(kept_.size() + 1);
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(spilled.get());
  }
  wake_.notify_all();
  kept_.push_back(spilled);  // nothing from here on needs memory
  free_.resize(free_.size() - n);
  n_leaving_ += n;
  return spilled;
}

void KvSpill::read(SpilledPages& spilled, std::vector<KvPage> pages) {
  spilled.n_skipped_ = spilled.places_.size() - pages.size();
  spilled.pages_ = std::move(pages);
  const std::lock_guard lock(mutex_);
  spilled.state_ = SpilledPages::State::reading;
  queue_.push_back(&spilled);
  wake_.notify_all();
}

SpilledPages::State KvSpill::state(const SpilledPages& spilled) const {
  const std::lock_guard lock(mutex_);
  return spilled.state_;
}

void KvSpill::drop_unwanted_locked() {
  if (queue_.empty()) return;
  for (const std::shared_ptr<SpilledPages>& spilled : kept_) {
    // The first may be at work.
    if (spilled.use_count() > 1 || !is_moving(*spilled) || spilled.get() == queue_.front()) continue;
    std::erase(queue_, spilled.get());
    spilled->state_ = SpilledPages::State::lost;
  }
}

void KvSpill::collect() {
  const std::lock_guard lock(mutex_);
  drop_unwanted_locked();
  n_leaving_ = 0;
  for (const std::shared_ptr<SpilledPages>& spilled : kept_) {
    if (!is_moving(*spilled)) spilled->pages_.clear();
    if (spilled->state_ == SpilledPages::State::writing) n_leaving_ += spilled->pages_.size();
    if (is_moving(*spilled) || spilled.use_count() > 1) continue;
    free_.insert(free_.end(), spilled->places_.begin(), spilled->places_.end());
    spilled->places_.clear();
  }
  std::erase_if(kept_, [](const std::shared_ptr<SpilledPages>& spilled) { return spilled->places_.empty(); });
}

bool KvSpill::is_busy() const {
  const std::lock_guard lock(mutex_);
  return !queue_.empty();
}

void KvSpill::wait() const {
  std::unique_lock lock(mutex_);
  const uint64_t n = n_moved_;
  moved_.wait(lock, [&] { return queue_.empty() || n_moved_ != n; });
}

uint64_t KvSpill::n_written() const {
  const std::lock_guard lock(mutex_);
  return n_written_;
}

uint64_t KvSpill::n_restored() const {
  const std::lock_guard lock(mutex_);
  return n_restored_;
}

double KvSpill::seconds_for(size_t n_pages) const {
  const std::lock_guard lock(mutex_);
  return static_cast<double>(n_pages * page_bytes_) * (1 / write_rate_ + 1 / read_rate_);
}

Status KvSpill::write_pages(SpilledPages& spilled) {
  spilled.hashes_.clear();
  for (size_t i = 0; i < spilled.pages_.size(); ++i) {
    const std::span<const std::byte> bytes = bytes_of(spilled.pages_[i], page_bytes_);
    spilled.hashes_.push_back(hash_of(bytes));
    TAMIS_TRY_STATUS(file_.write_at(spilled.places_[i] * page_bytes_, bytes));
  }
  return {};
}

Status KvSpill::read_pages(SpilledPages& spilled) {
  for (size_t i = 0; i < spilled.pages_.size(); ++i) {
    const std::span<std::byte> bytes = bytes_of(spilled.pages_[i], page_bytes_);
    const size_t place = spilled.n_skipped_ + i;
    TAMIS_TRY_STATUS(file_.read_at(spilled.places_[place] * page_bytes_, bytes));
    if (hash_of(bytes) != spilled.hashes_[place])
      return fail(ErrorCode::io, "a page of keys and values came back different from a file");
  }
  return {};
}

void KvSpill::run() {
  using State = SpilledPages::State;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return is_stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    SpilledPages& spilled = *queue_.front();  // stays among kept_: it is moving
    const bool is_writing = spilled.state_ == State::writing;
    lock.unlock();
    const auto begin = std::chrono::steady_clock::now();
    Status status;
    try {
      status = is_writing ? write_pages(spilled) : read_pages(spilled);
    } catch (const std::bad_alloc&) {
      status = fail(ErrorCode::out_of_memory, "no memory for the hashes of pages");
    }
    if (!status) log_warning("keys and values are computed again: {}", status.error().to_string());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    lock.lock();
    const size_t n = spilled.pages_.size();
    if (status) {
      double& rate = is_writing ? write_rate_ : read_rate_;
      rate += kMovingShare * (static_cast<double>(n * page_bytes_) / std::max(seconds, 1e-6) - rate);
      (is_writing ? n_written_ : n_restored_) += n;
    }
    spilled.state_ = !status ? State::lost : is_writing ? State::stored : State::restored;
    queue_.pop_front();
    ++n_moved_;
    moved_.notify_all();
    if (!on_moved_) continue;
    const auto on_moved = on_moved_;
    lock.unlock();
    on_moved();
    lock.lock();
  }
}

}  // namespace tamis
