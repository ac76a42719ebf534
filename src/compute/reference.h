// The reference backend: the oracle of all others. Plain loops, weights decoded per the format's definition, double
// accumulation, exact functions of libm, f32 between ops. Weight bytes are decoded row by row as they are used, so a
// model costs no memory beyond its file.
#pragma once

#include <memory>

#include "compute/backend.h"

namespace tamis {

class ThreadPool;

// `pool` (may be null: one thread) outlives the backend; results do not depend on it.
std::unique_ptr<Backend> make_reference_backend(ThreadPool* pool = nullptr);

}  // namespace tamis
