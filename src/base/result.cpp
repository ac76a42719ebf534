// Error printing and the one table from error codes to exit codes.
#include "base/result.h"

#include <cstdio>
#include <cstdlib>

#include "base/utf8.h"

namespace tamis {
namespace {

struct CodeRow {
  ErrorCode code;
  std::string_view name;
  int exit_code;
};

constexpr CodeRow kCodes[] = {
    {ErrorCode::io, "io", 1},
    {ErrorCode::format, "format", 3},
    {ErrorCode::unsupported, "unsupported", 3},
    {ErrorCode::shape, "shape", 3},
    {ErrorCode::not_found, "not_found", 1},
    {ErrorCode::out_of_memory, "out_of_memory", 4},
    {ErrorCode::device, "device", 1},
    {ErrorCode::network, "network", 5},
    {ErrorCode::cancelled, "cancelled", 130},
    {ErrorCode::invalid_argument, "invalid_argument", 2},
    {ErrorCode::check_failed, "check_failed", 6},
    {ErrorCode::internal, "internal", 1},
};

const CodeRow& row_of(ErrorCode code) {
  for (const CodeRow& row : kCodes)
    if (row.code == code) return row;
  return kCodes[std::size(kCodes) - 1];
}

}  // namespace

std::string_view error_code_name(ErrorCode code) { return row_of(code).name; }
int exit_code(ErrorCode code) { return row_of(code).exit_code; }

std::string Error::to_string() const {
  if (!site) return fmt::format("{} [{}]", message, error_code_name(code));
  std::string out;
  if (!site->file.empty()) out += escape_for_display(site->file, 4096) + ": ";
  if (site->has_offset) out += fmt::format("byte {} (0x{:x}): ", site->byte_offset, site->byte_offset);
  out += message;
  const std::string_view tag = site->tag.empty() ? error_code_name(code) : std::string_view(site->tag);
  return fmt::format("{} [{}]", out, tag);
}

ErrorSite site_at_byte(uint64_t offset, std::string_view section, std::string got, std::string expected,
                       std::string_view tag) {
  ErrorSite site;
  site.byte_offset = offset;
  site.has_offset = true;
  site.section = section;
  site.got = std::move(got);
  site.expected = std::move(expected);
  site.tag = tag;
  return site;
}

tl::unexpected<Error> fail_at(ErrorCode code, ErrorSite site) {
  std::string message;
  const std::string_view kind = site.section == "kv" ? "KV" : std::string_view(site.section);
  if (!kind.empty()) message += kind;
  if (site.index >= 0) message += fmt::format(" {}", site.index);
  if (!site.subject.empty()) message += fmt::format("{}\"{}\"", message.empty() ? "" : " ", site.subject);
  if (!message.empty()) message += ": ";
  if (!site.got.empty()) message += fmt::format("got {}", site.got);
  if (!site.expected.empty()) message += fmt::format("{}expected {}", site.got.empty() ? "" : ", ", site.expected);
  auto shared = std::make_shared<const ErrorSite>(std::move(site));
  return tl::unexpected<Error>(Error{code, std::move(message), std::move(shared)});
}

Error with_file(Error error, std::string_view file) {
  ErrorSite site = error.site ? *error.site : ErrorSite{};
  site.file = file;
  error.site = std::make_shared<const ErrorSite>(std::move(site));
  return error;
}

std::string escape_for_display(std::string_view text, size_t max_bytes) {
  std::string out;
  const bool is_cut = text.size() > max_bytes;
  if (is_cut) text = text.substr(0, max_bytes);
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_sequence_length(text, i);
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_c1_control =
        length == 2 && utf8_code_point(text, i, 2) < 0xa0;  // terminals obey U+009B as they obey ESC [
    if (length == 0 || byte < 0x20 || byte == 0x7f || is_c1_control) {
      out += fmt::format("\\x{:02x}", byte);
      ++i;
      continue;
    }
    out.append(text, i, length);
    i += length;
  }
  if (is_cut) out += "…";
  return out;
}

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "tamis: internal check failed: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace tamis
