// The architectures tamis runs: an explicit list. A new one is one file and one row.
#include "models/registry.h"

namespace tamis {
namespace {

struct Row {
  std::string_view name;
  ArchSpec (*spec)();
};

constexpr Row kArchs[] = {
    {"llama", llama}, {"qwen2", qwen2},   {"qwen3", qwen3},   {"qwen3moe", qwen3moe},
    {"gemma", gemma}, {"gemma2", gemma2}, {"gemma3", gemma3}, {"phi3", phi3},
};

}  // namespace

Result<ArchSpec> find_arch(std::string_view name) {
  for (const Row& row : kArchs) {
    if (row.name == name) return row.spec();
  }
  if (name == "clip") {
    return fail(ErrorCode::unsupported,
                "architecture \"clip\" is a projector (the vision or audio part of a model): open the language model's "
                "file instead");
  }
  std::string known;
  for (const Row& row : kArchs) known += (known.empty() ? "" : ", ") + std::string(row.name);
  return fail(ErrorCode::unsupported, "architecture \"{}\" is not supported; known: {}", escape_for_display(name),
              known);
}

std::vector<std::string_view> arch_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kArchs) names.push_back(row.name);
  return names;
}

Result<ArchSpec> find_arch_of_class(std::string_view hf_class) {
  std::string known;
  for (const Row& row : kArchs) {
    ArchSpec arch = row.spec();
    for (const HfClass& one : arch.hf_classes) {
      if (one.name == hf_class) return arch;
      known += (known.empty() ? "" : ", ") + std::string(one.name);
    }
  }
  for (const std::string_view part : {"Vision", "CLIP", "Siglip", "Whisper", "Audio"}) {
    if (hf_class.find(part) != hf_class.npos)
      return fail(ErrorCode::unsupported,
                  "architecture \"{}\" is the vision or audio part of a model (a projector): only language models are "
                  "converted; known: {}",
                  escape_for_display(hf_class), known);
  }
  return fail(ErrorCode::unsupported, "architecture \"{}\" is not supported; known: {}", escape_for_display(hf_class),
              known);
}

}  // namespace tamis
