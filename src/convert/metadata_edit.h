// Changes to a model's metadata: values set or replaced, keys left out. What `tamis edit` and `tamis quantize` write.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "formats/gguf.h"
#include "formats/gguf_writer.h"

namespace tamis {

struct KvEdit {
  std::string key;
  std::optional<GgufEncoded> value;  // nothing: the key is left out
};

// "KEY=TYPE:VALUE": TYPE is u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 bool str, or llama.cpp's int (u32, or i32 below 0),
// float (f32). Errors: invalid_argument, quoting the text.
Result<KvEdit> parse_kv_edit(std::string_view text);

// All keys of the file with the edits made: replaced ones keep their place, new ones come last, of several for one key
// the last counts. Errors: as GgufWriter::add.
Status add_edited(GgufWriter& writer, const GgufFile& file, std::span<const KvEdit> edits);

// Writes the model with its metadata edited to one file, tensors copied byte for byte; split.* keys go. Errors: io,
// out_of_memory (disk); invalid_argument when `out_path` is taken (without `overwrites`) or is the model's own;
// cancelled.
struct EditRun {
  bool overwrites = false;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(uint64_t n_bytes)> on_bytes;
};
Status write_edited(const GgufFile& file, std::span<const KvEdit> edits, const std::string& out_path,
                    const EditRun& run);

}  // namespace tamis
