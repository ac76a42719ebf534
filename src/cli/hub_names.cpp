// Names from people and from the hub: what they mean, and which may become paths.
#include <algorithm>

#include "cli/hub.h"
#include "formats/shards.h"

namespace tamis::cli {
namespace {

bool is_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

bool is_safe_part(std::string_view part, size_t max_bytes, std::string_view punctuation) {
  if (part.empty() || part.size() > max_bytes || !is_alnum(part[0]) || part.find("..") != std::string_view::npos)
    return false;
  return std::all_of(part.begin(), part.end(),
                     [&](char c) { return is_alnum(c) || punctuation.find(c) != std::string_view::npos; });
}

bool is_repo_part(std::string_view part) { return is_safe_part(part, 96, "._-"); }

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  return out;
}

// The names of recipes and types: Q4_K_M, IQ2_XXS, TQ1_0, F16, BF16, MXFP4_MOE, NVFP4.
bool is_quant(std::string_view word) {
  if (word == "F16" || word == "F32" || word == "BF16" || word.starts_with("MXFP4") || word.starts_with("NVFP4"))
    return true;
  if (word.starts_with("IQ") || word.starts_with("TQ")) word.remove_prefix(1);
  return word.size() >= 2 && word[0] == 'Q' && word[1] >= '1' && word[1] <= '8' && (word.size() == 2 || word[2] == '_');
}

}  // namespace

bool looks_like_hub_name(std::string_view text) {
  const std::string_view path = text.substr(0, text.find(':'));
  return std::count(path.begin(), path.end(), '/') == 1 && path.front() != '/' && path.back() != '/' &&
         !path.starts_with('.');
}

Result<HubName> parse_hub_name(std::string_view text) {
  HubName name;
  const size_t colon = text.find(':');
  const std::string_view path = text.substr(0, colon);
  const size_t slash = path.find('/');
  if (slash != std::string_view::npos) {
    name.user = path.substr(0, slash);
    name.repo = path.substr(slash + 1);
  }
  if (colon != std::string_view::npos) name.quant = text.substr(colon + 1);
  if (!is_repo_part(name.user) || !is_repo_part(name.repo) ||
      (colon != std::string_view::npos && !is_repo_part(name.quant)))
    return fail(ErrorCode::invalid_argument, "\"{}\" is no model name: expected USER/REPO or USER/REPO:QUANT",
                escape_for_display(text));
  return name;
}

bool is_safe_file_name(std::string_view name) {
  size_t n_parts = 0;
  for (;;) {
    const size_t slash = name.find('/');
    if (++n_parts > 8 || !is_safe_part(name.substr(0, slash), 128, " ._+=()-")) return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

bool is_hex(std::string_view text, size_t n_digits) {
  return text.size() == n_digits &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

ModelStem stem_of_file_name(std::string_view name) {
  name = name.substr(name.rfind('/') + 1);
  if (const auto shard = parse_shard_name(name)) return {shard->prefix, shard->n_shards};
  if (name.ends_with(".gguf")) name.remove_suffix(5);
  return {std::string(name), 1};
}

std::string quant_of_file_name(std::string_view name) {
  const std::string stem = upper(stem_of_file_name(name).stem);
  std::string_view rest = stem;
  while (!rest.empty()) {
    const size_t at = rest.find_last_of(".-");
    const std::string_view word = at == std::string_view::npos ? rest : rest.substr(at + 1);
    if (is_quant(word)) return std::string(word);
    rest = at == std::string_view::npos ? std::string_view() : rest.substr(0, at);
  }
  return "";
}

}  // namespace tamis::cli
