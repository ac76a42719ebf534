// fuzz: rooms=models,formats,base sources=tests/api/gguf_bytes.cpp
// F5: configuration validated from random keys. A small model of a random architecture gets random edits of its
// metadata and tensor shapes; whatever read_hyper and plan_model accept must be usable: divisors divide, floats are
// finite, frequencies come out finite.
#include <cmath>
#include <cstring>
#include <memory>

#include "models/hyper.h"
#include "models/model.h"
#include "models/rope.h"
#include "tests/api/gguf_bytes.h"

namespace {

using namespace tamis;
using namespace tamis::testing;

constexpr std::string_view kSuffixes[] = {
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.scale",
    "attention.causal",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_log_multiplier",
    "expert_count",
    "expert_used_count",
    "expert_feed_forward_length",
    "expert_weights_scale",
    "vocab_size",
};
constexpr uint64_t kNumbers[] = {0,
                                 1,
                                 2,
                                 3,
                                 4,
                                 7,
                                 8,
                                 16,
                                 31,
                                 32,
                                 33,
                                 64,
                                 4096,
                                 65535,
                                 65536,
                                 0x7fffffff,
                                 0x80000000,
                                 0xffffffff,
                                 0x100000000,
                                 0x7fffffffffffffff,
                                 0xffffffffffffffff};
constexpr std::string_view kTexts[] = {"none", "linear", "yarn", "longrope", "llama3", "", "\xff"};

// The fuzzer's bytes, handed out one field at a time; zeros once they are used up.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  uint8_t byte() { return left_ == 0 ? uint8_t{0} : (--left_, *data_++); }
  template <class T>
  T number() {
    T value{};
    for (size_t i = 0; i < sizeof(T); ++i) reinterpret_cast<uint8_t*>(&value)[i] = byte();
    return value;
  }
  uint64_t some_number() {
    const uint8_t choice = byte();
    return choice < std::size(kNumbers) ? kNumbers[choice] : choice < 200 ? choice : number<uint64_t>();
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

RawValue some_array(Input& in) {
  const size_t n = in.byte() % 8;
  const uint8_t kind = in.byte() % 4;
  std::vector<uint32_t> numbers;
  std::vector<float> floats;
  std::vector<uint8_t> flags;
  for (size_t i = 0; i < n; ++i) {
    numbers.push_back(static_cast<uint32_t>(in.some_number()));
    floats.push_back(static_cast<float>(numbers.back()));
    flags.push_back(static_cast<uint8_t>(numbers.back() & 1));
  }
  if (kind == 0) return u32s(numbers);
  if (kind == 1) return i32s({numbers.begin(), numbers.end()});
  if (kind == 2) return f32s(floats);
  RawValue array = u8s(flags);
  array.bytes[0] = 7;  // an array of bool
  return array;
}

RawValue some_value(Input& in) {
  switch (in.byte() % 8) {
    case 0: return u64(in.some_number());
    case 1: return i32(static_cast<int32_t>(in.some_number()));
    case 2: return f32(in.number<float>());
    case 3: return f32(static_cast<float>(in.some_number()));
    case 4: return boolean(in.byte() % 2 != 0);
    case 5: return text(kTexts[in.byte() % std::size(kTexts)]);
    case 6: return some_array(in);
    default: return u32(static_cast<uint32_t>(in.some_number()));
  }
}

// One layer, n_embd 32, every tensor an architecture of the list may ask for; Q8_0 keeps it small.
GgufBytes small_model(std::string_view arch, bool has_experts) {
  constexpr uint32_t kQ8_0 = 8;
  const std::string prefix = std::string(arch) + ".";
  GgufBytes file;
  file.set("general.architecture", text(arch));
  for (const auto& [suffix, value] :
       std::initializer_list<std::pair<const char*, uint32_t>>{{"block_count", 1},
                                                               {"context_length", 64},
                                                               {"embedding_length", 32},
                                                               {"feed_forward_length", 64},
                                                               {"attention.head_count", 4},
                                                               {"attention.head_count_kv", 2},
                                                               {"vocab_size", 32}})
    file.set(prefix + suffix, u32(value));
  file.set(prefix + "attention.layer_norm_rms_epsilon", f32(1e-5f));
  for (const char* name : {"token_embd", "output", "blk.0.attn_q", "blk.0.attn_output"})
    file.add(tensor(std::string(name) + ".weight", {32, 32}, kQ8_0));
  for (const char* name : {"blk.0.attn_k", "blk.0.attn_v"})
    file.add(tensor(std::string(name) + ".weight", {32, 16}, kQ8_0));
  for (const char* name : {"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"})
    file.add(tensor(std::string(name) + ".weight", {32}));
  if (has_experts) {
    file.set(prefix + "expert_count", u32(2)).set(prefix + "expert_used_count", u32(1));
    file.set(prefix + "expert_feed_forward_length", u32(64));
    file.add(tensor("blk.0.ffn_gate_inp.weight", {32, 2}));
    for (const char* name : {"ffn_gate_exps", "ffn_up_exps"})
      file.add(tensor("blk.0." + std::string(name) + ".weight", {32, 64, 2}, kQ8_0));
    file.add(tensor("blk.0.ffn_down_exps.weight", {64, 32, 2}, kQ8_0));
  } else {
    for (const char* name : {"ffn_gate", "ffn_up"})
      file.add(tensor("blk.0." + std::string(name) + ".weight", {32, 64}, kQ8_0));
    file.add(tensor("blk.0.ffn_down.weight", {64, 32}, kQ8_0));
  }
  return file;
}

void edit(GgufBytes& file, std::string_view arch, Input& in) {
  const std::string key = std::string(arch) + "." + std::string(kSuffixes[in.byte() % std::size(kSuffixes)]);
  const uint8_t action = in.byte();
  if (action < 200) {
    file.set(key, some_value(in));
  } else if (action < 220) {
    file.erase(key);
  } else {
    constexpr std::string_view kNames[] = {
        "blk.0.attn_q_norm.weight", "blk.0.attn_k_norm.weight",         "blk.0.attn_qkv.weight",
        "blk.0.attn_q.bias",        "blk.0.post_attention_norm.weight", "blk.0.post_ffw_norm.weight",
        "rope_freqs.weight",        "rope_factors_long.weight",         "rope_factors_short.weight",
        "blk.0.ffn_up.weight"};
    const std::string name(kNames[in.byte() % std::size(kNames)]);
    file.erase_tensor(name);
    std::vector<uint64_t> dims(1 + in.byte() % 3);
    for (uint64_t& extent : dims) extent = 1 + in.byte() % 64;
    file.add(tensor(name, dims));
  }
}

void require(bool holds) {
  if (!holds) __builtin_trap();
}

void check(const Hyper& hyper) {
  require(hyper.n_layers == hyper.layers.size() && hyper.n_layers > 0);
  require(hyper.n_embd > 0 && hyper.n_vocab > 0 && hyper.k_dim > 0 && hyper.v_dim > 0 && hyper.n_ctx_train > 0);
  require(std::isfinite(hyper.norm_eps) && hyper.norm_eps > 0);
  require(std::isfinite(hyper.attention_scale) && std::isfinite(hyper.attn_softcap) &&
          std::isfinite(hyper.final_softcap));
  require(std::isfinite(hyper.expert_weight_scale));
  require(hyper.n_expert_used <= hyper.n_expert && (hyper.n_expert == 0 || hyper.n_expert_used > 0));
  require(hyper.rope.rot_dim % 2 == 0 && hyper.rope.rot_dim > 0 && hyper.rope.rot_dim <= hyper.k_dim);
  for (uint32_t i = 0; i < hyper.n_layers; ++i) {
    require(hyper.layers[i].n_head > 0 && hyper.layers[i].n_head_kv > 0);
    require(hyper.layers[i].n_head % hyper.layers[i].n_head_kv == 0);
    for (uint8_t d = 0; d <= static_cast<uint8_t>(Dim::rope_pairs); ++d)
      require(hyper.dim(static_cast<Dim>(d), i) < (uint64_t{1} << 40));
  }
  for (const double freq_base : {hyper.rope.freq_base, hyper.rope.freq_base_windowed}) {
    const RopeTable table = rope_table(hyper.rope, freq_base, true, {});
    require(table.inv_freq.size() == hyper.rope.rot_dim / 2 && std::isfinite(table.magnitude));
    for (const double frequency : table.inv_freq) require(std::isfinite(frequency) && frequency >= 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input in(data, size);
  static const std::vector<std::string_view> archs = arch_names();
  const std::string_view arch = archs[in.byte() % archs.size()];
  GgufBytes file = small_model(arch, in.byte() % 4 == 0);
  for (int n = 0; n < 12 && !in.empty(); ++n) edit(file, arch, in);
  const std::string bytes = file.build();
  const auto opened = GgufFile::open(std::make_shared<MemorySource>(std::as_bytes(std::span(bytes))));
  if (!opened) return 0;
  const auto spec = find_arch(arch);
  require(spec.has_value());
  const auto hyper = read_hyper(*opened, *spec);
  if (hyper) check(*hyper);
  const auto plan = plan_model(*opened);
  require(!plan || hyper.has_value());
  if (!plan) require(!plan.error().message.empty() && plan.error().code != ErrorCode::internal);
  return 0;
}
