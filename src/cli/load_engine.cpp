// Opening the model that the options name, on the backend they name.
#include "cli/load_engine.h"

#include "api/backends.h"
#include "api/open_engine.h"
#include "base/huge_pages.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/machine.h"
#include "cli/model_path.h"
#include "convert/split.h"

namespace tamis::cli {

Status check_unused_options(const Args& args) {
  if (args.has("-ngl") && args.integer("-ngl") != 0)
    log_warning("-ngl: this build has no GPU backend; all layers stay on the CPU");
  return {};
}

Result<uint64_t> ram_budget(const Args& args) {
  if (!args.has("--ram-budget")) return 0;
  auto bytes = parse_size(args.text("--ram-budget"));
  if (!bytes) bytes.error().message = "--ram-budget: " + bytes.error().message;
  return bytes;
}

Result<uint64_t> memory_budget(const Args& args) {
  TAMIS_TRY(const uint64_t given, ram_budget(args));
  if (given != 0) return given;
  const uint64_t usable = usable_memory_bytes(), available = machine_facts().ram_available_bytes;
  return available == 0 ? usable : usable == 0 ? available : std::min(usable, available);
}

void apply_huge_pages(const Args& args) {
  const std::string when = args.text("--huge-pages");
  set_huge_pages(when == "on" ? HugePages::on : when == "off" ? HugePages::off : HugePages::automatic);
}

OptionSpec context_option(std::string_view help) {
  return {.names = "-c,--ctx-size",
          .kind = OptionKind::integer,
          .value_name = "N",
          .help = help,
          .minimum = 0,
          .maximum = 4294967295.0};
}

OptionSpec batch_option() {
  return {.names = "-b,--batch-size",
          .kind = OptionKind::integer,
          .value_name = "N",
          .help = "prompt tokens computed together; changes no result",
          .default_text = "512",
          .minimum = 1,
          .maximum = 65536};
}

Result<uint32_t> integer_option(const Args& args, std::string_view name, uint32_t fallback, uint32_t minimum) {
  if (!args.has(name)) return fallback;
  const int64_t value = args.integer(name);
  if (value < minimum || value > int64_t{UINT32_MAX})
    return fail(ErrorCode::invalid_argument, "{}: got {}, expected {} to {}", name, value, minimum, UINT32_MAX);
  return static_cast<uint32_t>(value);
}

Result<std::shared_ptr<const Engine>> load_other_engine(const Args& args, EngineOptions options,
                                                        const OtherModel& other, ThreadPool& pool) {
  TAMIS_TRY(const std::string path, resolve_model(other.model));
  options.tokenizer.pre = args.text("--pre");
  TAMIS_TRY(options.ram_budget_bytes, ram_budget(args));
  const auto given = [&](std::string_view name) { return args.has(name) ? args.text(name) : std::string(); };
  TAMIS_TRY(options.kv_types, make_kv_types(given("-ctk"), given("-ctv"), other.backend));
  TAMIS_TRY(std::unique_ptr<Backend> backend, make_backend(other.backend, other.activations, &pool, other.layout));
  TAMIS_TRY(auto engine, open_engine(path, std::move(backend), options, pool));
  for (const std::string& warning : engine->warnings()) log_warning("{}", warning);
  return engine;
}

Result<LoadedEngine> load_engine(const Args& args, EngineOptions options, const EngineChoice& chosen) {
  TAMIS_TRY_STATUS(check_unused_options(args));
  std::optional<uint32_t> n_threads = chosen.n_threads;
  if (!n_threads) {
    TAMIS_TRY(n_threads, integer_option(args, "--threads", 0));
  }
  options.trace_dir = args.text("--trace-tensors");
  apply_huge_pages(args);
  LoadedEngine loaded;
  loaded.pool = ThreadPool::create(*n_threads);
  const OtherModel model{args.text("-m"), args.text("--backend"), args.text("--activations"),
                         chosen.layout.value_or(args.text("--layout"))};
  TAMIS_TRY(loaded.engine, load_other_engine(args, options, model, *loaded.pool));
  return loaded;
}

}  // namespace tamis::cli
