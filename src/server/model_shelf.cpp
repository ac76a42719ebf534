// Which models are in memory, who waits for one, and the two threads that see to it.
#include "server/model_shelf.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <utility>

#include "base/log.h"

namespace tamis::server {
namespace {

using Clock = std::chrono::steady_clock;
using State = ModelStatus::State;

constexpr double kRetryAfterSeconds = 5;  // for who asks for a model that is not there yet
constexpr std::string_view kShuttingDown = "the server is shutting down";

struct Waiting {
  ModelWait wait;
  std::optional<Clock::time_point> deadline;
  uint64_t serial = 0;
};

ApiError come_back(std::string_view message) {
  ApiError error = plain_error(503, message);
  error.retry_after_seconds = kRetryAfterSeconds;
  return error;
}

// What a loader's error is to clients; the log has its text.
ApiError load_failure(const ModelCard& card, const Error& error) {
  log_warning("model {} is not loaded: {}", escape_for_display(card.alias), error.to_string());
  if (error.code == ErrorCode::out_of_memory) return come_back("not enough memory to load this model");
  ApiError out = plain_error(500, "this model cannot be loaded; the server's log tells why");
  out.code = "model_not_loaded";
  return out;
}

// Without memory for its answer, a request is told so by the end of its reply. What `wait` holds ends here, without the
// lock.
void tell(ModelWait& wait, ApiResult<ModelLease> outcome) {
  const auto then = std::exchange(wait.then, nullptr);
  try {
    then(std::move(outcome));
  } catch (const std::bad_alloc&) {
    log_warning("no memory to go on with a request");
  }
}

// What a loader does, with an end of memory as an error.
template <class Load>
auto guarded(const Load& load) -> decltype(load()) {
  try {
    return load();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "no memory to load the model");
  }
}

}  // namespace

std::string_view state_name(State state) {
  constexpr std::string_view kNames[] = {"unloaded", "loading", "loaded"};
  return kNames[static_cast<size_t>(state)];
}

struct ModelShelf::Entry {
  ModelSource source;
  State state = State::unloaded;
  bool has_failed = false;
  std::optional<uint64_t> needed;  // bytes; known between measuring and the end of the load
  std::shared_ptr<const ServedModel> model;
  uint32_t n_holds = 0;
  uint64_t last_used = 0;  // by Shelf::tick
  ShelfFigures figures;    // all but is_loaded and n_waiting
  std::vector<Waiting> waiting;
  std::shared_ptr<ModelMetrics> counts = std::make_shared<ModelMetrics>();

  bool is_idle() const { return state == State::loaded && n_holds == 0; }
};

struct ModelShelf::Shelf : std::enable_shared_from_this<Shelf> {
  std::mutex mutex;  // of everything below
  std::condition_variable wake_loader, wake_clock;
  std::vector<Entry> entries;
  ShelfOptions options;
  uint64_t tick = 0;
  uint64_t n_used_bytes = 0;  // of models in memory and of the one that is being loaded
  bool is_refusing = false, is_ending = false;

  Entry* find(std::string_view name);
  ModelLease lease(Entry& entry, bool is_use);
  bool has_room(uint64_t n_bytes) const;
  bool can_have_room(uint64_t n_bytes) const;
  Entry* least_recent_idle();
  // Of entries that requests wait for and that `filter` takes, the one that has been waited for longest.
  template <class Filter>
  Entry* most_awaited(const Filter& filter);
  void stop_waiting(Entry& entry, std::vector<Waiting>::iterator who);

  // The rest give the lock up while they load, unload or call somebody.
  void measure(Entry& entry, std::unique_lock<std::mutex>& lock);
  void load(Entry& entry, std::unique_lock<std::mutex>& lock);
  void unload(Entry& entry, std::unique_lock<std::mutex>& lock);
  void fail_waiting(Entry& entry, const ApiError& error, std::unique_lock<std::mutex>& lock);
  bool tell_late(std::unique_lock<std::mutex>& lock);  // false: nobody's time is over
};

// Counts one user of a model.
class ModelShelf::Hold {
 public:
  // Requires: the shelf's lock.
  Hold(std::shared_ptr<Shelf> shelf, size_t entry_idx, bool is_use)
      : shelf_(std::move(shelf)), entry_idx_(entry_idx), is_use_(is_use) {
    ++shelf_->entries[entry_idx_].n_holds;
  }
  ~Hold() {
    const std::lock_guard lock(shelf_->mutex);
    Entry& entry = shelf_->entries[entry_idx_];
    if (is_use_) entry.last_used = ++shelf_->tick;
    if (--entry.n_holds == 0) shelf_->wake_loader.notify_one();
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  const std::shared_ptr<Shelf> shelf_;
  const size_t entry_idx_;
  const bool is_use_;
};

ModelShelf::Entry* ModelShelf::Shelf::find(std::string_view name) {
  if (name.empty()) return &entries.front();
  for (Entry& entry : entries)
    if (entry.source.card.alias == name) return &entry;
  return nullptr;
}

ModelLease ModelShelf::Shelf::lease(Entry& entry, bool is_use) {
  const auto idx = static_cast<size_t>(&entry - entries.data());
  return {std::make_shared<const Hold>(shared_from_this(), idx, is_use), entry.model, entry.counts};
}

bool ModelShelf::Shelf::has_room(uint64_t n_bytes) const {
  if (options.budget_bytes == 0) return true;
  const uint64_t n_free = options.budget_bytes - std::min(n_used_bytes, options.budget_bytes);
  return n_bytes <= n_free;
}

bool ModelShelf::Shelf::can_have_room(uint64_t n_bytes) const {
  uint64_t n_idle = 0;
  for (const Entry& entry : entries) n_idle += entry.is_idle() ? entry.figures.n_bytes : 0;
  return has_room(n_bytes - std::min(n_bytes, n_idle));
}

ModelShelf::Entry* ModelShelf::Shelf::least_recent_idle() {
  Entry* found = nullptr;
  for (Entry& entry : entries)
    if (entry.is_idle() && (found == nullptr || entry.last_used < found->last_used)) found = &entry;
  return found;
}

template <class Filter>
ModelShelf::Entry* ModelShelf::Shelf::most_awaited(const Filter& filter) {
  Entry* found = nullptr;
  for (Entry& entry : entries) {
    if (entry.state != State::unloaded || entry.waiting.empty() || !filter(entry)) continue;
    if (found == nullptr || entry.waiting.front().serial < found->waiting.front().serial) found = &entry;
  }
  return found;
}

void ModelShelf::Shelf::stop_waiting(Entry& entry, std::vector<Waiting>::iterator who) {
  entry.waiting.erase(who);
  if (entry.waiting.empty()) entry.needed.reset();  // the file may be another one when the next one asks
}

void ModelShelf::Shelf::fail_waiting(Entry& entry, const ApiError& error, std::unique_lock<std::mutex>& lock) {
  entry.needed.reset();
  std::vector<Waiting> waiting;
  waiting.swap(entry.waiting);
  lock.unlock();
  for (Waiting& one : waiting) tell(one.wait, tl::unexpected(error));
  lock.lock();
}

void ModelShelf::Shelf::measure(Entry& entry, std::unique_lock<std::mutex>& lock) {
  entry.state = State::loading;
  lock.unlock();
  const Result<uint64_t> needed = guarded(entry.source.measure);
  lock.lock();
  entry.state = State::unloaded;
  if (needed && (options.budget_bytes == 0 || *needed <= options.budget_bytes)) {
    if (!entry.waiting.empty()) entry.needed = *needed;
    return;
  }
  entry.has_failed = true;
  ++entry.figures.n_failed_loads;
  if (!needed) return fail_waiting(entry, load_failure(entry.source.card, needed.error()), lock);
  log_warning("model {} takes {} bytes, all models together may have {}", escape_for_display(entry.source.card.alias),
              *needed, options.budget_bytes);
  ApiError error = plain_error(500, "this model does not fit into the memory of the server");
  error.code = "model_not_loaded";
  fail_waiting(entry, error, lock);
}

void ModelShelf::Shelf::unload(Entry& entry, std::unique_lock<std::mutex>& lock) {
  std::shared_ptr<const ServedModel> gone = std::move(entry.model);
  entry.model.reset();
  entry.state = State::unloaded;
  ++entry.figures.n_unloads;
  const uint64_t n_bytes = std::exchange(entry.figures.n_bytes, 0);
  lock.unlock();
  gone.reset();
  log_info("model {} makes room", escape_for_display(entry.source.card.alias));
  lock.lock();
  n_used_bytes -= n_bytes;
}

void ModelShelf::Shelf::load(Entry& entry, std::unique_lock<std::mutex>& lock) {
  const uint64_t needed = *entry.needed;
  while (!has_room(needed)) {
    Entry* const idle = least_recent_idle();
    if (idle == nullptr || is_ending) return;  // somebody took it up meanwhile
    unload(*idle, lock);
    if (entry.waiting.empty()) return;  // they have left meanwhile
  }
  entry.state = State::loading;
  n_used_bytes += needed;
  lock.unlock();
  auto model = guarded(entry.source.load);
  lock.lock();
  entry.needed.reset();
  entry.has_failed = !model;
  if (!model) {
    n_used_bytes -= needed;
    entry.state = State::unloaded;
    ++entry.figures.n_failed_loads;
    return fail_waiting(entry, load_failure(entry.source.card, model.error()), lock);
  }
  entry.model = *std::move(model);
  entry.state = State::loaded;
  entry.last_used = ++tick;
  entry.figures.n_bytes = needed;
  ++entry.figures.n_loads;
  std::vector<Waiting> waiting;
  waiting.swap(entry.waiting);
  for (Waiting& one : waiting) {  // nobody but this thread unloads
    std::optional<ModelLease> given;
    try {
      given = lease(entry, true);
    } catch (const std::bad_alloc&) {
    }
    lock.unlock();
    tell(one.wait, given ? ApiResult<ModelLease>(*std::move(given))
                         : tl::unexpected(come_back("not enough memory for this request")));
    lock.lock();
  }
}

bool ModelShelf::Shelf::tell_late(std::unique_lock<std::mutex>& lock) {
  const auto now = Clock::now();
  for (Entry& entry : entries) {
    const auto late = std::find_if(entry.waiting.begin(), entry.waiting.end(),
                                   [&](const Waiting& one) { return one.deadline && *one.deadline <= now; });
    if (late == entry.waiting.end()) continue;
    const bool is_loading = entry.state == State::loading;
    ModelWait wait = std::move(late->wait);
    stop_waiting(entry, late);
    lock.unlock();
    tell(wait, tl::unexpected(come_back(is_loading
                                            ? "the model is being loaded"
                                            : "there is no memory for this model until answers of others have ended")));
    lock.lock();
    return true;
  }
  return false;
}

Result<std::unique_ptr<ModelShelf>> ModelShelf::open(std::vector<ModelSource> sources, const ShelfOptions& options) {
  const auto shelf = std::make_shared<Shelf>();
  shelf->options = options;
  for (ModelSource& source : sources) shelf->entries.emplace_back().source = std::move(source);
  Entry& first = shelf->entries.front();
  TAMIS_TRY(const uint64_t needed, first.source.measure());
  if (!shelf->has_room(needed))
    return fail(ErrorCode::out_of_memory, "model {} takes {} bytes, all models together may have {}",
                escape_for_display(first.source.card.alias), needed, options.budget_bytes);
  TAMIS_TRY(first.model, first.source.load());
  first.state = State::loaded;
  first.figures.n_bytes = shelf->n_used_bytes = needed;
  first.figures.n_loads = 1;
  return std::unique_ptr<ModelShelf>(new ModelShelf(shelf));
}

ModelShelf::ModelShelf(std::shared_ptr<Shelf> shelf)
    : shelf_(std::move(shelf)), loader_([this] { load_loop(); }), clock_([this] { deadline_loop(); }) {}

ModelShelf::~ModelShelf() {
  refuse_waiting();
  {
    const std::lock_guard lock(shelf_->mutex);
    shelf_->is_ending = true;
  }
  shelf_->wake_loader.notify_all();
  shelf_->wake_clock.notify_all();
  loader_.join();
  clock_.join();
  for (Entry& entry : shelf_->entries) {
    std::shared_ptr<const ServedModel> gone;
    const std::lock_guard lock(shelf_->mutex);
    entry.state = State::unloaded;
    gone.swap(entry.model);
  }
}

void ModelShelf::load_loop() {
  std::unique_lock lock(shelf_->mutex);
  while (!shelf_->is_ending) {
    if (Entry* const unknown = shelf_->most_awaited([](const Entry& entry) { return !entry.needed; }))
      shelf_->measure(*unknown, lock);
    else if (Entry* const next =
                 shelf_->most_awaited([&](const Entry& entry) { return shelf_->can_have_room(*entry.needed); }))
      shelf_->load(*next, lock);
    else
      shelf_->wake_loader.wait(lock);
  }
}

void ModelShelf::deadline_loop() {
  std::unique_lock lock(shelf_->mutex);
  while (!shelf_->is_ending) {
    if (shelf_->tell_late(lock)) continue;
    std::optional<Clock::time_point> next;
    for (const Entry& entry : shelf_->entries)
      for (const Waiting& one : entry.waiting)
        if (one.deadline) next = std::min(next.value_or(*one.deadline), *one.deadline);
    if (next)
      shelf_->wake_clock.wait_until(lock, *next);
    else
      shelf_->wake_clock.wait(lock);
  }
}

ApiResult<std::optional<ModelLease>> ModelShelf::take(std::string_view name, ModelWait wait) {
  const std::lock_guard lock(shelf_->mutex);
  Entry* const entry = shelf_->find(name);
  if (entry == nullptr) return tl::unexpected(unknown_model(name));
  if (shelf_->is_refusing) return refused(503, kShuttingDown);
  if (entry->state == State::loaded) {
    entry->last_used = ++shelf_->tick;
    return shelf_->lease(*entry, true);
  }
  const ShelfOptions& options = shelf_->options;
  if (entry->waiting.size() >= options.max_waiting)
    return tl::unexpected(come_back(fmt::format("{} requests wait for this model already", entry->waiting.size())));
  const auto n_own = std::count_if(entry->waiting.begin(), entry->waiting.end(),
                                   [&](const Waiting& one) { return one.wait.tenant == wait.tenant; });
  if (options.max_waiting_per_tenant > 0 && n_own >= options.max_waiting_per_tenant)
    return refused(429, fmt::format("{} requests of this key wait for this model already", n_own));
  Waiting waiting{std::move(wait), std::nullopt, ++shelf_->tick};
  if (waiting.wait.seconds > 0)
    waiting.deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(waiting.wait.seconds));
  entry->waiting.push_back(std::move(waiting));
  shelf_->wake_loader.notify_one();
  shelf_->wake_clock.notify_one();
  return std::nullopt;
}

void ModelShelf::forget(const void* key) {
  Waiting gone;  // ends without the lock: what it holds may hold a lease
  const std::lock_guard lock(shelf_->mutex);
  for (Entry& entry : shelf_->entries) {
    const auto who = std::find_if(entry.waiting.begin(), entry.waiting.end(),
                                  [&](const Waiting& one) { return one.wait.key == key; });
    if (who == entry.waiting.end()) continue;
    gone = std::move(*who);
    shelf_->stop_waiting(entry, who);
  }
}

std::vector<ModelStatus> ModelShelf::list() const {
  std::vector<ModelStatus> out;  // ends after the lock, should memory end in between
  const std::lock_guard lock(shelf_->mutex);
  out.reserve(shelf_->entries.size());
  for (Entry& entry : shelf_->entries) {
    ModelStatus& status = out.emplace_back();
    status.card = entry.model != nullptr ? static_cast<const ModelCard&>(*entry.model) : entry.source.card;
    status.state = entry.state;
    status.has_failed = entry.has_failed;
    status.figures = entry.figures;
    status.figures.is_loaded = entry.state == State::loaded;
    status.figures.n_waiting = entry.waiting.size();
    status.counts = entry.counts;
    if (entry.state == State::loaded) status.lease = shelf_->lease(entry, false);
  }
  return out;
}

void ModelShelf::refuse_waiting() {
  std::unique_lock lock(shelf_->mutex);
  shelf_->is_refusing = true;
  for (Entry& entry : shelf_->entries) shelf_->fail_waiting(entry, plain_error(503, kShuttingDown), lock);
  lock.unlock();
  for (const ModelStatus& model : list())
    if (model.lease) model.lease->model->scheduler->refuse_waiting();
}

bool ModelShelf::drain(double seconds) {
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  bool is_clean = true;
  refuse_waiting();
  for (const ModelStatus& model : list()) {
    if (!model.lease) continue;
    const std::chrono::duration<double> left = until - Clock::now();
    is_clean &= model.lease->model->scheduler->drain(std::max(left.count(), 0.0));
  }
  return is_clean;
}

}  // namespace tamis::server
