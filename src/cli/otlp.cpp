// One POST a batch.  Source: OTLP 1.x, "OTLP/HTTP": which statuses may be tried again.
#include "cli/otlp.h"

#include <memory>
#include <utility>

#include "cli/http.h"

namespace tamis::cli {
namespace {

constexpr std::chrono::seconds kTimeout{10};  // OpenTelemetry's own default
constexpr uint64_t kMaxAnswerBytes = uint64_t{64} << 10;
constexpr std::string_view kPath = "/v1/traces";

}  // namespace

Result<std::string> otlp_traces_url(const std::string& endpoint) {
  if (url_origin(endpoint).empty() || endpoint.find_first_of("?#@ ") != std::string::npos)
    return fail(ErrorCode::invalid_argument, "--otlp-endpoint: expected http(s)://HOST[:PORT][/PATH]");
  std::string url = endpoint;
  while (url.ends_with('/')) url.pop_back();
  if (!url.ends_with(kPath)) url += kPath;
  return url;
}

server::TraceSink otlp_sink(const std::string& url) {
  return [client = std::make_shared<HttpClient>(), post = JsonPost{url, kTimeout, kMaxAnswerBytes}](
             const std::string& body, const std::atomic<bool>& is_over) -> Result<std::string> {
    TAMIS_TRY(JsonAnswer answer, client->post(post, body, is_over));
    if (answer.status >= 200 && answer.status < 300) return std::move(answer.body);
    const bool may_pass = answer.status == 429 || answer.status == 502 || answer.status == 503 || answer.status == 504;
    return fail(may_pass ? ErrorCode::network : ErrorCode::unsupported, "{}: got HTTP status {}",
                escape_for_display(post.url, 300), answer.status);
  };
}

}  // namespace tamis::cli
