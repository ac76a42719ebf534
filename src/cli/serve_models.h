// The models of `tamis serve`: one that is loaded at once, or several on a shelf.
#pragma once

#include <memory>
#include <vector>

#include "cli/load_engine.h"
#include "engine/scheduler.h"
#include "server/model_shelf.h"
#include "server/served_model.h"

namespace tamis::cli {

struct ServeSetup {
  EngineOptions engine;
  SchedulerOptions scheduler;
};

// What is asked for cannot be kept with several models, or names do not tell them apart. Errors: invalid_argument.
Status check_models(const Args& args);

// The one that -m names, with its draft. `pool` is made here and outlives the model. Errors: those of load_engine,
// load_other_engine and Scheduler::create.
Result<std::shared_ptr<const server::ServedModel>> load_only_model(const Args& args, const ServeSetup& setup,
                                                                   std::unique_ptr<ThreadPool>& pool);

// All that -m names, the first one loaded. `pool` is made here and outlives the shelf, `args` too. Errors: those of
// resolve_model for any of them, those of loading for the first, invalid_argument for two of one name.
Result<std::shared_ptr<server::ModelShelf>> open_shelf(const Args& args, const ServeSetup& setup,
                                                       std::unique_ptr<ThreadPool>& pool);

}  // namespace tamis::cli
