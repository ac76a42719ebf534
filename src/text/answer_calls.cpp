// The forms of a call: a JSON object of name and arguments, a name with arguments behind it, marked parameters.
#include <algorithm>

#include "base/ascii.h"
#include "text/answer_parser.h"

namespace tamis {
namespace {

constexpr size_t kMaybe = std::string_view::npos;
constexpr size_t kMaxName = 256;
constexpr std::string_view kFence = "```";
constexpr std::string_view kFunctionBegin = "<function=", kFunctionEnd = "</function>";
constexpr std::string_view kKeyBegin = "<arg_key>", kKeyEnd = "</arg_key>", kValueBegin = "<arg_value>",
                           kValueEnd = "</arg_value>";

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> all) {
  return std::find(all.begin(), all.end(), text) != all.end();
}
bool is_name_key(std::string_view key) { return is_one_of(key, {"name", "tool_name", "function"}); }
bool is_arguments_key(std::string_view key) { return is_one_of(key, {"arguments", "parameters"}); }

// The name alone, of what families write there: `functions.NAME:0`, `ID<mark>NAME`, `NAME[CALL_ID]ID`.
std::string_view clean_name(std::string_view text, const CallSyntax& calls) {
  if (!calls.before_name.empty())
    if (const size_t at = text.rfind(calls.before_name); at != std::string_view::npos)
      text.remove_prefix(at + calls.before_name.size());
  text = trimmed(text.substr(0, text.find("[CALL_ID]")));
  constexpr std::string_view kPrefix = "functions.";
  if (text.starts_with(kPrefix)) {
    text.remove_prefix(kPrefix.size());
    const size_t colon = text.rfind(':');
    if (colon != std::string_view::npos && text.find_first_not_of("0123456789", colon + 1) == std::string_view::npos)
      text = text.substr(0, colon);
  }
  return text;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxName && std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '<' || c == '>' || c == '{' || c == '}' ||
           c == '\x7f';
  });
}

}  // namespace

void AnswerParser::take(size_t n) {
  call_.raw += rest().substr(0, n);
  at_ += n;
  if (n > 0) searched_ = 0;
}

void AnswerParser::take_space() { take(std::min(rest().find_first_not_of(kBlanks), rest().size())); }

void AnswerParser::open_call(std::string_view mark) {
  call_ = {};
  call_.raw = mark;
  searched_ = 0;
}

bool AnswerParser::begin_call(std::string_view name) {
  const std::string clean(clean_name(name, calls_));
  if (!is_name(clean) || (call_.is_bare && !is_offered(clean))) return false;
  call_.name = clean;
  call_.has_begun = true;
  emit(AnswerPiece::Kind::call_begin, clean);
  return true;
}

bool AnswerParser::end_call(bool is_whole) {
  if (call_.has_ended) return true;
  call_.has_ended = true;
  append_piece(out_, {AnswerPiece::Kind::call_end, std::exchange(call_.raw, {}), n_calls_, is_whole});
  ++n_calls_;
  return true;
}

bool AnswerParser::give_up() {
  if (call_.has_begun) {
    end_call(false);
    go_back_to_text();
    is_fresh_ = false;
    has_text_ = true;
    return true;
  }
  mode_ = Mode::text;
  const std::string raw = std::exchange(call_.raw, {});
  call_ = {};
  drops_space_ = false;
  emit_text(raw);
  return true;
}

bool AnswerParser::step_call(bool is_end) {
  take_space();
  if (rest().empty()) return false;
  const char first = rest().front();
  if (first == '{') {
    mode_ = Mode::object;
    return true;
  }
  if (call_.is_list) {
    if (first != ']') return give_up();
    mode_ = Mode::close;
    return true;
  }
  if (first == '[') {
    call_.is_list = true;
    take(1);
    return true;
  }
  if (!calls_.parameter_begin.empty() && calls_.separator.empty()) {
    const size_t found = starts_with(kFunctionBegin, is_end);
    if (found == kMaybe) return false;
    if (found > 0) {
      take(found);
      call_.end = kFunctionEnd;
    }
    mode_ = Mode::name;
    return true;
  }
  if (calls_.separator.empty()) return give_up();
  mode_ = Mode::name;
  return true;
}

bool AnswerParser::step_name(bool is_end) {
  size_t at = kMaybe, n_behind = 0;
  const auto look_for = [&](std::string_view mark, size_t n) {
    if (const size_t found = rest().find(mark); found < at) {
      at = found;
      n_behind = n;
    }
  };
  if (!call_.end.empty()) {
    look_for(">", 1);
  } else if (!calls_.separator.empty()) {
    look_for(calls_.separator, calls_.separator.size());
  } else {
    look_for("\n", 0);
    look_for(kKeyBegin, 0);
    look_for(calls_.end, 0);
  }
  if (at == kMaybe && !is_end && rest().size() <= kMaxName + 64) return false;
  if (at > kMaxName || !is_name(clean_name(rest().substr(0, at), calls_))) return give_up();
  call_.name = rest().substr(0, at);
  take(at + n_behind);
  mode_ = Mode::arguments;
  return true;
}

bool AnswerParser::step_kind_name() {
  const size_t at = rest().find('\n');
  if (at == kMaybe && rest().size() <= kMaxName) return false;
  if (at > kMaxName) return give_up();
  call_.name = rest().substr(0, at);
  take(at);
  mode_ = Mode::arguments;
  return true;
}

bool AnswerParser::step_arguments(bool is_end) {
  take_space();
  if (rest().empty()) return false;
  if (rest().front() == '{') {
    if (!begin_call(call_.name)) return give_up();
    mode_ = Mode::json;
    return true;
  }
  const std::string_view end = call_.end.empty() ? calls_.end : call_.end;
  bool is_open = false;
  const auto begins = [&](std::string_view mark) {
    const size_t found = mark.empty() ? 0 : starts_with(mark, is_end);
    is_open |= found == kMaybe;
    return found != 0 && found != kMaybe;
  };
  const bool has_pairs = calls_.separator.empty() && call_.end.empty();
  const bool is_parameters = begins(calls_.parameter_begin), is_pairs = has_pairs && begins(kKeyBegin);
  if (is_parameters || is_pairs) {
    if (!begin_call(call_.name)) return give_up();
    emit(AnswerPiece::Kind::call_arguments, "{");
    mode_ = is_parameters ? Mode::parameters : Mode::pairs;
    return true;
  }
  if (begins(end)) {
    if (!begin_call(call_.name)) return give_up();
    emit(AnswerPiece::Kind::call_arguments, "{}");
    end_call(true);
    mode_ = Mode::close;
    return true;
  }
  if (begins(kFence)) {
    const size_t line_end = rest().find('\n');
    if (line_end == kMaybe && rest().size() <= kMaxName && !is_end) return false;
    if (line_end > kMaxName) return give_up();
    call_.is_fenced = true;
    take(line_end);
    return true;
  }
  if (is_open) return false;
  if (!calls_.has_kind || call_.has_kind) return give_up();
  call_.has_kind = true;
  mode_ = Mode::kind_name;
  return true;
}

bool AnswerParser::step_json() {
  while (!rest().empty()) {
    const char byte = rest().front();
    const bool was_in_string = call_.scanner.is_in_string();
    const JsonScanner::State state = call_.scanner.push(byte);
    take(1);
    if (state == JsonScanner::State::invalid) return give_up();
    std::string repaired;
    JsonScanner::append_repaired(repaired, byte, was_in_string);
    emit(AnswerPiece::Kind::call_arguments, repaired);
    if (state == JsonScanner::State::more) continue;
    end_call(true);
    mode_ = Mode::close;
    return true;
  }
  return false;
}

bool AnswerParser::step_object() {
  while (!rest().empty() && mode_ == Mode::object)
    if (!on_object_byte(rest().front())) give_up();
  return mode_ != Mode::object;
}

// False: this is no call.
bool AnswerParser::on_object_byte(char byte) {
  JsonScanner& scanner = call_.scanner;
  const bool was_in_string = scanner.is_in_string(), was_in_key = scanner.is_in_key();
  const bool was_in_number = scanner.is_in_number() && scanner.depth() == 1;
  const JsonScanner::State state = scanner.push(byte);
  if (state == JsonScanner::State::invalid && call_.has_arguments) {  // the call is whole, what follows is not of it
    end_call(true);
    mode_ = Mode::close;
    return true;
  }
  take(1);
  if (state == JsonScanner::State::invalid) return false;
  if (scanner.is_in_key() && scanner.depth() == 1) {
    if (was_in_key) {
      call_.key += byte;
    } else {
      call_.key.clear();
    }
  }
  const bool is_in_value = scanner.is_in_member_value(), was_in_value = call_.was_in_value;
  call_.was_in_value = is_in_value;
  if (is_in_value && !was_in_value) {
    call_.value.clear();
    const bool is_known =
        is_name_key(call_.key) || is_arguments_key(call_.key) || is_one_of(call_.key, {"type", "id", "tool_call_id"});
    if (call_.is_bare && !is_known) return false;
    const bool names_are_keys = calls_.names_are_keys && !call_.is_bare;
    if (names_are_keys && byte == '{' && !call_.has_begun) call_.name = call_.key;
    const bool is_arguments = is_arguments_key(call_.key) || names_are_keys;
    call_.is_streaming = byte == '{' && is_arguments && !call_.name.empty() && !call_.has_begun;
    if (call_.is_streaming && !begin_call(call_.name)) return false;
  }
  const bool belongs_to_value = is_in_value || (was_in_value && !was_in_number);
  if (belongs_to_value) {
    std::string repaired;
    JsonScanner::append_repaired(repaired, byte, was_in_string);
    if (call_.is_streaming) {
      emit(AnswerPiece::Kind::call_arguments, repaired);
    } else {
      call_.value += repaired;
    }
  }
  if (was_in_value && !is_in_value && !on_member_end()) return false;
  if (state != JsonScanner::State::done) return true;
  if (!call_.has_arguments) {  // a call without any
    if (call_.is_bare || !begin_call(call_.name)) return false;
    emit(AnswerPiece::Kind::call_arguments, "{}");
  }
  end_call(true);
  mode_ = Mode::close;
  return true;
}

bool AnswerParser::on_member_end() {
  if (call_.is_streaming) {
    call_.is_streaming = false;
    call_.has_arguments = true;
    return true;
  }
  if (call_.has_begun) return true;
  if (is_name_key(call_.key)) {
    const auto name = Json::parse(call_.value);
    if (!name || !name->is_string()) return !call_.is_bare;
    call_.name = name->as_string();
    if (call_.is_bare && !is_offered(call_.name)) return false;
  } else if (is_arguments_key(call_.key)) {
    const auto value = Json::parse(call_.value, JsonScanner::kMaxDepth);
    if (!value) return false;
    if (value->is_object()) call_.arguments_held = call_.value;
    if (value->is_null() || *value == Json("")) call_.arguments_held = "{}";
    if (value->is_string() && call_.arguments_held.empty()) {  // JSON in a string
      const auto inner = Json::parse(value->as_string(), JsonScanner::kMaxDepth);
      if (inner && inner->is_object()) call_.arguments_held = value->as_string();
    }
    if (call_.arguments_held.empty()) return false;
  }
  if (call_.name.empty() || call_.arguments_held.empty()) return true;
  if (!begin_call(call_.name)) return false;
  emit(AnswerPiece::Kind::call_arguments, call_.arguments_held);
  call_.has_arguments = true;
  return true;
}

void AnswerParser::add_parameter(std::string_view key, std::string_view value, std::optional<bool> is_string) {
  const auto json = Json::parse(value, JsonScanner::kMaxDepth);  // it will stand in an object
  const bool is_text = is_string.value_or(is_string_parameter(key)) || !json;
  std::string out = call_.n_parameters++ == 0 ? "" : ", ";
  out += Json(key).dump() + ": " + (is_text ? Json(value).dump() : std::string(trimmed(value)));
  emit(AnswerPiece::Kind::call_arguments, out);
}

// `<parameter=KEY>` VALUE `</parameter>` …, then the call's end.
bool AnswerParser::step_parameters(bool is_end) {
  take_space();
  const std::string_view end = call_.end.empty() ? calls_.end : call_.end;
  const size_t parameter = starts_with(calls_.parameter_begin, is_end), last = starts_with(end, is_end);
  if (last != 0 && last != kMaybe) {
    emit(AnswerPiece::Kind::call_arguments, "}");
    end_call(true);
    mode_ = Mode::close;
    return true;
  }
  if (parameter == 0 && last == 0) return rest().empty() ? false : give_up();
  if (parameter == 0 || parameter == kMaybe) return false;
  const size_t value_end = rest().find(calls_.parameter_end, std::max(searched_, parameter));
  if (value_end == kMaybe) {
    searched_ = rest().size() - std::min(rest().size(), calls_.parameter_end.size() - 1);
    return false;
  }
  const std::string_view inside = rest().substr(parameter, value_end - parameter);
  const size_t key_end = inside.find('>');
  if (key_end == kMaybe) return give_up();
  std::string_view key = inside.substr(0, key_end), value = inside.substr(key_end + 1);
  std::optional<bool> is_string;  // where the call itself says so
  if (const size_t quote = key.find('"'); quote != kMaybe) {
    is_string = key.find("string=\"true\"", quote) != kMaybe;
    key = key.substr(0, quote);
  } else {  // line ends around the value are no part of it
    if (value.starts_with('\n')) value.remove_prefix(1);
    if (value.ends_with('\n')) value.remove_suffix(1);
  }
  add_parameter(key, value, is_string);
  take(value_end + calls_.parameter_end.size());
  return true;
}

// `<arg_key>` KEY `</arg_key>` `<arg_value>` VALUE `</arg_value>` …, then the call's end.
bool AnswerParser::step_pairs(bool is_end) {
  take_space();
  if (rest().empty() && !is_end) return false;
  const size_t key = starts_with(kKeyBegin, is_end), last = starts_with(calls_.end, is_end);
  const bool is_over = rest().empty() || (last != 0 && last != kMaybe);  // a stop string may have been the end's mark
  if (is_over) {
    emit(AnswerPiece::Kind::call_arguments, "}");
    end_call(true);
    mode_ = Mode::close;
    return true;
  }
  if (key == 0 && last == 0) return give_up();
  if (key == 0 || key == kMaybe) return false;
  const size_t value_end = rest().find(kValueEnd, std::max(searched_, key));
  if (value_end == kMaybe) {
    searched_ = rest().size() - std::min(rest().size(), kValueEnd.size() - 1);
    return false;
  }
  const std::string_view inside = rest().substr(key, value_end - key);
  const size_t key_end = inside.find(kKeyEnd), value_begin = inside.find(kValueBegin);
  if (key_end == kMaybe || value_begin == kMaybe || value_begin < key_end) return give_up();
  add_parameter(trimmed(inside.substr(0, key_end)), inside.substr(value_begin + kValueBegin.size()), std::nullopt);
  take(value_end + kValueEnd.size());
  return true;
}

bool AnswerParser::step_close(bool is_end) {
  at_ += std::min(rest().find_first_not_of(kBlanks), rest().size());
  if (rest().empty()) return false;
  if (call_.is_list) {
    const char byte = rest().front();
    if (byte != ',' && byte != ']') {
      go_back_to_text();
      return true;
    }
    ++at_;
    if (byte == ']') {
      call_.is_list = false;
    } else if (n_calls_ >= setup_.max_calls) {
      mode_ = Mode::dropped;
    } else {
      const bool is_bare = call_.is_bare;
      open_call("");
      call_.is_bare = is_bare;
      call_.is_list = true;
      mode_ = Mode::call;
    }
    return true;
  }
  if (!call_.end.empty()) {
    const size_t found = starts_with(call_.end, is_end);
    if (found == kMaybe) return false;
    at_ += found;
    call_.end = "";
    return true;
  }
  if (call_.is_fenced) {
    const size_t found = starts_with(kFence, is_end);
    if (found == kMaybe) return false;
    at_ += found;
    call_.is_fenced = false;
    return true;
  }
  const bool is_bare = call_.is_bare;
  if (is_bare && rest().front() == ';') ++at_;
  if (!is_bare && !calls_.end.empty() && calls_.frame == CallSyntax::Frame::marked) {
    const size_t found = starts_with(calls_.end, is_end);
    if (found == kMaybe) return false;
    at_ += found;
  }
  go_back_to_text();
  return true;
}

}  // namespace tamis
