// The option table of `tamis serve`; private to it.
#pragma once

#include "cli/verb.h"

namespace tamis::cli {

std::vector<OptionSpec> serve_options();

}  // namespace tamis::cli
