// Groups are tensors of one name in every layer; a group has a row for each type.
#include "cli/quantize_report.h"

#include <fmt/format.h>

#include <map>

#include "base/progress.h"
#include "formats/json.h"

namespace tamis::cli {
namespace {

struct Group {
  std::string name;
  DType type;
  size_t n_tensors = 0;
  uint64_t n_params = 0, size_bytes = 0;
};

double bits(uint64_t bytes, uint64_t n_params) {
  return n_params == 0 ? 0 : static_cast<double>(bytes) * 8 / static_cast<double>(n_params);
}

// "attn_v" for blk.3.attn_v.weight; vectors are one group.
std::string group_name(const QuantizedTensor& tensor) {
  if (n_real_dims(tensor.shape) < 2) return "vectors";
  std::string name = tensor.name;
  if (layer_number(name)) name = name.substr(name.find('.', 4) + 1);
  if (name.ends_with(".weight")) name.resize(name.size() - 7);
  return name;
}

// In the order in which they come first.
std::vector<Group> groups_of(const QuantizePlan& plan) {
  std::vector<Group> out;
  std::map<std::string, size_t> first;
  for (const QuantizedTensor& tensor : plan.tensors) first.emplace(group_name(tensor), first.size());
  std::map<std::pair<size_t, DType>, Group> groups;
  for (const QuantizedTensor& tensor : plan.tensors) {
    const std::string name = group_name(tensor);
    Group& group = groups.try_emplace({first[name], tensor.choice.type}, Group{name, tensor.choice.type}).first->second;
    ++group.n_tensors;
    group.n_params += tensor.shape.n_elements();
    group.size_bytes += tensor.size_bytes;
  }
  for (const auto& [key, group] : groups) out.push_back(group);
  return out;
}

uint64_t source_bytes(const QuantizePlan& plan) {
  uint64_t sum = 0;
  for (const QuantizedTensor& tensor : plan.tensors) sum += plan.source.tensors()[tensor.source].size_bytes;
  return sum;
}

}  // namespace

std::string quantize_text(const QuantizePlan& plan, const QuantizeReport& report, bool is_dry, const Style& style) {
  std::string out;
  if (is_dry) {
    Table table({Align::left, Align::left, Align::right, Align::right, Align::right, Align::right}, "");
    table.add({style.dim("tensors"), style.dim("type"), style.dim("number"), style.dim("weights"), style.dim("bytes"),
               style.dim("bits a weight")});
    for (const Group& group : groups_of(plan))
      table.add({group.name, std::string(dtype_name(group.type)), std::to_string(group.n_tensors),
                 human_count(group.n_params), with_commas(group.size_bytes),
                 fmt::format("{:.4g}", bits(group.size_bytes, group.n_params))});
    table.add({style.bold("all"), "", std::to_string(plan.tensors.size()), human_count(plan.n_params()),
               with_commas(plan.tensor_bytes()), fmt::format("{:.4f}", bits(plan.tensor_bytes(), plan.n_params()))});
    out += table.text();
  }
  for (const QuantizedFile& file : plan.files)
    out += fmt::format("{}{}: {} bytes ({})\n", is_dry ? "would write " : "", file.path, with_commas(file.size_bytes),
                       human_bytes(file.size_bytes));
  out += fmt::format("{}: {:.2f} bits a weight, from {:.2f}\n", plan.options.recipe.name(),
                     bits(plan.tensor_bytes(), plan.n_params()), bits(source_bytes(plan), plan.n_params()));
  if (!report.exact.empty())
    out += fmt::format("{} tensors lay on a grid and were encoded without loss\n", report.exact.size());
  if (report.kept_bytes > 0) out += fmt::format("{} of an earlier run were kept\n", human_bytes(report.kept_bytes));
  return out;
}

std::string quantize_json(const QuantizePlan& plan, const QuantizeReport& report, bool is_dry) {
  Json files = Json::array(), groups = Json::array(), warnings = Json::array(), exact = Json::array(),
       tensors = Json::array();
  for (const QuantizedFile& file : plan.files) {
    Json row = Json::object();
    files.push_back(row.set("path", file.path).set("size_bytes", Json(file.size_bytes)));
  }
  for (const Group& group : groups_of(plan)) {
    Json row = Json::object();
    row.set("group", group.name).set("type", dtype_name(group.type)).set("n_tensors", Json(uint64_t{group.n_tensors}));
    row.set("n_params", Json(group.n_params)).set("bytes", Json(group.size_bytes));
    groups.push_back(row.set("bits_per_weight", bits(group.size_bytes, group.n_params)));
  }
  uint64_t n_fallback = 0;
  for (const QuantizedTensor& tensor : plan.tensors) {
    n_fallback += tensor.choice.reason == TypeReason::fallback;
    Json row = Json::object();
    row.set("name", tensor.name).set("from", dtype_name(tensor.from)).set("type", dtype_name(tensor.choice.type));
    tensors.push_back(row.set("bytes", Json(tensor.size_bytes)));
  }
  for (const std::string& warning : plan.warnings) warnings.push_back(warning);
  for (const std::string& name : report.exact) exact.push_back(name);
  Json out = Json::object();
  out.set("schema", 1).set("dry_run", is_dry).set("type", plan.options.recipe.name());
  out.set("method", encode_method_name(plan.options.method));
  out.set("files", std::move(files)).set("size_bytes", Json(plan.size_bytes()));
  out.set("tensor_bytes", Json(plan.tensor_bytes())).set("n_params", Json(plan.n_params()));
  out.set("bits_per_weight", bits(plan.tensor_bytes(), plan.n_params()));
  out.set("source_bits_per_weight", bits(source_bytes(plan), plan.n_params()));
  out.set("missing_imatrix", plan.missing_imatrix).set("n_fallback", Json(n_fallback));
  out.set("n_exact", Json(uint64_t{report.exact.size()})).set("exact", std::move(exact));
  out.set("kept_bytes", Json(report.kept_bytes)).set("groups", std::move(groups));
  out.set("tensors", std::move(tensors)).set("warnings", std::move(warnings));
  return out.dump() + "\n";
}

}  // namespace tamis::cli
