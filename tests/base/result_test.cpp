// Errors as values: propagation, printing, exit codes; checked arithmetic.
#include "base/result.h"

#include <gtest/gtest.h>

#include "base/checked.h"

namespace tamis {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return fail(ErrorCode::invalid_argument, "{} is odd", value);
  return value / 2;
}

Result<int> quarter(int value) {
  TAMIS_TRY(const int once, half(value));
  return half(once);
}

TEST(Result, TryHandsTheErrorUp) {
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(6).error().message, "3 is odd");
}

TEST(Error, OneLineNamesFileByteSubjectGotExpectedAndTag) {
  ErrorSite site;
  site.byte_offset = 420;
  site.has_offset = true;
  site.section = "kv";
  site.index = 5;
  site.subject = "llama.attention.head_count";
  site.got = "3";
  site.expected = "a divisor of embedding_length 32";
  site.tag = "E_HPARAM_RANGE";
  const Error error = with_file(fail_at(ErrorCode::format, site).value(), "m.gguf");
  EXPECT_EQ(
      error.to_string(),
      "m.gguf: byte 420 (0x1a4): KV 5 \"llama.attention.head_count\": got 3, expected a divisor of embedding_length 32 "
      "[E_HPARAM_RANGE]");
  EXPECT_EQ(Error({ErrorCode::cancelled, "stopped", nullptr}).to_string(), "stopped [cancelled]");
}

TEST(Error, ExitCodesFollowTheContract) {
  EXPECT_EQ(exit_code(ErrorCode::io), 1);
  EXPECT_EQ(exit_code(ErrorCode::invalid_argument), 2);
  EXPECT_EQ(exit_code(ErrorCode::format), 3);
  EXPECT_EQ(exit_code(ErrorCode::unsupported), 3);
  EXPECT_EQ(exit_code(ErrorCode::out_of_memory), 4);
  EXPECT_EQ(exit_code(ErrorCode::network), 5);
  EXPECT_EQ(exit_code(ErrorCode::check_failed), 6);
  EXPECT_EQ(exit_code(ErrorCode::cancelled), 130);
}

TEST(EscapeForDisplay, ShowsControlAndIllFormedBytesAndCuts) {
  EXPECT_EQ(escape_for_display(std::string_view("a\0b\n\x1b[31m\xff é", 13)), "a\\x00b\\x0a\\x1b[31m\\xff é");
  EXPECT_EQ(escape_for_display(std::string(100, 'x'), 3), "xxx…");
}

TEST(Checked, FindsEveryWrap) {
  const uint64_t max = UINT64_MAX;
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(checked_mul(max, 1), max);
  EXPECT_EQ(checked_add(max, 1), std::nullopt);
  EXPECT_EQ(checked_pad(max - 3, 32), std::nullopt);
  EXPECT_EQ(checked_pad(33, 32), 64u);
  EXPECT_EQ(checked_pad(0, 32), 0u);
  EXPECT_EQ(checked_cast<int32_t>(uint64_t{1} << 31), std::nullopt);
  EXPECT_EQ(checked_cast<uint32_t>(int64_t{-1}), std::nullopt);
  EXPECT_EQ(checked_cast<uint8_t>(255), uint8_t{255});
}

}  // namespace
}  // namespace tamis
