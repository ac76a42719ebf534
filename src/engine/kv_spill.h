// Pages of keys and values of paused sequences in a file, and back: so that what was computed need not be computed
// again. Beside the scheduler, which decides what is worth it (engine/scheduler_spill.cpp).
//
// A thread of its own writes and reads, so that no step waits for a disk. The file has no name: it is gone with the
// process. What is read back is compared with a hash of what was written; a page that cannot be written or read, or is
// not what it was, is lost, and its sequence is computed again.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/scratch_file.h"
#include "compute/kv_pages.h"

namespace tamis {

// Pages of one sequence, from number first_page on. Its members belong to the thread that spills, but for state().
class SpilledPages {
 public:
  enum class State : uint8_t { writing, stored, reading, restored, lost };
  SpilledPages(size_t first_page, uint32_t n_tokens) : first_page_(first_page), n_tokens_(n_tokens) {}

  size_t first_page() const { return first_page_; }
  uint32_t n_tokens() const { return n_tokens_; }  // of the sequence, up to the end of the last page

 private:
  friend class KvSpill;

  size_t first_page_;
  uint32_t n_tokens_;
  State state_ = State::writing;  // under KvSpill's mutex
  std::vector<size_t> places_;    // in the file, in pages
  std::vector<uint64_t> hashes_;
  std::vector<KvPage> pages_;  // held while they are written or read
  size_t n_skipped_ = 0;       // first ones that are not read
};

// For one thread, but for what is said to be on its own.
class KvSpill {
 public:
  // A file in `dir` for n_pages of page_bytes. Errors: those of ScratchFile::create.
  static Result<std::unique_ptr<KvSpill>> create(const std::string& dir, size_t page_bytes, size_t n_pages);
  ~KvSpill();  // waits for what is being written or read

  // Has the spilling thread call it whenever something has been written or read, or could not be.
  void notify(std::function<void()> on_moved);

  // Begins to write `pages`, the first of which is number first_page of a sequence with n_tokens. They are held until
  // collect() finds them written. Null: the file has no room for them.
  std::shared_ptr<SpilledPages> write(std::vector<KvPage> pages, size_t first_page, uint32_t n_tokens);
  // Begins to read the last of them back into `pages`, held until collect() finds them read. Requires: stored; at most
  // as many as were written.
  void read(SpilledPages& spilled, std::vector<KvPage> pages);
  SpilledPages::State state(const SpilledPages& spilled) const;

  // Lets go of pages that have been written or read, and of places that nobody needs any more; what waits to be written
  // or read for nobody is not.
  void collect();
  bool is_busy() const;
  void wait() const;  // on any thread: until something more has been written or read, if anything is to be

  size_t n_leaving() const { return n_leaving_; }  // pages held to be written
  size_t n_stored() const { return n_places_ - free_.size(); }
  uint64_t n_written() const;   // pages since the start
  uint64_t n_restored() const;  // read back
  // What writing and reading so many pages is likely to take, by what it took before.
  double seconds_for(size_t n_pages) const;

 private:
  KvSpill(ScratchFile file, size_t page_bytes, size_t n_pages);
  void run();
  Status write_pages(SpilledPages& spilled);
  Status read_pages(SpilledPages& spilled);
  void drop_unwanted_locked();
  static bool is_moving(const SpilledPages& spilled) {
    return spilled.state_ == SpilledPages::State::writing || spilled.state_ == SpilledPages::State::reading;
  }

  const ScratchFile file_;
  const size_t page_bytes_, n_places_;
  std::vector<size_t> free_;                         // places
  std::vector<std::shared_ptr<SpilledPages>> kept_;  // all there are
  size_t n_leaving_ = 0;

  mutable std::mutex mutex_;
  mutable std::condition_variable wake_, moved_;
  std::deque<SpilledPages*> queue_;  // to be written or read; the first is at work
  bool is_stopping_ = false;
  std::function<void()> on_moved_;  // may be empty
  uint64_t n_moved_ = 0;
  uint64_t n_written_ = 0, n_restored_ = 0;
  double write_rate_, read_rate_;  // bytes a second, moving averages

  std::thread thread_;  // last: everything else is there when it starts
};

}  // namespace tamis
