// `tamis inspect --html OUT`: one page that needs nothing but a browser. Plots are inline SVG; colours follow the
// reader's light or dark setting through CSS variables. Everything from the file is escaped: it is hostile text.
#include <algorithm>

#include "base/progress.h"
#include "cli/html.h"
#include "cli/inspect.h"

namespace tamis::cli {
namespace {

constexpr size_t kPalette = 8;  // Okabe and Ito's colours, which colour-blind readers can tell apart
constexpr double kPlotWidth = 720;
constexpr double kLabelWidth = 110;
constexpr double kFigureWidth = 130;
constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

class Page {
 public:
  Page(const GgufFile& file, const ModelFacts& facts) : file_(file), facts_(facts) {}

  std::string text() {
    out_ = kHtmlHead;
    out_ += fmt::format("<title>{}</title></head><body>\n", html_text(facts_.name));
    add_head();
    if (facts_.total.n_tensors > 0) {
      add_groups();
      add_types();
      add_layers();
    }
    add_tokenizer();
    add_metadata();
    add_tensors();
    add_templates();
    out_ += "</body></html>\n";
    return std::move(out_);
  }

 private:
  // Colour class of a type: by its place in the file's list, the last for all that come after.
  size_t color_of(DType dtype) const {
    size_t i = 0;
    while (i < facts_.types.size() && facts_.types[i].dtype != dtype) ++i;
    return std::min(i, kPalette - 1);
  }

  void card(std::string_view value, std::string_view what) {
    out_ += fmt::format("<div class=card><b>{}</b><span>{}</span></div>\n", html_text(value), html_text(what));
  }

  void add_head() {
    std::string hyper;
    for (const HyperFact& fact : facts_.hyper)
      hyper += fmt::format("{}{} {}", hyper.empty() ? "" : " · ", fact.name, fact.value);
    out_ += fmt::format("<h1>{}</h1>\n<p class=sub>{}{}</p>\n<div class=cards>\n", html_text(facts_.name),
                        html_text(facts_.architecture), hyper.empty() ? "" : html_text(" · " + hyper));
    card(human_bytes(file_.size_bytes()), fmt::format("file, GGUF v{}", file_.version()));
    if (facts_.total.n_tensors > 0) {
      card(human_count(facts_.total.n_params), "parameters");
      if (facts_.n_active_params != facts_.total.n_params) card(human_count(facts_.n_active_params), "active a token");
      card(fmt::format("{:.3f}", facts_.total.bits_per_weight()), "bits a weight");
    }
    if (!facts_.type_label.empty()) card(facts_.type_label, "label of the type");
    if (facts_.kv_bytes_per_token) card(human_bytes(*facts_.kv_bytes_per_token), "KV cache a token, f16");
    out_ += "</div>\n";
  }

  void begin_svg(double height, std::string_view title) {
    out_ += fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=img aria-label=\"{}\">\n", kPlotWidth, height,
                        html_text(title));
  }

  void rect(double x, double y, double width, double height, size_t color, std::string_view tip) {
    out_ += fmt::format("<rect class=f{} x={:.2f} y={:.1f} width={:.2f} height={:.1f}><title>{}</title></rect>\n",
                        color, x, y, width, height, html_text(tip));
  }

  void label(double x, double y, std::string_view anchor, std::string_view text) {
    out_ += fmt::format("<text x={:.1f} y={:.1f} text-anchor={}>{}</text>\n", x, y, anchor, html_text(text));
  }

  void add_key() {
    out_ += "<div class=key>";
    for (const TypeShare& type : facts_.types)
      out_ += fmt::format("<span><i class=f{}></i>{}</span>", color_of(type.dtype), dtype_name(type.dtype));
    out_ += "</div>\n";
  }

  static constexpr double kRow = 26, kBar = 18;
  static constexpr double kBarWidth = kPlotWidth - kLabelWidth - kFigureWidth;

  void add_groups() {
    out_ += "<h2>Bytes by tensor group</h2>\n";
    add_key();
    begin_svg(kRow * static_cast<double>(facts_.groups.size()), "bytes by tensor group, coloured by type");
    uint64_t most = 1;
    for (const GroupShare& group : facts_.groups) most = std::max(most, group.share.n_bytes);
    double y = 0;
    for (const GroupShare& group : facts_.groups) {
      label(kLabelWidth - 8, y + 14, "end", group.name);
      double x = kLabelWidth;
      for (const TypeShare& type : group.types) {
        const double width = kBarWidth * static_cast<double>(type.share.n_bytes) / static_cast<double>(most);
        rect(x, y, width, kBar, color_of(type.dtype),
             fmt::format("{} {} ×{}: {}", group.name, dtype_name(type.dtype), type.share.n_tensors,
                         human_bytes(type.share.n_bytes)));
        x += width;
      }
      label(x + 6, y + 14, "start",
            fmt::format("{} · {:.2f} bits", human_bytes(group.share.n_bytes), group.share.bits_per_weight()));
      y += kRow;
    }
    out_ += "</svg>\n";
  }

  void add_types() {
    out_ += "<h2>Types</h2>\n";
    begin_svg(kRow * static_cast<double>(facts_.types.size()), "bytes by tensor type");
    const double all = static_cast<double>(std::max<uint64_t>(1, facts_.total.n_bytes));
    double y = 0;
    for (const TypeShare& type : facts_.types) {
      const double part = static_cast<double>(type.share.n_bytes) / all;
      label(kLabelWidth - 8, y + 14, "end", dtype_name(type.dtype));
      rect(kLabelWidth, y, kBarWidth * part, kBar, color_of(type.dtype),
           fmt::format("{} tensors, {} parameters", type.share.n_tensors, human_count(type.share.n_params)));
      label(kLabelWidth + kBarWidth * part + 6, y + 14, "start",
            fmt::format("{:.1f} % · {}", part * 100, human_bytes(type.share.n_bytes)));
      y += kRow;
    }
    out_ += "</svg>\n";
  }

  void add_layers() {
    if (facts_.layers.empty()) return;
    constexpr double kLayerRow = 15, kLayerBar = 12;
    uint64_t most = 1;
    for (const LayerRow& row : facts_.layers) most = std::max(most, layer_bytes(row));
    out_ += "<h2>Layer map</h2>\n<p class=sub>One row a layer, one box a tensor: width by bytes, colour by type.</p>\n";
    begin_svg(kLayerRow * static_cast<double>(facts_.layers.size()), "tensors of each layer");
    double y = 0;
    for (const LayerRow& row : facts_.layers) {
      label(kLabelWidth - 8, y + 11, "end", fmt::format("{}", row.layer_idx));
      double x = kLabelWidth;
      for (const GgufTensor* tensor : row.tensors) {
        const double width =
            (kPlotWidth - kLabelWidth) * static_cast<double>(tensor->size_bytes) / static_cast<double>(most);
        const double gap = width > 2 ? 0.8 : 0;
        rect(x, y, width - gap, kLayerBar, color_of(tensor->dtype),
             fmt::format("{} {} {} {}", tensor->name, dtype_name(tensor->dtype), tensor->shape.to_string(),
                         human_bytes(tensor->size_bytes)));
        x += width;
      }
      y += kLayerRow;
    }
    out_ += "</svg>\n";
  }

  static uint64_t layer_bytes(const LayerRow& row) {
    uint64_t n_bytes = 0;
    for (const GgufTensor* tensor : row.tensors) n_bytes += tensor->size_bytes;
    return n_bytes;
  }

  void add_tokenizer() {
    const TokenizerFacts& tokenizer = facts_.tokenizer;
    if (tokenizer.model.empty()) return;
    out_ += fmt::format(
        "<h2>Tokenizer</h2>\n<p class=sub>{}{} · {} tokens · {} merges</p>\n<table><tr><th>special token<th "
        "class=n>id<th>text</tr>\n",
        html_text(tokenizer.model), tokenizer.pre.empty() ? "" : html_text(" · pre-tokenizer " + tokenizer.pre),
        with_commas(tokenizer.n_tokens), with_commas(tokenizer.n_merges));
    for (const SpecialTokenFact& token : tokenizer.special)
      out_ += fmt::format("<tr><td>{}<td class=n>{}<td class=k>{}</tr>\n", html_text(token.name), token.id,
                          html_text(token.text));
    out_ += "</table>\n";
  }

  void add_metadata() {
    out_ += fmt::format("<h2>Metadata</h2>\n<details><summary>{} keys</summary><table>\n", file_.kvs().size());
    for (const GgufKv& kv : file_.kvs())
      out_ += fmt::format("<tr><td class=k>{}<td>{}</tr>\n", html_text(kv.key), html_text(value_text(kv.value, 300)));
    out_ += "</table></details>\n";
  }

  void add_tensors() {
    out_ += fmt::format(
        "<h2>Tensors</h2>\n<details><summary>{} tensors</summary><table>\n<tr><th>name<th>shape<th>type<th "
        "class=n>offset<th class=n>bytes</tr>\n",
        file_.tensors().size());
    for (const GgufTensor& tensor : file_.tensors())
      out_ += fmt::format("<tr><td class=k>{}<td>{}<td>{}<td class=n>{}<td class=n>{}</tr>\n", html_text(tensor.name),
                          tensor.shape.to_string(), dtype_name(tensor.dtype), tensor.file_offset, tensor.size_bytes);
    out_ += "</table></details>\n";
  }

  void add_templates() {
    for (const TemplateFacts& source : facts_.templates)
      out_ += fmt::format("<h2>Chat template{}</h2>\n<details><summary>{} bytes</summary><pre>{}</pre></details>\n",
                          source.name.empty() ? "" : html_text(" " + source.name), with_commas(source.source.size()),
                          html_text(source.source.substr(0, kMaxTemplateBytes)));
  }

  const GgufFile& file_;
  const ModelFacts& facts_;
  std::string out_;
};

}  // namespace

std::string html_page(const GgufFile& file, const ModelFacts& facts) { return Page(file, facts).text(); }

}  // namespace tamis::cli
