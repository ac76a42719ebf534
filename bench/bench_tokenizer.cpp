// Tokenizer speed: MB/s on a text file, and time for 200 KB of one character class (the inputs that end other engines).
// usage: bench_tokenizer VOCAB.gguf TEXT_FILE [--json]
// Times are CPU time of one thread, best of five. scripts/bench_tokenizers.py runs this beside Hugging Face's
// `tokenizers`.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "base/file.h"
#include "text/tokenizer.h"

namespace {

using namespace tamis;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double best_seconds(const Tokenizer& tokenizer, std::string_view text, size_t& n_ids) {
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const double begin = cpu_seconds();
    n_ids = tokenizer.encode(text).size();
    best = std::min(best, cpu_seconds() - begin);
  }
  return best;
}

int run(const std::string& vocab, const std::string& text_path, bool is_json) {
  const double begin = cpu_seconds();
  const auto file = GgufFile::open(vocab);
  if (!file) return fmt::print(stderr, "{}\n", file.error().to_string()), 3;
  const double opened = cpu_seconds();
  const auto tokenizer = Tokenizer::from_gguf(*file);
  if (!tokenizer) return fmt::print(stderr, "{}\n", tokenizer.error().to_string()), 3;
  const double ready = cpu_seconds();
  const auto text = read_text_file(text_path, uint64_t{1} << 30);
  if (!text) return fmt::print(stderr, "{}\n", text.error().to_string()), 1;
  size_t n_ids = 0;
  const double seconds = best_seconds(**tokenizer, *text, n_ids);
  const double mb_per_s = static_cast<double>(text->size()) / seconds * 1e-6;
  if (is_json) {
    fmt::print("{{\"n_ids\":{},\"seconds\":{:.6f},\"mb_per_s\":{:.2f},\"ready_ms\":{:.1f}}}\n", n_ids, seconds,
               mb_per_s, (ready - opened) * 1e3);
    return 0;
  }
  fmt::print("open {:.1f} ms, tokenizer ready {:.1f} ms\n", (opened - begin) * 1e3, (ready - opened) * 1e3);
  fmt::print("{} bytes, {} ids: {:.1f} ms, {:.1f} MB/s\n", text->size(), n_ids, seconds * 1e3, mb_per_s);
  for (const std::string part : {"A", " ", ".", "\n", "1", "aB", "A1", "字", "\xff"}) {
    std::string run_text;
    while (run_text.size() + part.size() <= 200000) run_text += part;
    const double run_seconds = best_seconds(**tokenizer, run_text, n_ids);
    fmt::print("200 KB of {:>4}: {:.1f} ms, {} ids\n", escape_for_display(part), run_seconds * 1e3, n_ids);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: bench_tokenizer VOCAB.gguf TEXT_FILE [--json]\n");
    return 2;
  }
  return run(argv[1], argv[2], argc > 3 && std::string_view(argv[3]) == "--json");
}
