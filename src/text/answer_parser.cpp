// The states between text, reasoning and calls; the forms of a call itself are in answer_calls.cpp.
#include "text/answer_parser.h"

#include <algorithm>

#include "base/ascii.h"

namespace tamis {
namespace {

constexpr size_t kMaybe = std::string_view::npos;
constexpr size_t kMaxHeader = 512;
constexpr std::string_view kMessage = "<|message|>";
// What begins the next message or ends this one, in the frame of channels.
constexpr std::string_view kMessageMarks[] = {"<|end|>", "<|start|>", "<|channel|>", "<|call|>", "<|return|>"};

// Bytes at the end of `text` that may be the beginning of a mark.
size_t partial_mark(std::string_view text, std::span<const std::string_view> marks) {
  size_t longest = 0;
  for (const std::string_view mark : marks)
    for (size_t n = std::min(mark.size() - 1, text.size()); n > longest; --n)
      if (text.ends_with(mark.substr(0, n))) longest = n;
  return longest;
}

struct Found {
  size_t at = kMaybe;  // npos: none
  std::string_view mark;
};

Found find_first(std::string_view text, std::span<const std::string_view> marks) {
  Found found;
  for (const std::string_view mark : marks)
    if (const size_t at = text.find(mark); at < found.at) found = {at, mark};
  return found;
}

// The word behind `mark` in a header; "" when the mark is not there.
std::string_view word_behind(std::string_view header, std::string_view mark) {
  const size_t at = header.find(mark);
  if (at == std::string_view::npos) return "";
  const std::string_view tail = header.substr(at + mark.size());
  return tail.substr(0, std::min(tail.find_first_of(" \t\r\n<"), tail.size()));
}

}  // namespace

void append_piece(std::vector<AnswerPiece>& pieces, AnswerPiece piece) {
  using Kind = AnswerPiece::Kind;
  const bool can_join = piece.kind == Kind::text || piece.kind == Kind::reasoning || piece.kind == Kind::call_arguments;
  if (can_join && !pieces.empty() && pieces.back().kind == piece.kind && pieces.back().call_idx == piece.call_idx) {
    pieces.back().text += piece.text;
  } else {
    pieces.push_back(std::move(piece));
  }
}

AnswerParser::AnswerParser(const AnswerParserSetup& setup)
    : setup_(setup), calls_(*setup.syntax.calls), has_tools_(!setup.tools.as_array().empty()) {
  if (calls_.frame == CallSyntax::Frame::channels) {
    marks_.assign(std::begin(kMessageMarks), std::end(kMessageMarks));
  } else {
    marks_ = calls_.ignored;
    if (has_tools_ || calls_.frame == CallSyntax::Frame::recipients) marks_.push_back(calls_.begin);
  }
  if (calls_.frame != CallSyntax::Frame::marked) mode_ = Mode::header;
  if (!setup_.begins_in_reasoning || !setup_.separates_reasoning) return;
  mode_ = Mode::reasoning;
  drops_space_ = true;
}

std::vector<AnswerPiece> AnswerParser::push(std::string_view text) {
  buffer_ += text;
  run(false);
  return std::exchange(out_, {});
}

std::vector<AnswerPiece> AnswerParser::finish() {
  run(true);
  const bool is_in_call = mode_ != Mode::text && mode_ != Mode::reasoning && mode_ != Mode::header &&
                          mode_ != Mode::close && mode_ != Mode::dropped;
  if (is_in_call) {
    take(rest().size());
    if (call_.has_arguments) {
      end_call(true);
      go_back_to_text();
    } else {
      give_up();
    }
  }
  if (mode_ == Mode::text && !space_.empty() && n_calls_ == 0) emit(AnswerPiece::Kind::text, space_);
  space_.clear();
  buffer_.clear();
  at_ = 0;
  return std::exchange(out_, {});
}

void AnswerParser::run(bool is_end) {
  while (step(is_end)) {
  }
  if (at_ == 0) return;
  buffer_.erase(0, at_);
  at_ = 0;
}

bool AnswerParser::step(bool is_end) {
  if (rest().empty() && mode_ != Mode::pairs) return false;
  switch (mode_) {
    case Mode::text: return step_text(is_end);
    case Mode::reasoning: return step_reasoning(is_end);
    case Mode::header: return step_header(is_end);
    case Mode::call: return step_call(is_end);
    case Mode::object: return step_object();
    case Mode::name: return step_name(is_end);
    case Mode::kind_name: return step_kind_name();
    case Mode::arguments: return step_arguments(is_end);
    case Mode::json: return step_json();
    case Mode::parameters: return step_parameters(is_end);
    case Mode::pairs: return step_pairs(is_end);
    case Mode::close: return step_close(is_end);
    case Mode::dropped: break;
  }
  at_ = buffer_.size();
  return false;
}

void AnswerParser::emit(AnswerPiece::Kind kind, std::string_view text) {
  append_piece(out_, {kind, std::string(text), n_calls_, true});
}

// Text or reasoning, as the mode is; white space at its end waits for what follows.
void AnswerParser::emit_text(std::string_view text) {
  const size_t end = text.find_last_not_of(kBlanks) + 1;  // npos + 1 is 0
  if (end > 0) {
    const auto kind = mode_ == Mode::reasoning ? AnswerPiece::Kind::reasoning : AnswerPiece::Kind::text;
    if (!space_.empty()) emit(kind, std::exchange(space_, {}));
    emit(kind, text.substr(0, end));
    is_fresh_ = false;
    if (mode_ != Mode::reasoning) has_text_ = true;
  }
  if (!drops_space_ || end > 0) space_ += text.substr(end);
  if (end > 0) drops_space_ = false;
}

// Moves white space at the front of the rest to what is held back.
void AnswerParser::hold_space() {
  const size_t n = std::min(rest().find_first_not_of(kBlanks), rest().size());
  if (!drops_space_) space_ += rest().substr(0, n);
  at_ += n;
}

size_t AnswerParser::starts_with(std::string_view mark, bool is_end) const {
  const std::string_view text = rest();
  if (text.starts_with(mark)) return mark.size();
  return !is_end && mark.starts_with(text) ? kMaybe : 0;
}

bool AnswerParser::step_text(bool is_end) {
  hold_space();
  if (rest().empty()) return false;
  const std::string_view begin = setup_.syntax.reasoning.begin;
  if (is_fresh_ && setup_.separates_reasoning && !begin.empty()) {
    const size_t found = starts_with(begin, is_end);
    if (found == kMaybe) return false;
    if (found > 0) {
      at_ += found;
      mode_ = Mode::reasoning;
      space_.clear();
      drops_space_ = true;
      return true;
    }
  }
  if (is_fresh_ && !has_text_ && has_tools_) {
    const Mode before = mode_;
    if (begin_bare(is_end)) return mode_ != before;
  }
  const Found found = find_first(rest(), marks_);
  if (found.mark.empty()) {
    const size_t n = rest().size() - (is_end ? 0 : partial_mark(rest(), marks_));
    if (n > 0) emit_text(rest().substr(0, n));
    at_ += n;
    return false;
  }
  if (found.at > 0) emit_text(rest().substr(0, found.at));
  at_ += found.at;
  if (calls_.frame == CallSyntax::Frame::marked && found.mark == calls_.begin) {
    at_ += found.mark.size();
    open_call(found.mark);
    mode_ = Mode::call;
  } else if (calls_.frame == CallSyntax::Frame::marked) {
    at_ += found.mark.size();
    drops_space_ = true;
    space_.clear();
  } else {
    mode_ = Mode::header;
  }
  return true;
}

// A JSON object where text would begin: true when it is entered, or when more must come before that is known.
bool AnswerParser::begin_bare(bool is_end) {
  constexpr std::string_view kFence = "```", kJson = "json";
  const std::string_view text = rest();
  size_t n = 0;
  if (text.front() == '`') {
    const size_t fence = starts_with(kFence, is_end);
    if (fence == kMaybe) return true;
    if (fence == 0) return false;
    n = kFence.size();
    const std::string_view tail = text.substr(n);
    if (tail.starts_with(kJson)) {
      n += kJson.size();
    } else if (!is_end && kJson.starts_with(tail)) {
      return true;
    }
    n = std::min(text.find_first_not_of(kBlanks, n), text.size());
    if (n == text.size()) return !is_end;
  }
  if (text[n] != '{') return false;
  open_call("");
  call_.is_bare = true;
  call_.is_fenced = n > 0;
  take(n);
  mode_ = Mode::object;
  return true;
}

bool AnswerParser::step_reasoning(bool is_end) {
  const bool has_channels = calls_.frame == CallSyntax::Frame::channels;
  if (is_fresh_ && !has_channels) {  // a mark that the prompt has written already
    hold_space();
    const size_t found = rest().empty() ? 0 : starts_with(setup_.syntax.reasoning.begin, is_end);
    if (found == kMaybe || rest().empty()) return false;
    at_ += found;
    is_fresh_ = false;
    if (found > 0) return true;
  }
  if (drops_space_) hold_space();
  const std::span<const std::string_view> marks =
      has_channels ? std::span<const std::string_view>(kMessageMarks) : std::span(&setup_.syntax.reasoning.end, 1);
  const Found found = find_first(rest(), marks);
  if (found.mark.empty()) {
    const size_t n = rest().size() - (is_end ? 0 : partial_mark(rest(), marks));
    if (n > 0) emit_text(rest().substr(0, n));
    at_ += n;
    return false;
  }
  if (found.at > 0) emit_text(rest().substr(0, found.at));
  at_ += found.at + (has_channels ? 0 : found.mark.size());
  space_.clear();
  drops_space_ = true;
  is_fresh_ = true;
  mode_ = has_channels ? Mode::header : Mode::text;
  return true;
}

// What stands before a message: `<|channel|>commentary to=functions.NAME<|message|>`, or `NAME` and a line end.
bool AnswerParser::step_header(bool is_end) {
  if (rest().starts_with('{')) {  // JSON that a grammar asked for has no header
    mode_ = Mode::text;
    return true;
  }
  const bool has_channels = calls_.frame == CallSyntax::Frame::channels;
  std::string_view text = rest();
  if (!has_channels && text.starts_with(calls_.begin)) text.remove_prefix(calls_.begin.size());
  const size_t end = text.find(has_channels ? kMessage : "\n");
  const bool is_cut = end == std::string_view::npos && (is_end || text.size() > kMaxHeader);
  if (end == std::string_view::npos && !is_cut) return false;
  const std::string_view header = text.substr(0, std::min(end, text.size()));
  const size_t n = rest().size() - text.size() + header.size() + (is_cut ? 0 : has_channels ? kMessage.size() : 1);
  std::string_view name = has_channels ? word_behind(header, "to=") : header;
  const bool is_header = !is_cut && (has_channels || name == "all" || (has_tools_ && is_offered(name)));
  if (!is_header) {  // of no message: text, but for the marks
    const bool is_mark = has_channels && header.starts_with("<|");
    mode_ = Mode::text;
    if (!is_mark) emit_text(rest().substr(0, n));
    at_ += n;
    return true;
  }
  const bool is_analysis = has_channels && word_behind(header, "<|channel|>") == "analysis";
  const bool is_call = has_tools_ && !name.empty() && (has_channels || name != "all");
  const std::string called(name);
  at_ += n;
  space_.clear();
  drops_space_ = true;
  is_fresh_ = true;
  if (is_call) {
    open_call("");
    call_.name = called;
    mode_ = Mode::arguments;
  } else {
    mode_ = is_analysis && setup_.separates_reasoning ? Mode::reasoning : Mode::text;
  }
  return true;
}

bool AnswerParser::is_offered(std::string_view name) const {
  const Json::Array& tools = setup_.tools.as_array();
  return std::any_of(tools.begin(), tools.end(), [&](const Json& tool) {
    const Json* const function = tool.find("function");
    const Json* const known = function == nullptr ? nullptr : function->find("name");
    return known != nullptr && known->is_string() && known->as_string() == name;
  });
}

bool AnswerParser::is_string_parameter(std::string_view key) const {
  for (const Json& tool : setup_.tools.as_array()) {
    const Json* const function = tool.find("function");
    const Json* const name = function == nullptr ? nullptr : function->find("name");
    if (name == nullptr || !name->is_string() || name->as_string() != call_.name) continue;
    const Json* found = function->find("parameters");
    for (const std::string_view member : {std::string_view("properties"), key, std::string_view("type")})
      found = found == nullptr ? nullptr : found->find(member);
    return found != nullptr && *found == Json("string");
  }
  return false;
}

void AnswerParser::go_back_to_text() {
  mode_ = n_calls_ >= setup_.max_calls ? Mode::dropped : Mode::text;
  call_ = {};
  space_.clear();
  drops_space_ = true;
  is_fresh_ = true;
}

}  // namespace tamis
