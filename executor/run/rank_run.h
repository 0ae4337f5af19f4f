// One rank of a training run: its memory, its steps, evaluation, checkpoints, and its output at the end. Internal to
// run.cc.
#ifndef WEFT_EXECUTOR_RUN_RANK_RUN_H_
#define WEFT_EXECUTOR_RUN_RANK_RUN_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "executor/checkpoint/checkpoint.h"
#include "executor/interface/backend.h"
#include "executor/interface/compute_slots.h"
#include "executor/interface/device.h"
#include "executor/interface/transport.h"
#include "executor/interpreter/deadlines.h"
#include "executor/interpreter/flight_recorder.h"
#include "executor/interpreter/interpreter.h"
#include "executor/program/arena.h"
#include "executor/run/job_agreement.h"
#include "executor/run/run.h"
#include "executor/state/safetensors.h"
#include "executor/state/state.h"
#include "proto/program.pb.h"

namespace weft::exec {

inline int64_t StepsPerRepetition(const Program& program) { return std::max(1, program.steps_per_repetition()); }

// The objects that the ranks of this process share.
struct SharedByRanks {
  SharedByRanks(const Program& program, const DataSource& data, const RunOptions& options)
      : program(program), data(data), options(options) {}

  const Program& program;
  const DataSource& data;
  const RunOptions& options;
  const CheckpointManifest* manifest = nullptr;
  std::string resumed_from;
  const SafetensorsReader* weights = nullptr;
  ComputeSlots* slots = nullptr;
  const BackendEntry* backend = nullptr;
  ComputeDevice* device = nullptr;
  int64_t last_step = 0;
};

class RankRun {
 public:
  RankRun(const SharedByRanks& shared, Endpoint* endpoint, FlightRecorder* flight, Deadlines* deadlines)
      : shared_(shared), endpoint_(*endpoint), flight_(flight), deadlines_(deadlines) {}

  // Does everything that may be refused or run out of memory, before any step runs.
  absl::Status Prepare();

  absl::Status Run(int64_t epoch_ns);

  RunResult TakeResult() { return std::move(result_); }
  absl::Status& status() { return status_; }

 private:
  // Facts that must be equal on all ranks.
  JobFacts Facts() const;

  // Gives the epoch of rank 0's process to all ranks.
  absl::Status ShareEpoch(int64_t* epoch_ns);

  absl::Status Train();

  // Called on rank 0.
  void RecordStep(const StepResult& result);

  absl::Status Evaluate();

  // Collects the output of the ranks at the end: trace and weights.
  absl::Status Finish();

  // Rank 0 receives every logical tensor from its holders, piece by piece.
  absl::Status CollectWeights();

  const SharedByRanks& shared_;
  Endpoint& endpoint_;
  FlightRecorder* const flight_;
  Deadlines* const deadlines_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<RankState> state_;
  std::unique_ptr<Interpreter> interpreter_;
  // Runs the evaluation program, on the same memory; null without evaluation.
  std::unique_ptr<Interpreter> evaluator_;
  int64_t last_end_ns_ = 0;
  double step_seconds_ = 0;
  RunResult result_;
  absl::Status status_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_RUN_RANK_RUN_H_
