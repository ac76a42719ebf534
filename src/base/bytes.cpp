// The error a reader gives when the bytes end too soon.
#include "base/bytes.h"

namespace tamis {

tl::unexpected<Error> ByteReader::out_of_bytes(uint64_t n) const {
  ErrorSite site;
  site.byte_offset = offset();
  site.has_offset = true;
  site.got = fmt::format("{} bytes left", bytes_left());
  site.expected = fmt::format("{} more", n);
  site.tag = "E_TRUNCATED";
  return fail_at(ErrorCode::format, std::move(site));
}

}  // namespace tamis
