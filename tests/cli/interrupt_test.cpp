// What Ctrl-C does, in child processes.
#include "cli/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>

namespace tamis::cli {
namespace {

using testing::ExitedWithCode;

TEST(InterruptDeathTest, FirstSignalEndsAVerbThatDoesNotPoll) {
  EXPECT_EXIT((install_signal_handlers(), raise(SIGINT), std::exit(0)), ExitedWithCode(130), "");
  EXPECT_EXIT((install_signal_handlers(), raise(SIGTERM), std::exit(0)), ExitedWithCode(143), "");
}

TEST(InterruptDeathTest, FirstSignalSetsTheFlagOfAVerbThatPolls) {
  EXPECT_EXIT(
      {
        install_signal_handlers();
        const auto& stop = stop_flag();
        const bool before = stop;
        raise(SIGINT);
        std::exit(!before && stop && interrupted_exit_code() == 130 ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

TEST(InterruptDeathTest, SecondSignalEndsAtOnce) {
  EXPECT_EXIT((install_signal_handlers(), stop_flag(), raise(SIGINT), raise(SIGINT), std::exit(0)), ExitedWithCode(130),
              "");
}

TEST(InterruptDeathTest, AClearedFlagCountsFromTheStart) {
  EXPECT_EXIT((install_signal_handlers(), stop_flag(), raise(SIGINT), clear_stop_flag(), raise(SIGINT),
               std::exit(stop_flag() ? 0 : 1)),
              ExitedWithCode(0), "");
}

TEST(InterruptDeathTest, AClosedPipeIsAnErrorNotADeath) {
  EXPECT_EXIT((install_signal_handlers(), raise(SIGPIPE), std::exit(7)), ExitedWithCode(7), "");
}

}  // namespace
}  // namespace tamis::cli
