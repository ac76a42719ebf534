// fuzz: rooms=text,formats,base
// Answers of models, in every call syntax, cut anywhere: the pieces are the same, calls begin and end in turn, and the
// arguments of a whole call are a JSON object.
//
// Input: byte 0 = the row of the table; byte 1 = bits: tools, reasoning apart, the prompt ends in reasoning, one call
// at most; then the text, a byte 0xff cutting it.
#include <cstdlib>
#include <string>
#include <vector>

#include "text/answer_parser.h"

namespace {

using tamis::AnswerPiece;
using Kind = AnswerPiece::Kind;

void add(std::vector<AnswerPiece>& out, std::vector<AnswerPiece> pieces) {
  for (AnswerPiece& piece : pieces) append_piece(out, std::move(piece));
}

void check(const std::vector<AnswerPiece>& pieces) {
  bool is_in_call = false;
  uint32_t n_calls = 0;
  tamis::JsonScanner scanner;
  auto state = tamis::JsonScanner::State::more;
  for (const AnswerPiece& piece : pieces) {
    const bool is_of_call = piece.kind != Kind::text && piece.kind != Kind::reasoning;
    if (is_of_call && piece.call_idx != n_calls) std::abort();
    if (is_in_call != (piece.kind == Kind::call_arguments || piece.kind == Kind::call_end)) std::abort();
    if (piece.kind == Kind::call_begin) {
      is_in_call = true;
      scanner = {};
      state = tamis::JsonScanner::State::more;
      if (piece.text.empty()) std::abort();
    } else if (piece.kind == Kind::call_arguments) {
      for (const char byte : piece.text) {
        if (state != tamis::JsonScanner::State::more) std::abort();
        state = scanner.push(byte);
      }
    } else if (piece.kind == Kind::call_end) {
      is_in_call = false;
      ++n_calls;
      if (piece.is_whole && state != tamis::JsonScanner::State::done) std::abort();
    }
  }
  if (is_in_call) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 2048) return 0;
  static const tamis::Json tools = *tamis::Json::parse(
      R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}])");
  const auto rows = tamis::call_syntaxes();
  tamis::AnswerParserSetup setup{
      .syntax = {.calls = &rows[data[0] % rows.size()], .reasoning = {"<think>", "</think>"}}};
  if (setup.syntax.calls->frame == tamis::CallSyntax::Frame::channels) setup.syntax.reasoning = {};
  if ((data[1] & 1) != 0) setup.tools = tools;
  setup.separates_reasoning = (data[1] & 2) != 0;
  setup.begins_in_reasoning = (data[1] & 4) != 0;
  if ((data[1] & 8) != 0) setup.max_calls = 1;

  tamis::AnswerParser in_pieces(setup), by_bytes(setup), at_once(setup);
  std::vector<AnswerPiece> cut, bytes, whole;
  std::string text, piece;
  for (size_t i = 2; i < size; ++i) {
    const char byte = static_cast<char>(data[i]);
    if (data[i] == 0xff) {
      add(cut, in_pieces.push(piece));
      piece.clear();
      continue;
    }
    piece += byte;
    text += byte;
    add(bytes, by_bytes.push(std::string_view(&byte, 1)));
  }
  add(cut, in_pieces.push(piece));
  add(cut, in_pieces.finish());
  add(bytes, by_bytes.finish());
  add(whole, at_once.push(text));
  add(whole, at_once.finish());
  if (cut != whole || bytes != whole) std::abort();
  check(whole);
  return 0;
}
