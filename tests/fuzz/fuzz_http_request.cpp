// fuzz: rooms=server,api,engine,text,formats,base
// Any bytes as HTTP requests, cut at places the input chooses: the same requests, bodies and refusal as uncut.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "server/http_request.h"

namespace {

using tamis::server::HttpLimits;
using tamis::server::RequestParser;

struct Outcome {
  std::string requests;  // everything that was understood
  int refusal = 0;
};

// Past the limits the place of a cut decides which of two limits is told of.
int kind(int status) { return status == 414 ? 431 : status; }

Outcome read(std::string_view bytes, std::string_view cuts) {
  const HttpLimits limits{.line_bytes = 200, .head_bytes = 600, .n_headers = 10, .body_bytes = 300};
  Outcome out;
  RequestParser parser(limits);
  size_t i = 0, n_given = 0, cut = 0;
  for (;;) {
    switch (parser.state()) {
      case RequestParser::State::head_done: parser.read_body(); continue;
      case RequestParser::State::failed: out.refusal = kind(parser.fault().status); return out;
      case RequestParser::State::done:
        if (parser.body().size() > limits.body_bytes || parser.head().headers.size() > limits.n_headers) std::abort();
        out.requests += parser.head().method + " " + parser.head().target + "\n";
        out.requests += parser.head().query("model").value_or("") + "\n";
        for (const auto& [name, value] : parser.head().headers) out.requests += name + ":" + value + "\n";
        out.requests += parser.body() + "\n";
        parser = RequestParser(limits);
        continue;
      default: break;
    }
    if (i == n_given) {
      if (n_given == bytes.size()) return out;
      const size_t step = cuts.empty() ? bytes.size() : 1 + static_cast<unsigned char>(cuts[cut++ % cuts.size()]) % 16;
      n_given = std::min(bytes.size(), n_given + step);
    }
    const size_t taken = parser.feed(bytes.substr(i, n_given - i));
    if (taken > n_given - i) std::abort();
    i += taken;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const Outcome whole = read(all.substr(4), "");
  const Outcome cut = read(all.substr(4), all.substr(0, 4));
  if (whole.requests != cut.requests || whole.refusal != cut.refusal) std::abort();
  return 0;
}
