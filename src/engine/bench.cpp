// The clock runs over forward passes only: batches are made before it starts.
#include "engine/bench.h"

#include <algorithm>
#include <chrono>

#include "base/rng.h"

namespace tamis {
namespace {

constexpr uint64_t kSeed = 1;

class Bench {
 public:
  Bench(const Engine& engine, const BenchTest& test, const std::atomic<bool>* stop)
      : engine_(engine), test_(test), stop_(stop) {
    Rng rng(kSeed);
    const uint64_t n_ids = std::max<uint64_t>(uint64_t{test.n_positions()}, 1) * test.n_seqs;
    for (uint64_t i = 0; i < n_ids; ++i) ids_.push_back(static_cast<int32_t>(rng.below(engine.model().n_vocab())));
    for (uint32_t i = 0; i < test.n_seqs; ++i) caches_.push_back(engine.model().make_cache(engine.kv_types()));
  }

  // One repeat, timed part by part.
  Result<std::vector<BenchPart>> profile() {
    TAMIS_TRY_STATUS(reach_depth());
    std::vector<BenchPart> parts;
    auto last = std::chrono::steady_clock::now();
    probe_ = [&](std::string_view name, int32_t, TensorView) {
      const auto now = std::chrono::steady_clock::now();
      auto part = std::ranges::find(parts, name, &BenchPart::name);
      if (part == parts.end()) part = parts.insert(parts.end(), {std::string(name)});
      part->seconds += std::chrono::duration<double>(now - last).count();
      last = now;
    };
    const auto seconds = repeat();
    probe_ = nullptr;
    if (!seconds) return tl::unexpected<Error>(seconds.error());
    return parts;
  }

  // Seconds of one repeat.
  Result<double> repeat() {
    TAMIS_TRY_STATUS(reach_depth());
    const auto start = std::chrono::steady_clock::now();
    if (test_.n_prompt != 0) {
      TAMIS_TRY_STATUS(run_prompt(caches_[0], ids_of(0).subspan(test_.depth, test_.n_prompt), true));
    } else {
      TAMIS_TRY_STATUS(run_steps());
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  std::span<const int32_t> ids_of(uint32_t seq) const {
    return std::span(ids_).subspan(size_t{seq} * test_.n_positions(), test_.n_positions());
  }

  // Every sequence holds exactly `depth` tokens.
  Status reach_depth() {
    for (uint32_t i = 0; i < test_.n_seqs; ++i) {
      caches_[i].truncate(test_.depth);
      const uint32_t n_held = caches_[i].n_tokens();
      if (n_held < test_.depth)
        TAMIS_TRY_STATUS(run_prompt(caches_[i], ids_of(i).subspan(n_held, test_.depth - n_held), false));
    }
    return {};
  }

  // Appends `ids` chunk by chunk; logits after the last one only, if at all.
  Status run_prompt(KvCache& cache, std::span<const int32_t> ids, bool is_answered) {
    for (size_t begin = 0; begin < ids.size(); begin += test_.n_chunk) {
      TAMIS_TRY_STATUS(check_stop());
      const size_t n = std::min<size_t>(test_.n_chunk, ids.size() - begin);
      slots_.clear();
      for (size_t i = 0; i < n; ++i) slots_.push_back({&cache, cache.n_tokens() + static_cast<uint32_t>(i)});
      const auto last = static_cast<uint32_t>(n - 1);
      const bool is_wanted = is_answered && begin + n == ids.size();
      TAMIS_TRY(logits_, engine_.forward({.tokens = ids.subspan(begin, n),
                                          .slots = slots_,
                                          .logits_rows = std::span<const uint32_t>(&last, is_wanted ? 1 : 0)},
                                         probe_));
    }
    return {};
  }

  // n_gen times one token for each sequence, with its logits.
  Status run_steps() {
    std::vector<int32_t> tokens(test_.n_seqs);
    std::vector<uint32_t> rows(test_.n_seqs);
    for (uint32_t step = 0; step < test_.n_gen; ++step) {
      TAMIS_TRY_STATUS(check_stop());
      slots_.clear();
      for (uint32_t i = 0; i < test_.n_seqs; ++i) {
        tokens[i] = ids_of(i)[test_.depth + step];
        rows[i] = i;
        slots_.push_back({&caches_[i], test_.depth + step});
      }
      TAMIS_TRY(logits_, engine_.forward({.tokens = tokens, .slots = slots_, .logits_rows = rows}, probe_));
    }
    return {};
  }

  Status check_stop() const {
    if (stop_ != nullptr && stop_->load()) return fail(ErrorCode::cancelled, "stopped during {}", test_.name());
    return {};
  }

  const Engine& engine_;
  const BenchTest& test_;
  const std::atomic<bool>* stop_;
  std::vector<int32_t> ids_;  // [n_seqs][n_positions]
  std::vector<KvCache> caches_;
  std::vector<KvSlot> slots_;
  std::vector<float> logits_;
  Probe probe_;
};

Work work_of_test(const Engine& engine, const BenchTest& test) {
  Work total;
  if (test.n_prompt != 0) {
    for (uint32_t begin = 0; begin < test.n_prompt; begin += test.n_chunk) {
      const uint32_t n = std::min(test.n_chunk, test.n_prompt - begin);
      const uint32_t n_logits = begin + n == test.n_prompt ? 1 : 0;
      total += work_of_step(engine, {.n_tokens = n, .position = test.depth + begin, .n_logits = n_logits});
    }
    return total;
  }
  for (uint32_t i = 0; i < test.n_gen; ++i)
    total += work_of_step(engine, {.n_seqs = test.n_seqs, .position = test.depth + i, .n_logits = test.n_seqs});
  return total;
}

}  // namespace

std::string BenchTest::name() const {
  std::string name = n_prompt != 0 ? fmt::format("pp{}", n_prompt) : fmt::format("tg{}", n_gen);
  if (n_seqs > 1) name += fmt::format("@npl{}", n_seqs);
  if (depth > 0) name += fmt::format(" @ d{}", depth);
  return name;
}

Result<BenchResult> run_bench(const std::shared_ptr<const Engine>& engine, const BenchTest& test, BenchRepeats repeats,
                              const std::atomic<bool>* stop, const std::function<void()>& on_repeat) {
  if (test.n_tokens() == 0 || test.n_chunk == 0)
    return fail(ErrorCode::invalid_argument, "{}: nothing to measure", test.name());
  if (test.n_positions() > engine->n_ctx()) {
    return fail(ErrorCode::invalid_argument, "{}: needs a context of {} tokens, the engine has {}", test.name(),
                test.n_positions(), engine->n_ctx());
  }
  Bench bench(*engine, test, stop);
  BenchResult result;
  result.work = work_of_test(*engine, test);
  if (repeats.has_warm_up) {
    TAMIS_TRY([[maybe_unused]] const double seconds, bench.repeat());
  }
  for (uint32_t i = 0; i < repeats.n; ++i) {
    TAMIS_TRY(const double seconds, bench.repeat());
    result.seconds.push_back(seconds);
    if (on_repeat) on_repeat();
  }
  if (repeats.has_profile) {
    TAMIS_TRY(result.parts, bench.profile());
  }
  return result;
}

}  // namespace tamis
