// Making a backend by its name.
#include "api/backends.h"

#include "base/env.h"
#include "compute/reference.h"
#include "cpu/backend.h"

namespace tamis {

Result<std::unique_ptr<Backend>> make_backend(std::string_view name, ThreadPool* pool) {
  if (name == "cpu") return make_cpu_backend(pool, env::cpu_target());
  if (name == "reference") return make_reference_backend(pool);
  if (name == "cuda") return fail(ErrorCode::unsupported, "backend cuda: this build has none; use --backend cpu");
  return fail(ErrorCode::invalid_argument, "backend: got \"{}\", expected cpu or reference", escape_for_display(name));
}

}  // namespace tamis
