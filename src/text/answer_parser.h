// What a model writes, told apart as it comes: reasoning, text, tool calls. Between stream decoder and the dialects'
// answers. What is no call that can be read is text; no answer is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "text/answer_syntax.h"
#include "text/json_scanner.h"

namespace tamis {

struct AnswerPiece {
  enum class Kind : uint8_t { text, reasoning, call_begin, call_arguments, call_end };
  Kind kind = Kind::text;
  // text, reasoning: more of it. call_begin: the tool's name. call_arguments: more of a JSON object's text. call_end:
  // the whole call as the model wrote it.
  std::string text;
  uint32_t call_idx = 0;
  bool is_whole =
      true;  // call_end: false when the answer broke off, or turned out not to be JSON, inside the arguments
  friend bool operator==(const AnswerPiece&, const AnswerPiece&) = default;
};

// Adds a piece, joined with the last one where it goes on with it.
void append_piece(std::vector<AnswerPiece>& pieces, AnswerPiece piece);

struct AnswerParserSetup {
  AnswerSyntax syntax;
  bool separates_reasoning = true;   // false: marks and all are text
  bool begins_in_reasoning = false;  // the prompt ends behind the mark
  // The tools offered, [{"type": "function", "function": {"name": …, "parameters": …}}, …]; empty: nothing is a call.
  Json tools = Json::array();
  uint32_t max_calls = 0xffffffff;  // what follows the last one is dropped
};

// Text goes in by pieces of any size, pieces come out as soon as they are certain: only what may be the beginning of a
// mark is held back, and what stands before a call's arguments. Joined, the pieces do not depend on where the text was
// cut. White space around reasoning and calls is dropped. Linear in the text.
class AnswerParser {
 public:
  // `setup` outlives the parser.
  explicit AnswerParser(const AnswerParserSetup& setup);

  std::vector<AnswerPiece> push(std::string_view text);
  // The end of the answer: what was held back.
  std::vector<AnswerPiece> finish();

 private:
  enum class Mode : uint8_t {
    text,
    reasoning,
    header,      // of a message, in frames with headers
    call,        // behind a mark, before what tells the form of the call
    object,      // in a JSON object of name and arguments
    name,        // in a name that something ends
    kind_name,   // in a name behind a kind and a separator
    arguments,   // behind a name, before the arguments
    json,        // in arguments that are a JSON object
    parameters,  // between marked parameters
    pairs,       // between marked keys and values
    close,       // behind the arguments
    dropped,     // behind the last call that is wanted
  };
  // The call that is being read.
  struct Call {
    std::string raw;  // all of it so far
    std::string name, arguments_held, key, value;
    std::string_view end;  // its own mark, inside those of the family
    JsonScanner scanner;
    bool is_bare = false;    // no mark stood before it: only a tool that is offered makes it one
    bool is_fenced = false;  // ``` stands before it
    bool has_kind = false;   // a kind stood before the name
    bool is_list = false, has_begun = false, has_ended = false;
    bool has_arguments = false, is_streaming = false, was_in_value = false;
    size_t n_parameters = 0;
  };

  std::string_view rest() const { return std::string_view(buffer_).substr(at_); }
  void run(bool is_end);
  bool step(bool is_end);
  bool step_text(bool is_end);
  bool begin_bare(bool is_end);
  bool step_reasoning(bool is_end);
  bool step_header(bool is_end);
  bool step_call(bool is_end);
  bool step_object();
  bool on_object_byte(char byte);
  bool on_member_end();
  bool step_name(bool is_end);
  bool step_kind_name();
  bool step_arguments(bool is_end);
  bool step_json();
  bool step_parameters(bool is_end);
  bool step_pairs(bool is_end);
  bool step_close(bool is_end);

  void emit(AnswerPiece::Kind kind, std::string_view text);
  void emit_text(std::string_view text);
  void hold_space();
  void take(size_t n);  // of the rest, as part of the call
  void take_space();
  // 0: the rest does not begin with `mark`; its size: it does; npos: it may, when more comes.
  size_t starts_with(std::string_view mark, bool is_end) const;
  void open_call(std::string_view mark);
  bool begin_call(std::string_view name);
  bool end_call(bool is_whole);
  bool give_up();  // what was read of the call is text
  void add_parameter(std::string_view key, std::string_view value, std::optional<bool> is_string);
  bool is_offered(std::string_view name) const;
  bool is_string_parameter(std::string_view key) const;
  void go_back_to_text();

  const AnswerParserSetup& setup_;
  const CallSyntax& calls_;
  const bool has_tools_;
  std::vector<std::string_view> marks_;  // that may end a run of text
  Mode mode_ = Mode::text;
  std::string buffer_;
  size_t at_ = 0;                      // of buffer_: what is before it is dealt with
  size_t searched_ = 0;                // from at_ on: where no mark begins
  std::string space_;                  // held back: dropped before a call, else text
  bool drops_space_ = false;           // up to the next other character
  bool is_fresh_ = true;               // reasoning may begin here
  bool has_text_ = false;              // something that is no call has been said
  bool is_reasoning_message_ = false;  // channels: what `reasoning` mode reads is ended by a message's end
  Call call_;
  uint32_t n_calls_ = 0;
  std::vector<AnswerPiece> out_;
};

}  // namespace tamis
