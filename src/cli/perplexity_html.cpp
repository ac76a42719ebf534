// `tamis perplexity --html OUT`: mean KL and same top by bits a weight, and every figure in a table.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/progress.h"
#include "cli/html.h"
#include "cli/perplexity_report.h"

namespace tamis::cli {
namespace {

constexpr double kWidth = 720, kHeight = 340;
constexpr double kLeft = 78, kRight = 24, kTop = 18, kBottom = 46;
constexpr size_t kColors = 8;

// A scale from values to places on the page.
struct Axis {
  double low = 0, high = 1, from = 0, to = 1;
  double operator()(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

// Room around the values, so that no point lies on the frame.
Axis make_axis(double low, double high, double from, double to) {
  const double room = high > low ? 0.08 * (high - low) : std::max(0.5, 0.08 * std::abs(high));
  return {low - room, high + room, from, to};
}

// Steps of 1, 2 or 5 times a power of ten, about five on an axis.
double tick_step(const Axis& axis) {
  const double rough = (axis.high - axis.low) / 5, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power) return factor * power;
  return 10 * power;
}

struct Point {
  double x = 0, y = 0, low = 0, high = 0;  // low, high: of the error bar
  std::string label, tip;
  size_t color = 0;
};

class Plot {
 public:
  Plot(std::vector<Point> points, bool is_log) : points_(std::move(points)), is_log_(is_log) {
    std::ranges::sort(points_, std::ranges::less{}, &Point::x);
    for (const Point& point : points_)
      if (point.y > 0) floor_ = floor_ > 0 ? std::min(floor_, point.y / 10) : point.y / 10;
    if (floor_ <= 0) floor_ = 1e-12;
    const auto [x_low, x_high] = std::ranges::minmax(points_, std::ranges::less{}, &Point::x);
    const double y_low = std::ranges::min(points_, std::ranges::less{}, &Point::low).low;
    const double y_high = std::ranges::max(points_, std::ranges::less{}, &Point::high).high;
    x_ = make_axis(x_low.x, x_high.x, kLeft, kWidth - kRight);
    y_ = make_axis(scaled(y_low), scaled(y_high), kHeight - kBottom, kTop);
  }

  std::string text(std::string_view title, std::string_view y_name) {
    out_ = fmt::format("<h2>{0}</h2>\n<svg viewBox=\"0 0 {1} {2}\" role=img aria-label=\"{0}\">\n", html_text(title),
                       kWidth, kHeight);
    add_frame(y_name);
    std::string line;
    for (const Point& point : points_) line += fmt::format("{:.1f},{:.1f} ", x_(point.x), y_(scaled(point.y)));
    out_ += fmt::format("<polyline points=\"{}\" fill=none stroke=\"var(--line)\" stroke-width=2 />\n", line);
    for (const Point& point : points_) add_point(point);
    return out_ + "</svg>\n";
  }

 private:
  double scaled(double value) const { return is_log_ ? std::log10(std::max(value, floor_)) : value; }

  void add_text(double x, double y, std::string_view anchor, std::string_view text) {
    out_ += fmt::format("<text class=dim x={:.1f} y={:.1f} text-anchor={}>{}</text>\n", x, y, anchor, html_text(text));
  }

  void add_line(double x1, double y1, double x2, double y2, std::string_view color) {
    out_ +=
        fmt::format("<line x1={:.1f} y1={:.1f} x2={:.1f} y2={:.1f} stroke=\"var(--{})\" />\n", x1, y1, x2, y2, color);
  }

  void add_frame(std::string_view y_name) {
    const double bottom = kHeight - kBottom, right = kWidth - kRight;
    const double x_step = tick_step(x_), y_step = is_log_ ? std::max(tick_step(y_), 0.5) : tick_step(y_);
    for (double x = std::ceil(x_.low / x_step) * x_step; x <= x_.high; x += x_step) {
      add_line(x_(x), kTop, x_(x), bottom, "line");
      add_text(x_(x), bottom + 16, "middle", fmt::format("{:.4g}", x));
    }
    for (double y = std::ceil(y_.low / y_step) * y_step; y <= y_.high; y += y_step) {
      add_line(kLeft, y_(y), right, y_(y), "line");
      add_text(kLeft - 6, y_(y) + 4, "end", fmt::format("{:.4g}", is_log_ ? std::pow(10, y) : y));
    }
    add_text((kLeft + right) / 2, kHeight - 8, "middle", "bits a weight");
    add_text(kLeft, kTop - 5, "start", y_name);
  }

  void add_point(const Point& point) {
    const double x = x_(point.x), y = y_(scaled(point.y));
    add_line(x, y_(scaled(point.low)), x, y_(scaled(point.high)), "dim");
    out_ += fmt::format("<circle class=f{} cx={:.1f} cy={:.1f} r=5><title>{}</title></circle>\n", point.color % kColors,
                        x, y, html_text(point.tip));
    const bool is_right = x > 0.8 * kWidth;  // the label goes where there is room
    out_ += fmt::format("<text x={:.1f} y={:.1f} text-anchor={}>{}</text>\n", is_right ? x - 8 : x + 8, y - 6,
                        is_right ? "end" : "start", html_text(point.label));
  }

  std::vector<Point> points_;
  bool is_log_;
  double floor_ = 0;  // where a logarithmic plot shows 0
  Axis x_, y_;
  std::string out_;
};

std::string table_of(const ComparisonRun& run) {
  std::string out =
      "<h2>Figures</h2>\n<table><tr><th>file<th class=n>size<th class=n>bits/weight<th class=n>PPL<th class=n>PPL "
      "ratio<th class=n>mean KL<th class=n>95 % interval<th class=n>median<th class=n>99 %<th class=n>max<th "
      "class=n>Δp RMS<th class=n>same top</tr>\n";
  for (const ComparedModel& model : run.models) {
    const Divergence& d = model.divergence;
    out += fmt::format(
        "<tr><td>{}<td class=n>{}<td class=n>{:.3f}<td class=n>{:.4f}<td class=n>{:.5f}<td class=n>{:.6f}<td "
        "class=n>{:.6f}–{:.6f}<td class=n>{:.6f}<td class=n>{:.4f}<td class=n>{:.3f}<td class=n>{:.2f} %<td "
        "class=n>{:.2f} %</tr>\n",
        html_text(model.file), human_bytes(model.size_bytes), model.bits_per_weight, d.perplexity.value, d.ratio.value,
        d.kl.value, d.kl_interval.low, d.kl_interval.high, d.kl_spread.percentiles[kMedianIdx],
        d.kl_spread.percentiles[1], d.kl_spread.max, 100 * d.change_rms.value, 100 * d.same_top.value);
  }
  return out + "</table>\n";
}

}  // namespace

std::string comparison_page(const ComparisonRun& run) {
  std::string out(kHtmlHead);
  const std::string title = "What was lost against " + run.base;
  out += fmt::format("<title>{0}</title></head><body>\n<h1>{0}</h1>\n", html_text(title));
  const Divergence first = run.models.empty() ? Divergence{} : run.models.front().divergence;
  out += fmt::format("<p class=sub>{} · {} windows of {} tokens, {} scored · base perplexity {:.4f}</p>\n",
                     html_text(run.text), first.n_windows, run.n_ctx, first.n_scored, first.base_perplexity.value);
  if (!run.models.empty()) {
    std::vector<Point> kl, top;
    for (size_t i = 0; i < run.models.size(); ++i) {
      const ComparedModel& model = run.models[i];
      const Divergence& d = model.divergence;
      kl.push_back({model.bits_per_weight, d.kl.value, d.kl_interval.low, d.kl_interval.high, model.label,
                    fmt::format("{}: {:.6f}", model.file, d.kl.value), i});
      const double same = 100 * d.same_top.value, error = 196 * d.same_top.error;
      top.push_back({model.bits_per_weight, same, same - error, same + error, model.label,
                     fmt::format("{}: {:.2f} %", model.file, same), i});
    }
    out += Plot(std::move(kl), true).text("Mean KL divergence by bits a weight", "nats a token; lower is better");
    out += Plot(std::move(top), false).text("Same most likely token by bits a weight", "%; higher is better");
    out += table_of(run);
    out += "<p class=sub>Bars: 95 %; of KL by drawing windows anew, of the same token from its standard error.</p>\n";
  }
  return out + "</body></html>\n";
}

}  // namespace tamis::cli
