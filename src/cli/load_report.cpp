// Tables and JSON of a load run.
#include "cli/load_report.h"

#include "cli/style.h"

namespace tamis::cli {
namespace {

Json spread_json(const Spread& spread) {
  Json out = Json::object();
  out.set("n", uint64_t{spread.n}).set("mean", spread.mean).set("p50", spread.p50).set("p90", spread.p90);
  return out.set("p95", spread.p95).set("p99", spread.p99).set("max", spread.max);
}

std::string milliseconds(double seconds) { return fmt::format("{:.0f}", seconds * 1e3); }

std::vector<std::string> cells(const LoadPhase& phase) {
  const LoadSummary& summary = phase.summary;
  return {phase.name,
          std::to_string(summary.n_answered),
          std::to_string(summary.n_failed),
          fmt::format("{:.2f}", summary.request_rate),
          fmt::format("{:.1f}", summary.output_rate),
          milliseconds(summary.ttft.p50),
          milliseconds(summary.ttft.p95),
          milliseconds(summary.tpot.p50),
          milliseconds(summary.tpot.p95),
          milliseconds(summary.itl.p99),
          milliseconds(summary.largest_gap),
          fmt::format("{:.2f}", summary.goodput)};
}

std::string errors_text(const LoadReport& report) {
  std::string out;
  for (const LoadPhase& phase : report.phases)
    for (const auto& [error, n] : phase.summary.errors) out += fmt::format("{}: {} × {}\n", phase.name, n, error);
  return out;
}

Json summary_json(const LoadSummary& summary) {
  Json out = Json::object();
  out.set("requests", uint64_t{summary.n_requests}).set("answered", uint64_t{summary.n_answered});
  out.set("failed", uint64_t{summary.n_failed}).set("cancelled", uint64_t{summary.n_cancelled});
  out.set("within_slo", uint64_t{summary.n_good}).set("seconds", summary.seconds);
  out.set("prompt_tokens", summary.n_prompt).set("cached_tokens", summary.n_cached);
  out.set("output_tokens", summary.n_output).set("request_rate", summary.request_rate);
  out.set("output_rate", summary.output_rate).set("prompt_rate", summary.prompt_rate).set("goodput", summary.goodput);
  out.set("ttft_s", spread_json(summary.ttft)).set("tpot_s", spread_json(summary.tpot));
  out.set("itl_s", spread_json(summary.itl)).set("e2e_s", spread_json(summary.e2e));
  out.set("largest_gap_s", summary.largest_gap).set("fairness", summary.fairness);
  Json errors = Json::object();
  for (const auto& [error, n] : summary.errors) errors.set(error, uint64_t{n});
  return out.set("errors", std::move(errors));
}

}  // namespace

Json load_json(const LoadReport& report) {
  Json facts = Json::object();
  for (const LoadFact& fact : report.facts) facts.set(fact.name, fact.value);
  Json phases = Json::array();
  for (const LoadPhase& phase : report.phases) {
    phases.push_back(summary_json(phase.summary).set("name", phase.name));
  }
  Json out = Json::object();
  out.set("schema", 1).set("scenario", report.scenario).set("facts", std::move(facts));
  return out.set("phases", std::move(phases));
}

std::string load_text(const LoadReport& report) {
  Table table({Align::left, Align::right, Align::right, Align::right, Align::right, Align::right, Align::right,
               Align::right, Align::right, Align::right, Align::right, Align::right},
              "");
  table.add({report.scenario, "answered", "failed", "req/s", "tokens/s", "TTFT p50", "p95 ms", "TPOT p50", "p95 ms",
             "ITL p99 ms", "gap ms", "goodput/s"});
  for (const LoadPhase& phase : report.phases) table.add(cells(phase));
  std::string out = table.text() + errors_text(report);
  Table facts({Align::left, Align::right, Align::left}, "");
  for (const LoadFact& fact : report.facts) facts.add({fact.name, fmt::format("{:.4g}", fact.value), fact.unit});
  return facts.empty() ? out : out + "\n" + facts.text();
}

std::string trace_lines(const LoadReport& report) {
  std::string out;
  for (const LoadPhase& phase : report.phases)
    for (const LoadTrace& trace : phase.traces) {
      Json pieces = Json::array();
      for (const double at : trace.pieces) pieces.push_back(at);
      Json line = Json::object();
      line.set("scenario", report.scenario).set("phase", phase.name).set("client", trace.client);
      line.set("sent", trace.sent).set("pieces", std::move(pieces)).set("ended", trace.ended);
      line.set("status", trace.status).set("error", trace.error).set("cancelled", trace.is_cancelled);
      line.set("prompt_tokens", trace.n_prompt).set("cached_tokens", trace.n_cached);
      out += line.set("output_tokens", trace.n_output).dump() + "\n";
    }
  return out;
}

}  // namespace tamis::cli
