// One transfer at a time over libcurl; redirects by our own loop (docs/decisions/0002-libcurl.md says why each rule).
#include "cli/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <new>

#include "base/ascii.h"
#include "cli/interrupt.h"

namespace tamis::cli {
namespace {

constexpr int kMaxRedirects = 5;
constexpr long kConnectTimeoutS = 20;
constexpr long kStallSeconds = 60;  // no byte for this long ends a transfer

std::string url_part(const std::string& url, CURLUPart part) {
  CURLU* parsed = ::curl_url();
  char* text = nullptr;
  std::string out;
  if (parsed != nullptr && ::curl_url_set(parsed, CURLUPART_URL, url.c_str(), 0) == CURLUE_OK &&
      ::curl_url_get(parsed, part, &text, CURLU_DEFAULT_PORT) == CURLUE_OK)
    out = text;
  ::curl_free(text);
  ::curl_url_cleanup(parsed);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "127.0.0.1" || host == "[::1]"; }

// A token may go over TLS, or in the clear to this machine itself.
bool may_carry_token(const std::string& url) {
  return url_part(url, CURLUPART_SCHEME) == "https" || is_loopback(url_part(url, CURLUPART_HOST));
}

bool starts_with_ignoring_case(std::string_view line, std::string_view name) {
  return to_lower(line.substr(0, name.size())) == name;
}

tl::unexpected<Error> status_error(long status, const std::string& url) {
  const ErrorCode code = status == 404 ? ErrorCode::not_found : ErrorCode::network;
  const std::string_view hint =
      status == 401 || status == 403 ? "; the model is private, gated or misspelt: set HF_TOKEN" : "";
  return fail(code, "{}: got HTTP status {}{}", escape_for_display(url, 300), status, hint);
}

}  // namespace

std::string url_origin(const std::string& url) {
  const std::string scheme = url_part(url, CURLUPART_SCHEME), host = url_part(url, CURLUPART_HOST);
  if ((scheme != "http" && scheme != "https") || host.empty()) return "";
  return fmt::format("{}://{}:{}", scheme, host, url_part(url, CURLUPART_PORT));
}

struct HttpClient::Transfer {
  HttpReply reply;
  const Sink* sink = nullptr;
  uint64_t max_body_bytes = 0, n_body_bytes = 0;
  std::string location;
  Status status;  // what a callback found wrong

  bool has_body() const { return reply.status == 200 || reply.status == 206; }

  static size_t on_header(char* data, size_t size, size_t n, void* self) {
    static_cast<Transfer*>(self)->take_header(std::string_view(data, size * n));
    return size * n;
  }

  void take_header(std::string_view line) {
    if (line.starts_with("HTTP/")) {
      location.clear();
      reply.first_byte = 0;
      const size_t space = line.find(' ');
      reply.status = 0;
      if (space != std::string_view::npos)
        std::from_chars(line.data() + space + 1, line.data() + line.size(), reply.status);
    } else if (starts_with_ignoring_case(line, "location:")) {
      location = trimmed(line.substr(9));
    } else if (starts_with_ignoring_case(line, "x-repo-commit:")) {
      if (reply.commit.empty()) reply.commit = trimmed(line.substr(14));
    } else if (starts_with_ignoring_case(line, "content-range:")) {
      std::string_view range = trimmed(line.substr(14));
      if (range.starts_with("bytes ")) std::from_chars(range.data() + 6, range.data() + range.size(), reply.first_byte);
    }
  }

  // Returns less than it was given to end the transfer. No exception may cross libcurl's frames.
  static size_t on_body(char* data, size_t size, size_t n, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    try {
      transfer.status = transfer.take_body(std::string_view(data, size * n));
    } catch (const std::bad_alloc&) {
      transfer.status = fail(ErrorCode::out_of_memory, "an allocation failed");
    }
    return transfer.status ? size * n : 0;
  }

  Status take_body(std::string_view piece) {
    if (!has_body()) return {};  // the page of an error or a redirect
    n_body_bytes += piece.size();
    if (n_body_bytes > max_body_bytes)
      return fail(ErrorCode::network, "the answer is longer than the {} bytes expected", max_body_bytes);
    return (*sink)(reply, piece);
  }

  static int on_progress(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) { return stop_flag() ? 1 : 0; }
};

struct HttpClient::PostTransfer {
  uint64_t max_bytes = 0, n_header_bytes = 0;
  const std::atomic<bool>* stop = nullptr;
  std::string body;

  static size_t on_header(char*, size_t size, size_t n, void* self) {
    auto& transfer = *static_cast<PostTransfer*>(self);
    transfer.n_header_bytes += size * n;
    return transfer.n_header_bytes <= transfer.max_bytes ? size * n : 0;
  }

  static size_t on_body(char* data, size_t size, size_t n, void* self) {
    auto& transfer = *static_cast<PostTransfer*>(self);
    if (transfer.body.size() + size * n > transfer.max_bytes) return 0;
    try {
      transfer.body.append(data, size * n);
    } catch (const std::bad_alloc&) {
      return 0;
    }
    return size * n;
  }

  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return *static_cast<PostTransfer*>(self)->stop ? 1 : 0;
  }
};

HttpClient::HttpClient() {
  [[maybe_unused]] static const CURLcode is_ready = ::curl_global_init(CURL_GLOBAL_DEFAULT);
  handle_ = ::curl_easy_init();
}

HttpClient::~HttpClient() { ::curl_easy_cleanup(static_cast<CURL*>(handle_)); }

// One hop. Returns the URL it redirects to, "" when it does not.
Result<std::string> HttpClient::perform(const HttpRequest& request, const std::string& url, bool with_token,
                                        Transfer& transfer) {
  CURL* curl = static_cast<CURL*>(handle_);
  ::curl_easy_reset(curl);
  curl_slist* headers = nullptr;
  if (with_token) headers = ::curl_slist_append(headers, ("Authorization: Bearer " + request.token).c_str());
  ::curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  ::curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  ::curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  ::curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  ::curl_easy_setopt(curl, CURLOPT_USERAGENT, "tamis");
  ::curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectTimeoutS);
  ::curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  ::curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  ::curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  ::curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  ::curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  ::curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  ::curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  ::curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  ::curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
  const std::string range = fmt::format("{}-", request.first_byte);
  if (request.first_byte > 0) ::curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());
  const CURLcode code = ::curl_easy_perform(curl);
  ::curl_slist_free_all(headers);
  if (!transfer.status) return tl::unexpected<Error>(transfer.status.error());
  if (code == CURLE_ABORTED_BY_CALLBACK) return fail(ErrorCode::cancelled, "stopped");
  if (code != CURLE_OK)
    return fail(ErrorCode::network, "{}: {}", escape_for_display(url, 300), ::curl_easy_strerror(code));
  const bool is_redirect = transfer.reply.status >= 300 && transfer.reply.status < 400 && !transfer.location.empty();
  if (!is_redirect) return std::string();
  char* target = nullptr;  // absolute, by libcurl
  ::curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &target);
  return std::string(target == nullptr ? "" : target);
}

Result<HttpReply> HttpClient::get(const HttpRequest& request, const Sink& sink) {
  if (handle_ == nullptr) return fail(ErrorCode::out_of_memory, "cannot start an HTTP client");
  const std::string home = url_origin(request.url);
  if (home.empty())
    return fail(ErrorCode::network, "{}: expected an http or https address", escape_for_display(request.url, 300));
  std::string url = request.url;
  Transfer transfer;
  transfer.sink = &sink;
  transfer.max_body_bytes = request.max_body_bytes;
  for (int hop = 0; hop <= kMaxRedirects; ++hop) {
    const std::string origin = url_origin(url);
    if (origin.empty() || (home.starts_with("https:") && !origin.starts_with("https:")))
      return fail(ErrorCode::network, "{}: refused a redirect to {}", escape_for_display(request.url, 300),
                  escape_for_display(url, 300));
    const bool with_token = !request.token.empty() && origin == home && may_carry_token(url);
    TAMIS_TRY(std::string next, perform(request, url, with_token, transfer));
    if (transfer.has_body()) return transfer.reply;
    if (next.empty()) return status_error(transfer.reply.status, url);
    url = std::move(next);
  }
  return fail(ErrorCode::network, "{}: more than {} redirects", escape_for_display(request.url, 300), kMaxRedirects);
}

Result<std::string> HttpClient::get_text(const HttpRequest& request) {
  std::string body;
  TAMIS_TRY(const HttpReply reply, get(request, [&](const HttpReply&, std::string_view piece) -> Status {
              body += piece;
              return {};
            }));
  static_cast<void>(reply);
  return body;
}

Result<JsonAnswer> HttpClient::post(const JsonPost& post, const std::string& body, const std::atomic<bool>& stop) {
  if (handle_ == nullptr) return fail(ErrorCode::out_of_memory, "cannot start an HTTP client");
  CURL* curl = static_cast<CURL*>(handle_);
  ::curl_easy_reset(curl);
  curl_slist* headers = ::curl_slist_append(nullptr, "Content-Type: application/json");
  headers = ::curl_slist_append(headers, "Expect:");
  PostTransfer transfer;
  transfer.max_bytes = post.max_answer_bytes;
  transfer.stop = &stop;
  ::curl_easy_setopt(curl, CURLOPT_URL, post.url.c_str());
  ::curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  ::curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  ::curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  ::curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);  // no waiting for a name that is still looked up
  ::curl_easy_setopt(curl, CURLOPT_USERAGENT, "tamis");
  ::curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(post.timeout.count()));
  ::curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  ::curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
  ::curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  ::curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &PostTransfer::on_header);
  ::curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  ::curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &PostTransfer::on_body);
  ::curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  ::curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  ::curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &PostTransfer::on_progress);
  ::curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  const CURLcode code = ::curl_easy_perform(curl);
  ::curl_slist_free_all(headers);
  JsonAnswer answer;
  ::curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer.status);
  if (code == CURLE_OK) {
    answer.body = std::move(transfer.body);
  } else if (answer.status < 200) {
    if (code == CURLE_ABORTED_BY_CALLBACK) return fail(ErrorCode::cancelled, "stopped");
    return fail(ErrorCode::network, "{}: {}", escape_for_display(post.url, 300), ::curl_easy_strerror(code));
  }
  return answer;
}

}  // namespace tamis::cli
