// How the answers of a model are written: where its reasoning stands, how it calls tools. Found from the markers in its
// chat template; between chat template and answer parser.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tamis {

// Marks around reasoning.
struct ReasoningMarks {
  std::string_view begin, end;  // "" where a model has none
};

// How calls of one family are written: a row of a table. What stands between `begin` and `end` is found from its first
// byte: `{` a JSON object of name and arguments, `[` a list of such, else NAME `separator` ARGUMENTS, where arguments
// are a JSON object or marked parameters.
struct CallSyntax {
  enum class Frame : uint8_t {
    marked,      // calls stand between marks, anywhere in the answer
    channels,    // the answer is a row of messages with headers (gpt-oss)
    recipients,  // the answer is a row of `NAME line-end content` (Functionary 3.2)
  };
  // How a family writes several calls, each a JSON object of name and arguments.
  enum class Several : uint8_t {
    none,      // it does not, or not so
    repeated,  // each between marks, on lines of their own
    listed,    // all as one JSON list between marks
  };
  std::string_view family;         // for people and tests
  std::string_view template_mark;  // what its templates hold
  Frame frame = Frame::marked;
  std::string_view begin, end;       // around one call, or a list; no end: that of its JSON
  std::string_view separator;        // after a name
  std::string_view before_name;      // of what stands there before the name, the last of it
  std::string_view parameter_begin;  // KEY `>` VALUE parameter_end
  std::string_view parameter_end;
  std::vector<std::string_view> ignored = {};  // marks around all calls, or around the text
  bool has_kind = false;        // before the separator may stand a kind, and after it the name, a line end
  bool names_are_keys = false;  // {NAME: ARGUMENTS}
  std::string_view arguments_key = "arguments";  // as the model was taught to write it
  Several several = Several::none;
};

struct AnswerSyntax {
  const CallSyntax* calls;  // never null
  ReasoningMarks reasoning;
  bool offers_tools = false;     // the template reads `tools`
  bool names_reasoning = false;  // the template holds the marks around reasoning

  // All marks that are to be seen in an answer's text, control tokens or not.
  std::vector<std::string_view> marks() const;
  // What ends reasoning when a budget does. "" where a model has none.
  std::string_view forced_end() const;
};

// The syntax that a template's source speaks of. Without any mark: calls as in the generic row, `<think>`.
AnswerSyntax find_answer_syntax(std::string_view template_source);

// The rows of the table; the last one is the generic one.
std::span<const CallSyntax> call_syntaxes();

}  // namespace tamis
