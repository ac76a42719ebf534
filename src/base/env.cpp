// Environment variables, with the defaults each one has.
#include "base/env.h"

#include <cstdlib>

#include "base/file.h"

namespace tamis::env {
namespace {

std::string get(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string home() {
  const std::string value = get("HOME");
  return value.empty() ? "/" : value;
}

std::string user_cache() {
  const std::string value = get("XDG_CACHE_HOME");
  return value.empty() ? home() + "/.cache" : value;
}

std::string hugging_face_home() {
  const std::string value = get("HF_HOME");
  return value.empty() ? user_cache() + "/huggingface" : value;
}

}  // namespace

std::string cpu_target() { return get("TAMIS_CPU_TARGET"); }
std::string cache_dir() { return user_cache() + "/tamis"; }

std::string hugging_face_hub() {
  const std::string value = get("HF_HUB_CACHE");
  return value.empty() ? hugging_face_home() + "/hub" : value;
}

std::string hugging_face_endpoint() {
  const std::string value = get("HF_ENDPOINT");
  return value.empty() ? "https://huggingface.co" : value;
}

std::string hugging_face_token() {
  if (std::string value = get("HF_TOKEN"); !value.empty()) return value;
  auto text = read_text_file(hugging_face_home() + "/token", 65536);
  if (!text) return "";
  while (!text->empty() && (text->back() == '\n' || text->back() == '\r' || text->back() == ' ')) text->pop_back();
  return *text;
}

bool no_color() { return !get("NO_COLOR").empty(); }

}  // namespace tamis::env
