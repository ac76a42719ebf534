// Progress lines as text.
#include "base/progress.h"

#include <gtest/gtest.h>

namespace tamis {
namespace {

TEST(Progress, AmountsHaveThreeSignificantDigits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1000), "1.00 kB");
  EXPECT_EQ(human_bytes(98362432), "98.4 MB");
  EXPECT_EQ(human_bytes(999949999), "1.00 GB");  // rounds up into the next unit rather than to 1000 MB
  EXPECT_EQ(human_count(134515008), "135M");
  EXPECT_EQ(human_count(1543714304), "1.54B");
}

TEST(Progress, TextStatesPercentRateAndTimeLeft) {
  EXPECT_EQ(progress_text("pull", ProgressUnit::bytes, 250000000, 1000000000, 10, 0),
            "pull   25%  250 MB of 1.00 GB  25.0 MB/s  0:30 left");
  EXPECT_EQ(progress_text("score", ProgressUnit::tokens, 4096, 0, 2, 0), "score  4.10k tokens  2.05k tok/s");
}

TEST(Progress, TextNeverDividesByNothing) {
  EXPECT_EQ(progress_text("x", ProgressUnit::items, 0, 5, 0, 0), "x    0%  0 of 5  0/s  -:-- left");
  EXPECT_EQ(progress_text("x", ProgressUnit::items, 9, 5, 1, 0), "x  100%  9 of 5  9/s  -:-- left");
}

TEST(Progress, BarOnlyWhereItFits) {
  EXPECT_NE(progress_text("x", ProgressUnit::items, 1, 2, 1, 100).find("████████████"), std::string::npos);
  EXPECT_EQ(progress_text("x", ProgressUnit::items, 1, 2, 1, 40).find("█"), std::string::npos);
}

}  // namespace
}  // namespace tamis
