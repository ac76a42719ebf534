// The way of spans to a collector: OTLP over HTTP, for `tamis serve --otlp-endpoint`.
#pragma once

#include <string>

#include "base/result.h"
#include "server/trace_exporter.h"

namespace tamis::cli {

// Where spans go: `endpoint` with /v1/traces behind its path, unless that is there. Errors: invalid_argument for
// anything but http(s)://HOST[:PORT][/PATH], without its words: a password may be among them.
Result<std::string> otlp_traces_url(const std::string& endpoint);

// POSTs to `url`, 10 s each at most; of an answer 64 KiB are read.
server::TraceSink otlp_sink(const std::string& url);

}  // namespace tamis::cli
