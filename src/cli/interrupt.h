// Ctrl-C and friends. A verb that can stop cleanly asks for the flag and polls it; the first SIGINT or SIGTERM then
// only sets the flag, the second ends the program at once (130). Verbs that never ask are ended by the first.
#pragma once

#include <atomic>

namespace tamis::cli {

// Installs the handlers for SIGINT and SIGTERM and ignores SIGPIPE (a closed pipe is an error of the write instead).
void install_signal_handlers();

// The stop flag. Asking for it is a promise to poll it from now on, to stop soon after it turns true, and to return
// ErrorCode::cancelled (exit 130) unless what was done so far is a complete result.
const std::atomic<bool>& stop_flag();

// From now on SIGHUP sets this flag instead of ending the program. Asking for it is a promise to poll and clear it.
std::atomic<bool>& hangup_flag();

// Makes the flag false again: a chat goes on after a stopped answer.
void clear_stop_flag();

// 128 + the number of the signal that set the flag; 0 when none did.
int interrupted_exit_code();

}  // namespace tamis::cli
