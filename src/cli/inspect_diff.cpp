// `tamis inspect --diff A B`, and the hashes of --hash.
#include <algorithm>
#include <cstring>

#include "base/progress.h"
#include "cli/digest.h"
#include "cli/inspect.h"
#include "cli/interrupt.h"

namespace tamis::cli {
namespace {

constexpr size_t kShownBytes = 60;

std::string tensor_text(const GgufTensor& tensor) {
  return fmt::format("{} {}", dtype_name(tensor.dtype), tensor.shape.to_string());
}

class Differ {
 public:
  Differ(const GgufFile& a, const GgufFile& b, const Style& style) : a_(a), b_(b), style_(style) {}

  Result<Difference> run() {
    compare_metadata();
    TAMIS_TRY_STATUS(compare_tensors());
    Difference out;
    out.n_kv = kv_rows_.as_array().size();
    out.n_tensors = tensor_rows_.as_array().size();
    out.json = Json::object();
    out.json.set("schema", 1).set("a", a_.path()).set("b", b_.path()).set("same", out.n_kv + out.n_tensors == 0);
    out.json.set("kv", std::move(kv_rows_)).set("tensors", std::move(tensor_rows_));
    if (out.n_kv + out.n_tensors > 0)
      out.text = kv_text_ + tensor_text_ +
                 style_.bold(fmt::format("{} key{} and {} tensor{} differ", out.n_kv, out.n_kv == 1 ? "" : "s",
                                         out.n_tensors, out.n_tensors == 1 ? "" : "s")) +
                 "\n";
    return out;
  }

 private:
  void line(std::string& out, char mark, std::string_view text) {
    const Color color = mark == '-' ? Color::red : mark == '+' ? Color::green : Color::yellow;
    out += style_.paint(color, fmt::format("{} {}", mark, text)) + "\n";
  }

  void kv_row(std::string_view key, const GgufValue* a, const GgufValue* b) {
    Json row = Json::object();
    row.set("key", key).set("a", a == nullptr ? Json() : Json(value_text(*a, kShownBytes)));
    kv_rows_.push_back(row.set("b", b == nullptr ? Json() : Json(value_text(*b, kShownBytes))));
    const std::string name = escape_for_display(key);
    if (a != nullptr) line(kv_text_, '-', fmt::format("{}  {}", name, value_text(*a, kShownBytes)));
    if (b != nullptr) line(kv_text_, '+', fmt::format("{}  {}", name, value_text(*b, kShownBytes)));
  }

  void compare_metadata() {
    for (const GgufKv& kv : a_.kvs()) {
      const GgufValue* other = b_.find(kv.key);
      const bool is_same =
          other != nullptr && other->type() == kv.value.type() && std::ranges::equal(other->raw(), kv.value.raw());
      if (!is_same) kv_row(kv.key, &kv.value, other);
    }
    for (const GgufKv& kv : b_.kvs())
      if (a_.find(kv.key) == nullptr) kv_row(kv.key, nullptr, &kv.value);
  }

  void tensor_row(std::string_view name, std::string_view what, const GgufTensor* a, const GgufTensor* b,
                  Json first_difference = Json()) {
    Json row = Json::object();
    row.set("name", name).set("what", what).set("a", a == nullptr ? Json() : Json(tensor_text(*a)));
    row.set("b", b == nullptr ? Json() : Json(tensor_text(*b)));
    tensor_rows_.push_back(row.set("first_different_byte", std::move(first_difference)));
  }

  Status compare_tensors() {
    Progress progress("compare", ProgressUnit::bytes, a_.size_bytes());
    for (const GgufTensor& a : a_.tensors()) {
      if (stop_flag()) return fail(ErrorCode::cancelled, "stopped");
      const GgufTensor* b = b_.find_tensor(a.name);
      const std::string name = escape_for_display(a.name);
      progress.advance(a.size_bytes);
      if (b == nullptr) {
        tensor_row(a.name, "removed", &a, nullptr);
        line(tensor_text_, '-', fmt::format("{}  {}", name, tensor_text(a)));
      } else if (a.dtype != b->dtype || a.shape != b->shape) {
        tensor_row(a.name, "changed", &a, b);
        line(tensor_text_, '~', fmt::format("{}  {} → {}", name, tensor_text(a), tensor_text(*b)));
      } else if (const auto at = first_difference(a_.data(a), b_.data(*b))) {
        tensor_row(a.name, "bytes", &a, b, Json(*at));
        line(tensor_text_, '~', fmt::format("{}  {}: bytes differ, first at {}", name, tensor_text(a), *at));
      }
    }
    for (const GgufTensor& b : b_.tensors()) {
      if (a_.find_tensor(b.name) != nullptr) continue;
      tensor_row(b.name, "added", nullptr, &b);
      line(tensor_text_, '+', fmt::format("{}  {}", escape_for_display(b.name), tensor_text(b)));
    }
    return {};
  }

  static std::optional<uint64_t> first_difference(std::span<const std::byte> a, std::span<const std::byte> b) {
    if (a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0) return std::nullopt;
    const auto [at, end] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    return static_cast<uint64_t>(at - a.begin());
  }

  const GgufFile &a_, &b_;
  const Style& style_;
  Json kv_rows_ = Json::array(), tensor_rows_ = Json::array();
  std::string kv_text_, tensor_text_;
};

}  // namespace

Result<Difference> diff_files(const GgufFile& a, const GgufFile& b, const Style& style) {
  return Differ(a, b, style).run();
}

Result<Hashes> hash_file(const GgufFile& file) {
  Hashes out;
  for (uint32_t i = 0; i < file.n_shards(); ++i) {
    TAMIS_TRY(std::string hash, sha256_of_file(file.path(i)));
    out.files.push_back(std::move(hash));
  }
  std::vector<const GgufTensor*> tensors;
  for (const GgufTensor& tensor : file.tensors()) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(), [](const GgufTensor* a, const GgufTensor* b) { return a->name < b->name; });
  Digest digest(Digest::Kind::sha256);
  Progress progress("hash tensors", ProgressUnit::bytes, file.size_bytes());
  for (const GgufTensor* tensor : tensors) {
    if (stop_flag()) return fail(ErrorCode::cancelled, "stopped");
    digest.update(fmt::format("{} {} {}\n", tensor->name, dtype_name(tensor->dtype), tensor->shape.to_string()));
    const auto bytes = file.data(*tensor);
    digest.update({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    progress.advance(bytes.size());
  }
  out.tensors = digest.hex();
  return out;
}

}  // namespace tamis::cli
