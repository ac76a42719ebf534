// Backends by name, and the threads they run on: the one place that knows all of them.
#pragma once

#include <memory>
#include <string_view>

#include "base/thread_pool.h"
#include "compute/backend.h"

namespace tamis {

// "cpu" (honours TAMIS_CPU_TARGET) or "reference". `pool` outlives the backend. Errors: unsupported for a backend this
// build does not have; invalid_argument for an unknown name or CPU target.
// `activations`: "q8" or "f32", `layout`: "auto", "planes", "affine" or "dense", for the CPU backend; the reference is
// exact and works on the file's bytes either way.
Result<std::unique_ptr<Backend>> make_backend(std::string_view name, std::string_view activations, ThreadPool* pool,
                                              std::string_view layout = "auto");

// Types of stored keys and values by name; "" is what the backend stores by itself: f16, and f32 on the reference,
// whose results are the measure of all others. Errors: those of kv_types_from_names.
Result<KvTypes> make_kv_types(std::string_view k, std::string_view v, std::string_view backend);

}  // namespace tamis
