// Writes tiny models to memory and reads the goldens' text; the weights' formula is that of
// tests/golden/tiny_models.py.
#include "tests/models/synthetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <numeric>
#include <sstream>

#include "base/file.h"
#include "formats/gguf_writer.h"
#include "quants/registry.h"

namespace tamis::test {
namespace {

uint64_t splitmix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// n numbers in [−1, 1), multiples of 2^-23.
std::vector<float> uniform(const std::string& name, size_t n) {
  uint64_t seed = 0xCBF29CE484222325u;
  for (const char c : name) seed = (seed ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t bits = splitmix64(seed + (i + 1) * 0x9E3779B97F4A7C15u) >> 40;
    out[i] = static_cast<float>(static_cast<double>(bits) * 0x1p-23 - 1.0);
  }
  return out;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::vector<float> values_of(const Synthetic& model, const SyntheticTensor& tensor) {
  std::vector<float> out = uniform(model.name + "/" + tensor.name, tensor.shape.n_elements());
  float offset = 0, scale = static_cast<float>(std::sqrt(6.0 / static_cast<double>(tensor.shape.row_len())));
  if (ends_with(tensor.name, ".bias")) {
    scale = 0.5f;
  } else if (ends_with(tensor.name, ".scale")) {
    offset = 1, scale = 0.5f;
  } else if (tensor.name.rfind("rope_", 0) == 0) {
    offset = 2, scale = 1;
  } else if (tensor.shape.n_dims == 1) {
    offset = 1, scale = 0.25f;
  } else if (tensor.name == "token_embd.weight") {
    scale = 1.5f;
  }
  for (float& value : out) value = offset + value * scale;
  return out;
}

template <class T>
T must(Result<T> result) {
  if (!result) {
    std::cerr << result.error().to_string() << "\n";
    std::abort();
  }
  return std::move(*result);
}

void must(Status status) {
  if (!status) {
    std::cerr << status.error().to_string() << "\n";
    std::abort();
  }
}

// A source that owns its bytes.
class OwnedSource final : public ByteSource {
 public:
  explicit OwnedSource(std::string bytes)
      : bytes_(std::move(bytes)), view_({reinterpret_cast<const std::byte*>(bytes_.data()), bytes_.size()}) {}
  uint64_t size_bytes() const override { return view_.size_bytes(); }
  Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) override { return view_.read_at(offset, out); }
  std::span<const std::byte> mapped() const override { return view_.mapped(); }

 private:
  std::string bytes_;
  MemorySource view_;
};

Shape shape_of(const std::string& text) {
  Shape shape;
  std::istringstream in(text);
  for (std::string extent; std::getline(in, extent, ',');)
    shape.extents[shape.n_dims++] = std::strtoull(extent.c_str(), nullptr, 10);
  return shape;
}

std::vector<Synthetic> read_golden_cases() {
  const std::string stem = std::string(TAMIS_SOURCE_DIR) + "/tests/golden/models_logits";
  std::ifstream text(stem + ".tsv"), blob(stem + ".bin", std::ios::binary);
  std::vector<Synthetic> cases;
  for (std::string line; std::getline(text, line);) {
    std::istringstream in(line);
    std::string kind, first, second, third;
    std::getline(in, kind, '\t');
    std::getline(in, first, '\t');
    std::getline(in, second, '\t');
    std::getline(in, third, '\t');
    if (kind == "case") cases.push_back({.name = first, .arch = second});
    if (kind == "u32") cases.back().set(first, static_cast<uint32_t>(std::strtoul(second.c_str(), nullptr, 10)));
    if (kind == "f32") cases.back().set(first, std::strtof(second.c_str(), nullptr));
    if (kind == "str") cases.back().set(first, second);
    if (kind == "tensor") cases.back().tensors.push_back({first, shape_of(second)});
    if (kind == "ids") {
      std::istringstream ids(first);
      for (std::string id; std::getline(ids, id, ',');)
        cases.back().ids.push_back(static_cast<int32_t>(std::strtol(id.c_str(), nullptr, 10)));
      const size_t n_vocab = cases.back().tensors[0].shape[0];
      cases.back().expected.resize(cases.back().ids.size() * n_vocab);
      blob.read(reinterpret_cast<char*>(cases.back().expected.data()),
                static_cast<std::streamsize>(cases.back().expected.size() * sizeof(float)));
    }
  }
  if (cases.empty() || !blob) {
    std::cerr << "cannot read " << stem << ".{tsv,bin}\n";
    std::abort();
  }
  return cases;
}

}  // namespace

void Synthetic::set(const std::string& key, MetaValue value) {
  for (auto& entry : metadata) {
    if (entry.first == key) {
      entry.second = std::move(value);
      return;
    }
  }
  metadata.emplace_back(key, std::move(value));
}

void Synthetic::erase(const std::string& tensor_name) {
  std::erase_if(tensors, [&](const SyntheticTensor& tensor) { return tensor.name == tensor_name; });
}

bool Synthetic::has(const std::string& tensor_name) const {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const SyntheticTensor& tensor) { return tensor.name == tensor_name; });
}

GgufFile open_synthetic(const Synthetic& model, const Fill& fill) {
  GgufWriter writer;
  must(writer.add_string("general.architecture", model.arch));
  for (const auto& [key, value] : model.metadata) {
    const std::string full = model.arch + "." + key;
    if (const auto* number = std::get_if<uint32_t>(&value)) must(writer.add_u32(full, *number));
    if (const auto* number = std::get_if<float>(&value)) must(writer.add_f32(full, *number));
    if (const auto* string = std::get_if<std::string>(&value)) must(writer.add_string(full, *string));
    if (const auto* numbers = std::get_if<std::vector<uint32_t>>(&value)) {
      must(writer.add_numbers(full, std::span<const uint32_t>(*numbers)));
    }
    if (const auto* flags = std::get_if<std::vector<bool>>(&value)) {
      std::vector<GgufEncoded> encoded;
      for (const bool flag : *flags) encoded.push_back(GgufEncoded::number(flag));
      must(writer.add(full, GgufEncoded::array(GgufType::boolean, encoded)));
    }
  }
  for (const SyntheticTensor& tensor : model.tensors) must(writer.add_tensor(tensor.name, tensor.dtype, tensor.shape));
  std::string bytes = writer.header();
  const size_t data_start = bytes.size();
  bytes.resize(data_start + writer.data_bytes(), '\0');
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const SyntheticTensor& tensor = model.tensors[i];
    if (tensor.dtype != DType::f32 && quant_type(tensor.dtype).encode_plain == nullptr) continue;
    std::vector<float> values = values_of(model, tensor);
    if (fill) fill(tensor.name, values);
    auto* const to = reinterpret_cast<std::byte*>(bytes.data() + data_start + writer.tensor_offset(i));
    must(encode_plain(tensor.dtype, values, {to, *dtype_bytes(tensor.dtype, values.size())}));
  }
  return must(GgufFile::open(std::make_shared<OwnedSource>(std::move(bytes))));
}

const std::vector<Synthetic>& golden_cases() {
  static const std::vector<Synthetic> cases = read_golden_cases();
  return cases;
}

const Synthetic& golden_case(const std::string& name) {
  for (const Synthetic& model : golden_cases()) {
    if (model.name == name) return model;
  }
  std::cerr << "no golden case " << name << "\n";
  std::abort();
}

Synthetic from_spec(const ArchSpec& arch, bool with_experts, bool with_fused_qkv, const SpecSize& size) {
  Synthetic model{.name = std::string(arch.name), .arch = std::string(arch.name)};
  const std::pair<const char*, uint32_t> numbers[] = {
      {"block_count", 2},
      {"context_length", size.n_ctx},
      {"embedding_length", size.n_embd},
      {"feed_forward_length", size.n_ff},
      {"attention.head_count", 6},
      {"attention.head_count_kv", 2},
      {"attention.key_length", size.k_dim},
      {"attention.value_length", size.v_dim},
      {"vocab_size", 30},
      {"attention.sliding_window", 16},
  };
  for (const auto& [key, value] : numbers) model.set(key, value);
  model.set("attention.layer_norm_rms_epsilon", 1e-5f);
  if (with_experts) {
    model.set("expert_count", uint32_t{3});
    model.set("expert_used_count", uint32_t{2});
    model.set("expert_feed_forward_length", size.n_expert_ff);
  }
  const Hyper hyper = must(read_hyper(open_synthetic(model), arch));
  for (const TensorSpec& spec : arch.tensors) {
    if (spec.when == When::moe && !with_experts) continue;
    if (spec.when == When::dense && with_experts) continue;
    if (spec.when == When::fused_qkv && !with_fused_qkv) continue;
    if (spec.when == When::split_qkv && with_fused_qkv) continue;
    for (uint32_t i = 0; i < (spec.is_per_layer() ? hyper.n_layers : 1); ++i) {
      SyntheticTensor tensor{tensor_name(spec.name, i), {}};
      for (const Dim dim : spec.dims) {
        if (dim != Dim::none) tensor.shape.extents[tensor.shape.n_dims++] = hyper.dim(dim, i);
      }
      model.tensors.push_back(std::move(tensor));
    }
  }
  for (int32_t i = 0; i < 9; ++i) model.ids.push_back((5 * i + 2) % 30);
  return model;
}

std::vector<float> all_logits(const Model& model, Backend& backend, std::span<const int32_t> ids) {
  KvCache cache = model.make_cache();
  std::vector<KvSlot> slots;
  std::vector<uint32_t> rows(ids.size());
  std::iota(rows.begin(), rows.end(), 0u);
  for (const uint32_t position : rows) slots.push_back({&cache, position});
  return must(forward(model, backend, {ids, slots, rows}));
}

double spread_error(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size() || a.empty()) return INFINITY;
  const double mean = std::accumulate(b.begin(), b.end(), 0.0) / static_cast<double>(b.size());
  double squares = 0, worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    squares += (b[i] - mean) * (b[i] - mean);
    const double difference = std::fabs(static_cast<double>(a[i]) - b[i]);
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
  }
  return worst / std::sqrt(squares / static_cast<double>(b.size()));
}

}  // namespace tamis::test
