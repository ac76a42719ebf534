// Several models behind one server: those that fit are in memory, the others are loaded when they are first asked for.
// Between the routes, which hold a lease on a model for as long as a request needs it, and the loaders (cli).
//
// The memory of a model is known from its file's header before anything of it is read. When there is not enough, models
// that nobody holds a lease on are unloaded, the one whose last lease ended first before the others; a model that a
// request runs, waits or is paused in is never touched, and who asked for another one waits, until a deadline. Loads
// run on one thread of their own, deadlines are kept by another; no lock is held while something is loaded or unloaded.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "server/api_error.h"
#include "server/metrics.h"
#include "server/served_model.h"

namespace tamis::server {

// A model that can be loaded. Both functions are called on the shelf's thread, any number of times, one at a time.
struct ModelSource {
  ModelCard card;
  std::function<Result<uint64_t>()> measure;  // bytes of memory that it will take, by its header
  std::function<Result<std::shared_ptr<const ServedModel>>()> load;
};

// The right to use a model. Whoever works on a step thread keeps `hold` alone, so that no model ends on its own thread.
struct ModelLease {
  std::shared_ptr<const void> hold;  // while it lives the model stays in memory; null where no model ever leaves
  std::shared_ptr<const ServedModel> model;
  std::shared_ptr<ModelMetrics> counts;
};

// Who waits for a model that is not in memory.
struct ModelWait {
  const void* key = nullptr;  // by which forget() knows it
  std::string tenant;
  double seconds = 0;  // at most; 0 = any time
  // Called at most once, on a thread of the shelf, and must be quick; it may run while forget() does and just after it,
  // but not when ~ModelShelf has returned.
  std::function<void(ApiResult<ModelLease>)> then;
};

struct ModelStatus {
  enum class State : uint8_t { unloaded, loading, loaded };
  ModelCard card;
  State state = State::unloaded;
  bool has_failed = false;  // the last time that it was to be loaded
  ShelfFigures figures;
  std::optional<ModelLease> lease;  // when it is loaded
  std::shared_ptr<ModelMetrics> counts;
};

std::string_view state_name(ModelStatus::State state);  // "unloaded", "loading", "loaded"

struct ShelfOptions {
  uint64_t budget_bytes = 0;            // of all models that are in memory; 0 = no limit
  uint32_t max_waiting = 512;           // requests that wait for one model; more are refused with 503
  uint32_t max_waiting_per_tenant = 0;  // of them, of one tenant, then 429; 0 = all
};

class ModelShelf {
 public:
  // Loads the first source on the calling thread, the others when they are asked for. Names are distinct. Requires: at
  // least one source. Errors: the first one's; out_of_memory when the budget does not hold it.
  static Result<std::unique_ptr<ModelShelf>> open(std::vector<ModelSource> sources, const ShelfOptions& options);
  // Tells who waits, waits for a load that runs, then ends all models with what still runs in them.
  ~ModelShelf();
  ModelShelf(const ModelShelf&) = delete;
  ModelShelf& operator=(const ModelShelf&) = delete;

  // A lease on the model of that name ("" = the first), when it is in memory; otherwise nothing, and `wait.then` is
  // called later: with a lease, or with 500 (it cannot be loaded), 503 (its time is over, the server shuts down).
  // Errors: 404 for a name that is not there, 503 and 429 when too many wait already, 503 when draining.
  ApiResult<std::optional<ModelLease>> take(std::string_view name, ModelWait wait);
  void forget(const void* key);  // nobody waits there any more

  std::vector<ModelStatus> list() const;  // in the order of the sources; loads nothing

  // Refuses new requests with 503, and those that wait for a model or in one.
  void refuse_waiting();
  // As Scheduler::drain, of all models that are in memory, in `seconds` altogether.
  bool drain(double seconds);

 private:
  class Hold;
  struct Entry;
  struct Shelf;  // outlives this where a hold does
  explicit ModelShelf(std::shared_ptr<Shelf> shelf);
  void load_loop();
  void deadline_loop();

  const std::shared_ptr<Shelf> shelf_;
  std::thread loader_, clock_;
};

}  // namespace tamis::server
