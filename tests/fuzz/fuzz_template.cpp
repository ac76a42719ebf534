// fuzz: rooms=text,formats,base
// F8: chat templates. Any bytes as a template, or a template put together from snippets (a byte a snippet, 0xe0–0xff
// repeats the last one), rendered over messages made from the rest of the input. Whatever the template, it parses or is
// refused, renders or fails; the joined parts equal the text, the text keeps to its cap, and parts marked as the
// template's own never hold the caller's secret.
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/chat_template.h"

namespace {

using namespace tamis;

constexpr std::string_view kSecret = "\xc2\xa7SECRET";  // nothing cuts inside § unseen: parts are compared as a whole

constexpr std::string_view kSnippets[] = {
    "{{ ",
    " }}",
    "{% if ",
    " %}",
    "{% else %}",
    "{% elif ",
    "{% endif %}",
    "{% for x in ",
    "{% endfor %}",
    "{% set x = ",
    "{% set ns.x = ",
    "{% macro m(a, b=1) %}",
    "{% endmacro %}",
    "{{ m(",
    "{% call m(",
    "{% endcall %}",
    "{% filter upper %}",
    "{% endfilter %}",
    "{% set y %}",
    "{% endset %}",
    "{% with a = ",
    "{% endwith %}",
    "{% generation %}",
    "{% endgeneration %}",
    "{% break %}",
    "{% continue %}",
    "{% raw %}",
    "{% endraw %}",
    "{# ",
    " #}",
    "{%- ",
    " -%}",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ", ",
    ": ",
    ".",
    "|",
    " + ",
    " - ",
    " * ",
    " / ",
    " // ",
    " % ",
    " ** ",
    " ~ ",
    " and ",
    " or ",
    " not ",
    " in ",
    " is ",
    " if ",
    " else ",
    " == ",
    " < ",
    " >= ",
    "messages",
    "x",
    "y",
    "ns",
    "loop",
    "s",
    "d",
    "none",
    "true",
    "1",
    "-1",
    "7",
    "99999",
    "1.5",
    "'a'",
    "'<|im_end|>'",
    "'%5s|'",
    "'{:>5}'",
    "''",
    "loop.index",
    "loop.cycle(1, 2)",
    "loop(x)",
    " recursive",
    "upper",
    "join(",
    "replace('a', 'bb')",
    "tojson",
    "list",
    "sort",
    "map('upper')",
    "selectattr('role')",
    "groupby('role')",
    "batch(2)",
    "default(1)",
    "indent(2)",
    "truncate(3)",
    "int",
    "items()",
    ".split('a')",
    ".strip()",
    ".format(",
    ".append(1)",
    "range(",
    "namespace(x=1)",
    "dict(a=1)",
    "cycler(1, 2)",
    "caller()",
    "[:",
    "[::",
    "[-2:",
    "\n",
    "text ",
    "'a' * 9999",
};

std::string build_source(const uint8_t* data, size_t size) {
  std::string out;
  std::string_view last = "(";
  for (size_t i = 0; i < size && out.size() < 3000; ++i) {
    if (data[i] >= 0xe0) {
      const size_t times = size_t{1} << (data[i] & 7);
      for (size_t k = 0; k < times; ++k) out += last;
    } else {
      last = kSnippets[data[i] % std::size(kSnippets)];
      out += last;
    }
  }
  return out;
}

Json build_messages(const uint8_t* data, size_t size) {
  constexpr std::array<std::string_view, 4> kRoles = {"user", "assistant", "system", "to<ol"};
  Json messages = Json::array();
  for (size_t i = 0; i < std::min<size_t>(size, 4); ++i) {
    Json message = Json::object();
    message.set("role", kRoles[data[i] % kRoles.size()]);
    if (data[i] & 4) message.set("content", std::string(kSecret) + std::string(reinterpret_cast<const char*>(data), i));
    if (data[i] & 8) message.set("content", Json::Array{Json("a"), Json(int64_t{data[i]}), Json(1.5), Json(nullptr)});
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const bool is_raw = (data[0] & 1) != 0;
  const size_t n_messages = std::min<size_t>(data[0] >> 5, size - 1);
  const std::string source =
      is_raw ? std::string(reinterpret_cast<const char*>(data) + 1 + n_messages, size - 1 - n_messages)
             : build_source(data + 1 + n_messages, size - 1 - n_messages);
  Limits limits;
  limits.template_steps = 3000;
  limits.template_output_bytes = 1 << 14;
  limits.template_memory_bytes = 1 << 20;
  const auto parsed = ChatTemplate::parse(source, limits);
  if (!parsed) return 0;
  ChatTemplateInput input;
  input.variables.set("messages", build_messages(data + 1, n_messages))
      .set("s", "Hello w\xc3\xb6rld, a b c")
      .set("d", Json::object());
  input.bos_token = "<s>";
  input.clock = "2031-02-03T04:05:06";
  const auto parts = parsed->render_parts(input);
  if (!parts) return 0;
  std::string joined;
  for (const PromptPart& part : *parts) {
    // A raw template may spell the secret itself; no snippet does.
    if (!is_raw && !part.is_content && part.text.find(kSecret) != std::string::npos) std::abort();
    joined += part.text;
  }
  const uint64_t input_bytes = 64 * 16 + 2048;  // more than the variables hold
  if (joined.size() > limits.template_output_bytes + 4 * input_bytes) std::abort();
  return 0;
}
