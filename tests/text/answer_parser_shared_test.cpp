// Calls as published templates write them back into a conversation (goldens in ../shared) are read as calls again.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/file.h"
#include "text/answer_parser.h"

namespace tamis {
namespace {

using Kind = AnswerPiece::Kind;

// The arguments of the calls of get_weather in a text.
std::vector<Json> calls_in(const AnswerParserSetup& setup, std::string_view text) {
  AnswerParser parser(setup);
  std::vector<AnswerPiece> pieces;
  for (const char byte : text)
    for (AnswerPiece& piece : parser.push(std::string_view(&byte, 1))) append_piece(pieces, std::move(piece));
  for (AnswerPiece& piece : parser.finish()) append_piece(pieces, std::move(piece));
  std::vector<Json> out;
  for (size_t i = 0; i + 2 < pieces.size(); ++i) {
    if (pieces[i].kind != Kind::call_begin || pieces[i].text != "get_weather" || !pieces[i + 2].is_whole) continue;
    const auto arguments = Json::parse(pieces[i + 1].text);
    if (arguments) out.push_back(*arguments);
  }
  return out;
}

TEST(AnswerParser, ReadsTheCallsOfPublishedTemplates) {
  // No tools; calls that no message history shows; forms of their own that are left as text.
  const std::set<std::string> without = {"google-gemma-2-2b-it", "ibm-granite-granite-3.3-2B-Instruct",
                                         "GigaChat3-10B-A1.8B",  "LFM2-8B-A1B",
                                         "MiniMax-M3",           "muse-glimmer",
                                         "tencent-Hy3"};
  size_t n_read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TAMIS_SOURCE_DIR "/../shared/data/templates")) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string name = entry.path().stem().string(), path = entry.path().string();
    const auto source = read_text_file(path, 1 << 20);
    const auto golden = read_text_file(path.substr(0, path.size() - 6) + ".golden.json", 4 << 20);
    ASSERT_TRUE(source && golden) << path;
    const Json rows = *Json::parse(*golden);
    for (const Json& row : rows.as_array()) {
      const Json* const result = row.find("result");
      if (row.find("case")->as_string() != "tool_round_trip" || result == nullptr) continue;
      AnswerParserSetup setup{.syntax = find_answer_syntax(*source)};
      setup.tools = *row.find("input")->find("tools");
      const std::string& text = result->as_string();
      const std::string question = "who are you?";
      const std::string answer = text.substr(text.rfind(question) + question.size());
      // From the first mark on: a bare object is a call only where an answer begins.
      const size_t begin = setup.syntax.calls->family == "llama-3" ? answer.find('{') : 0;
      const std::vector<Json> calls = calls_in(setup, answer.substr(begin));
      if (without.contains(name)) continue;
      ++n_read;
      ASSERT_EQ(calls.size(), 1U) << name << " as " << setup.syntax.calls->family << ": " << answer;
      EXPECT_EQ(calls[0].find("city")->as_string(), "Zürich") << name;
      EXPECT_EQ(*calls[0].find("days"), Json(2)) << name;
    }
  }
  EXPECT_GE(n_read, 16U);
}

}  // namespace
}  // namespace tamis
