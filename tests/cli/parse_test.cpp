// The argument parser against a small table, and the soundness of every verb's own.
#include "cli/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tamis::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<int> nothing(const Args&) { return 0; }

Verb test_verb() {
  return {.name = "try",
          .summary = "",
          .details = "",
          .positionals = {{.name = "FILE", .help = ""},
                          {.name = "REST", .help = "", .is_required = false, .is_repeatable = true}},
          .options =
              {{.names = "-n,--number",
                .kind = OptionKind::integer,
                .value_name = "N",
                .help = "",
                .default_text = "7",
                .minimum = -1},
               {.names = "-ngl,--n-gpu-layers", .kind = OptionKind::integer, .value_name = "N", .help = ""},
               {.names = "--temp", .kind = OptionKind::real, .value_name = "T", .help = "", .minimum = 0, .maximum = 2},
               {.names = "-p", .kind = OptionKind::text, .value_name = "TEXT", .help = ""},
               {.names = "--bias", .kind = OptionKind::text, .value_name = "B", .help = "", .is_repeatable = true},
               {.names = "--kv", .kind = OptionKind::text, .value_name = "KEY", .help = "", .is_value_optional = true},
               {.names = "--force", .help = ""}},
          .run = nothing};
}

Result<Args> parse(const Verb& verb, std::vector<std::string> words) { return parse_args(verb, words); }

TEST(Parse, NamesWithOneDashAndSeveralLettersAreOneOption) {
  const Verb verb = test_verb();
  const auto args = parse(verb, {"-ngl", "99", "-n", "3", "f"});
  ASSERT_TRUE(args);
  EXPECT_EQ(args->integer("-ngl"), 99);
  EXPECT_EQ(args->integer("--n-gpu-layers"), 99);
  EXPECT_EQ(args->integer("--number"), 3);
}

TEST(Parse, ValuesStayAsTyped) {
  const Verb verb = test_verb();
  for (const std::string text : {"[a, b]", "-x", "--force", "--", "", "a=b", "-1", "\xff\xfe"}) {
    const auto spaced = parse(verb, {"f", "-p", text});
    ASSERT_TRUE(spaced) << text;
    EXPECT_EQ(spaced->text("-p"), text);
    const auto joined = parse(verb, {"f", "-p=" + text});
    ASSERT_TRUE(joined) << text;
    EXPECT_EQ(joined->text("-p"), text);
  }
}

TEST(Parse, DefaultsDoNotCountAsGiven) {
  const Verb verb = test_verb();
  const auto args = parse(verb, {"f"});
  ASSERT_TRUE(args);
  EXPECT_FALSE(args->has("-n"));
  EXPECT_EQ(args->integer("-n"), 7);
  EXPECT_EQ(args->text("-p"), "");
  EXPECT_FALSE(args->flag("--force"));
}

TEST(Parse, NegativeNumbersAndDashAreWords) {
  const Verb verb = test_verb();
  const auto args = parse(verb, {"-", "-1", "-2.5e3", "--number", "-1"});
  ASSERT_TRUE(args);
  EXPECT_EQ(args->text("FILE"), "-");
  EXPECT_THAT(args->texts("REST"), ElementsAre("-1", "-2.5e3"));
  EXPECT_EQ(args->integer("-n"), -1);
}

TEST(Parse, TwoDashesEndTheOptions) {
  const Verb verb = test_verb();
  const auto args = parse(verb, {"f", "--", "--force", "--", "-n"});
  ASSERT_TRUE(args);
  EXPECT_FALSE(args->flag("--force"));
  EXPECT_THAT(args->texts("REST"), ElementsAre("--force", "--", "-n"));
}

TEST(Parse, OnlyRepeatableOptionsRepeat) {
  const Verb verb = test_verb();
  const auto args = parse(verb, {"f", "--bias", "1", "--bias=2"});
  ASSERT_TRUE(args);
  EXPECT_THAT(args->texts("--bias"), ElementsAre("1", "2"));
  EXPECT_FALSE(parse(verb, {"f", "-n", "1", "--number", "2"}));
}

TEST(Parse, OptionalValuesLeaveRequiredPositionalsAlone) {
  const Verb verb = test_verb();
  auto key_and_file = [&](std::vector<std::string> words) {
    const auto args = parse(verb, std::move(words));
    return args ? args->text("--kv") + "|" + args->text("FILE") : args.error().message;
  };
  EXPECT_EQ(key_and_file({"--kv", "f"}), "|f");
  EXPECT_EQ(key_and_file({"f", "--kv", "key"}), "key|f");
  EXPECT_EQ(key_and_file({"--kv", "key", "f"}), "key|f");
  EXPECT_EQ(key_and_file({"--kv", "f", "-n", "3"}), "|f");
  EXPECT_EQ(key_and_file({"f", "--kv", "--force"}), "|f");
  EXPECT_EQ(key_and_file({"f", "--kv"}), "|f");
}

TEST(Parse, NumbersAreWholeFiniteAndInRange) {
  const Verb verb = test_verb();
  for (const char* bad : {"", "x", "1x", "1.5", " 1", "0x10", "9223372036854775808", "-2", "1e3"})
    EXPECT_FALSE(parse(verb, {"f", "-n", bad})) << bad;
  for (const char* bad : {"", "nan", "inf", "-inf", "2.1", "-0.1", "1e999", "1,5"})
    EXPECT_FALSE(parse(verb, {"f", "--temp", bad})) << bad;
  for (const char* good : {"0", "2", "1e-3", "+1"}) EXPECT_TRUE(parse(verb, {"f", "--temp", good})) << good;
  EXPECT_EQ(parse(verb, {"f", "-n", "-2"}).error().message, "try: -n: got -2, expected at least -1");
  EXPECT_EQ(parse(verb, {"f", "--temp", "3"}).error().message, "try: --temp: got 3, expected 0 to 2");
}

TEST(Parse, ErrorsAreUsageErrorsWithASuggestion) {
  const Verb verb = test_verb();
  const auto args = parse(verb, {"f", "--tepm", "1"});
  ASSERT_FALSE(args);
  EXPECT_EQ(args.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(args.error().message, HasSubstr("did you mean --temp?"));
  EXPECT_THAT(parse(verb, {}).error().message, HasSubstr("FILE is missing"));
  EXPECT_THAT(parse(verb, {"f", "-n"}).error().message, HasSubstr("-n needs a value: N"));
}

TEST(Parse, NearestNeedsLikeness) {
  EXPECT_EQ(nearest("inspcet", {"inspect", "run"}), "inspect");
  EXPECT_EQ(nearest("x", {"run", "ls"}), "");
  EXPECT_EQ(nearest("rm", {"run", "rm"}), "rm");
  EXPECT_EQ(nearest(std::string(100000, 'a'), {"run"}), "");
}

TEST(Verbs, TablesAreSound) {
  for (const Verb& verb : all_verbs()) {
    std::vector<std::string_view> names;
    for (const OptionSpec& option : verb.options) {
      for (std::string_view name : option_names(option)) {
        EXPECT_TRUE(name.starts_with('-') && name.size() >= 2) << verb.name << " " << name;
        EXPECT_EQ(std::count(names.begin(), names.end(), name), 0) << verb.name << " names twice: " << name;
        names.push_back(name);
      }
      EXPECT_EQ(option.value_name.empty(), option.kind == OptionKind::flag) << verb.name << " " << option.names;
      EXPECT_FALSE(option.help.empty()) << verb.name << " " << option.names;
    }
    for (size_t i = 0; i < verb.positionals.size(); ++i) {
      const bool is_last = i + 1 == verb.positionals.size();
      EXPECT_TRUE(is_last || !verb.positionals[i].is_repeatable) << verb.name;
      EXPECT_TRUE(is_last || verb.positionals[i].is_required || !verb.positionals[i + 1].is_required) << verb.name;
    }
    EXPECT_FALSE(verb.summary.empty());
    EXPECT_FALSE(verb.summary.ends_with('.')) << verb.name;
  }
  EXPECT_TRUE(std::is_sorted(all_verbs().begin(), all_verbs().end(),
                             [](const Verb& a, const Verb& b) { return a.name < b.name; }));
}

}  // namespace
}  // namespace tamis::cli
