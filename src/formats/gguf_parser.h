// The parser behind GgufFile::open: one pass that checks everything and keeps nothing but where values end, then one
// that builds the tables at their exact sizes. All rules of what must be refused live here and in gguf_layout.cpp.
//
// Source: ggml's docs/gguf.md for the layout:
//   magic "GGUF" | version u32 | n_tensors u64 | n_kv u64 | n_kv × (key str, type u32, value)
//   | n_tensors × (name str, n_dims u32, n_dims × u64 innermost first, type u32, offset u64) | padding | tensor data
// where str is a u64 length and that many bytes, and an array value is an element type u32, a count u64 and the
// elements.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "formats/gguf.h"
#include "formats/gguf_window.h"

namespace tamis {

struct GgufShard {
  std::string path;
  std::shared_ptr<ByteSource> source;
  std::shared_ptr<MappedFile> file;  // the source again when it is a file, else null
  GgufBytes metadata;
  uint64_t metadata_bytes = 0;
  uint64_t data_offset = 0;
};

struct GgufFile::State {
  uint32_t version = 0;
  uint64_t alignment = kGgufDefaultAlignment;
  std::vector<GgufKv> kvs;
  std::vector<GgufTensor> tensors;
  std::vector<uint32_t> kv_order;      // indices into kvs, by key
  std::vector<uint32_t> tensor_order;  // indices into tensors, by name
  std::vector<std::string> warnings;
  std::vector<GgufShard> shards;
};

class GgufParser {
 public:
  static constexpr uint64_t kMinTensorBytes = 33;  // of a table entry: a one-byte name and one dimension

  GgufParser(std::shared_ptr<ByteSource> source, const GgufOptions& options);

  // The state of a single file: one shard, its index filled in by the caller when it is not the only one.
  Result<std::shared_ptr<GgufFile::State>> parse();

  // Fills `tensor_order`; the error of a name that stands there twice, in one shard or in two.
  static Status index_tensors(GgufFile::State& state);

 private:
  struct Counts {
    uint64_t n_tensors = 0;
    uint64_t n_kv = 0;
  };

  Result<std::shared_ptr<GgufFile::State>> parse_once();
  std::optional<Error> blame_count(const Error& error) const;
  Status read_header();
  Status check_counts();
  Status scan_kvs();
  Status scan_key();
  Status scan_value(GgufType type);
  Status scan_string(int64_t element_idx);
  Status scan_array();
  Status scan_array_header(GgufType& element, uint64_t& n);
  Status scan_strings(uint64_t n);
  Status scan_elements(GgufType type, uint64_t n);
  Result<GgufType> scan_type();
  Status note_alignment(uint64_t type_offset, GgufType type);
  Status scan_tensors();
  Status scan_tensor();
  Status scan_shape();
  void build_kvs();
  Status index_kvs();
  void build_tensors();

  // gguf_layout.cpp
  Status check_layout();
  Status check_wrap(const GgufTensor& tensor, int64_t index);
  Status check_range(const GgufTensor& tensor, int64_t index, uint64_t previous_end, int64_t previous_idx);
  Status check_trailing(uint64_t end);
  Status check_padding();

  Status need(uint64_t n);
  Status check_text(std::string_view text, uint64_t offset, std::string_view what);
  ErrorSite site(uint64_t offset, std::string got, std::string expected, std::string_view tag) const;
  tl::unexpected<Error> bad(uint64_t offset, std::string got, std::string expected, std::string_view tag,
                            ErrorCode code = ErrorCode::format) const;
  // Refuses in strict mode; otherwise adds a warning.
  Status oddity(uint64_t offset, std::string got, std::string expected, std::string_view tag);
  void warn(uint64_t offset, std::string got, std::string expected, std::string_view tag);
  bool is_strict() const { return options_.mode == GgufMode::strict; }

  GgufOptions options_;
  GgufWindow window_;
  std::shared_ptr<GgufFile::State> state_;
  Counts counts_;
  int n_kv_change_ = 0, n_tensors_change_ = 0;  // what blame_count tries: the counts the header should have had
  std::deque<uint32_t> value_ends_;
  uint64_t kvs_end_ = 0;

  // What is being read, for errors.
  std::string_view section_ = "header";
  int64_t index_ = -1;
  uint64_t subject_offset_ = 0, subject_bytes_ = 0;  // key or tensor name, in the window
  std::string_view field_;                           // of the header
  bool has_text_warning_ = false;                    // one warning a value
  bool has_alignment_ = false;
  bool has_zero_padding_ = true;
};

}  // namespace tamis
