#include "cli/run/stop_signals.h"

#include <signal.h>
#include <unistd.h>

#include "executor/platform/folder_lock.h"

namespace weft {

std::atomic<bool> stop_requested{false};
std::atomic<bool> announces_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free);

namespace {

std::atomic<bool> was_caught[NSIG];

void OnSignal(int number) {
  if (was_caught[number].exchange(true, std::memory_order_relaxed)) {
    exec::RemoveUnusedFolders();
    // The raised signal is delivered after this handler returns, and then ends the process.
    ::signal(number, SIG_DFL);
    raise(number);
    return;
  }
  const bool again = stop_requested.exchange(true, std::memory_order_relaxed);
  if (again || !announces_stop.load(std::memory_order_relaxed)) return;
  constexpr char kText[] = "weft run: stopping after the step in progress; the same signal again stops at once\n";
  // Ignore errors: nothing can be done if nobody reads stderr.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText, sizeof kText - 1);
}

}  // namespace

void CatchStopSignals() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
    struct sigaction before = {};
    sigaction(number, nullptr, &before);
    // If SIGHUP was ignored before (nohup), leave it so: it must not end this process.
    if (number != SIGHUP || before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
  // A failed write then returns an error, which the run reports.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace weft
