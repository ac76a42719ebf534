// Speed tests of a loaded model, with the names and rules of llama-bench: a prompt of n tokens in chunks (pp), or n
// steps of one token for each of several sequences (tg), after `depth` tokens. Ids are drawn at random from a fixed
// seed; nothing is sampled.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/work.h"

namespace tamis {

struct BenchTest {
  uint32_t n_prompt = 0;   // tokens of a prompt test; 0 in others
  uint32_t n_gen = 0;      // steps of a decoding test; 0 in others
  uint32_t n_seqs = 1;     // decoded together
  uint32_t depth = 0;      // tokens each sequence holds before the clock starts
  uint32_t n_chunk = 512;  // prompt tokens computed together

  std::string name() const;  // "pp512", "tg128", "tg32@npl8", "pp512 @ d4096"
  uint64_t n_tokens() const { return n_prompt != 0 ? n_prompt : uint64_t{n_gen} * n_seqs; }
  uint32_t n_positions() const { return depth + (n_prompt != 0 ? n_prompt : n_gen); }  // context it needs
};

// Seconds of a run spent until a named intermediate was there, since the one before it: "q" is the three products and
// their rotation, "heads" attention, "ffn_hidden" gate and up, "ffn_out" down.
struct BenchPart {
  std::string name;
  double seconds = 0;
};

struct BenchResult {
  std::vector<double> seconds;   // of each repeat
  Work work;                     // of one repeat
  std::vector<BenchPart> parts;  // of one more run, in order of first appearance; empty unless asked for
};

struct BenchRepeats {
  uint32_t n = 5;
  bool has_warm_up = true;   // one run before them that is not counted
  bool has_profile = false;  // one run after them that is timed part by part
};

// Runs the test; `on_repeat` (may be empty) is called after each repeat. Errors:
// invalid_argument when the context is too short; cancelled once *stop (may be null) turns true; out_of_memory, device.
Result<BenchResult> run_bench(const std::shared_ptr<const Engine>& engine, const BenchTest& test, BenchRepeats repeats,
                              const std::atomic<bool>* stop, const std::function<void()>& on_repeat = nullptr);

}  // namespace tamis
