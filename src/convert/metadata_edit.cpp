// Parsing of edits, and their merge with a file's keys.
#include "convert/metadata_edit.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>
#include <system_error>
#include <vector>

#include "formats/shards.h"

namespace tamis {
namespace {

tl::unexpected<Error> wrong(std::string_view text, std::string_view expected) {
  return fail(ErrorCode::invalid_argument, "\"{}\": expected {}", escape_for_display(text), expected);
}

template <class T>
Result<GgufEncoded> number(std::string_view text, std::string_view digits, std::string_view kind) {
  T value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.empty())
    return wrong(text, fmt::format("a value of type {} after the ':'", kind));
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(value)) return wrong(text, "a finite number");
  return GgufEncoded::number(value);
}

Result<GgufEncoded> whole(std::string_view text, std::string_view digits, std::string_view kind) {
  return digits.starts_with('-') ? number<int32_t>(text, digits, kind) : number<uint32_t>(text, digits, kind);
}

Result<GgufEncoded> boolean(std::string_view text, std::string_view word, std::string_view) {
  if (word != "true" && word != "false") return wrong(text, "true or false after the ':'");
  return GgufEncoded::number(word == "true");
}

Result<GgufEncoded> words(std::string_view, std::string_view value, std::string_view) {
  return GgufEncoded::text(value);
}

struct Row {
  std::string_view type;
  Result<GgufEncoded> (*parse)(std::string_view text, std::string_view value, std::string_view kind);
};
constexpr Row kRows[] = {
    {"u8", number<uint8_t>}, {"u16", number<uint16_t>}, {"u32", number<uint32_t>}, {"u64", number<uint64_t>},
    {"i8", number<int8_t>},  {"i16", number<int16_t>},  {"i32", number<int32_t>},  {"i64", number<int64_t>},
    {"f32", number<float>},  {"f64", number<double>},   {"bool", boolean},         {"str", words},
    {"int", whole},          {"float", number<float>},
};

}  // namespace

Result<KvEdit> parse_kv_edit(std::string_view text) {
  const size_t equals = text.find('=');
  const size_t colon = equals == text.npos ? text.npos : text.find(':', equals);
  if (equals == 0 || colon == text.npos) return wrong(text, "KEY=TYPE:VALUE, such as general.name=str:Fido");
  const std::string_view type = text.substr(equals + 1, colon - equals - 1);
  for (const Row& row : kRows) {
    if (row.type != type) continue;
    TAMIS_TRY(GgufEncoded value, row.parse(text, text.substr(colon + 1), type));
    return KvEdit{std::string(text.substr(0, equals)), std::move(value)};
  }
  return wrong(text, "one of the types u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 bool str int float before the ':'");
}

Status add_edited(GgufWriter& writer, const GgufFile& file, std::span<const KvEdit> edits) {
  const auto last_of = [&](std::string_view key) -> const KvEdit* {
    for (size_t i = edits.size(); i-- > 0;)
      if (edits[i].key == key) return &edits[i];
    return nullptr;
  };
  std::set<std::string_view> done;
  for (const GgufKv& kv : file.kvs()) {
    const KvEdit* edit = last_of(kv.key);
    done.insert(kv.key);
    if (edit == nullptr) {
      TAMIS_TRY_STATUS(writer.add(kv.key, GgufEncoded::copy(kv.value)));
    } else if (edit->value) {
      TAMIS_TRY_STATUS(writer.add(kv.key, *edit->value));
    }
  }
  for (const KvEdit& edit : edits) {
    const KvEdit* last = last_of(edit.key);
    if (!done.insert(edit.key).second || !last->value) continue;
    TAMIS_TRY_STATUS(writer.add(edit.key, *last->value));
  }
  return {};
}

Status write_edited(const GgufFile& file, std::span<const KvEdit> edits, const std::string& out_path,
                    const EditRun& run) {
  constexpr uint64_t kPieceBytes = uint64_t{4} << 20;
  std::error_code error;
  for (uint32_t i = 0; i < file.n_shards(); ++i)
    if (std::filesystem::equivalent(file.path(i), out_path, error))
      return fail(ErrorCode::invalid_argument, "{} would be written over the model it is made from", out_path);
  std::vector<KvEdit> all;
  if (file.n_shards() > 1)
    for (const std::string_view key : {kSplitNo, kSplitCount, kSplitTensors}) all.push_back({std::string(key), {}});
  all.insert(all.end(), edits.begin(), edits.end());
  GgufWriter writer;
  TAMIS_TRY_STATUS(add_edited(writer, file, all));
  for (const GgufTensor& tensor : file.tensors())
    TAMIS_TRY_STATUS(writer.add_tensor(tensor.name, tensor.dtype, tensor.shape));
  TAMIS_TRY_STATUS(writer.begin(out_path, run.overwrites));
  for (const GgufTensor& tensor : file.tensors()) {
    const auto bytes = file.data(tensor);
    for (uint64_t at = 0; at < bytes.size(); at += kPieceBytes) {
      if (run.stop != nullptr && *run.stop) return fail(ErrorCode::cancelled, "stopped");
      if (file.size_changed())
        return fail(ErrorCode::io, "{}: the file changed its size while it was copied", file.path(tensor.shard_idx));
      const auto piece = bytes.subspan(at, std::min<uint64_t>(kPieceBytes, bytes.size() - at));
      TAMIS_TRY_STATUS(writer.write(piece));
      file.give_back(piece);
      if (run.on_bytes) run.on_bytes(piece.size());
    }
  }
  return writer.finish();
}

}  // namespace tamis
