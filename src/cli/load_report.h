// What `tamis bench serve` found, as a table or as JSON.
#pragma once

#include <string>

#include "cli/load_scenarios.h"
#include "formats/json.h"

namespace tamis::cli {

// {"schema":1,"scenario":…,"facts":{…},"phases":[{"name":…,…}]}
Json load_json(const LoadReport& report);
std::string load_text(const LoadReport& report);
// One line a request, for plots: {"phase":…,"client":…,"sent":…,"pieces":[…],"ended":…,…}
std::string trace_lines(const LoadReport& report);

}  // namespace tamis::cli
