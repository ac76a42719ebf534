// Signal handlers: only lock-free atomics are touched inside.
#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

namespace tamis::cli {
namespace {

std::atomic<bool> g_stop{false};
std::atomic<bool> g_is_polled{false};
std::atomic<int> g_signal{0};
std::atomic<bool> g_hangup{false};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void on_signal(int number) {
  if (!g_is_polled || g_stop.exchange(true)) ::_exit(128 + number);
  g_signal = number;
}

void on_hangup(int) { g_hangup = true; }

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

const std::atomic<bool>& stop_flag() {
  g_is_polled = true;
  return g_stop;
}

std::atomic<bool>& hangup_flag() {
  struct sigaction action {};
  action.sa_handler = on_hangup;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGHUP, &action, nullptr);
  return g_hangup;
}

void clear_stop_flag() {
  g_stop = false;
  g_signal = 0;
}

int interrupted_exit_code() {
  const int number = g_signal;
  return number == 0 ? 0 : 128 + number;
}

}  // namespace tamis::cli
