// The table of call syntaxes and of marks around reasoning. Sources: the models' own chat templates; for gpt-oss the
// published description of the harmony format.
#include "text/answer_syntax.h"

#include <array>

namespace tamis {
namespace {

using Frame = CallSyntax::Frame;
using Several = CallSyntax::Several;

// More telling marks stand before those that occur in other families' templates, too.
const std::array kCalls = {
    CallSyntax{.family = "harmony",
               .template_mark = "<|channel|>",
               .frame = Frame::channels,
               .begin = "<|channel|>",
               .end = "<|end|>",
               .ignored = {"<|start|>", "<|message|>", "<|constrain|>"}},
    CallSyntax{.family = "functionary-3.2", .template_mark = ">>>all", .frame = Frame::recipients, .begin = ">>>"},
    CallSyntax{.family = "deepseek",
               .template_mark = "<｜tool▁call▁begin｜>",
               .begin = "<｜tool▁call▁begin｜>",
               .end = "<｜tool▁call▁end｜>",
               .separator = "<｜tool▁sep｜>",
               .ignored = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},
               .has_kind = true},
    CallSyntax{.family = "deepseek-dsml",
               .template_mark = "｜DSML｜",
               .begin = "<｜DSML｜invoke name=\"",
               .end = "</｜DSML｜invoke>",
               .separator = "\">",
               .parameter_begin = "<｜DSML｜parameter name=\"",
               .parameter_end = "</｜DSML｜parameter>",
               .ignored = {"<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>", "<｜DSML｜function_calls>",
                           "</｜DSML｜function_calls>"}},
    CallSyntax{.family = "kimi",
               .template_mark = "<|tool_call_argument_begin|>",
               .begin = "<|tool_call_begin|>",
               .end = "<|tool_call_end|>",
               .separator = "<|tool_call_argument_begin|>",
               .ignored = {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"}},
    CallSyntax{.family = "solar",
               .template_mark = "<|tool_call:args|>",
               .begin = "<|tool_call:begin|>",
               .end = "<|tool_call:end|>",
               .separator = "<|tool_call:args|>",
               .before_name = "<|tool_call:name|>",
               .ignored = {"<|tool_calls|>"}},
    CallSyntax{.family = "mistral", .template_mark = "[TOOL_CALLS]", .begin = "[TOOL_CALLS]", .separator = "[ARGS]"},
    CallSyntax{.family = "command",
               .template_mark = "<|START_ACTION|>",
               .begin = "<|START_ACTION|>",
               .end = "<|END_ACTION|>",
               .ignored = {"<|START_RESPONSE|>", "<|END_RESPONSE|>"},
               .arguments_key = "parameters"},
    CallSyntax{
        .family = "listed", .template_mark = "<|tool_call|>", .begin = "<|tool_call|>", .several = Several::listed},
    CallSyntax{.family = "apertus",
               .template_mark = "<|tools_prefix|>",
               .begin = "<|tools_prefix|>",
               .end = "<|tools_suffix|>",
               .names_are_keys = true},
    CallSyntax{.family = "nemotron",
               .template_mark = "<TOOLCALL>",
               .begin = "<TOOLCALL>",
               .end = "</TOOLCALL>",
               .several = Several::listed},
    CallSyntax{.family = "seed",
               .template_mark = "<seed:tool_call>",
               .begin = "<seed:tool_call>",
               .end = "</seed:tool_call>",
               .parameter_begin = "<parameter=",
               .parameter_end = "</parameter>"},
    CallSyntax{.family = "functionary-3.1",
               .template_mark = "<function=example_function_name>{",
               .begin = "<function=",
               .end = "</function>",
               .separator = ">",
               .parameter_begin = "<parameter=",
               .parameter_end = "</parameter>"},
    // Hermes, Qwen, GLM and many others, whatever they write inside.
    CallSyntax{.family = "tagged",
               .template_mark = "<tool_call>",
               .begin = "<tool_call>",
               .end = "</tool_call>",
               .parameter_begin = "<parameter=",
               .parameter_end = "</parameter>",
               .several = Several::repeated},
    CallSyntax{.family = "llama-3",
               .template_mark = "\"parameters\": ",
               .begin = "<|python_tag|>",
               .arguments_key = "parameters"},
    CallSyntax{.family = "generic",
               .template_mark = "",
               .begin = "<tool_call>",
               .end = "</tool_call>",
               .parameter_begin = "<parameter=",
               .parameter_end = "</parameter>",
               .several = Several::repeated},
};

constexpr std::array kReasoning = {
    ReasoningMarks{"<think>", "</think>"},
    ReasoningMarks{"[THINK]", "[/THINK]"},
    ReasoningMarks{"<seed:think>", "</seed:think>"},
    ReasoningMarks{"<mm:think>", "</mm:think>"},
    ReasoningMarks{"<|START_THINKING|>", "<|END_THINKING|>"},
    ReasoningMarks{"<|inner_prefix|>", "<|inner_suffix|>"},
};

bool holds(std::string_view text, std::string_view what) { return text.find(what) != std::string_view::npos; }

}  // namespace

std::span<const CallSyntax> call_syntaxes() { return kCalls; }

AnswerSyntax find_answer_syntax(std::string_view template_source) {
  AnswerSyntax out{.calls = &kCalls.back(), .reasoning = kReasoning.front()};
  for (const CallSyntax& row : kCalls) {
    if (!holds(template_source, row.template_mark)) continue;
    out.calls = &row;
    break;
  }
  if (out.calls->frame == Frame::channels) {
    out.reasoning = {"", ""};
    out.names_reasoning = true;
  } else {
    for (const ReasoningMarks& marks : kReasoning)
      if (holds(template_source, marks.end)) {
        out.reasoning = marks;
        out.names_reasoning = true;
        break;
      }
  }
  out.offers_tools = holds(template_source, "tools");
  return out;
}

std::vector<std::string_view> AnswerSyntax::marks() const {
  std::vector<std::string_view> out = calls->ignored;
  for (const std::string_view mark : {calls->begin, calls->end, calls->separator, calls->before_name, reasoning.begin,
                                      reasoning.end, std::string_view("[CALL_ID]")})
    if (!mark.empty()) out.push_back(mark);
  return out;
}

std::string_view AnswerSyntax::forced_end() const {
  if (calls->frame == Frame::channels) return "<|end|><|start|>assistant<|channel|>final<|message|>";
  return reasoning.end;
}

}  // namespace tamis
