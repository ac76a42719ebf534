// What makes a killed quantization go on: beside OUT.partial lies OUT.journal, a line for every slab written, with a
// checksum of its bytes. A later run with the same input and options keeps what the journal proves and writes the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/result.h"
#include "formats/gguf_writer.h"

namespace tamis {

// 64 bits over bytes and numbers; no secret, only the sign of a torn or foreign file.
class Fingerprint {
 public:
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  void add(uint64_t number);
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0x9e3779b97f4a7c15;
};

// How far a file is: everything before byte `written_bytes` of tensor `tensor` is there.
struct WrittenUpTo {
  size_t tensor = 0;
  uint64_t written_bytes = 0;
};

class QuantizeJournal {
 public:
  static std::string name_of(const std::string& path) { return path + ".journal"; }

  // How much of the file at `data_path` (PATH.partial, or PATH itself) the journal of `path` proves: it was written for
  // this fingerprint, begins with the writer's header, and its slabs have their checksums. Nothing when there is no
  // journal of this fingerprint. Reads what it proves.
  static std::optional<WrittenUpTo> proven(const std::string& path, const std::string& data_path,
                                           const GgufWriter& writer, uint64_t fingerprint);

  // The same of the journal's text and the file's bytes.
  static std::optional<WrittenUpTo> proven_by(std::string_view journal, ByteSource& data, const GgufWriter& writer,
                                              uint64_t fingerprint);
  // The journal's first line, and the one of bytes written to tensor `tensor` up to `end`.
  static std::string first_line(uint64_t fingerprint);
  static std::string line_of(size_t tensor, uint64_t end, std::span<const std::byte> bytes);

  // Begins the journal anew, with what is proven already. Errors: io.
  static Result<QuantizeJournal> begin(const std::string& path, uint64_t fingerprint, WrittenUpTo start);
  // Bytes of tensor `tensor` up to `end` are written: these, after the ones of the last call. Errors: io.
  Status add(size_t tensor, uint64_t end, std::span<const std::byte> bytes);

 private:
  explicit QuantizeJournal(AppendFile file) : file_(std::move(file)) {}
  AppendFile file_;
};

}  // namespace tamis
