// Answers told apart into reasoning, text and calls: one row for each way that models write, cut at every place.
#include "text/answer_parser.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace tamis {
namespace {

using Kind = AnswerPiece::Kind;

const char* const kTools = R"([{"type":"function","function":{"name":"get_weather","parameters":{"type":"object",
  "properties":{"city":{"type":"string"},"days":{"type":"integer"}}}}},
  {"type":"function","function":{"name":"python","parameters":{"type":"object","properties":{"code":{"type":"string"}}}}}])";

AnswerParserSetup setup_of(std::string_view template_source, bool has_tools = true) {
  AnswerParserSetup setup{.syntax = find_answer_syntax(template_source)};
  if (has_tools) setup.tools = *Json::parse(kTools);
  return setup;
}

std::vector<AnswerPiece> parse(const AnswerParserSetup& setup, std::string_view text, std::vector<size_t> cuts = {}) {
  AnswerParser parser(setup);
  std::vector<AnswerPiece> out;
  const auto add = [&](std::vector<AnswerPiece> pieces) {
    for (AnswerPiece& piece : pieces) append_piece(out, std::move(piece));
  };
  size_t at = 0;
  for (const size_t cut : cuts) {
    add(parser.push(text.substr(at, cut - at)));
    at = cut;
  }
  add(parser.push(text.substr(at)));
  add(parser.finish());
  return out;
}

// "R(reasoning) T(text) C(name,arguments)": what an answer is made of; C? for a call that broke off.
std::string shown(const std::vector<AnswerPiece>& pieces) {
  std::string out, call;
  for (const AnswerPiece& piece : pieces) {
    switch (piece.kind) {
      case Kind::text: out += "T(" + piece.text + ")"; break;
      case Kind::reasoning: out += "R(" + piece.text + ")"; break;
      case Kind::call_begin: call = piece.text + ","; break;
      case Kind::call_arguments: call += piece.text; break;
      case Kind::call_end: out += (piece.is_whole ? "C(" : "C?(") + call + ")"; break;
    }
  }
  return out;
}

void expect_same_however_cut(const AnswerParserSetup& setup, const std::string& text) {
  const auto whole = parse(setup, text);
  std::vector<size_t> every(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    every[i] = i;
    ASSERT_EQ(parse(setup, text, {i}), whole) << text << " cut at " << i << ": " << shown(parse(setup, text, {i}));
  }
  EXPECT_EQ(parse(setup, text, every), whole) << text << " byte by byte: " << shown(parse(setup, text, every));
}

struct Row {
  const char* template_source;
  std::string answer, expected;
};

const std::string kCall = R"(C(get_weather,{"city": "Zürich", "days": 2}))";
const std::string kArguments = R"({"city": "Zürich", "days": 2})";
const std::string kObject = R"({"name": "get_weather", "arguments": )" + kArguments + "}";
const std::string kObject2 = R"({"name": "python", "arguments": {"code": "1"}})";
const std::string kCall2 = R"(C(python,{"code": "1"}))";

const char* const kHermes = "tools <tool_call> </think>";
const char* const kLlama = "tools {\"name\": function name, \"parameters\": dictionary}";
const char* const kMistral = "tools [TOOL_CALLS] [/THINK]";
const char* const kDeepSeek = "tools <｜tool▁call▁begin｜> </think>";
const char* const kHarmony = "tools <|channel|>";

// What published models write, by their own templates or as they do without.
const std::vector<Row> kRows = {
    {kHermes, "Just text.", "T(Just text.)"},
    {kHermes, "  Just text.\n\n", "T(  Just text.\n\n)"},
    {kHermes, "<tool_call>\n" + kObject + "\n</tool_call>", kCall},
    {kHermes, "I look.\n<tool_call>\n" + kObject + "\n</tool_call>\n<tool_call>\n" + kObject2 + "\n</tool_call>",
     "T(I look.)" + kCall + kCall2},
    {kHermes, "<tool_call>" + kObject + "</tool_call>\n\nThere.", kCall + "T(There.)"},
    {kHermes, "<tool_call>\n" + kObject, kCall},  // the end was a stop string
    {kHermes, R"(<tool_call>{"arguments": {"code": "1"}, "name": "python"}</tool_call>)", kCall2},
    {kHermes, R"(<tool_call>{"name": "python", "arguments": "{\"code\": \"1\"}"}</tool_call>)", kCall2},
    {kHermes, R"(<tool_call>{"name": "python"}</tool_call>)", "C(python,{})"},
    {kHermes, R"(<tool_call>{"name": "python", "arguments": null}</tool_call>)", "C(python,{})"},
    {kHermes, "<tool_call>{\"name\": \"python\", \"arguments\": {\"code\": \"a\n\tb\"}}</tool_call>",
     R"(C(python,{"code": "a\n\tb"}))"},
    {kHermes, R"(<tool_call>{"name": "python", "arguments": {"a": [1, -2.5e3, {"b": "}\"{"}], "c": true}}</tool_call>)",
     R"(C(python,{"a": [1, -2.5e3, {"b": "}\"{"}], "c": true}))"},
    {kHermes, "<think>\nHm.\n</think>\n\nYes.", "R(Hm.)T(Yes.)"},
    {kHermes, "<think>\n\n</think>\n\nYes.", "T(Yes.)"},
    {kHermes, "<think>a\n\nb</think><tool_call>" + kObject + "</tool_call>", "R(a\n\nb)" + kCall},
    {kHermes, "<think>cut", "R(cut)"},
    {kHermes, "A <think> tag and </think> another.", "T(A <think> tag and </think> another.)"},
    {kHermes, "1 < 2, <tool, <tool_cal", "T(1 < 2, <tool, <tool_cal)"},
    // Qwen3-Coder
    {"tools <tool_call> <function=example_function_name>\n<parameter=",
     "<tool_call>\n<function=get_weather>\n<parameter=city>\nZürich\n</parameter>\n<parameter=days>\n2\n</parameter>\n"
     "</function>\n</tool_call>",
     kCall},
    {kHermes,
     "<tool_call>\n<function=python>\n<parameter=code>\nif a < b:\n  print(\"<p>\")\n</parameter>\n</function>",
     R"x(C(python,{"code": "if a < b:\n  print(\"<p>\")"}))x"},
    {kHermes, "<tool_call>\n<function=python>\n</function>\n</tool_call>", "C(python,{})"},
    {kHermes, "<tool_call>\n<function=get_weather>\n<parameter=city>\n3\n</parameter>\n</function>\n</tool_call>",
     R"(C(get_weather,{"city": "3"}))"},  // a string, by its schema
    // GLM, Ling
    {kHermes,
     "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Zürich</arg_value>\n<arg_key>days</arg_key>\n"
     "<arg_value>2</arg_value>\n</tool_call>",
     kCall},
    {kHermes,
     "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Zürich</arg_value><arg_key>days</arg_key>"
     "<arg_value>2</arg_value></tool_call>",
     kCall},
    // Llama 3, and every model that leaves the marks out
    {kLlama, R"({"name": "get_weather", "parameters": )" + kArguments + "}", kCall},
    {kLlama, R"(<|python_tag|>{"name": "get_weather", "parameters": )" + kArguments + "}", kCall},
    {kLlama, R"({"type": "function", "name": "get_weather", "parameters": )" + kArguments + "}", kCall},
    {kLlama, kObject + "; " + kObject2, kCall + kCall2},
    {kLlama, R"({"name": "Alice", "age": 3})", R"(T({"name": "Alice", "age": 3}))"},
    {kLlama, R"({"a": 1})", R"(T({"a": 1}))"},
    {kLlama, R"({"name": "get_weather"})", R"(T({"name": "get_weather"}))"},
    {kLlama, "<|python_tag|>print(1)", "T(<|python_tag|>print(1))"},
    {kHermes, "```json\n" + kObject + "\n```", kCall},
    {kHermes, "```\n" + kObject + "\n```\nDone.", kCall + "T(Done.)"},
    {kHermes, "```json\n{\"a\": 1}\n```", "T(```json\n{\"a\": 1}\n```)"},
    {kHermes, "```python\nx\n```", "T(```python\nx\n```)"},
    // Mistral
    {kMistral, "[TOOL_CALLS][" + kObject + ", " + kObject2 + "]", kCall + kCall2},
    {kMistral, "[TOOL_CALLS] [" + kObject + "]", kCall},
    {kMistral, R"([TOOL_CALLS][{"name": "python", "arguments": {"code": "1"}, "id": "a1b2c3d4e"}])", kCall2},
    {kMistral, "[TOOL_CALLS]get_weather[ARGS]" + kArguments + R"([TOOL_CALLS]python[ARGS]{"code": "1"})",
     kCall + kCall2},
    {kMistral, "[TOOL_CALLS]get_weather[CALL_ID]a1b2c3d4e[ARGS]" + kArguments, kCall},
    {kMistral, "[THINK]Hm.[/THINK]Yes.", "R(Hm.)T(Yes.)"},
    // DeepSeek
    {kDeepSeek,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n" + kArguments +
         "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>python\n```json\n{\"code\": \"1\"}\n```"
         "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     kCall + kCall2},
    {kDeepSeek,
     "Let me see.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>" + kArguments +
         "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "T(Let me see.)" + kCall},
    // gpt-oss
    {kHarmony, "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
     "R(Hm.)T(Yes.)"},
    {kHarmony,
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather "
     "<|constrain|>json<|message|>" +
         kArguments,
     "R(Hm.)" + kCall},
    {kHarmony,
     "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant to=functions.get_weather<|channel|>commentary "
     "json<|message|>" +
         kArguments + "<|call|>",
     "T(I look.)" + kCall},
    {kHarmony, "<|channel|>final<|message|>{\"a\": 1}", R"(T({"a": 1}))"},
    {kHarmony, "No channel at all.", "T(No channel at all.)"},
    // Functionary
    {"tools <function=example_function_name>{\"a\"", "<function=get_weather>" + kArguments + "</function>", kCall},
    {"tools <function=example_function_name>{\"a\"",
     "<function=get_weather>" + kArguments + R"(</function><function=python>{"code": "1"}</function>)", kCall + kCall2},
    {"tools >>>all", "all\nHello.\n>>>get_weather\n" + kArguments, "T(Hello.)" + kCall},
    {"tools >>>all", "get_weather\n" + kArguments + "\n>>>python\n{\"code\": \"1\"}", kCall + kCall2},
    {"tools >>>all", "all\n>>> 1 + 1\n2", "T(>>> 1 + 1\n2)"},
    // others
    {"tools <|tool_call_argument_begin|>",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>" + kArguments +
         "<|tool_call_end|><|tool_calls_section_end|>",
     kCall},
    {"tools <|START_ACTION|> <|END_THINKING|>",
     "<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": "
     "\"get_weather\", \"parameters\": " +
         kArguments + "}\n]<|END_ACTION|>",
     "R(Hm.)" + kCall},
    {"tools <|START_ACTION|> <|END_THINKING|>", "<|START_RESPONSE|>Yes.<|END_RESPONSE|>", "T(Yes.)"},
    {"tools <|tools_prefix|>", R"(<|tools_prefix|>[{"get_weather": )" + kArguments + "}]<|tools_suffix|>", kCall},
    {"tools <TOOLCALL>", "<TOOLCALL>[" + kObject + "]</TOOLCALL>", kCall},
    {"tools <|tool_call|>", "<|tool_call|>[" + kObject + "]", kCall},
    {"tools ｜DSML｜",
     "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" "
     "string=\"true\">Zürich</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">2"
     "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
     kCall},
    // no template speaks of tools
    {"", "<tool_call>\n" + kObject + "\n</tool_call>", kCall},
    // what cannot be read is text
    {kHermes, "<tool_call>\nnot a call\n</tool_call>", "T(<tool_call>\nnot a call\n</tool_call>)"},
    {kHermes, "<tool_call>\n{\"name\": 3}\n</tool_call>", "T(<tool_call>\n{\"name\": 3}\n</tool_call>)"},
    {kHermes, "<tool_call>\n{\"name\": \"f\", \"arguments\": [1]}",
     "T(<tool_call>\n{\"name\": \"f\", \"arguments\": [1]})"},
    {kHermes, "<tool_call>\n{'name': 'f'}", "T(<tool_call>\n{'name': 'f'})"},
    {kHermes, "<tool_call>", "T(<tool_call>)"},
    {kHermes, "<tool_call>\n{\"name\": \"get_weather\", \"argu", "T(<tool_call>\n{\"name\": \"get_weather\", \"argu)"},
    {kHermes, "<tool_call>x<tool_call>" + kObject + "</tool_call>", "T(<tool_call>x)" + kCall},
    // arguments that break off, or turn out to be something else, were told already
    {kHermes, "<tool_call>\n{\"name\": \"python\", \"arguments\": {\"code\": \"1", "C?(python,{\"code\": \"1)"},
    {kHermes, "<tool_call>\n{\"name\": \"python\", \"arguments\": {\"code\": 1 2}} x",
     "C?(python,{\"code\": 1 )T(}} x)"},
};

TEST(AnswerParser, ReadsWhatModelsWrite) {
  for (const Row& row : kRows) {
    const AnswerParserSetup setup = setup_of(row.template_source);
    EXPECT_EQ(shown(parse(setup, row.answer)), row.expected) << setup.syntax.calls->family << ": " << row.answer;
    expect_same_however_cut(setup, row.answer);
  }
}

TEST(AnswerParser, BareJsonIsACallInEveryFamily) {  // as a grammar makes models write it where a call is required
  for (const CallSyntax& row : call_syntaxes()) {
    const AnswerParserSetup setup = setup_of("tools " + std::string(row.template_mark));
    ASSERT_EQ(setup.syntax.calls, &row) << row.family;
    for (const std::string& key : {std::string("arguments"), std::string("parameters")}) {
      const std::string text = R"({"name": "get_weather", ")" + key + "\": " + kArguments + "}";
      EXPECT_EQ(shown(parse(setup, text)), kCall) << row.family;
      expect_same_however_cut(setup, text);
    }
  }
}

TEST(AnswerParser, RandomCutsAndMixesMakeNoDifference) {
  Rng rng(1);
  std::vector<std::string> bits = {"{", "}", "[", "]", "\"", ",", ":", " ", "\n", "a", "\\", "1", "</", "<", "```"};
  for (const Row& row : kRows)
    for (const size_t length : {row.answer.size(), row.answer.size() / 2, row.answer.size() / 3})
      bits.push_back(row.answer.substr(row.answer.size() - length));
  for (const CallSyntax& row : call_syntaxes()) bits.insert(bits.end(), {std::string(row.begin), std::string(row.end)});
  for (int i = 0; i < 4000; ++i) {
    std::string text;
    for (uint64_t n = 1 + rng.next() % 5; n > 0; --n) text += bits[rng.next() % bits.size()];
    AnswerParserSetup setup = setup_of(kRows[rng.next() % kRows.size()].template_source, rng.next() % 8 != 0);
    setup.begins_in_reasoning = rng.next() % 4 == 0;
    setup.separates_reasoning = rng.next() % 4 != 0;
    if (rng.next() % 4 == 0) setup.max_calls = 1;
    std::vector<size_t> cuts, every;
    for (size_t at = 0; at < text.size(); ++at) {
      every.push_back(at);
      if (rng.next() % 6 == 0) cuts.push_back(at);
    }
    const auto whole = parse(setup, text);
    ASSERT_EQ(parse(setup, text, every), whole) << setup.syntax.calls->family << ": " << text << "\n"
                                                << shown(whole) << "\n"
                                                << shown(parse(setup, text, every));
    ASSERT_EQ(parse(setup, text, cuts), whole) << setup.syntax.calls->family << ": " << text;
  }
}

TEST(AnswerParser, WithoutToolsNothingIsACall) {
  const AnswerParserSetup setup = setup_of(kHermes, false);
  for (const std::string& text : {"<tool_call>" + kObject + "</tool_call>", kObject, "```json\n" + kObject + "\n```"})
    EXPECT_EQ(shown(parse(setup, text)), "T(" + text + ")");
}

TEST(AnswerParser, ReasoningCanStayInTheText) {
  AnswerParserSetup setup = setup_of(kHermes);
  setup.separates_reasoning = false;
  EXPECT_EQ(shown(parse(setup, "<think>\na</think>\nb")), "T(<think>\na</think>\nb)");
}

TEST(AnswerParser, APromptMayEndInsideReasoning) {
  AnswerParserSetup setup = setup_of(kHermes);
  setup.begins_in_reasoning = true;
  for (const char* const text : {"Hm.\n</think>\n\nYes.", "\nHm.</think>Yes.", "<think>\nHm.</think>Yes."}) {
    EXPECT_EQ(shown(parse(setup, text)), "R(Hm.)T(Yes.)") << text;
    expect_same_however_cut(setup, text);
  }
}

TEST(AnswerParser, SaysThingsAsSoonAsTheyAreCertain) {
  const AnswerParserSetup setup = setup_of(kHermes);
  AnswerParser parser(setup);
  EXPECT_EQ(shown(parser.push("1 <")), "T(1)");
  EXPECT_EQ(shown(parser.push("2")), "T( <2)");
  EXPECT_TRUE(parser.push("<tool_call>{\"name\": \"python\", ").empty());
  const auto begun = parser.push("\"arguments\": {\"co");
  ASSERT_EQ(begun.size(), 2U);
  EXPECT_EQ(begun[0], (AnswerPiece{Kind::call_begin, "python", 0, true}));
  EXPECT_EQ(begun[1], (AnswerPiece{Kind::call_arguments, "{\"co", 0, true}));
  EXPECT_EQ(parser.push("de"), (std::vector<AnswerPiece>{{Kind::call_arguments, "de", 0, true}}));
}

TEST(AnswerParser, OneCallCanBeEnough) {
  AnswerParserSetup setup = setup_of(kHermes);
  setup.max_calls = 1;
  EXPECT_EQ(shown(parse(setup, "<tool_call>" + kObject + "</tool_call><tool_call>" + kObject2 + "</tool_call> x")),
            kCall);
}

TEST(AnswerParser, ALongAnswerCostsNoMoreThanItsLength) {
  const AnswerParserSetup setup = setup_of(kHermes);
  const std::string many(200000, ' '), name(200000, 'n');
  const std::string value(4000000, 'n');  // were it searched from its beginning for each byte, no time limit would do
  for (const std::string& text :
       {many, "<tool_call>" + many, "<tool_call>" + name, "<tool_call><function=python><parameter=code>" + value,
        "<tool_call>{\"arguments\": {\"code\": \"" + name + "\"}, \"name\": \"python\"}", "<think>" + many + name,
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>" + value}) {
    AnswerParser parser(setup);
    size_t n = 0;
    for (const char byte : text) n += parser.push(std::string_view(&byte, 1)).size();
    n += parser.finish().size();
    EXPECT_GT(n, 0U);
  }
}

TEST(AnswerSyntax, IsFoundInTemplates) {
  EXPECT_EQ(find_answer_syntax("").calls->family, "generic");
  EXPECT_EQ(find_answer_syntax("").offers_tools, false);
  EXPECT_EQ(find_answer_syntax("").reasoning.begin, "<think>");
  EXPECT_EQ(find_answer_syntax(kHermes).calls->family, "tagged");
  EXPECT_EQ(find_answer_syntax(kLlama).calls->family, "llama-3");
  EXPECT_EQ(find_answer_syntax(kMistral).reasoning.end, "[/THINK]");
  EXPECT_EQ(find_answer_syntax(kHarmony).forced_end(), "<|end|><|start|>assistant<|channel|>final<|message|>");
}

}  // namespace
}  // namespace tamis
