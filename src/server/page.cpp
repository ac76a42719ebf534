// Answers of the web page's files.
#include "server/page.h"

namespace tamis::server {
namespace {

constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

// Whether the client's copy is this one: If-None-Match is a list of tags, weak ones too, or "*".
bool has_tag(const RequestHead& head, std::string_view tag) {
  const std::string* const wanted = head.find("if-none-match");
  return wanted != nullptr && (*wanted == "*" || wanted->find(tag) != std::string::npos);
}

}  // namespace

const PageFile* find_page_file(std::string_view path) {
  for (const PageFile& file : page_files())
    if (file.path == path) return &file;
  return nullptr;
}

Response page_response(const PageFile& file, const RequestHead& head) {
  Response response;
  response.content_type = file.content_type;
  response.headers = {{"etag", std::string(file.tag)},
                      {"cache-control", "no-cache"},
                      {"content-security-policy", std::string(kPolicy)},
                      {"cross-origin-opener-policy", "same-origin"},
                      {"cross-origin-resource-policy", "same-origin"},
                      {"referrer-policy", "no-referrer"}};
  if (has_tag(head, file.tag)) {
    response.status = 304;
    return response;
  }
  response.body.assign(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  return response;
}

}  // namespace tamis::server
