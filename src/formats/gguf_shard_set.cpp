// Opening the shards after the first and checking them against it.
#include "formats/gguf_shard_set.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "formats/shards.h"

namespace tamis {
namespace {

using State = GgufFile::State;
using StatePtr = std::shared_ptr<State>;

// The split.* keys of one shard; absent ones are nothing.
struct SplitKeys {
  std::optional<uint64_t> no, count, n_tensors;
};

const GgufKv* find_kv(const State& state, std::string_view key) {
  const auto& order = state.kv_order;
  const auto it = std::lower_bound(order.begin(), order.end(), key,
                                   [&](uint32_t i, std::string_view k) { return state.kvs[i].key < k; });
  return it == order.end() || state.kvs[*it].key != key ? nullptr : &state.kvs[*it];
}

tl::unexpected<Error> bad_key(const State& state, std::string_view key, std::string got, std::string expected) {
  ErrorSite site;
  site.file = state.shards[0].path;
  site.section = "kv";
  site.subject = key;
  site.got = std::move(got);
  site.expected = std::move(expected);
  site.tag = "E_SHARD";
  if (const GgufKv* kv = find_kv(state, key)) {
    site.index = kv - state.kvs.data();
    site.byte_offset = kv->value.offset();
    site.has_offset = true;
  }
  return fail_at(ErrorCode::format, std::move(site));
}

Result<std::optional<uint64_t>> read_split_key(const State& state, std::string_view key) {
  const GgufKv* kv = find_kv(state, key);
  if (kv == nullptr) return std::optional<uint64_t>();
  const auto value = kv->value.as_uint();
  if (!value)
    return bad_key(state, key, fmt::format("a value of type {}", gguf_type_name(kv->value.type())),
                   "an integer of at least 0");
  return value;
}

Result<SplitKeys> read_split_keys(const State& state) {
  SplitKeys keys;
  TAMIS_TRY(keys.no, read_split_key(state, kSplitNo));
  TAMIS_TRY(keys.count, read_split_key(state, kSplitCount));
  TAMIS_TRY(keys.n_tensors, read_split_key(state, kSplitTensors));
  return keys;
}

Result<StatePtr> parse_file(const std::string& path, const GgufOptions& options) {
  TAMIS_TRY(std::shared_ptr<MappedFile> file, MappedFile::open(path));
  return GgufParser(std::move(file), options).parse();
}

// What a file that is not one of several may still say: split.no 0 of split.count 0 or 1.
Status check_whole(const State& state, const SplitKeys& keys) {
  if (keys.no.value_or(0) != 0)
    return bad_key(state, kSplitNo, fmt::format("shard index {}", *keys.no),
                   fmt::format("less than {} = {}", kSplitCount, keys.count.value_or(0)));
  return {};
}

Status check_shard(const State& shard, const ShardName& name) {
  TAMIS_TRY(const SplitKeys keys, read_split_keys(shard));
  if (!keys.count || *keys.count != name.n_shards)
    return bad_key(shard, kSplitCount, keys.count ? fmt::format("{}", *keys.count) : "no such key",
                   fmt::format("{}, as the file name says", name.n_shards));
  if (!keys.no || *keys.no != name.idx)
    return bad_key(shard, kSplitNo, keys.no ? fmt::format("{}", *keys.no) : "no such key",
                   fmt::format("{}, as the file name says (shard {} of {}, counted from 0)", name.idx, name.idx + 1,
                               name.n_shards));
  return {};
}

Result<StatePtr> open_one(const ShardName& set, uint32_t idx, const GgufOptions& options) {
  const std::string path = shard_path(set.prefix, idx, set.n_shards);
  auto shard = parse_file(path, options);
  if (!shard && shard.error().code == ErrorCode::not_found) {
    ErrorSite site;
    site.file = path;
    site.got = "no such file";
    site.expected = fmt::format("shard {} of {}", idx + 1, set.n_shards);
    site.tag = "E_SHARD_MISSING";
    return fail_at(ErrorCode::format, std::move(site));
  }
  if (!shard) return shard;
  TAMIS_TRY_STATUS(check_shard(**shard, ShardName{set.prefix, idx, set.n_shards}));
  return shard;
}

// Appends a later shard's tensors. Its own keys beyond split.* are not used: the first shard speaks for the model.
Status append(State& all, State& shard, uint32_t idx, std::optional<uint64_t> n_tensors) {
  TAMIS_TRY(const SplitKeys keys, read_split_keys(shard));
  if (keys.n_tensors && keys.n_tensors != n_tensors)
    return bad_key(shard, kSplitTensors, fmt::format("{}", *keys.n_tensors),
                   n_tensors ? fmt::format("{}, as the first shard says", *n_tensors) : "none, as in the first shard");
  for (GgufTensor& tensor : shard.tensors) tensor.shard_idx = idx;
  all.tensors.insert(all.tensors.end(), shard.tensors.begin(), shard.tensors.end());
  std::move(shard.shards.begin(), shard.shards.end(), std::back_inserter(all.shards));
  std::move(shard.warnings.begin(), shard.warnings.end(), std::back_inserter(all.warnings));
  return {};
}

}  // namespace

Status check_not_a_shard(const State& state) {
  TAMIS_TRY(const SplitKeys keys, read_split_keys(state));
  if (keys.count.value_or(0) > 1)
    return bad_key(state, kSplitCount, fmt::format("one of {} shards", *keys.count),
                   fmt::format("a name ending in -00001-of-{:05}.gguf that says where the others are", *keys.count));
  return check_whole(state, keys);
}

Result<StatePtr> open_shards(const std::string& path, const GgufOptions& options) {
  TAMIS_TRY(StatePtr opened, parse_file(path, options));
  if (!options.follow_shards) return opened;
  TAMIS_TRY(const SplitKeys keys, read_split_keys(*opened));
  const auto name = parse_shard_name(path);
  if (keys.count.value_or(0) <= 1) {
    TAMIS_TRY_STATUS(check_whole(*opened, keys));
    if (!name || name->n_shards == 1) return opened;
    const std::string got = "no such key";
    const std::string expected = fmt::format("{}, as the file name says", name->n_shards);
    if (options.mode == GgufMode::strict) return bad_key(*opened, kSplitCount, got, expected);
    opened->warnings.push_back(bad_key(*opened, kSplitCount, got, expected).value().to_string());
    return opened;
  }
  if (*keys.count > options.limits.n_shards)
    return bad_key(*opened, kSplitCount, fmt::format("{}", *keys.count),
                   fmt::format("at most {} (limit)", options.limits.n_shards));
  if (!name) return tl::unexpected<Error>(check_not_a_shard(*opened).error());
  TAMIS_TRY_STATUS(check_shard(*opened, *name));

  StatePtr all = name->idx == 0 ? opened : nullptr;
  if (!all) {
    TAMIS_TRY(all, open_one(*name, 0, options));
  }
  TAMIS_TRY(const SplitKeys first, read_split_keys(*all));
  for (uint32_t idx = 1; idx < name->n_shards; ++idx) {
    StatePtr shard = idx == name->idx ? opened : nullptr;
    if (!shard) {
      TAMIS_TRY(shard, open_one(*name, idx, options));
    }
    TAMIS_TRY_STATUS(append(*all, *shard, idx, first.n_tensors));
  }
  if (first.n_tensors && *first.n_tensors != all->tensors.size())
    return bad_key(*all, kSplitTensors, fmt::format("{}", *first.n_tensors),
                   fmt::format("the {} tensors of the {} shards", all->tensors.size(), name->n_shards));
  TAMIS_TRY_STATUS(GgufParser::index_tensors(*all));
  return all;
}

}  // namespace tamis
