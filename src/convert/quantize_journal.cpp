// The journal's lines: "tamis-quantize 1 FINGERPRINT", then "TENSOR END CHECKSUM" in hexadecimal, a slab each.
#include "convert/quantize_journal.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstring>
#include <vector>

namespace tamis {
namespace {

constexpr std::string_view kFirstWords = "tamis-quantize 1 ";
constexpr uint64_t kMaxJournalBytes = uint64_t{64} << 20;
constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

uint64_t mix(uint64_t state, uint64_t word) {
  return std::rotl((state ^ word) * 0x9fb21c651e98df25, 29) * 0xff51afd7ed558ccd;
}

std::optional<uint64_t> take_hex(std::string_view& line) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value, 16);
  if (error != std::errc()) return std::nullopt;
  line.remove_prefix(static_cast<size_t>(end - line.data()));
  if (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  return value;
}

struct Slab {
  uint64_t tensor = 0, end = 0, checksum = 0;
};

// The line up to its newline; nothing for one that a kill has cut.
std::optional<std::string_view> take_line(std::string_view& text) {
  const size_t newline = text.find('\n');
  if (newline == text.npos) return std::nullopt;
  const std::string_view line = text.substr(0, newline);
  text.remove_prefix(newline + 1);
  return line;
}

std::vector<Slab> parse(std::string_view text, uint64_t fingerprint, bool& is_ours) {
  std::vector<Slab> out;
  const auto first = take_line(text);
  is_ours = first && fmt::format("{}\n", *first) == QuantizeJournal::first_line(fingerprint);
  if (!is_ours) return out;
  while (auto line = take_line(text)) {
    const auto tensor = take_hex(*line), end = take_hex(*line), checksum = take_hex(*line);
    if (!tensor || !end || !checksum || !line->empty()) break;
    out.push_back({*tensor, *end, *checksum});
  }
  return out;
}

uint64_t checksum_of(uint64_t tensor, uint64_t end, uint64_t bytes) {
  Fingerprint all;
  all.add(tensor);
  all.add(end);
  all.add(bytes);
  return all.value();
}

// Of the file's bytes [begin, begin + n); nothing when they cannot be read.
std::optional<uint64_t> sum_of(ByteSource& file, uint64_t begin, uint64_t n) {
  Fingerprint sum;
  std::vector<std::byte> piece(std::min(kPieceBytes, n));
  for (uint64_t at = 0; at < n; at += piece.size()) {
    const std::span<std::byte> want(piece.data(), std::min<uint64_t>(piece.size(), n - at));
    const auto got = file.read_at(begin + at, want);
    if (!got || *got != want.size()) return std::nullopt;
    sum.add(want);
  }
  return sum.value();
}

bool begins_with(ByteSource& file, std::string_view head) {
  std::string found(head.size(), '\0');
  const auto got = file.read_at(0, std::as_writable_bytes(std::span(found)));
  return got && *got == head.size() && found == head;
}

}  // namespace

void Fingerprint::add(std::span<const std::byte> bytes) {
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    state_ = mix(state_, word);
  }
  if (at == bytes.size()) return;
  uint64_t word = uint64_t{bytes.size() - at} << 56;
  std::memcpy(&word, bytes.data() + at, bytes.size() - at);
  state_ = mix(state_, word);
}
void Fingerprint::add(std::string_view text) {
  add(text.size());
  add(std::as_bytes(std::span(text)));
}
void Fingerprint::add(uint64_t number) { state_ = mix(state_, number); }

std::optional<WrittenUpTo> QuantizeJournal::proven(const std::string& path, const std::string& data_path,
                                                   const GgufWriter& writer, uint64_t fingerprint) {
  const auto text = read_text_file(name_of(path), kMaxJournalBytes);
  if (!text) return std::nullopt;
  const auto file = MappedFile::open(data_path);
  if (file) return proven_by(*text, **file, writer, fingerprint);
  MemorySource nothing({});
  return proven_by(*text, nothing, writer, fingerprint);
}

std::optional<WrittenUpTo> QuantizeJournal::proven_by(std::string_view journal, ByteSource& data,
                                                      const GgufWriter& writer, uint64_t fingerprint) {
  bool is_ours = false;
  const std::vector<Slab> slabs = parse(journal, fingerprint, is_ours);
  if (!is_ours) return std::nullopt;
  WrittenUpTo out;
  const std::string head = writer.header();
  if (!begins_with(data, head)) return out;
  for (const Slab& slab : slabs) {
    if (slab.tensor != out.tensor || slab.end <= out.written_bytes || slab.tensor >= writer.n_tensors()) break;
    const uint64_t size = writer.tensor_bytes(out.tensor);
    if (slab.end > size) break;
    const uint64_t begin = head.size() + writer.tensor_offset(out.tensor) + out.written_bytes;
    const auto sum = sum_of(data, begin, slab.end - out.written_bytes);
    if (!sum || checksum_of(slab.tensor, slab.end, *sum) != slab.checksum) break;
    out.written_bytes = slab.end;
    if (slab.end == size) out = {out.tensor + 1, 0};
  }
  return out;
}

Result<QuantizeJournal> QuantizeJournal::begin(const std::string& path, uint64_t fingerprint, WrittenUpTo start) {
  // What is proven keeps its lines: they are read before the file is emptied.
  std::string kept = first_line(fingerprint);
  if (start.tensor > 0 || start.written_bytes > 0) {
    TAMIS_TRY(const std::string text, read_text_file(name_of(path), kMaxJournalBytes));
    bool is_ours = false;
    for (const Slab& slab : parse(text, fingerprint, is_ours)) {
      if (slab.tensor > start.tensor || (slab.tensor == start.tensor && slab.end > start.written_bytes)) break;
      kept += fmt::format("{:x} {:x} {:x}\n", slab.tensor, slab.end, slab.checksum);
    }
  }
  TAMIS_TRY(AppendFile file, AppendFile::create(name_of(path)));
  TAMIS_TRY_STATUS(file.write(kept));
  return QuantizeJournal(std::move(file));
}

std::string QuantizeJournal::first_line(uint64_t fingerprint) {
  return fmt::format("{}{:x}\n", kFirstWords, fingerprint);
}

std::string QuantizeJournal::line_of(size_t tensor, uint64_t end, std::span<const std::byte> bytes) {
  Fingerprint sum;
  sum.add(bytes);
  return fmt::format("{:x} {:x} {:x}\n", tensor, end, checksum_of(tensor, end, sum.value()));
}

Status QuantizeJournal::add(size_t tensor, uint64_t end, std::span<const std::byte> bytes) {
  return file_.write(line_of(tensor, end, bytes));
}

}  // namespace tamis
