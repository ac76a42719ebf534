// What `tamis quantize` says when it is done, or would say: sizes by group of tensors.
#pragma once

#include <string>

#include "cli/style.h"
#include "convert/quantize.h"

namespace tamis::cli {

std::string quantize_text(const QuantizePlan& plan, const QuantizeReport& report, bool is_dry, const Style& style);
std::string quantize_json(const QuantizePlan& plan, const QuantizeReport& report, bool is_dry);

}  // namespace tamis::cli
