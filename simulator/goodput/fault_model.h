// Computes in closed form how much of its time a job trains if it is interrupted again and again.
//
// Between two checkpoints the job trains for `interval` seconds. Interruptions come at random with a constant rate
// (exponentially distributed times, mean M). After one, the job starts again, which takes `restart_seconds`, and
// repeats what it did since the last checkpoint. Interruptions may also come while it saves and while it starts again.
// Then the mean time from one checkpoint to the next is
//
//   M e^((restart + write) / M) (e^((interval + stop) / M) - 1)
//
// Source: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
// Computer Systems 22 (2006), eq. 13, which is this with write = 0. The factor e^(write / M) is for checkpoints that
// are written while the job trains on: an interruption before the end of the write loses one interval more.
//
// With few spare nodes a job also waits until a failed node is repaired. It then waits for the share B(s + 1, repair /
// M) of its time, with Erlang's loss formula B: the job stands still while s + 1 nodes are under repair, and a job that
// stands still is not interrupted. B depends on the mean time of a repair only, not on how repair times are
// distributed.
#ifndef WEFT_SIMULATOR_GOODPUT_FAULT_MODEL_H_
#define WEFT_SIMULATOR_GOODPUT_FAULT_MODEL_H_

#include <cstdint>
#include <limits>

namespace weft::sim {

struct FaultModel {
  // Mean time between two interruptions of the job while it does not wait for a repair; greater than 0.
  double seconds_between_failures = 0;
  // From an interruption until the job trains again, including the time to read the checkpoint.
  double restart_seconds = 0;
  // How long training stops for a checkpoint, and how long after that the checkpoint is whole.
  double stop_seconds = 0;
  double write_seconds = 0;
  // Number of spare nodes, which replace failed nodes immediately, and how long a failed node is away.
  int64_t spare_nodes = std::numeric_limits<int64_t>::max();
  double repair_seconds = 0;
};

// Shares of the time of a long run; they add up to 1.
struct TimeShares {
  // Training that counts: no interruption makes the job repeat it.
  double useful = 0;
  // Stops for checkpoints that the job does not repeat either.
  double saving = 0;
  // Training and stops between the last checkpoint and an interruption, which the job repeats.
  double repeated = 0;
  double restarting = 0;
  double waiting = 0;
};

// `interval_seconds` is the training time between two checkpoints. A checkpoint begins after the one before is written,
// so interval + stop must be at least write_seconds. `useful` is 0 if the time until a checkpoint succeeds is too long
// for a double.
TimeShares SharesOfTime(const FaultModel& model, double interval_seconds);

// Returns the number of steps between two checkpoints for which the most time is useful; at least 1. Of equally good
// numbers it returns the smallest.
int64_t BestStepsBetweenCheckpoints(const FaultModel& model, double step_seconds);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_GOODPUT_FAULT_MODEL_H_
