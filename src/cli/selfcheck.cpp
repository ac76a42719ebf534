// `tamis selfcheck [-m FILE]`: the whole way on this machine. A model is exported as Q8_0 and as Q4_K, loaded again in
// every layout, compared with the original by its logits, and served.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "api/backends.h"
#include "base/rng.h"
#include "cli/load_engine.h"
#include "cli/model_path.h"
#include "convert/reencode.h"
#include "engine/session.h"
#include "formats/json.h"
#include "models/test_model.h"
#include "text/byte_alphabet.h"

namespace tamis::cli {
namespace {

constexpr uint64_t kSeed = 1;
constexpr size_t kTokens = 32;  // that the logits are compared on
constexpr uint32_t kServedTokens = 8;

// A directory of this process's own, removed at the end.
class ScratchDir {
 public:
  static Result<ScratchDir> create() {
    std::error_code error;
    std::string path = (std::filesystem::temp_directory_path(error) / "tamis-selfcheck-XXXXXX").string();
    if (error || ::mkdtemp(path.data()) == nullptr)
      return fail(ErrorCode::io, "{}: cannot make a directory there", path);
    return ScratchDir(std::move(path));
  }
  ScratchDir(ScratchDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ~ScratchDir() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  std::string file(std::string_view name) const { return fmt::format("{}/{}.gguf", path_, name); }

 private:
  explicit ScratchDir(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Every byte, and the pairs that a letter of "a" to "j" makes with one of "a" to "z", less four.
Status add_vocabulary(GgufWriter& writer) {
  std::vector<std::string> tokens, merges;
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    tokens.push_back(ByteAlphabet::get().encode({&text, 1}));
  }
  for (char first = 'a'; tokens.size() < kTestModelVocab; ++first)
    for (char second = 'a'; second <= 'z' && tokens.size() < kTestModelVocab; ++second) {
      tokens.push_back({first, second});
      merges.push_back({first, ' ', second});
    }
  TAMIS_TRY_STATUS(writer.add_string("tokenizer.ggml.model", "gpt2"));
  TAMIS_TRY_STATUS(writer.add_string("tokenizer.ggml.pre", "gpt-2"));
  TAMIS_TRY_STATUS(writer.add_strings("tokenizer.ggml.tokens", tokens));
  return writer.add_strings("tokenizer.ggml.merges", merges);
}

// What is exported, in this order; the last is served.
struct Export {
  DType type;
  EncodeMethod method;
};
constexpr Export kExports[] = {
    {DType::q8_0, EncodeMethod::plain}, {DType::q4_k, EncodeMethod::plain}, {DType::q4_k, EncodeMethod::fast}};

struct Check {
  LoadedEngine loaded;
  std::vector<float> logits;  // [kTokens, n_vocab]
};

class SelfCheck {
 public:
  SelfCheck(const Args& args, ScratchDir dir) : args_(args), dir_(std::move(dir)) {}

  Result<int> run() {
    const bool has_file = args_.has("-m");
    std::string source = dir_.file("model");
    if (has_file) {
      TAMIS_TRY(source, resolve_model(args_.text("-m")));
    } else {
      GgufWriter writer;
      TAMIS_TRY_STATUS(add_vocabulary(writer));
      TAMIS_TRY_STATUS(write_test_model(writer, kSeed, source));
    }
    // The reference takes minutes for a model of a useful size; exact activations stand in for it there.
    TAMIS_TRY(const Check base, load(source, has_file ? "cpu" : "reference", "f32", "auto"));
    for (const auto& [type, method] : kExports) {
      const std::string path = file_of(type, method);
      TAMIS_TRY(const GgufFile file, GgufFile::open(source));
      TAMIS_TRY_STATUS(reencode(file, type, method, path));
      for (const std::string_view layout : {"planes", "affine"})
        TAMIS_TRY_STATUS(check(base, {type, method}, path, layout));
    }
    return serve(file_of(DType::q4_k, EncodeMethod::fast));
  }

 private:
  std::string file_of(DType type, EncodeMethod method) const {
    return dir_.file(fmt::format("{}-{}", dtype_name(type), encode_method_name(method)));
  }
  std::vector<TokenId> ids(uint32_t n_vocab) const {
    Rng rng(kSeed);
    std::vector<TokenId> out;
    for (size_t i = 0; i < kTokens; ++i) out.push_back(static_cast<TokenId>(rng.below(n_vocab)));
    return out;
  }

  Result<Check> load(const std::string& path, std::string_view backend, std::string_view activations,
                     std::string_view layout) const {
    EngineOptions options;
    options.n_ctx = kTokens + kServedTokens;
    options.has_tokenizer = false;
    TAMIS_TRY(options.kv_types, make_kv_types("", "", backend));
    TAMIS_TRY(const uint32_t n_threads, integer_option(args_, "--threads", 0));
    Check out;
    out.loaded.pool = ThreadPool::create(n_threads);
    TAMIS_TRY(std::unique_ptr<Backend> made, make_backend(backend, activations, out.loaded.pool.get(), layout));
    auto engine = Engine::load(path, std::move(made), options);
    if (!engine) return tl::unexpected<Error>(as_file_error(with_file(std::move(engine).error(), path)));
    out.loaded.engine = *std::move(engine);
    Session session(out.loaded.engine);
    TAMIS_TRY_STATUS(session.append_all(ids(out.loaded.engine->model().n_vocab()), 0,
                                        [&](size_t, std::span<const float> rows) -> Status {
                                          out.logits.insert(out.logits.end(), rows.begin(), rows.end());
                                          return {};
                                        }));
    return out;
  }

  // What the type costs is seen with exact activations; what serving costs in all, with those it is served with.
  Status check(const Check& base, Export exported, const std::string& path, std::string_view layout) const {
    TAMIS_TRY(const Check exact, load(path, "cpu", "f32", layout));
    TAMIS_TRY(const Check other, load(path, "cpu", "q8", layout));
    const GgufFile& file = other.loaded.engine->model().file;
    uint64_t n_params = 0;
    for (const GgufTensor& tensor : file.tensors()) n_params += tensor.shape.n_elements();
    Json out = Json::object();
    out.set("schema", 1).set("type", dtype_name(exported.type)).set("method", encode_method_name(exported.method));
    out.set("layout", layout);
    out.set("file_bits_per_param", static_cast<double>(file.size_bytes()) * 8 / static_cast<double>(n_params));
    out.set("resident_bits_per_quantized_weight", resident_bits(other.loaded.engine->model(), exported.type));
    out.set("relative_logit_error", relative_error(base.logits, exact.logits));
    out.set("relative_logit_error_served", relative_error(base.logits, other.logits));
    const size_t next = greedy(base.logits, kTokens);
    out.set("same_greedy_next_token", next == greedy(exact.logits, kTokens) && next == greedy(other.logits, kTokens));
    return print_out(out.dump() + "\n");
  }

  // ‖b − a‖₂ / ‖a‖₂
  static double relative_error(std::span<const float> base, std::span<const float> other) {
    double squares = 0, difference = 0;
    for (size_t i = 0; i < base.size(); ++i) {
      const double a = base[i], b = other[i];
      squares += a * a;
      difference += (a - b) * (a - b);
    }
    return std::sqrt(difference / squares);
  }

  // Of the matrices that the file holds as `type`.
  static double resident_bits(const Model& model, DType type) {
    double n_bits = 0, n_weights = 0;
    auto add = [&](const OwnedLinear& linear) {
      if (linear.weight == nullptr || linear.weight->dtype() != type) return;
      n_bits += static_cast<double>(linear.weight->resident_bytes()) * 8;
      n_weights += static_cast<double>(linear.weight->n_out()) * static_cast<double>(linear.weight->n_in());
    };
    for (const LayerWeights& layer : model.layers) {
      for (const OwnedLinear* linear :
           {&layer.q, &layer.k, &layer.v, &layer.attn_output, &layer.gate, &layer.up, &layer.down, &layer.router})
        add(*linear);
      for (const std::vector<OwnedLinear>* experts : {&layer.gate_exps, &layer.up_exps, &layer.down_exps})
        for (const OwnedLinear& expert : *experts) add(expert);
    }
    return n_weights == 0 ? 0 : n_bits / n_weights;
  }

  // The likeliest token after the last of n_rows rows; of equal ones the first.
  static size_t greedy(std::span<const float> logits, size_t n_rows) {
    const std::span<const float> row = logits.last(logits.size() / n_rows);
    return static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
  }

  Result<int> serve(const std::string& path) const {
    TAMIS_TRY(const Check served, load(path, "cpu", "q8", "auto"));
    const uint32_t n_vocab = served.loaded.engine->model().n_vocab();
    Session session(served.loaded.engine);
    Json tokens = Json::array();
    TAMIS_TRY(std::vector<float> logits, session.append(ids(n_vocab)));
    for (uint32_t i = 0; i < kServedTokens; ++i) {
      const auto token = static_cast<TokenId>(greedy(logits, 1));
      tokens.push_back(token);
      if (i + 1 == kServedTokens) break;
      TAMIS_TRY(logits, session.append({&token, 1}));
    }
    Json out = Json::object();
    out.set("served_from_q4_k", std::move(tokens));
    TAMIS_TRY_STATUS(print_out(out.dump() + "\n"));
    return 0;
  }

  const Args& args_;
  const ScratchDir dir_;
};

Result<int> run_selfcheck(const Args& args) {
  TAMIS_TRY(ScratchDir dir, ScratchDir::create());
  return SelfCheck(args, std::move(dir)).run();
}

}  // namespace

Verb selfcheck_verb() {
  return {
      .name = "selfcheck",
      .summary = "export, reload, compare and serve a small model, to see that all of it works here",
      .details =
          "Without -m: a model of 4 million random weights. It is written as Q8_0, and as Q4_K by both methods of "
          "encoding, loaded in every layout, "
          "and its logits on 32 tokens are compared with the original's: a JSON line for each, then the 8 tokens that "
          "follow, served from Q4_K. relative_logit_error is what the type costs, with exact activations; "
          "relative_logit_error_served what it costs with 8-bit activations.",
      .positionals = {},
      .options = {{.names = "-m,--model",
                   .kind = OptionKind::text,
                   .value_name = "MODEL",
                   .help = "check with this model in place of the small one"}},
      .run = run_selfcheck,
  };
}

}  // namespace tamis::cli
