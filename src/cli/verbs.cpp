// The list of verbs, and the options that several of them share.
#include <algorithm>

#include "cli/parse.h"
#include "cli/verb.h"

namespace tamis::cli {
namespace {

// In alphabetical order: help and completion show them so.
constexpr Verb (*kVerbs[])() = {
    bench_verb,      bench_serve_verb, compare_verb,  completion_verb, convert_verb, doctor_verb,    edit_verb,
    fit_verb,        help_verb,        imatrix_verb,  inspect_verb,    logits_verb,  ls_verb,        merge_verb,
    perplexity_verb, pull_verb,        quantize_verb, rm_verb,         run_verb,     selfcheck_verb, serve_verb,
    split_verb,      template_verb,    tokenize_verb, verify_verb,
};

// Adds the common options to the verb's own; a name the verb has itself keeps the verb's meaning.
Verb with_common_options(Verb verb) {
  std::vector<std::string_view> taken;
  for (const OptionSpec& option : verb.options)
    for (std::string_view name : option_names(option)) taken.push_back(name);
  for (const OptionSpec& common : common_options()) {
    const auto names = option_names(common);
    const bool is_taken = std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return std::find(taken.begin(), taken.end(), name) != taken.end();
    });
    if (!is_taken) verb.options.push_back(common);
  }
  return verb;
}

std::vector<Verb> make_verbs() {
  std::vector<Verb> verbs;
  for (const auto make : kVerbs) verbs.push_back(with_common_options(make()));
  return verbs;
}

}  // namespace

const std::vector<Verb>& all_verbs() {
  static const std::vector<Verb> verbs = make_verbs();
  return verbs;
}

static OptionSpec cache_type_option(std::string_view names, std::string_view help) {
  return {.names = names,
          .kind = OptionKind::text,
          .value_name = "TYPE",
          .help = help,
          .default_text = "f16",
          .choices = {"f16", "f32", "bf16", "q8_0", "q4_0"}};
}

std::vector<OptionSpec> model_options() {
  return {
      {.names = "-m,--model",
       .kind = OptionKind::text,
       .value_name = "MODEL",
       .help = "a GGUF file, USER/REPO[:QUANT], or the name of a cached model; default: SmolLM2-135M-Instruct"},
      {.names = "--backend",
       .kind = OptionKind::text,
       .value_name = "NAME",
       .help = "what computes: the slow exact reference, this machine's CPU, or an NVIDIA GPU",
       .default_text = "cpu",
       .choices = {"reference", "cpu", "cuda"}},
      {.names = "-ngl,--n-gpu-layers",
       .kind = OptionKind::integer,
       .value_name = "N",
       .help = "layers placed on the GPU",
       .minimum = -1},
      {.names = "--huge-pages",
       .kind = OptionKind::text,
       .value_name = "WHEN",
       .help = "large memory pages for weights; on: warn when the system gives none",
       .default_text = "auto",
       .choices = {"auto", "on", "off"}},
      {.names = "--layout",
       .kind = OptionKind::text,
       .value_name = "NAME",
       .help = "how weights lie in memory",
       .default_text = "auto",
       .choices = {"auto", "planes", "affine", "dense"}},
      {.names = "--activations",
       .kind = OptionKind::text,
       .value_name = "TYPE",
       .help = "8-bit activations where the weights allow it, or float32 everywhere",
       .default_text = "q8",
       .choices = {"q8", "f32"}},
      cache_type_option("-ctk,--cache-type-k", "type of cached keys; the reference takes f32 unless told"),
      cache_type_option("-ctv,--cache-type-v", "type of cached values; the reference takes f32 unless told"),
      {.names = "--ram-budget",
       .kind = OptionKind::text,
       .value_name = "SIZE",
       .help = "most memory to use, such as 6G; default: what is free"},
      {.names = "--trace-tensors",
       .kind = OptionKind::text,
       .value_name = "DIR",
       .help = "write every named intermediate to DIR as .npy"},
      {.names = "--pre",
       .kind = OptionKind::text,
       .value_name = "NAME",
       .help = "pre-tokenizer to use in place of the one the file names"},
      {.names = "--hf-special", .help = "parse special tokens inside messages, as Hugging Face does"},
  };
}

}  // namespace tamis::cli
