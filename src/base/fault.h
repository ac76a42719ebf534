// Planted faults: proof that the fuzzers can find what they are there to find. `TAMIS_CHECKED(n, condition)` is the
// condition, unless the program is built with -DTAMIS_FAULT=n: then that one bounds or overflow check is missing.
#pragma once

#ifdef TAMIS_FAULT
#define TAMIS_CHECKED(n, condition) ((n) != TAMIS_FAULT && (condition))
#else
#define TAMIS_CHECKED(n, condition) (condition)
#endif
