// `tamis doctor`: what this machine has, what is wrong with it, and what to do.
#include <unistd.h>

#include <algorithm>

#include "base/env.h"
#include "base/file.h"
#include "base/progress.h"
#include "cli/hub.h"
#include "cli/machine.h"
#include "cli/model_path.h"
#include "cli/style.h"
#include "formats/json.h"

namespace tamis::cli {
namespace {

struct Finding {
  std::string what, advice;
};

bool has_isa(const MachineFacts& facts, std::string_view name) {
  return std::find(facts.isa.begin(), facts.isa.end(), name) != facts.isa.end();
}

std::vector<Finding> findings(const MachineFacts& facts, const std::vector<CachedModel>& models) {
  std::vector<Finding> out;
  if (!has_isa(facts, "AVX2") && !has_isa(facts, "NEON"))
    out.push_back({"no AVX2 or NEON: only the scalar kernels can run",
                   "use a newer CPU, or a virtual machine that passes its CPU's features on"});
  if (facts.cores.quota && *facts.cores.quota < facts.cores.n_physical)
    out.push_back({fmt::format("the cgroup allows {:.2g} CPUs of {} cores", *facts.cores.quota, facts.cores.n_physical),
                   "raise the container's CPU limit (docker: --cpus)"});
  if (facts.cgroup_memory_bytes > 0 && facts.cgroup_memory_bytes < uint64_t{2000000000})
    out.push_back({fmt::format("the cgroup allows {} of memory", human_bytes(facts.cgroup_memory_bytes)),
                   "raise the container's memory limit (docker: --memory)"});
  if (facts.huge_pages == "never")
    out.push_back({"transparent huge pages are off: large matrices are read slower",
                   "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"});
  if (facts.gpu_devices.empty() && !facts.gpu_driver.empty())
    out.push_back({"an NVIDIA driver is loaded but no device file is there",
                   "pass the GPU into the container (docker: --gpus all)"});
  if (!resolve_model(""))
    out.push_back({"the default model is not there: tamis run needs -m",
                   "run scripts/get-models smollm2-135m, or tamis pull USER/REPO"});
  for (const CachedModel& model : models)
    if (model.files.size() != model.n_shards)
      out.push_back({fmt::format("{} lacks shards", model.name), fmt::format("tamis pull {}", model.name)});
  if (!env::cpu_target().empty())
    out.push_back({fmt::format("TAMIS_CPU_TARGET={} forces the CPU kernels", escape_for_display(env::cpu_target())),
                   "unset it unless you mean it"});
  return out;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

Json as_json(const MachineFacts& facts, double bytes_per_s, const std::vector<CachedModel>& models,
             const std::vector<Finding>& wrong) {
  Json cpu = Json::object();
  Json isa = Json::array();
  for (const std::string& name : facts.isa) isa.push_back(name);
  cpu.set("model", facts.cpu_model).set("isa", std::move(isa)).set("logical", int64_t{facts.cores.n_logical});
  cpu.set("physical", int64_t{facts.cores.n_physical}).set("usable", int64_t{facts.cores.n_usable});
  cpu.set("quota", facts.cores.quota ? Json(*facts.cores.quota) : Json());
  Json memory = Json::object();
  memory.set("total_bytes", Json(facts.ram_bytes)).set("available_bytes", Json(facts.ram_available_bytes));
  memory.set("limit_bytes", facts.cgroup_memory_bytes == 0 ? Json() : Json(facts.cgroup_memory_bytes));
  memory.set("read_bytes_per_s", bytes_per_s).set("huge_pages", facts.huge_pages);
  Json gpus = Json::array();
  for (const std::string& device : facts.gpu_devices) gpus.push_back(device);
  Json gpu = Json::object();
  gpu.set("devices", std::move(gpus)).set("driver", facts.gpu_driver.empty() ? Json() : Json(facts.gpu_driver));
  uint64_t n_bytes = 0;
  for (const CachedModel& model : models) n_bytes += model.size_bytes;
  Json cache = Json::object();
  cache.set("models", static_cast<int64_t>(models.size())).set("size_bytes", Json(n_bytes));
  cache.set("directory", models_dir()).set("hub_directory", env::hugging_face_hub());
  Json problems = Json::array();
  for (const Finding& finding : wrong) {
    Json row = Json::object();
    problems.push_back(row.set("what", finding.what).set("advice", finding.advice));
  }
  Json object = Json::object();
  object.set("schema", 1).set("cpu", std::move(cpu)).set("memory", std::move(memory)).set("gpu", std::move(gpu));
  return object.set("cache", std::move(cache)).set("problems", std::move(problems));
}

std::string as_text(const MachineFacts& facts, double bytes_per_s, const std::vector<CachedModel>& models,
                    const std::vector<Finding>& wrong, const Style& style) {
  Table table({Align::left, Align::left});
  auto row = [&](std::string_view name, std::string value) { table.add({style.dim(name), std::move(value)}); };
  row("cpu", style.bold(facts.cpu_model.empty() ? "unknown" : facts.cpu_model));
  row("instructions", facts.isa.empty() ? "none that tamis uses" : joined(facts.isa));
  const std::string quota = facts.cores.quota ? fmt::format(", cgroup quota {:.2g}", *facts.cores.quota) : "";
  row("cores", fmt::format("{} used by default: {} physical, {} logical allowed{}", facts.cores.n_usable,
                           facts.cores.n_physical, facts.cores.n_logical, quota));
  const std::string limit =
      facts.cgroup_memory_bytes > 0 ? fmt::format(", limit {}", human_bytes(facts.cgroup_memory_bytes)) : "";
  row("memory",
      fmt::format("{}, {} available{}", human_bytes(facts.ram_bytes), human_bytes(facts.ram_available_bytes), limit));
  row("bandwidth", fmt::format("{}/s reading with {} threads (a quick measure)",
                               human_bytes(static_cast<uint64_t>(bytes_per_s)), facts.cores.n_usable));
  row("huge pages", facts.huge_pages.empty() ? "unknown" : facts.huge_pages);
  row("gpu", facts.gpu_devices.empty() ? "none"
                                       : fmt::format("{} NVIDIA device{}, driver {}", facts.gpu_devices.size(),
                                                     facts.gpu_devices.size() == 1 ? "" : "s",
                                                     facts.gpu_driver.empty() ? "unknown" : facts.gpu_driver));
  uint64_t n_bytes = 0;
  for (const CachedModel& model : models) n_bytes += model.size_bytes;
  row("models", models.empty() ? "none cached" : fmt::format("{} cached, {}", models.size(), human_bytes(n_bytes)));
  std::string out = table.text() + "\n";
  if (wrong.empty()) out += style.paint(Color::green, "Nothing is wrong.") + "\n";
  for (const Finding& finding : wrong) {
    out += style.paint(Color::yellow, "! ") + finding.what + "\n";
    out += "  " + style.dim("do: ") + finding.advice + "\n";
  }
  return out;
}

Result<int> run_doctor(const Args& args) {
  const MachineFacts facts = machine_facts();
  const double bytes_per_s = measure_read_bandwidth(facts.cores.n_usable);
  const std::vector<CachedModel> models = list_cached_models();
  const auto wrong = findings(facts, models);
  TAMIS_TRY_STATUS(print_out(args.flag("--json") ? as_json(facts, bytes_per_s, models, wrong).dump() + "\n"
                                                 : as_text(facts, bytes_per_s, models, wrong, Style::from_args(args))));
  return 0;
}

}  // namespace

Verb doctor_verb() {
  return {.name = "doctor",
          .summary = "what this machine has, what is wrong, what to do",
          .details = "",
          .positionals = {},
          .options = {},
          .run = run_doctor};
}

}  // namespace tamis::cli
