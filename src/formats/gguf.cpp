// GgufFile: what the parser found, by key and by name.
#include "formats/gguf.h"

#include <algorithm>
#include <new>
#include <utility>

#include "formats/gguf_parser.h"
#include "formats/gguf_shard_set.h"

namespace tamis {
namespace {

// Memory running out is the one thing that may cross our code as an exception; it ends here.
template <class F>
Result<GgufFile> without_bad_alloc(F open) {
  try {
    return open();
  } catch (const std::bad_alloc&) {
    // Short enough for a std::string to hold without allocating.
    return tl::unexpected<Error>(Error{ErrorCode::out_of_memory, "out of memory", nullptr});
  }
}

}  // namespace

Result<GgufFile> GgufFile::open(const std::string& path, const GgufOptions& options) {
  return without_bad_alloc([&]() -> Result<GgufFile> {
    TAMIS_TRY(std::shared_ptr<State> state, open_shards(path, options));
    GgufFile file;
    file.state_ = std::move(state);
    if (file.size_changed())
      return tl::unexpected<Error>(
          with_file(Error{ErrorCode::io, "the file changed its size while it was read", nullptr}, path));
    return file;
  });
}

Result<GgufFile> GgufFile::open(std::shared_ptr<ByteSource> source, const GgufOptions& options) {
  return without_bad_alloc([&]() -> Result<GgufFile> {
    TAMIS_TRY(std::shared_ptr<State> state, GgufParser(std::move(source), options).parse());
    if (options.follow_shards) TAMIS_TRY_STATUS(check_not_a_shard(*state));
    GgufFile file;
    file.state_ = std::move(state);
    return file;
  });
}

uint32_t GgufFile::version() const { return state_->version; }
uint64_t GgufFile::alignment() const { return state_->alignment; }
const std::vector<GgufKv>& GgufFile::kvs() const { return state_->kvs; }
const std::vector<GgufTensor>& GgufFile::tensors() const { return state_->tensors; }
const std::vector<std::string>& GgufFile::warnings() const { return state_->warnings; }
uint32_t GgufFile::n_shards() const { return static_cast<uint32_t>(state_->shards.size()); }
const std::string& GgufFile::path(uint32_t shard_idx) const { return state_->shards[shard_idx].path; }
uint64_t GgufFile::data_offset(uint32_t shard_idx) const { return state_->shards[shard_idx].data_offset; }

uint64_t GgufFile::size_bytes() const {
  uint64_t sum = 0;
  for (const GgufShard& shard : state_->shards) sum += shard.source->size_bytes();
  return sum;
}

uint64_t GgufFile::metadata_bytes() const {
  uint64_t sum = 0;
  for (const GgufShard& shard : state_->shards) sum += shard.metadata_bytes;
  return sum;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto& order = state_->kv_order;
  const auto it = std::lower_bound(order.begin(), order.end(), key,
                                   [&](uint32_t i, std::string_view k) { return state_->kvs[i].key < k; });
  return it == order.end() || state_->kvs[*it].key != key ? nullptr : &state_->kvs[*it].value;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto& order = state_->tensor_order;
  const auto it = std::lower_bound(order.begin(), order.end(), name,
                                   [&](uint32_t i, std::string_view n) { return state_->tensors[i].name < n; });
  return it == order.end() || state_->tensors[*it].name != name ? nullptr : &state_->tensors[*it];
}

namespace {

tl::unexpected<Error> absent(const GgufFile& file, std::string_view key, std::string expected) {
  Error error = file.error_at_key(key, "no such key", std::move(expected), "E_KEY_MISSING").value();
  error.code = ErrorCode::not_found;
  return tl::unexpected<Error>(std::move(error));
}

template <class T, class Get>
Result<T> get(const GgufFile& file, std::string_view key, std::string_view expected, Get getter) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return absent(file, key, std::string(expected));
  const auto result = getter(*value);
  if (!result)
    return file.error_at_key(key, fmt::format("a value of type {}", gguf_type_name(value->type())),
                             std::string(expected), "E_KEY_TYPE");
  return *result;
}

}  // namespace

Result<uint64_t> GgufFile::get_uint(std::string_view key) const {
  return get<uint64_t>(*this, key, "an integer of at least 0", [](const GgufValue& v) { return v.as_uint(); });
}
Result<double> GgufFile::get_float(std::string_view key) const {
  return get<double>(*this, key, "a float", [](const GgufValue& v) { return v.as_float(); });
}
Result<bool> GgufFile::get_bool(std::string_view key) const {
  return get<bool>(*this, key, "a bool", [](const GgufValue& v) { return v.as_bool(); });
}
Result<std::string_view> GgufFile::get_string(std::string_view key) const {
  return get<std::string_view>(*this, key, "a string", [](const GgufValue& v) { return v.as_string(); });
}

Result<GgufArray> GgufFile::get_array(std::string_view key, GgufType element_type) const {
  const std::string expected = fmt::format("an array of {}", gguf_type_name(element_type));
  TAMIS_TRY(const GgufArray array,
            get<GgufArray>(*this, key, expected, [](const GgufValue& v) { return v.as_array(); }));
  if (array.element_type() == element_type) return array;
  return error_at_key(key, fmt::format("an array of {}", gguf_type_name(array.element_type())), expected, "E_KEY_TYPE");
}

std::span<const std::byte> GgufFile::data(const GgufTensor& tensor) const {
  const auto mapped = state_->shards[tensor.shard_idx].source->mapped();
  return mapped.empty() ? mapped : mapped.subspan(tensor.file_offset, tensor.size_bytes);
}

void GgufFile::give_back(const GgufTensor& tensor) const {
  const GgufShard& shard = state_->shards[tensor.shard_idx];
  if (shard.file) shard.file->give_back(tensor.file_offset, tensor.size_bytes);
}

void GgufFile::give_back(std::span<const std::byte> bytes) const {
  for (const GgufShard& shard : state_->shards) {
    if (!shard.file) continue;
    const std::span<const std::byte> mapped = shard.file->mapped();
    if (bytes.data() < mapped.data() || bytes.data() >= mapped.data() + mapped.size()) continue;
    return shard.file->give_back(static_cast<uint64_t>(bytes.data() - mapped.data()), bytes.size());
  }
}

bool GgufFile::size_changed() const {
  return std::any_of(state_->shards.begin(), state_->shards.end(),
                     [](const GgufShard& shard) { return shard.file && shard.file->size_changed(); });
}

tl::unexpected<Error> GgufFile::error_at_key(std::string_view key, std::string got, std::string expected,
                                             std::string tag) const {
  ErrorSite site;
  site.file = path();
  site.section = "kv";
  site.subject = escape_for_display(key);
  site.got = std::move(got);
  site.expected = std::move(expected);
  site.tag = std::move(tag);
  if (const GgufValue* value = find(key)) {
    site.byte_offset = value->offset();
    site.has_offset = true;
    const auto it = std::find_if(kvs().begin(), kvs().end(), [&](const GgufKv& kv) { return &kv.value == value; });
    site.index = it - kvs().begin();
  }
  return fail_at(ErrorCode::format, std::move(site));
}

tl::unexpected<Error> GgufFile::error_at_tensor(const GgufTensor& tensor, std::string got, std::string expected,
                                                std::string tag) const {
  ErrorSite site;
  site.file = path(tensor.shard_idx);
  site.byte_offset = tensor.info_offset;
  site.has_offset = true;
  site.section = "tensor";
  const GgufTensor* known = find_tensor(tensor.name);
  if (known != nullptr) site.index = known - tensors().data();
  site.subject = escape_for_display(tensor.name);
  site.got = std::move(got);
  site.expected = std::move(expected);
  site.tag = std::move(tag);
  return fail_at(ErrorCode::format, std::move(site));
}

}  // namespace tamis
