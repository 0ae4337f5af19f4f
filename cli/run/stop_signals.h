// Signals that ask a run to stop: the first one lets the step in progress end and the state be saved, the same again
// ends the process.
#ifndef WEFT_CLI_RUN_STOP_SIGNALS_H_
#define WEFT_CLI_RUN_STOP_SIGNALS_H_

#include <atomic>

namespace weft {

// Set by SIGTERM, SIGINT, SIGHUP and SIGUSR1 (for launchers that pass on only that), each of them caught once: a second
// one of the same number ends the process by it at once, and folders that were made for checkpoints and hold nothing
// go.
extern std::atomic<bool> stop_requested;

// Of a job whose ranks have met one process says on standard error that it stops.
extern std::atomic<bool> announces_stop;

// From now on. SIGHUP stays ignored where it was (nohup, say), and SIGPIPE is ignored: where nobody reads the steps any
// more writing fails, and the run saves and ends.
void CatchStopSignals();

}  // namespace weft

#endif  // WEFT_CLI_RUN_STOP_SIGNALS_H_
