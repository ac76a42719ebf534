// Reading and writing records; see the layout in kl_base.h.
#include "engine/kl_base.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/bytes.h"
#include "base/checked.h"
#include "engine/distribution.h"

namespace tamis {
namespace {

static_assert(std::endian::native == std::endian::little, "records are written as they lie in memory");
constexpr std::string_view kMagic = "_logits_";
constexpr uint64_t kHeaderBytes = 20;
constexpr float kDepth = 16;        // nats below the largest logit that are told apart
constexpr size_t kPrefixWords = 4;  // scale and least log-probability, as u16

tl::unexpected<Error> bad(uint64_t offset, std::string got, std::string expected) {
  return fail_at(ErrorCode::format, site_at_byte(offset, "header", std::move(got), std::move(expected), "E_KL_BASE"));
}

size_t record_words(uint32_t n_vocab) { return kPrefixWords + (size_t{n_vocab} + 1) / 2 * 2; }

Result<uint32_t> read_count(ByteReader& reader, std::string_view what, int32_t least) {
  const uint64_t offset = reader.offset();
  TAMIS_TRY(const int32_t value, reader.read<int32_t>());
  if (value < least) return bad(offset, fmt::format("{} = {}", what, value), fmt::format("at least {}", least));
  return static_cast<uint32_t>(value);
}

}  // namespace

uint64_t KlBaseFile::record_bytes() const { return record_words(n_vocab_) * sizeof(uint16_t); }

Result<KlBaseFile> KlBaseFile::open(std::shared_ptr<ByteSource> source) {
  std::vector<std::byte> head(kHeaderBytes);
  TAMIS_TRY(const size_t n_head, source->read_at(0, head));
  head.resize(n_head);
  ByteReader reader(head);
  TAMIS_TRY(const std::string_view magic, reader.take_text(kMagic.size()));
  if (magic != kMagic) return bad(0, "other bytes", "\"_logits_\"");
  KlBaseFile file;
  TAMIS_TRY(file.n_ctx_, read_count(reader, "n_ctx", 4));
  TAMIS_TRY(file.n_vocab_, read_count(reader, "n_vocab", 1));
  TAMIS_TRY(file.n_chunks_, read_count(reader, "n_chunks", 1));
  const uint64_t n_tokens = uint64_t{file.n_chunks_} * file.n_ctx_;  // both below 2^31
  file.records_offset_ = kHeaderBytes + n_tokens * sizeof(TokenId);
  const auto n_record_bytes = checked_mul(uint64_t{file.n_chunks_} * file.n_scored(), file.record_bytes());
  const auto n_bytes = n_record_bytes ? checked_add(*n_record_bytes, file.records_offset_) : std::nullopt;
  if (!n_bytes || *n_bytes != source->size_bytes()) {
    return bad(kHeaderBytes, fmt::format("a file of {} bytes", source->size_bytes()),
               fmt::format("{}: {} chunks of {} tokens, {} records of {} bytes each",
                           n_bytes ? std::to_string(*n_bytes) : "more than 2^64", file.n_chunks_, file.n_ctx_,
                           file.n_scored(), file.record_bytes()));
  }
  file.tokens_.resize(n_tokens);
  TAMIS_TRY(const size_t n_read, source->read_at(kHeaderBytes, std::as_writable_bytes(std::span(file.tokens_))));
  if (n_read != n_tokens * sizeof(TokenId)) return bad(kHeaderBytes + n_read, "end of file", "more tokens");
  for (size_t i = 0; i < file.tokens_.size(); ++i) {
    if (file.tokens_[i] < 0 || static_cast<uint32_t>(file.tokens_[i]) >= file.n_vocab_)
      return bad(kHeaderBytes + i * sizeof(TokenId), fmt::format("token {}", file.tokens_[i]),
                 fmt::format("less than {}", file.n_vocab_));
  }
  file.source_ = std::move(source);
  return file;
}

Result<KlBaseFile> KlBaseFile::open(const std::string& path) {
  TAMIS_TRY(const std::shared_ptr<MappedFile> source, MappedFile::open(path));
  auto file = open(std::shared_ptr<ByteSource>(source));
  if (!file) return tl::unexpected<Error>(with_file(std::move(file).error(), path));
  return file;
}

Result<KlBaseRecord> KlBaseFile::read(uint32_t chunk, uint32_t row) const {
  const uint64_t offset = records_offset_ + (uint64_t{chunk} * n_scored() + row) * record_bytes();
  std::vector<uint16_t> words(record_words(n_vocab_));
  TAMIS_TRY(const size_t n_read, source_->read_at(offset, std::as_writable_bytes(std::span(words))));
  if (n_read != record_bytes()) return bad(offset + n_read, "end of file", "more records");
  KlBaseRecord record;
  std::memcpy(&record.scale, words.data(), sizeof(float));
  std::memcpy(&record.least, words.data() + 2, sizeof(float));
  const double most = static_cast<double>(record.scale) * 65535 + static_cast<double>(record.least);
  if (!(record.scale >= 0) || !std::isfinite(most) || most > 1)
    return bad(offset, fmt::format("log-probabilities from {} in steps of {}", record.least, record.scale),
               "finite numbers not above 0");
  words.erase(words.begin(), words.begin() + kPrefixWords);
  words.resize(n_vocab_);
  record.codes = std::move(words);
  return record;
}

Result<KlBaseWriter> KlBaseWriter::create(const std::string& path, uint32_t n_ctx, uint32_t n_vocab,
                                          std::span<const TokenId> tokens, bool overwrite) {
  constexpr auto kMost = static_cast<uint32_t>(std::numeric_limits<int32_t>::max());
  const size_t n_chunks = n_ctx == 0 ? 0 : tokens.size() / n_ctx;
  if (n_ctx < 4 || n_ctx > kMost || n_vocab > kMost || n_chunks == 0 || n_chunks > kMost || tokens.size() % n_ctx != 0)
    return fail(ErrorCode::invalid_argument, "{}: {} tokens are no whole windows of {}", path, tokens.size(), n_ctx);
  TAMIS_TRY(AtomicFile file, AtomicFile::create(path, overwrite));
  TAMIS_TRY_STATUS(file.write(kMagic));
  const uint32_t counts[] = {n_ctx, n_vocab, static_cast<uint32_t>(n_chunks)};
  TAMIS_TRY_STATUS(file.write(std::as_bytes(std::span(counts))));
  TAMIS_TRY_STATUS(file.write(std::as_bytes(tokens)));
  return KlBaseWriter(std::move(file), n_vocab, uint64_t{n_chunks} * (n_ctx - 1 - n_ctx / 2));
}

Status KlBaseWriter::write_rows(std::span<const float> rows) {
  for (size_t begin = 0; begin + n_vocab_ <= rows.size(); begin += n_vocab_) {
    if (n_rows_left_ == 0) return fail(ErrorCode::internal, "more rows than the base file announces");
    --n_rows_left_;
    const auto row = rows.subspan(begin, n_vocab_);
    const float most = row[top_index(row)];
    const float least = std::max(*std::min_element(row.begin(), row.end()), most - kDepth);
    const float scale = (most - least) / 65535.0f;
    const auto least_log_p = static_cast<float>(static_cast<double>(least) - log_sum_exp(row));
    record_.assign(record_words(n_vocab_), 0);
    std::memcpy(record_.data(), &scale, sizeof(float));
    std::memcpy(record_.data() + 2, &least_log_p, sizeof(float));
    const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
    for (size_t i = 0; i < row.size(); ++i) {
      const float code = row[i] > least ? std::nearbyint(inverse * (row[i] - least)) : 0.0f;
      record_[kPrefixWords + i] = static_cast<uint16_t>(std::min(code, 65535.0f));
    }
    TAMIS_TRY_STATUS(file_.write(std::as_bytes(std::span(record_))));
  }
  return {};
}

Status KlBaseWriter::commit() {
  if (n_rows_left_ != 0) return fail(ErrorCode::internal, "fewer rows than the base file announces");
  return file_.commit();
}

TokenDivergence compare_with_record(const KlBaseRecord& base, std::span<const float> other, size_t token) {
  const double norm = log_sum_exp(other);
  TokenDivergence out;
  out.nll = norm - static_cast<double>(other[token]);
  out.base_nll = -base.log_p(token);
  for (size_t i = 0; i < other.size(); ++i) {
    const double log_p = base.log_p(i);
    if (log_p > -static_cast<double>(kDepth))
      out.kl += std::exp(log_p) * (log_p - static_cast<double>(other[i]) + norm);
  }
  const auto top = static_cast<size_t>(std::max_element(base.codes.begin(), base.codes.end()) - base.codes.begin());
  out.is_same_top = top == top_index(other);
  return out;
}

Result<std::vector<TokenDivergence>> compare_window_with(const KlBaseFile& base, uint32_t chunk, Session& session,
                                                         std::span<const TokenId> window, ThreadPool* pool) {
  const size_t first = window.size() / 2, n_vocab = base.n_vocab();
  std::vector<TokenDivergence> out(base.n_scored());
  std::vector<KlBaseRecord> records;
  session.truncate(0);
  const auto compare = [&](size_t first_token, std::span<const float> rows) -> Status {
    records.clear();
    for (size_t i = 0; i < rows.size() / n_vocab; ++i) {
      TAMIS_TRY(KlBaseRecord record, base.read(chunk, static_cast<uint32_t>(first_token - first + i)));
      records.push_back(std::move(record));
    }
    return for_rows(pool, records.size(), [&](size_t i) {
      const auto token = static_cast<size_t>(window[first_token + i + 1]);
      out[first_token - first + i] = compare_with_record(records[i], rows.subspan(i * n_vocab, n_vocab), token);
    });
  };
  TAMIS_TRY_STATUS(session.append_all(window.first(window.size() - 1), first, compare));
  return out;
}

}  // namespace tamis
