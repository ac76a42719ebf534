// The first pass over header, keys and tensor table: where every value lies, and that it may.
#include "formats/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/fault.h"
#include "base/utf8.h"

namespace tamis {
namespace {

constexpr uint64_t kMinKvBytes = 14;  // a one-byte key with a one-byte value
constexpr uint64_t kMaxWarnings = 32;
constexpr uint32_t kMaxArrayDepth = 8;  // what Limits::array_depth may be raised to

bool is_ascii(std::string_view text) {
  uint64_t seen = 0;
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + i, 8);
    seen |= word;
  }
  for (; i < text.size(); ++i) seen |= static_cast<unsigned char>(text[i]);
  return (seen & 0x8080808080808080u) == 0;
}

// As utf8_first_invalid says; two-byte letters, which begin half of all GPT-2 tokens, are passed over on the way.
bool is_utf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      ++i;
    } else if (lead >= 0xc2 && lead < 0xe0 && i + 1 < text.size() && (text[i + 1] & 0xc0) == 0x80) {
      i += 2;
    } else {
      return utf8_first_invalid(text.substr(i)) == text.size() - i;
    }
  }
  return true;
}

// Whether the first `length` (at most 8) of the 8 bytes at `text` are ASCII: most tokens are that short.
bool is_short_ascii(const char* text, uint64_t length) {
  uint64_t word = 0;
  std::memcpy(&word, text, 8);
  const uint64_t mask = length == 0 ? 0 : 0x8080808080808080u >> (8 * (8 - length));
  return (word & mask) == 0;
}

// Bytes at the front of `ready` that are whole, well-formed strings of at most `max_bytes`; counts them in n, up to
// `most`.
uint64_t plain_strings(std::string_view ready, uint64_t most, uint64_t max_bytes, uint64_t& n) {
  uint64_t at = 0;
  for (n = 0; n < most && ready.size() - at >= 16; ++n) {
    uint64_t length = 0;
    std::memcpy(&length, ready.data() + at, 8);
    if (TAMIS_CHECKED(1, length > ready.size() - at - 8) || length > max_bytes) break;
    const bool is_plain = length <= 8 && is_short_ascii(ready.data() + at + 8, length);
    if (!is_plain && !is_utf8(ready.substr(at + 8, length))) break;
    at += 8 + length;
  }
  return at;
}

// A declared count, or the neighbour blame_count tries instead.
uint64_t changed(uint64_t count, int change) {
  if (change < 0) return count > 0 ? count - 1 : 0;
  return change > 0 && count < std::numeric_limits<uint64_t>::max() ? count + 1 : count;
}

uint64_t min_element_bytes(GgufType type) {
  return type == GgufType::string ? 8 : type == GgufType::array ? 12 : gguf_type_bytes(type);
}

}  // namespace

GgufParser::GgufParser(std::shared_ptr<ByteSource> source, const GgufOptions& options)
    : options_(options), window_(*source, options.limits.metadata_bytes), state_(std::make_shared<GgufFile::State>()) {
  GgufShard shard;
  shard.source = std::move(source);
  shard.file = std::dynamic_pointer_cast<MappedFile>(shard.source);
  if (shard.file) shard.path = shard.file->path();
  state_->shards.push_back(std::move(shard));
}

Result<std::shared_ptr<GgufFile::State>> GgufParser::parse() {
  auto parsed = parse_once();
  if (parsed || !is_strict()) return parsed;
  // What this pass holds is given back before another begins: one file's memory at a time.
  (void)window_.release();
  std::deque<uint32_t>().swap(value_ends_);
  std::vector<GgufKv>().swap(state_->kvs);
  std::vector<GgufTensor>().swap(state_->tensors);
  state_->shards[0].metadata.reset();
  if (auto blamed = blame_count(parsed.error())) return tl::unexpected<Error>(*std::move(blamed));
  return parsed;
}

// A count that is one off shows far from itself, where keys are read as tensors or data as keys. When the file is
// without fault for a neighbouring count, that count is the error to report.
std::optional<Error> GgufParser::blame_count(const Error& error) const {
  if (!error.site || (error.site->section != "tensor" && error.site->tag != "E_TRAILING")) return std::nullopt;
  struct Try {
    int n_kv, n_tensors;
  };
  for (const Try change : {Try{0, -1}, Try{0, 1}, Try{-1, 0}, Try{1, 0}}) {
    GgufParser other(state_->shards[0].source, options_);
    other.n_kv_change_ = change.n_kv;
    other.n_tensors_change_ = change.n_tensors;
    if (!other.parse_once()) continue;
    ErrorSite where;
    where.file = state_->shards[0].path;
    where.section = "header";
    where.subject = change.n_kv != 0 ? "n_kv" : "n_tensors";
    where.byte_offset = change.n_kv != 0 ? 16 : 8;
    where.has_offset = true;
    const uint64_t declared = change.n_kv != 0 ? counts_.n_kv : counts_.n_tensors;
    where.got = fmt::format("{}", declared);
    where.expected = fmt::format("{}, with which the file is whole", changed(declared, change.n_kv + change.n_tensors));
    where.tag = "E_COUNT";
    return fail_at(ErrorCode::format, std::move(where)).value();
  }
  return std::nullopt;
}

Result<std::shared_ptr<GgufFile::State>> GgufParser::parse_once() {
  TAMIS_TRY_STATUS(read_header());
  TAMIS_TRY_STATUS(scan_kvs());
  TAMIS_TRY_STATUS(scan_tensors());
  GgufShard& shard = state_->shards[0];
  shard.metadata_bytes = window_.position();
  const auto data_offset = checked_pad(window_.position(), state_->alignment);
  shard.data_offset =
      data_offset.value_or(0);  // metadata is below 4 GiB and alignment below 1 MiB unless limits were raised
  if (!data_offset) return bad(0, "metadata that cannot be padded", "less", "E_DATA_OFFSET");
  TAMIS_TRY_STATUS(check_padding());
  shard.metadata = window_.release();
  subject_bytes_ = 0;
  build_kvs();
  TAMIS_TRY_STATUS(index_kvs());
  build_tensors();
  TAMIS_TRY_STATUS(index_tensors(*state_));
  TAMIS_TRY_STATUS(check_layout());
  return state_;
}

// ---------------------------------------------------------------- header

Status GgufParser::read_header() {
  field_ = "magic";
  TAMIS_TRY_STATUS(need(4));
  const std::string_view magic = window_.text(0, 4);
  if (magic == "FUGG") return bad(0, "\"FUGG\"", "\"GGUF\" (the bytes are swapped)", "E_MAGIC");
  if (magic != "GGUF") return bad(0, fmt::format("\"{}\"", escape_for_display(magic)), "\"GGUF\"", "E_MAGIC");
  window_.advance(4);

  field_ = "version";
  TAMIS_TRY_STATUS(need(4));
  const auto version = window_.load<uint32_t>();
  const uint32_t swapped = __builtin_bswap32(version);
  if (swapped >= 1 && swapped <= 3 && version > 3)
    return bad(4, fmt::format("0x{:08x}, a big-endian file", version), "a little-endian file", "E_BIG_ENDIAN",
               ErrorCode::unsupported);
  if (version < 2 || version > 3)
    return bad(4, fmt::format("{}", version), "2 or 3", "E_VERSION", ErrorCode::unsupported);
  state_->version = version;
  window_.advance(4);

  field_ = "n_tensors";
  TAMIS_TRY_STATUS(need(8));
  counts_.n_tensors = changed(window_.load<uint64_t>(), n_tensors_change_);
  window_.advance(8);
  field_ = "n_kv";
  TAMIS_TRY_STATUS(need(8));
  counts_.n_kv = changed(window_.load<uint64_t>(), n_kv_change_);
  window_.advance(8);
  return check_counts();
}

// A count is believed only when the bytes left could hold that many of the smallest entries.
Status GgufParser::check_counts() {
  const uint64_t left = window_.bytes_left();
  field_ = "n_tensors";
  if (counts_.n_tensors > left / kMinTensorBytes)
    return bad(8, fmt::format("{}", counts_.n_tensors),
               fmt::format("at most {}: {} bytes are left", left / kMinTensorBytes, left), "E_COUNT");
  if (counts_.n_tensors > options_.limits.n_tensors)
    return bad(8, fmt::format("{}", counts_.n_tensors), fmt::format("at most {} (limit)", options_.limits.n_tensors),
               "E_LIMIT");
  field_ = "n_kv";
  if (counts_.n_kv > left / kMinKvBytes)
    return bad(16, fmt::format("{}", counts_.n_kv),
               fmt::format("at most {}: {} bytes are left", left / kMinKvBytes, left), "E_COUNT");
  if (counts_.n_kv > options_.limits.n_kv)
    return bad(16, fmt::format("{}", counts_.n_kv), fmt::format("at most {} (limit)", options_.limits.n_kv), "E_LIMIT");
  field_ = {};
  return {};
}

// ---------------------------------------------------------------- keys and values

Status GgufParser::scan_kvs() {
  section_ = "kv";
  for (uint64_t i = 0; i < counts_.n_kv; ++i) {
    index_ = static_cast<int64_t>(i);
    subject_bytes_ = 0;
    has_text_warning_ = false;
    TAMIS_TRY_STATUS(scan_key());
    const uint64_t type_offset = window_.position();
    TAMIS_TRY(const GgufType type, scan_type());
    if (window_.text(subject_offset_, subject_bytes_) == "general.alignment")
      TAMIS_TRY_STATUS(note_alignment(type_offset, type));
    TAMIS_TRY_STATUS(scan_value(type));
    value_ends_.push_back(static_cast<uint32_t>(window_.position()));
  }
  kvs_end_ = window_.position();
  return {};
}

Status GgufParser::scan_key() {
  const uint64_t at = window_.position();
  TAMIS_TRY_STATUS(need(8));
  const auto length = window_.load<uint64_t>();
  if (length == 0) return bad(at, "an empty key", "1 to 65535 bytes", "E_KEY_LENGTH");
  if (length > window_.bytes_left() - 8)
    return bad(at, fmt::format("key length {}", length),
               fmt::format("at most the {} bytes left", window_.bytes_left() - 8), "E_TRUNCATED");
  if (length > options_.limits.key_bytes)
    return bad(at, fmt::format("key length {}", length), fmt::format("1 to {} bytes", options_.limits.key_bytes),
               "E_KEY_LENGTH");
  window_.advance(8);
  TAMIS_TRY_STATUS(need(length));
  subject_offset_ = at + 8;
  subject_bytes_ = length;
  const std::string_view key = window_.text(at + 8, length);
  if (const size_t nul = key.find('\0'); nul != key.npos)
    return bad(at + 8, fmt::format("a NUL at position {} of the key", nul), "ASCII text", "E_KEY_TEXT");
  if (!is_ascii(key))
    TAMIS_TRY_STATUS(oddity(at + 8, "a key with bytes that are not ASCII", "ASCII text", "E_KEY_TEXT"));
  window_.advance(length);
  return {};
}

Result<GgufType> GgufParser::scan_type() {
  TAMIS_TRY_STATUS(need(4));
  const auto type = window_.load<uint32_t>();
  if (type > static_cast<uint32_t>(GgufType::f64))
    return bad(window_.position(), fmt::format("value type {}", type), "0 to 12", "E_VALUE_TYPE");
  window_.advance(4);
  return static_cast<GgufType>(type);
}

// At the value of general.alignment: it decides where tensor data lies, so a wrong type or value is never passed over.
Status GgufParser::note_alignment(uint64_t type_offset, GgufType type) {
  if (std::exchange(has_alignment_, true))
    return bad(subject_offset_ - 8, "the key a second time", "each key once", "E_DUPLICATE_KEY");
  if (type != GgufType::u32)
    return bad(type_offset, fmt::format("type {}", gguf_type_name(type)), "u32", "E_ALIGNMENT");
  TAMIS_TRY_STATUS(need(4));
  const uint64_t value = window_.load<uint32_t>();
  const std::string expected = fmt::format("a power of two from 8 to {}", options_.limits.alignment);
  const bool is_usable = value <= options_.limits.alignment && std::has_single_bit(value);
  if (TAMIS_CHECKED(8, !is_usable)) return bad(window_.position(), fmt::format("{}", value), expected, "E_ALIGNMENT");
  if (value < 8) TAMIS_TRY_STATUS(oddity(window_.position(), fmt::format("{}", value), expected, "E_ALIGNMENT"));
  state_->alignment = value;
  return {};
}

Status GgufParser::scan_value(GgufType type) {
  if (type == GgufType::string) return scan_string(-1);
  if (type == GgufType::array) return scan_array();
  return scan_elements(type, 1);
}

Status GgufParser::scan_string(int64_t element_idx) {
  const uint64_t at = window_.position();
  const auto what = [&] { return element_idx < 0 ? std::string("string") : fmt::format("string #{}", element_idx); };
  TAMIS_TRY_STATUS(need(8));
  const auto length = window_.load<uint64_t>();
  if (length > window_.bytes_left() - 8)
    return bad(at, fmt::format("{} of length {}", what(), length),
               fmt::format("at most the {} bytes left", window_.bytes_left() - 8), "E_TRUNCATED");
  if (length > options_.limits.string_bytes)
    return bad(at, fmt::format("{} of length {}", what(), length),
               fmt::format("at most {} bytes (limit)", options_.limits.string_bytes), "E_LIMIT");
  window_.advance(8);
  TAMIS_TRY_STATUS(need(length));
  const std::string_view text = window_.text(at + 8, length);
  if (!is_utf8(text)) TAMIS_TRY_STATUS(check_text(text, at + 8, what()));
  window_.advance(length);
  return {};
}

// Vocabularies hold hundreds of thousands of strings: those that are there and in order are passed without further ado,
// and only the one that is not goes the long way, which reads more or says what is wrong.
Status GgufParser::scan_strings(uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) {
    uint64_t passed = 0;
    window_.advance(plain_strings(window_.ready(), n - i, options_.limits.string_bytes, passed));
    i += passed;
    if (i < n) TAMIS_TRY_STATUS(scan_string(static_cast<int64_t>(i)));
  }
  return {};
}

// n values of a fixed size, or n strings.
Status GgufParser::scan_elements(GgufType type, uint64_t n) {
  if (type == GgufType::string) return scan_strings(n);
  const uint64_t size = n * gguf_type_bytes(type);  // the caller has compared n with the bytes left
  TAMIS_TRY_STATUS(need(size));
  if (type == GgufType::boolean) {
    const std::string_view values = window_.text(window_.position(), n);
    for (uint64_t i = 0; i < n; ++i)
      if (static_cast<unsigned char>(values[i]) > 1)
        return bad(window_.position() + i, fmt::format("bool byte {}", static_cast<unsigned char>(values[i])), "0 or 1",
                   "E_BOOL");
  }
  window_.advance(size);
  return {};
}

Status GgufParser::scan_array_header(GgufType& element, uint64_t& n) {
  TAMIS_TRY(element, scan_type());
  TAMIS_TRY_STATUS(need(8));
  n = window_.load<uint64_t>();
  const uint64_t at = window_.position();
  const uint64_t most = (window_.bytes_left() - 8) / min_element_bytes(element);
  if (n > most)
    return bad(at, fmt::format("{} elements of type {}", n, gguf_type_name(element)),
               fmt::format("at most {}: {} bytes are left", most, window_.bytes_left() - 8), "E_TRUNCATED");
  if (n > options_.limits.array_items)
    return bad(at, fmt::format("{} elements", n), fmt::format("at most {} (limit)", options_.limits.array_items),
               "E_LIMIT");
  window_.advance(8);
  return {};
}

// Arrays in arrays are walked on a fixed stack of counters: data never makes the program recurse.
Status GgufParser::scan_array() {
  const uint32_t max_depth = std::min(options_.limits.array_depth, kMaxArrayDepth);
  uint64_t left[kMaxArrayDepth] = {1};
  uint32_t depth = 1;
  while (depth > 0) {
    if (left[depth - 1] == 0) {
      --depth;
      continue;
    }
    --left[depth - 1];
    GgufType element;
    uint64_t n = 0;
    const uint64_t at = window_.position();
    TAMIS_TRY_STATUS(scan_array_header(element, n));
    if (element != GgufType::array) {
      TAMIS_TRY_STATUS(scan_elements(element, n));
      continue;
    }
    if (TAMIS_CHECKED(5, depth >= max_depth))
      return bad(at, fmt::format("arrays nested deeper than {}", max_depth),
                 fmt::format("at most {} levels", max_depth), "E_NESTING");
    left[depth++] = n;
  }
  return {};
}

// ---------------------------------------------------------------- errors

Status GgufParser::need(uint64_t n) {
  if (window_.ensure(n)) [[likely]]
    return {};
  if (window_.failure()) {
    const std::string& path = state_->shards[0].path;
    return tl::unexpected<Error>(path.empty() ? *window_.failure() : with_file(*window_.failure(), path));
  }
  if (window_.is_over_limit())
    return bad(window_.position(), "more metadata",
               fmt::format("at most {} bytes (limit)", options_.limits.metadata_bytes), "E_LIMIT");
  return bad(window_.position(), fmt::format("{} bytes left", window_.bytes_left()), fmt::format("{} more", n),
             "E_TRUNCATED");
}

Status GgufParser::check_text(std::string_view text, uint64_t offset, std::string_view what) {
  const size_t invalid = utf8_first_invalid(text);
  if (invalid == text.size() || has_text_warning_) return {};
  has_text_warning_ = true;
  // Tokens are byte strings whatever the format says of strings: S059 of security.md loads and verifies.
  const bool is_vocabulary =
      section_ == "kv" && window_.text(subject_offset_, subject_bytes_).starts_with("tokenizer.ggml.");
  if (is_vocabulary) {
    warn(offset, fmt::format("{} with an invalid byte at position {}", what, invalid), "UTF-8", "E_UTF8");
    return {};
  }
  return oddity(offset, fmt::format("{} with an invalid byte at position {}", what, invalid), "UTF-8", "E_UTF8");
}

ErrorSite GgufParser::site(uint64_t offset, std::string got, std::string expected, std::string_view tag) const {
  ErrorSite out;
  out.file = state_->shards[0].path;
  out.byte_offset = offset;
  out.has_offset = true;
  out.section = section_;
  out.index = index_;
  out.subject =
      subject_bytes_ > 0 ? escape_for_display(window_.text(subject_offset_, subject_bytes_)) : std::string(field_);
  out.got = std::move(got);
  out.expected = std::move(expected);
  out.tag = tag;
  return out;
}

tl::unexpected<Error> GgufParser::bad(uint64_t offset, std::string got, std::string expected, std::string_view tag,
                                      ErrorCode code) const {
  return fail_at(code, site(offset, std::move(got), std::move(expected), tag));
}

Status GgufParser::oddity(uint64_t offset, std::string got, std::string expected, std::string_view tag) {
  if (is_strict()) return bad(offset, std::move(got), std::move(expected), tag);
  warn(offset, std::move(got), std::move(expected), tag);
  return {};
}

void GgufParser::warn(uint64_t offset, std::string got, std::string expected, std::string_view tag) {
  if (state_->warnings.size() > kMaxWarnings) return;
  if (state_->warnings.size() == kMaxWarnings) {
    state_->warnings.push_back("further warnings are left out");
    return;
  }
  state_->warnings.push_back(bad(offset, std::move(got), std::move(expected), tag).value().to_string());
}

}  // namespace tamis
