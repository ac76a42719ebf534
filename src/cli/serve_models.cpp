// From -m to models that can be served, and what each takes in memory before it is loaded.
#include "cli/serve_models.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "api/backends.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/model_facts.h"
#include "cli/model_path.h"
#include "convert/checkpoint.h"
#include "convert/split.h"
#include "engine/memory_plan.h"

namespace tamis::cli {
namespace {

int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The file's name without its ending, unless --alias gives another.
std::string alias_of(const Args& args, const std::string& path, size_t model_idx) {
  const std::vector<std::string> given = args.texts("--alias");
  return model_idx < given.size() ? given[model_idx] : std::filesystem::path(path).stem().string();
}

void fill_card(server::ModelCard& card, const GgufFile& file) {
  const ModelFacts facts = gather_facts(file);
  card.type_label = facts.type_label;
  card.architecture = facts.architecture;
  card.n_parameters = facts.total.n_params;
  card.size_bytes = file.size_bytes();
}

Result<std::shared_ptr<const server::ServedModel>> served_model(const Args& args, const std::string& alias,
                                                                const std::shared_ptr<const Engine>& engine,
                                                                const SchedulerOptions& options) {
  const auto served = std::make_shared<server::ServedModel>(engine);
  TAMIS_TRY(served->scheduler, Scheduler::create(engine, options));
  served->alias = alias;
  fill_card(*served, engine->model().file);
  served->max_seqs = options.max_seqs;
  served->max_queue = options.max_queue;
  served->loaded_at = unix_time();
  served->parse_content_special = args.flag("--hf-special");
  if (auto trie = TokenTrie::create(*engine->tokenizer()); trie)
    served->grammars = std::make_shared<GrammarCache>(*std::move(trie));
  return served;
}

// Memory of a model beside others.
struct Share {
  uint64_t total_bytes = 0;  // weights, keys and values, buffers
  uint64_t kv_bytes = 0;     // of them, the pool of keys and values
};

class OneOfSeveral {
 public:
  OneOfSeveral(const Args& args, const ServeSetup& setup, ThreadPool& pool, uint64_t budget_bytes)
      : args_(args), setup_(setup), pool_(pool), budget_bytes_(budget_bytes) {}

  // From the header alone. Errors: those of GgufFile::open and plan_memory; out_of_memory.
  Result<Share> share(const std::string& path) const {
    TAMIS_TRY(const GgufFile file, GgufFile::open(path));
    TAMIS_TRY(const std::unique_ptr<Backend> backend,
              make_backend(args_.text("--backend"), args_.text("--activations"), &pool_, args_.text("--layout")));
    TAMIS_TRY(const ModelPlan plan, plan_model(file));
    MemoryRequest request;
    request.n_ctx =
        setup_.engine.n_ctx != 0 ? setup_.engine.n_ctx : std::min(plan.hyper.n_ctx_train, Engine::kDefaultContext);
    // The largest step of the scheduler, with logits for every answer.
    request.n_seqs = setup_.scheduler.max_seqs;
    request.n_batch =
        std::max(setup_.scheduler.max_batched_tokens != 0 ? setup_.scheduler.max_batched_tokens : setup_.engine.n_batch,
                 request.n_seqs);
    const auto type = [&](std::string_view name) { return args_.has(name) ? args_.text(name) : std::string(); };
    TAMIS_TRY(request.kv_types, make_kv_types(type("-ctk"), type("-ctv"), args_.text("--backend")));
    TAMIS_TRY(const MemoryPlan memory, plan_memory(file, *backend, request));
    const uint64_t fixed = memory.total() - memory.kv, context = memory.kv / request.n_seqs;
    Share out{.kv_bytes = setup_.scheduler.kv_bytes};
    if (out.kv_bytes == 0) {
      out.kv_bytes = kContextsByDefault * context;
      if (budget_bytes_ != 0)
        out.kv_bytes = std::min(out.kv_bytes, (budget_bytes_ - std::min(budget_bytes_, fixed)) / 2);
    }
    out.total_bytes = fixed + std::max(out.kv_bytes, context);  // one has to fit, at least
    return out;
  }

  Result<std::shared_ptr<const server::ServedModel>> load(const std::string& path, const std::string& alias) const {
    TAMIS_TRY(const Share planned, share(path));
    const OtherModel named{path, args_.text("--backend"), args_.text("--activations"), args_.text("--layout")};
    TAMIS_TRY(const auto engine, load_other_engine(args_, setup_.engine, named, pool_));
    SchedulerOptions options = setup_.scheduler;
    options.pool = &pool_;
    options.kv_bytes = planned.kv_bytes;
    TAMIS_TRY(auto served, served_model(args_, alias, engine, options));
    log_info("model {} is loaded, {} bytes of memory", escape_for_display(alias), planned.total_bytes);
    return served;
  }

 private:
  const Args& args_;
  const ServeSetup setup_;
  ThreadPool& pool_;
  const uint64_t budget_bytes_;
};

Result<server::ModelSource> make_source(const std::shared_ptr<const OneOfSeveral>& loader, const Args& args,
                                        const std::string& name, size_t model_idx) {
  TAMIS_TRY(const std::string path, resolve_model(name));
  if (is_checkpoint(path))
    return fail(ErrorCode::unsupported, "{}: got a folder, expected a GGUF file beside other models", path);
  server::ModelSource source;
  source.card.alias = alias_of(args, path, model_idx);
  source.card.loaded_at = unix_time();
  if (const auto file = GgufFile::open(path))
    fill_card(source.card, *file);
  else  // it may be another file when it is asked for
    log_warning("model {} cannot be loaded now: {}", escape_for_display(source.card.alias), file.error().to_string());
  source.measure = [loader, path]() -> Result<uint64_t> {
    return loader->share(path).map([](const Share& share) { return share.total_bytes; });
  };
  source.load = [loader, path, alias = source.card.alias] { return loader->load(path, alias); };
  return source;
}

}  // namespace

Status check_models(const Args& args) {
  const size_t n_models = std::max<size_t>(args.texts("-m").size(), 1), n_names = args.texts("--alias").size();
  if (n_names > n_models)
    return fail(ErrorCode::invalid_argument, "--alias: got {} names, expected at most {}, one for each -m", n_names,
                n_models);
  for (const std::string& name : args.texts("--alias"))
    if (name.empty()) return fail(ErrorCode::invalid_argument, "--alias: got an empty name");
  if (n_models == 1) return {};
  for (const char* const option : {"-md", "--trace-tensors"})
    if (args.has(option)) return fail(ErrorCode::invalid_argument, "{}: goes with one -m, got {}", option, n_models);
  return {};
}

Result<std::shared_ptr<const server::ServedModel>> load_only_model(const Args& args, const ServeSetup& setup,
                                                                   std::unique_ptr<ThreadPool>& pool) {
  TAMIS_TRY(LoadedEngine loaded, load_engine(args, setup.engine));
  pool = std::move(loaded.pool);
  SchedulerOptions options = setup.scheduler;
  options.pool = pool.get();
  if (args.has("-md")) {
    EngineOptions engine_options = setup.engine;
    engine_options.n_ctx = loaded.engine->n_ctx();
    const OtherModel draft{args.text("-md"), args.text("--backend"), args.text("--activations"), args.text("--layout")};
    TAMIS_TRY(options.draft, load_other_engine(args, engine_options, draft, *pool));
  }
  return served_model(args, alias_of(args, loaded.engine->model().file.path(), 0), loaded.engine, options);
}

Result<std::shared_ptr<server::ModelShelf>> open_shelf(const Args& args, const ServeSetup& setup,
                                                       std::unique_ptr<ThreadPool>& pool) {
  TAMIS_TRY_STATUS(check_unused_options(args));
  TAMIS_TRY(const uint32_t n_threads, integer_option(args, "--threads", 0));
  apply_huge_pages(args);
  pool = ThreadPool::create(n_threads);
  server::ShelfOptions options;
  TAMIS_TRY(options.budget_bytes, memory_budget(args));
  // The program itself has its share of what is free.
  if (!args.has("--ram-budget")) options.budget_bytes -= std::min(options.budget_bytes, resident_memory_bytes());
  options.max_waiting = setup.scheduler.max_queue;
  options.max_waiting_per_tenant = setup.scheduler.max_queue_per_tenant;
  const auto loader = std::make_shared<const OneOfSeveral>(args, setup, *pool, options.budget_bytes);
  std::vector<server::ModelSource> sources;
  for (const std::string& name : args.texts("-m")) {
    TAMIS_TRY(server::ModelSource source, make_source(loader, args, name, sources.size()));
    for (const server::ModelSource& other : sources)
      if (other.card.alias == source.card.alias)
        return fail(ErrorCode::invalid_argument, "two models are named \"{}\"; --alias, once for each -m, names them",
                    escape_for_display(source.card.alias));
    sources.push_back(std::move(source));
  }
  return server::ModelShelf::open(std::move(sources), options);
}

}  // namespace tamis::cli
