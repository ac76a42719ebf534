// `tamis inspect FILE` for people.
#include <algorithm>
#include <cmath>

#include "base/progress.h"
#include "cli/inspect.h"

namespace tamis::cli {
namespace {

constexpr unsigned kBarColumns = 16;
constexpr size_t kNameColumns = 13;  // "bits a weight"
constexpr std::string_view kSeparator = " · ";

// One colour for each type, by its place in the file's list.
Color type_color(const TypeShares& types, DType dtype) {
  static constexpr Color kColors[] = {Color::cyan,  Color::magenta, Color::yellow,
                                      Color::green, Color::blue,    Color::red};
  for (size_t i = 0; i < types.size(); ++i)
    if (types[i].dtype == dtype) return kColors[i % std::size(kColors)];
  return Color::none;
}

std::string bar(double part) {
  static constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<unsigned>(std::lround(std::clamp(part, 0.0, 1.0) * kBarColumns * 8));
  std::string out;
  for (unsigned i = 0; i < eighths / 8; ++i) out += "█";
  return out + std::string(kEighths[eighths % 8]);
}

double part_of(uint64_t n, uint64_t all) { return all == 0 ? 0 : static_cast<double>(n) / static_cast<double>(all); }

std::string percent(double part) { return fmt::format("{:.1f} %", part * 100); }

std::string types_text(const TypeShares& types, const TypeShares& all, const Style& style) {
  std::string out;
  for (const TypeShare& type : types)
    out += fmt::format("{}{} ×{}", out.empty() ? "" : "  ",
                       style.paint(type_color(all, type.dtype), dtype_name(type.dtype)), type.share.n_tensors);
  return out;
}

std::string yes_no(const std::optional<bool>& value) { return !value ? "not said" : *value ? "yes" : "no"; }

class Summary {
 public:
  Summary(const GgufFile& file, const ModelFacts& facts, const Style& style)
      : file_(file), facts_(facts), style_(style) {}

  std::string text(const Hashes* hashes) {
    out_ = style_.bold(escape_for_display(facts_.name, 120)) + "\n\n";
    Table table({Align::left, Align::left});
    add_identity(table);
    if (hashes != nullptr) add_hashes(table, *hashes);
    out_ += table.text();
    add_groups();
    add_types();
    add_tokenizer();
    add_templates();
    for (const std::string& warning : file_.warnings())
      out_ += "\n" + style_.paint(Color::yellow, "warning: ") + escape_for_display(warning, 500) + "\n";
    return out_;
  }

 private:
  // Names are padded alike in every section, so that all values stand in one column.
  void row(Table& table, std::string_view name, std::string value) {
    table.add({style_.dim(fmt::format("{:<{}}", name, kNameColumns)), std::move(value)});
  }

  void add_identity(Table& table) {
    const std::string shards = file_.n_shards() > 1 ? fmt::format("{}{} shards", kSeparator, file_.n_shards()) : "";
    const std::string name = file_.path().substr(file_.path().rfind('/') + 1);
    row(table, "file",
        fmt::format("{}{}{}{}GGUF v{}{}", escape_for_display(name, 120), kSeparator, human_bytes(file_.size_bytes()),
                    kSeparator, file_.version(), shards));
    row(table, "architecture",
        facts_.architecture.empty() ? "not said" : style_.bold(escape_for_display(facts_.architecture)));
    std::vector<std::string> hyper;
    for (const HyperFact& fact : facts_.hyper) hyper.push_back(fact.name + " " + fact.value);
    if (!hyper.empty()) row(table, "shape", on_lines(std::move(hyper)));
    add_size(table);
    if (facts_.kv_bytes_per_token) add_kv(table);
    if (!facts_.license.empty()) row(table, "license", escape_for_display(facts_.license));
  }

  // Items on as many lines as they need, each continuation under the value column; no line breaks inside an item.
  static std::string on_lines(std::vector<std::string> items) {
    constexpr char kJoint =
        '\x01';  // stands for a space that must not break; values from files are escaped, so it is ours alone
    std::string text;
    for (std::string& item : items) {
      std::replace(item.begin(), item.end(), ' ', kJoint);
      text += text.empty() ? item : fmt::format("{}· {}", kJoint, item);
    }
    text = wrap(text, 100, kNameColumns + 4);
    std::replace(text.begin(), text.end(), kJoint, ' ');
    return text;
  }

  void add_size(Table& table) {
    const Share& total = facts_.total;
    if (total.n_tensors == 0) {
      row(table, "parameters", "none: a vocabulary");
      return;
    }
    std::string params = fmt::format("{} ({})", style_.bold(with_commas(total.n_params)), human_count(total.n_params));
    if (facts_.n_active_params != total.n_params)
      params += fmt::format("{}{} active a token", kSeparator, human_count(facts_.n_active_params));
    if (facts_.is_tied) params += fmt::format("{}output tied to the embedding", kSeparator);
    row(table, "parameters", params);
    const double file_bits = static_cast<double>(file_.size_bytes()) * 8 / static_cast<double>(total.n_params);
    row(table, "bits a weight",
        fmt::format("{} in tensors ({}){}{:.3f} of the whole file",
                    style_.bold(fmt::format("{:.3f}", total.bits_per_weight())), human_bytes(total.n_bytes), kSeparator,
                    file_bits));
    const TypeShare& most = facts_.types.front();
    const std::string really = fmt::format("{} of the bytes are {}",
                                           percent(part_of(most.share.n_bytes, total.n_bytes)), dtype_name(most.dtype));
    row(table, "type",
        facts_.type_label.empty() ? really
                                  : fmt::format("labelled {}{}{}", style_.bold(facts_.type_label), kSeparator, really));
  }

  void add_kv(Table& table) {
    const bool has_window = std::any_of(facts_.hyper.begin(), facts_.hyper.end(),
                                        [](const HyperFact& fact) { return fact.name == "window"; });
    std::string text =
        fmt::format("{}{} a token at f16", has_window ? "at most " : "", human_bytes(*facts_.kv_bytes_per_token));
    if (facts_.context_length > 0 && facts_.context_length < (uint64_t{1} << 32))
      text += fmt::format("{}{} at context {}", kSeparator,
                          human_bytes(*facts_.kv_bytes_per_token * facts_.context_length), facts_.context_length);
    row(table, "KV cache", text);
  }

  void add_hashes(Table& table, const Hashes& hashes) {
    for (size_t i = 0; i < hashes.files.size(); ++i)
      row(table, hashes.files.size() > 1 ? fmt::format("sha256 of {}", i + 1) : "sha256", hashes.files[i]);
    row(table, "of tensors", hashes.tensors);
  }

  void add_groups() {
    if (facts_.groups.empty()) return;
    out_ += "\n" + style_.bold("Tensors by group") + "\n";
    Table table({Align::left, Align::right, Align::right, Align::right, Align::right, Align::left});
    table.add({style_.dim("group"), style_.dim("tensors"), style_.dim("parameters"), style_.dim("bytes"),
               style_.dim("bits"), style_.dim("types")});
    for (const GroupShare& group : facts_.groups)
      add_share(table, std::string(group.name), group.share, types_text(group.types, facts_.types, style_));
    add_share(table, "all", facts_.total, "");
    out_ += table.text();
  }

  void add_share(Table& table, std::string name, const Share& share, std::string last) {
    table.add({std::move(name), std::to_string(share.n_tensors), human_count(share.n_params),
               human_bytes(share.n_bytes), fmt::format("{:.2f}", share.bits_per_weight()), std::move(last)});
  }

  void add_types() {
    if (facts_.types.empty()) return;
    out_ += "\n" + style_.bold("Types") + "\n";
    Table table({Align::left, Align::right, Align::right, Align::right, Align::right, Align::right, Align::left});
    for (const TypeShare& type : facts_.types) {
      const double part = part_of(type.share.n_bytes, facts_.total.n_bytes);
      const Color color = type_color(facts_.types, type.dtype);
      table.add({style_.paint(color, dtype_name(type.dtype)), std::to_string(type.share.n_tensors),
                 human_count(type.share.n_params), human_bytes(type.share.n_bytes),
                 fmt::format("{:.2f}", type.share.bits_per_weight()), percent(part), style_.paint(color, bar(part))});
    }
    out_ += table.text();
  }

  void add_tokenizer() {
    const TokenizerFacts& tokenizer = facts_.tokenizer;
    out_ += "\n" + style_.bold("Tokenizer") + "\n";
    Table table({Align::left, Align::left});
    if (tokenizer.model.empty()) {
      row(table, "model", "none in the file");
      out_ += table.text();
      return;
    }
    const std::string pre =
        tokenizer.pre.empty() ? "" : fmt::format("{}pre-tokenizer {}", kSeparator, escape_for_display(tokenizer.pre));
    row(table, "model", style_.bold(escape_for_display(tokenizer.model)) + pre);
    std::string parts = fmt::format("{} tokens", with_commas(tokenizer.n_tokens));
    if (tokenizer.n_merges > 0) parts += fmt::format("{}{} merges", kSeparator, with_commas(tokenizer.n_merges));
    if (tokenizer.has_scores) parts += fmt::format("{}scores", kSeparator);
    row(table, "vocabulary", parts);
    std::vector<std::string> special;
    for (const SpecialTokenFact& token : tokenizer.special)
      special.push_back(fmt::format("{} {} {}", escape_for_display(token.name, 40), token.id,
                                    style_.dim(escape_for_display(token.text, 40))));
    if (!special.empty()) row(table, "special", on_lines(std::move(special)));
    row(table, "adds",
        fmt::format("BOS {}{}EOS {}{}space prefix {}", yes_no(tokenizer.add_bos), kSeparator, yes_no(tokenizer.add_eos),
                    kSeparator, yes_no(tokenizer.add_space_prefix)));
    out_ += table.text();
  }

  void add_templates() {
    out_ += "\n" + style_.bold("Chat template") + "\n";
    Table table({Align::left, Align::left});
    if (facts_.templates.empty()) row(table, "template", "none in the file");
    for (const TemplateFacts& source : facts_.templates) {
      row(table, source.name.empty() ? "template" : escape_for_display(source.name),
          fmt::format("{} bytes{}", with_commas(source.source.size()),
                      source.problem.empty() ? "" : style_.paint(Color::red, " does not parse: " + source.problem)));
      std::string can;
      auto add = [&](bool is_there, std::string_view what) {
        if (is_there) can += fmt::format("{}{}", can.empty() ? "" : kSeparator, what);
      };
      add(source.has_system, "system messages");
      add(source.has_tools, "tools");
      add(source.has_tool_calls, "tool calls");
      add(source.has_thinking, "thinking");
      add(source.has_images, "images");
      add(source.has_generation_prompt, "generation prompt");
      if (!can.empty()) row(table, "speaks of", can);
    }
    out_ += table.text();
  }

  const GgufFile& file_;
  const ModelFacts& facts_;
  const Style& style_;
  std::string out_;
};

}  // namespace

std::string summary_text(const GgufFile& file, const ModelFacts& facts, const Hashes* hashes, const Style& style) {
  return Summary(file, facts, style).text(hashes);
}

std::string tensors_text(const GgufFile& file, const Style& style) {
  TypeShares types;
  for (const GgufTensor& tensor : file.tensors()) add_to(types, tensor);
  Table table({Align::left, Align::left, Align::left, Align::right, Align::right, Align::right}, "");
  const bool has_shards = file.n_shards() > 1;
  table.add({style.dim("name"), style.dim("shape"), style.dim("type"), style.dim("offset"), style.dim("bytes"),
             style.dim(has_shards ? "shard" : "")});
  for (const GgufTensor& tensor : file.tensors())
    table.add({escape_for_display(tensor.name), tensor.shape.to_string(),
               style.paint(type_color(types, tensor.dtype), dtype_name(tensor.dtype)),
               std::to_string(tensor.file_offset), std::to_string(tensor.size_bytes),
               has_shards ? std::to_string(tensor.shard_idx + 1) : ""});
  return table.text();
}

}  // namespace tamis::cli
