// fuzz: rooms=convert,models,engine,text,compute,quants,formats,base
// The journal of a killed quantization beside a partial file: honest lines of a made-up run, then any changes to the
// text and to the file. What is proven is a place a writer may go on from, and everything before it is what was
// written.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "convert/quantize_journal.h"

namespace {

using namespace tamis;

constexpr uint64_t kFingerprint = 0x1234;

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  size_t left() const { return left_; }
  uint8_t byte() { return left_ == 0 ? uint8_t{0} : (--left_, *data_++); }
  uint16_t number() { return static_cast<uint16_t>(byte() | byte() << 8); }

 private:
  const uint8_t* data_;
  size_t left_;
};

void require(bool holds) {
  if (!holds) std::abort();
}

GgufWriter make_writer(Input& in) {
  GgufWriter writer;
  const size_t n = 1 + in.byte() % 4;
  for (size_t i = 0; i < n; ++i)
    require(writer.add_tensor("t" + std::to_string(i), DType::i8, {1u + in.number() % 300}).has_value());
  return writer;
}

// The finished file, and the journal of a run that wrote it in pieces.
void write_all(const GgufWriter& writer, Input& in, std::string& data, std::string& journal) {
  data = writer.header();
  const size_t head = data.size();
  data.resize(head + writer.data_bytes(), '\0');
  journal = QuantizeJournal::first_line(kFingerprint);
  for (size_t i = 0; i < writer.n_tensors(); ++i) {
    const std::span<char> tensor(data.data() + head + writer.tensor_offset(i), writer.tensor_bytes(i));
    for (char& byte : tensor) byte = static_cast<char>(7 * (&byte - data.data()));
    for (uint64_t at = 0; at < tensor.size();) {
      const uint64_t n = std::min<uint64_t>(1 + in.byte(), tensor.size() - at);
      journal += QuantizeJournal::line_of(i, at + n, std::as_bytes(tensor.subspan(at, n)));
      at += n;
    }
  }
}

void change(std::string& text, Input& in) {
  if (text.empty()) return;
  const size_t at = in.number() % text.size(), n = 1 + in.byte() % 16;
  switch (in.byte() % 5) {
    case 0: text[at] = static_cast<char>(in.byte()); break;
    case 1: text.erase(at, n); break;
    case 2: text.insert(at, text.substr(in.number() % text.size(), n)); break;
    case 3: text.resize(at); break;
    case 4: text.insert(at, n, static_cast<char>(in.byte())); break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input in(data, size);
  const GgufWriter writer = make_writer(in);
  std::string file, journal;
  write_all(writer, in, file, journal);
  const std::string whole = file, honest = journal;
  while (in.left() > 0) change(in.byte() % 4 == 0 ? file : journal, in);
  MemorySource source(std::as_bytes(std::span(file)));
  const auto proven = QuantizeJournal::proven_by(journal, source, writer, kFingerprint);
  if (!proven) {
    require(!journal.starts_with(QuantizeJournal::first_line(kFingerprint)));
    return 0;
  }
  require(proven->tensor <= writer.n_tensors());
  const bool is_end = proven->tensor == writer.n_tensors();
  require(is_end ? proven->written_bytes == 0 : proven->written_bytes < writer.tensor_bytes(proven->tensor));
  if (journal == honest && file == whole) require(is_end);
  // Checksums are of 64 bits: no change of a few bytes passes for the bytes that were written.
  const size_t head = writer.header().size();
  for (size_t i = 0; i < writer.n_tensors() && i <= proven->tensor; ++i) {
    const uint64_t n = i < proven->tensor ? writer.tensor_bytes(i) : proven->written_bytes;
    const size_t at = head + writer.tensor_offset(i);
    require(n == 0 || (file.size() >= at + n && std::memcmp(file.data() + at, whole.data() + at, n) == 0));
  }
  return 0;
}
