// HTTP GET for downloads and POST for traces, over libcurl: the only file that includes it. Answers are not trusted:
// every body has a byte limit, nothing is decompressed, redirects are followed by hand and never take the token to
// another host.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tamis::cli {

struct HttpRequest {
  std::string url;
  std::string token;            // sent as a bearer token to `url`'s own origin only; "" = none
  uint64_t first_byte = 0;      // > 0 asks for the rest of the body from here (Range)
  uint64_t max_body_bytes = 0;  // more than this is an error
};

struct HttpReply {
  long status = 0;
  uint64_t first_byte = 0;  // of a partial answer (206), from Content-Range; 0 for whole ones
  std::string commit;       // X-Repo-Commit of the first hop; "" when absent
};

// One POST of JSON.
struct JsonPost {
  std::string url;
  std::chrono::milliseconds timeout{};  // from the connection's beginning to the answer's end
  uint64_t max_answer_bytes = 0;        // of its body; of its header as many
};

struct JsonAnswer {
  long status = 0;
  std::string body;  // "" when it was too long, or broke off
};

class HttpClient {
 public:
  // Takes pieces of the body of a 200 or 206 answer. An error ends the transfer and is returned.
  using Sink = std::function<Status(const HttpReply& reply, std::string_view piece)>;

  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Follows at most 5 redirects, to http(s) only and never from https to http.
  // Errors: network (no answer, a refused redirect, a body that ends early or is too long, any status but 200 and 206 —
  // 404 is not_found); cancelled after Ctrl-C; whatever `sink` returns.
  Result<HttpReply> get(const HttpRequest& request, const Sink& sink);
  // A small answer as a string.
  Result<std::string> get_text(const HttpRequest& request);
  // Follows no redirect. Ends within about a second of `stop`.
  // Errors: network (no answer in time); cancelled by `stop`.
  Result<JsonAnswer> post(const JsonPost& post, const std::string& body, const std::atomic<bool>& stop);

 private:
  struct Transfer;
  struct PostTransfer;
  Result<std::string> perform(const HttpRequest& request, const std::string& url, bool with_token, Transfer& transfer);
  void* handle_ = nullptr;
};

// "https://host:port" of an URL in lower case with the default port written out; "" when it is not http(s).
std::string url_origin(const std::string& url);

}  // namespace tamis::cli
