// A reader of protobuf's wire format over one bounded view, and the fields of three messages.
#include "convert/hf_sentencepiece.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/limits.h"

namespace tamis {
namespace {

enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct Field {
  uint32_t number = 0;
  Wire wire = Wire::varint;
  uint64_t value = 0;      // of varint, fixed32 and fixed64
  std::string_view bytes;  // of bytes
};

class Message {
 public:
  Message(std::string_view bytes, uint64_t base) : bytes_(bytes), base_(base) {}

  bool is_at_end() const { return at_ == bytes_.size(); }

  Result<Field> next() {
    TAMIS_TRY(const uint64_t tag, varint());
    Field field{static_cast<uint32_t>(tag >> 3), static_cast<Wire>(tag & 7), 0, {}};
    if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff) return bad("no field number", "1 to 536870911");
    switch (field.wire) {
      case Wire::varint: {
        TAMIS_TRY(field.value, varint());
        return field;
      }
      case Wire::fixed64: return fixed(field, 8);
      case Wire::fixed32: return fixed(field, 4);
      case Wire::bytes: {
        TAMIS_TRY(const uint64_t n, varint());
        if (n > bytes_.size() - at_)
          return bad(fmt::format("a field of {} bytes", n), fmt::format("at most {}", bytes_.size() - at_));
        field.bytes = bytes_.substr(at_, n);
        at_ += n;
        return field;
      }
    }
    return bad(fmt::format("wire type {}", tag & 7), "0, 1, 2 or 5");
  }

  // File offset of bytes() of the field read last.
  uint64_t offset_of(const Field& field) const {
    return base_ + static_cast<uint64_t>(field.bytes.data() - bytes_.data());
  }

  tl::unexpected<Error> bad(std::string got, std::string expected) const {
    return fail_at(ErrorCode::format,
                   site_at_byte(base_ + at_, "vocab", std::move(got), std::move(expected), "E_SENTENCEPIECE"));
  }

 private:
  Result<uint64_t> varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      if (at_ == bytes_.size()) return bad("the end of the message", "the rest of a number");
      const auto byte = static_cast<uint8_t>(bytes_[at_++]);
      if (shift == 63 && byte > 1) break;
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return bad("a number of more than 64 bits", "at most 64");
  }

  Result<Field> fixed(Field field, size_t n) {
    if (n > bytes_.size() - at_) return bad("the end of the message", fmt::format("{} bytes", n));
    std::memcpy(&field.value, bytes_.data() + at_, n);
    at_ += n;
    return field;
  }

  std::string_view bytes_;
  uint64_t base_;
  size_t at_ = 0;
};

Result<SentencePiece> read_piece(Message in) {
  SentencePiece piece;
  while (!in.is_at_end()) {
    TAMIS_TRY(const Field field, in.next());
    if (field.number == 1 && field.wire == Wire::bytes) piece.text = field.bytes;
    if (field.number == 2 && field.wire == Wire::fixed32)
      piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    if (field.number == 3 && field.wire == Wire::varint) {
      if (field.value < 1 || field.value > 6) return in.bad(fmt::format("piece type {}", field.value), "1 to 6");
      piece.type = static_cast<uint32_t>(field.value);
    }
  }
  if (!std::isfinite(piece.score)) return in.bad(fmt::format("score {}", piece.score), "a finite number");
  return piece;
}

Status read_trainer(Message in, SentencePieceModel& model) {
  while (!in.is_at_end()) {
    TAMIS_TRY(const Field field, in.next());
    if (field.wire != Wire::varint) continue;
    const auto id = static_cast<int32_t>(static_cast<int64_t>(field.value));
    if (field.number == 3) {
      if (field.value != 1 && field.value != 2)
        return fail(ErrorCode::unsupported, "a SentencePiece model of type {}, expected 1 (unigram) or 2 (BPE)",
                    field.value);
      model.is_unigram = field.value == 1;
    }
    if (field.number == 35) model.has_byte_fallback = field.value != 0;
    if (field.number == 40) model.unk_id = id;
    if (field.number == 41) model.bos_id = id;
    if (field.number == 42) model.eos_id = id;
    if (field.number == 43) model.pad_id = id;
  }
  return {};
}

Status read_normalizer(Message in, SentencePieceModel& model) {
  while (!in.is_at_end()) {
    TAMIS_TRY(const Field field, in.next());
    if (field.number == 2 && field.wire == Wire::bytes) model.charsmap = field.bytes;
    if (field.number == 3 && field.wire == Wire::varint) model.adds_dummy_prefix = field.value != 0;
    if (field.number == 4 && field.wire == Wire::varint) model.removes_extra_whitespaces = field.value != 0;
  }
  return {};
}

void put_varint(std::string& out, uint64_t value) {
  for (; value > 127; value >>= 7) out += static_cast<char>((value & 127) | 128);
  out += static_cast<char>(value);
}

void put_number(std::string& out, uint32_t field, uint64_t value) {
  put_varint(out, uint64_t{field} << 3);
  put_varint(out, value);
}

void put_bytes(std::string& out, uint32_t field, std::string_view value) {
  put_varint(out, uint64_t{field} << 3 | 2);
  put_varint(out, value.size());
  out += value;
}

}  // namespace

Result<SentencePieceModel> read_sentencepiece(std::string_view bytes) {
  SentencePieceModel model;
  Message in(bytes, 0);
  while (!in.is_at_end()) {
    TAMIS_TRY(const Field field, in.next());
    if (field.wire != Wire::bytes) continue;
    const Message part(field.bytes, in.offset_of(field));
    if (field.number == 1) {
      if (model.pieces.size() == Limits{}.n_vocab)
        return in.bad("more pieces", fmt::format("at most {}", model.pieces.size()));
      TAMIS_TRY(SentencePiece piece, read_piece(part));
      model.pieces.push_back(std::move(piece));
    }
    if (field.number == 2) TAMIS_TRY_STATUS(read_trainer(part, model));
    if (field.number == 3) TAMIS_TRY_STATUS(read_normalizer(part, model));
  }
  if (model.pieces.empty()) return in.bad("no pieces", "a SentencePiece vocabulary");
  return model;
}

std::string write_sentencepiece(const SentencePieceModel& model) {
  std::string out;
  for (const SentencePiece& piece : model.pieces) {
    std::string part;
    put_bytes(part, 1, piece.text);
    put_varint(part, 2u << 3 | 5);
    part.append(reinterpret_cast<const char*>(&piece.score), sizeof piece.score);
    put_number(part, 3, piece.type);
    put_bytes(out, 1, part);
  }
  const auto id_bits = [](int32_t id) { return static_cast<uint64_t>(static_cast<int64_t>(id)); };
  std::string trainer;
  put_number(trainer, 3, model.is_unigram ? 1 : 2);
  put_number(trainer, 35, model.has_byte_fallback ? 1 : 0);
  put_number(trainer, 40, id_bits(model.unk_id));
  put_number(trainer, 41, id_bits(model.bos_id));
  put_number(trainer, 42, id_bits(model.eos_id));
  put_number(trainer, 43, id_bits(model.pad_id));
  put_bytes(out, 2, trainer);
  std::string normalizer;
  put_bytes(normalizer, 1, "identity");
  put_bytes(normalizer, 2, model.charsmap);
  put_number(normalizer, 3, model.adds_dummy_prefix ? 1 : 0);
  put_number(normalizer, 4, model.removes_extra_whitespaces ? 1 : 0);
  put_number(normalizer, 5, 1);
  put_bytes(out, 3, normalizer);
  return out;
}

}  // namespace tamis
