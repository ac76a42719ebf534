// Making a backend by its name.
#include "api/backends.h"

#include <utility>

#include "base/env.h"
#include "compute/reference.h"
#include "cpu/backend.h"

namespace tamis {

namespace {

Result<CpuLayout> cpu_layout(std::string_view name) {
  constexpr std::pair<std::string_view, CpuLayout> kLayouts[] = {{"auto", CpuLayout::automatic},
                                                                 {"planes", CpuLayout::planes},
                                                                 {"affine", CpuLayout::affine},
                                                                 {"dense", CpuLayout::dense}};
  for (const auto& [known, layout] : kLayouts)
    if (known == name) return layout;
  return fail(ErrorCode::invalid_argument, "layout: got \"{}\", expected auto, planes, affine or dense",
              escape_for_display(name));
}

}  // namespace

Result<std::unique_ptr<Backend>> make_backend(std::string_view name, std::string_view activations, ThreadPool* pool,
                                              std::string_view layout) {
  if (activations != "q8" && activations != "f32")
    return fail(ErrorCode::invalid_argument, "activations: got \"{}\", expected q8 or f32",
                escape_for_display(activations));
  const CpuActivations kind = activations == "q8" ? CpuActivations::q8 : CpuActivations::f32;
  TAMIS_TRY(const CpuLayout form, cpu_layout(layout));
  if (name == "cpu") return make_cpu_backend(pool, env::cpu_target(), kind, form);
  if (name == "reference") return make_reference_backend(pool);
  if (name == "cuda") return fail(ErrorCode::unsupported, "backend cuda: this build has none; use --backend cpu");
  return fail(ErrorCode::invalid_argument, "backend: got \"{}\", expected cpu or reference", escape_for_display(name));
}

Result<KvTypes> make_kv_types(std::string_view k, std::string_view v, std::string_view backend) {
  const std::string_view own = backend == "reference" ? "f32" : "f16";
  return kv_types_from_names(k.empty() ? own : k, v.empty() ? own : v);
}

}  // namespace tamis
