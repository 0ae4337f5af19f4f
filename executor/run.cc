#include "executor/run.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "executor/arena_size.h"
#include "executor/backend.h"
#include "executor/bootstrap.h"
#include "executor/channels.h"
#include "executor/compute_slots.h"
#include "executor/control.h"
#include "executor/fault_guard.h"
#include "executor/replica_check.h"
#include "executor/safetensors.h"
#include "executor/trace_align.h"
#include "executor/transport.h"
#include "executor/transports/staged.h"
#include "executor/weights.h"
#include "proto/mesh.h"
#include "proto/program_file.h"
#include "proto/status.h"
#include "proto/units.h"
#include "proto/verify/verify.h"
#include "schedules/collective/plan.h"

namespace weft {
namespace {

constexpr char kElsewhere[] = "weft/reported_elsewhere";
constexpr char kInRun[] = "weft/failed_in_run";
constexpr int kMostThreads = 256;
constexpr int64_t kMostStepsAtOnce = 10000;
// About 1 GiB.
constexpr int64_t kMostTraceSteps = int64_t{1} << 24;

int64_t StepsPerRepetition(const Program& program) { return std::max(1, program.steps_per_repetition()); }

// What the ranks of this process share.
struct Shared {
  Shared(const Program& program, const DataSource& data, const RunOptions& options)
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
  PredictedTimes predicted;
};

class RankRun {
 public:
  RankRun(const Shared& shared, Endpoint* endpoint, FlightRecorder* flight, Deadlines* deadlines)
      : shared_(shared), endpoint_(*endpoint), flight_(flight), deadlines_(deadlines) {}

  // Everything that may be refused or run out of memory, before any step runs.
  absl::Status Prepare() {
    const Program& program = shared_.program;
    const ArenaSize size = ArenaOf(program, endpoint_.rank(), shared_.options.eval_data != nullptr);
    WEFT_ASSIGN_OR_RETURN(arena_, Arena::Allocate(shared_.device, size.device, size.host));
    WEFT_ASSIGN_OR_RETURN(backend_, shared_.backend->make(shared_.device, {.threads = shared_.options.threads_per_rank,
                                                                           .program = &program,
                                                                           .rank = endpoint_.rank()}));
    state_ = std::make_unique<RankState>(program, endpoint_.rank(), arena_.get());
    if (shared_.manifest != nullptr) {
      WEFT_RETURN_IF_ERROR(LoadCheckpoint(shared_.resumed_from, *shared_.manifest, program, state_.get()));
    } else {
      WEFT_RETURN_IF_ERROR(state_->Initialize());
      if (shared_.weights != nullptr) WEFT_RETURN_IF_ERROR(LoadWeights(*shared_.weights, program, state_.get()));
    }
    return absl::OkStatus();
  }

  absl::Status Run(int64_t epoch_ns) {
    const RunOptions& options = shared_.options;
    InterpreterOptions interpreter;
    interpreter.data = &shared_.data;
    interpreter.slots = shared_.slots;
    interpreter.timeout = options.timeout;
    interpreter.flight = flight_;
    interpreter.deadlines = deadlines_;
    interpreter.stop = options.stop;
    interpreter.trace_repetitions = options.trace_repetitions;
    interpreter.failure = options.failure;
    if (endpoint_.rank() == 0) interpreter.on_step = [this](const StepResult& r) { RecordStep(r); };
    // A clock of another host says nothing here: then the run starts when this rank does.
    WEFT_RETURN_IF_ERROR(Barrier(endpoint_, options.timeout));
    const int64_t now = MonotonicNanoseconds();
    WEFT_RETURN_IF_ERROR(ShareEpoch(&epoch_ns));
    interpreter.trace_epoch_ns = now - epoch_ns > int64_t{10} * 1000 * 1000 * 1000 || epoch_ns > now ? now : epoch_ns;
    WEFT_ASSIGN_OR_RETURN(interpreter_,
                          Interpreter::Create(shared_.program, &endpoint_, backend_.get(), arena_.get(), interpreter));
    if (options.eval_data != nullptr) {
      InterpreterOptions evaluation = interpreter;
      evaluation.data = options.eval_data;
      evaluation.stop = nullptr;
      evaluation.trace_repetitions = 0;
      evaluation.failure.reset();
      // Of another program.
      evaluation.flight = nullptr;
      evaluation.deadlines = nullptr;
      evaluation.on_step = nullptr;
      WEFT_ASSIGN_OR_RETURN(evaluator_, Interpreter::Create(shared_.program.evaluation(), &endpoint_, backend_.get(),
                                                            arena_.get(), evaluation));
      WEFT_RETURN_IF_ERROR(evaluator_->RunPrologue());
    }
    WEFT_RETURN_IF_ERROR(Train());
    return Finish();
  }

  RunResult TakeResult() { return std::move(result_); }
  absl::Status& status() { return status_; }

 private:
  // All ranks of a host take the clock of rank 0's process.
  absl::Status ShareEpoch(int64_t* epoch_ns) {
    if (endpoint_.rank() != 0) return RecvNow(endpoint_, 0, epoch_ns, sizeof(*epoch_ns), shared_.options.timeout);
    for (int rank = 1; rank < endpoint_.size(); ++rank) {
      WEFT_RETURN_IF_ERROR(SendNow(endpoint_, rank, epoch_ns, sizeof(*epoch_ns), shared_.options.timeout));
    }
    return absl::OkStatus();
  }

  absl::Status Train() {
    const RunOptions& options = shared_.options;
    const bool saves = !options.checkpoint.directory.empty();
    const int64_t steps_per_repetition = StepsPerRepetition(shared_.program);
    int64_t step = shared_.manifest != nullptr ? shared_.manifest->step() : 0;
    int64_t saved = shared_.manifest != nullptr ? step : -1;
    result_.first_step = step;
    WEFT_RETURN_IF_ERROR(interpreter_->RunPrologue(step));
    last_end_ns_ = MonotonicNanoseconds();
    while (step < shared_.last_step && !result_.stopped) {
      // What is kept per step is set aside at once: not for more steps than a run takes in an hour or so.
      int64_t next = std::min(shared_.last_step, step + kMostStepsAtOnce * steps_per_repetition);
      if (options.eval_data != nullptr) next = std::min(next, NextMultiple(step, options.eval_every));
      if (saves) next = std::min(next, NextMultiple(step, options.checkpoint_every));
      next = std::min(next, NextMultiple(step, options.check_replicas));
      WEFT_ASSIGN_OR_RETURN(const int64_t ran, interpreter_->RunBody(step, (next - step) / steps_per_repetition));
      step += ran * steps_per_repetition;
      // Rule P15: what follows reads the weights.
      if (shared_.program.post_validation()) WEFT_RETURN_IF_ERROR(interpreter_->RunEpilogue(step));
      if (options.check_replicas > 0 && step % options.check_replicas == 0) {
        const bool flip = options.failure.has_value() && options.failure->flip && step >= options.failure->repetition;
        if (flip && options.failure->rank == endpoint_.rank()) {
          WEFT_RETURN_IF_ERROR(FlipWeightBit(shared_.program, endpoint_.rank(), *arena_));
        }
        WEFT_RETURN_IF_ERROR(CheckReplicas(shared_.program, step, *arena_, endpoint_, options.timeout));
      }
      result_.stopped = step < next;
      if (step == next && step < shared_.last_step && options.stop != nullptr) {
        WEFT_ASSIGN_OR_RETURN(result_.stopped, interpreter_->AgreeToStop());
      }
      if (options.eval_data != nullptr && options.eval_every > 0 && step % options.eval_every == 0) {
        WEFT_RETURN_IF_ERROR(Evaluate());
      }
      const bool due = options.checkpoint_every > 0 && step % options.checkpoint_every == 0;
      if (saves && (due || step == shared_.last_step || result_.stopped) && saved != step) {
        const int64_t start = MonotonicNanoseconds();
        CheckpointOptions checkpoint = options.checkpoint;
        checkpoint.data = shared_.data.identity();
        WEFT_RETURN_IF_ERROR(SaveCheckpoint(checkpoint, shared_.program, step, *state_, endpoint_));
        saved = step;
        result_.checkpoint_seconds += 1e-9 * (MonotonicNanoseconds() - start);
      }
      // Steps are timed from here: what happened since the last one was none of theirs.
      last_end_ns_ = MonotonicNanoseconds();
    }
    result_.last_step = step;
    if (!shared_.program.post_validation()) WEFT_RETURN_IF_ERROR(interpreter_->RunEpilogue());
    return evaluator_ != nullptr ? evaluator_->RunEpilogue() : absl::OkStatus();
  }

  static int64_t NextMultiple(int64_t step, int64_t every) {
    return every <= 0 || step > INT64_MAX - every ? INT64_MAX : (step / every + 1) * every;
  }

  // On rank 0.
  void RecordStep(const StepResult& result) {
    RunStep* step = result_.report.add_steps();
    step->set_step(result.step);
    step->set_loss(result.loss);
    step->set_learning_rate(result.learning_rate);
    step->set_grad_norm(result.norm);
    if (result.loss_scale > 0) step->set_loss_scale(result.loss_scale);
    step->set_skipped(result.skipped);
    step->set_tokens(shared_.program.recipe().global_batch_sequences() * shared_.program.recipe().sequence_length());
    // Steps of one repetition end together.
    if (result.end_ns != last_end_ns_) {
      step_seconds_ = 1e-9 * (result.end_ns - last_end_ns_) / static_cast<double>(result.steps_of_repetition);
    }
    step->set_seconds(step_seconds_);
    last_end_ns_ = result.end_ns;
    if (shared_.options.on_step) shared_.options.on_step(*step);
  }

  absl::Status Evaluate() {
    const int64_t batch = std::max<int64_t>(1, shared_.program.recipe().global_batch_sequences());
    const int64_t batches =
        std::clamp<int64_t>(shared_.options.eval_data->windows() / batch, 1, shared_.options.eval_batches);
    const size_t before = evaluator_->results().size();
    WEFT_RETURN_IF_ERROR(evaluator_->RunBody(0, batches).status());
    if (endpoint_.rank() != 0 || result_.report.steps().empty()) return absl::OkStatus();
    double sum = 0;
    for (size_t i = before; i < evaluator_->results().size(); ++i) sum += evaluator_->results()[i].loss;
    RunStep* step = result_.report.mutable_steps(result_.report.steps_size() - 1);
    step->set_eval_loss(sum / batches);
    if (shared_.options.on_step) shared_.options.on_step(*step);
    return absl::OkStatus();
  }

  // What leaves the ranks at the end: trace and weights.
  absl::Status Finish() {
    const RunOptions& options = shared_.options;
    if (options.trace_repetitions > 0) {
      WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> traces,
                            GatherBytes(endpoint_, interpreter_->TakeTrace().SerializeAsString(), options.timeout));
      if (endpoint_.rank() == 0) {
        Trace& trace = result_.trace.emplace();
        trace.set_origin("measured");
        trace.set_program_name(shared_.program.name());
        trace.set_program_crc(ProgramCrc(shared_.program));
        trace.set_repetitions(
            static_cast<int32_t>(std::min(options.trace_repetitions, (result_.last_step - result_.first_step) /
                                                                         StepsPerRepetition(shared_.program))));
        for (const std::string& bytes : traces) {
          if (!trace.add_ranks()->ParseFromString(bytes)) return absl::InternalError("a rank's trace is damaged");
        }
        AlignStarts(shared_.program, &trace);
      }
    }
    if (options.collect_weights || !options.save_weights.empty()) WEFT_RETURN_IF_ERROR(CollectWeights());
    return Barrier(endpoint_, options.timeout);
  }

  // Rank 0 gets every logical tensor from its holders, piece by piece.
  absl::Status CollectWeights() {
    const Program& program = shared_.program;
    const RunOptions& options = shared_.options;
    auto tensor = [&](int i) -> absl::StatusOr<TensorData> {
      WEFT_ASSIGN_OR_RETURN(const std::vector<TensorHolder> holders, Holders(program, i, StatePart::kWeight));
      if (holders.empty()) return absl::InternalError(absl::StrCat("no rank holds ", program.tensors(i).name()));
      TensorData whole;
      if (endpoint_.rank() == 0) {
        whole.dtype = holders[0].buffer->dtype();
        whole.shape.assign(program.tensors(i).shape().begin(), program.tensors(i).shape().end());
        whole.bytes.resize(ElementCount(whole.shape).value_or(0) * DTypeBytes(whole.dtype));
      }
      for (const TensorHolder& holder : holders) {
        if (endpoint_.rank() != 0 && endpoint_.rank() != holder.rank) continue;
        TensorData piece;
        if (endpoint_.rank() == holder.rank) {
          WEFT_ASSIGN_OR_RETURN(piece, state_->Read(i, StatePart::kWeight));
        }
        if (endpoint_.rank() != 0) {
          WEFT_RETURN_IF_ERROR(SendNow(endpoint_, 0, piece.bytes.data(), piece.bytes.size(), options.timeout));
          continue;
        }
        const int64_t size = DTypeBytes(whole.dtype);
        if (holder.rank != 0) {
          piece.bytes.resize(holder.piece.count * size);
          WEFT_RETURN_IF_ERROR(
              RecvNow(endpoint_, holder.rank, piece.bytes.data(), piece.bytes.size(), options.timeout));
        }
        for (const TensorRun& run : RunsOf(holder.piece, whole.shape)) {
          std::memcpy(whole.bytes.data() + run.logical * size, piece.bytes.data() + run.position * size,
                      run.count * size);
        }
      }
      return whole;
    };
    const bool collects = options.collect_weights && endpoint_.rank() == 0;
    int next = 0;
    absl::Status moved;
    if (endpoint_.rank() == 0 && !options.save_weights.empty()) {
      result_.save_status = SaveWeights(options.save_weights, program, [&](int i) -> absl::StatusOr<TensorData> {
        next = i + 1;
        absl::StatusOr<TensorData> data = tensor(i);
        moved = data.status();
        if (data.ok() && collects) result_.weights.push_back(*data);
        return data;
      });
      WEFT_RETURN_IF_ERROR(moved);
    }
    // Where the file could not be written, the others still send the rest.
    for (; next < program.tensors_size(); ++next) {
      WEFT_ASSIGN_OR_RETURN(TensorData data, tensor(next));
      if (collects) result_.weights.push_back(std::move(data));
    }
    return absl::OkStatus();
  }

  const Shared& shared_;
  Endpoint& endpoint_;
  FlightRecorder* const flight_;
  Deadlines* const deadlines_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<RankState> state_;
  std::unique_ptr<Interpreter> interpreter_;
  // Of the evaluation program, on the same memory; null without evaluation.
  std::unique_ptr<Interpreter> evaluator_;
  int64_t last_end_ns_ = 0;
  double step_seconds_ = 0;
  RunResult result_;
  absl::Status status_;
};

absl::Status CheckOptions(const Program& program, const RunOptions& options) {
  if (program.does_not_fit()) {
    return absl::FailedPreconditionError(
        absl::StrCat("program '", program.name(), "' does not fit its cluster's memory (compiled with --allow-oom); ",
                     "it can be simulated but not run"));
  }
  if (options.threads_per_rank < 1 || options.threads_per_rank > kMostThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads per rank = ", options.threads_per_rank, " must be from 1 to ", kMostThreads));
  }
  if (options.eval_data != nullptr && !program.has_evaluation()) {
    return absl::FailedPreconditionError(
        absl::StrCat("program '", program.name(), "' has no evaluation program; compile it again with one"));
  }
  if (options.eval_data != nullptr && options.eval_batches < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation batches = ", options.eval_batches, " must be at least 1"));
  }
  return absl::OkStatus();
}

// Rule P14: what a pipeline that is never drained cannot do between two repetitions.
absl::Status CheckAsynchronous(const Program& program, int64_t last_step, const RunOptions& options) {
  const int64_t steps = program.steps_per_repetition();
  if (steps == 0) return absl::OkStatus();
  const std::string of = absl::StrCat("schedule '", program.schedule(), "' updates the weights without a flush: ");
  if (last_step % steps != 0) {
    const int64_t below = last_step / steps * steps;
    return absl::InvalidArgumentError(absl::StrCat(
        of, "steps = ", last_step, "; allowed: multiples of the ", steps, " steps of a repetition, nearest valid: ",
        below > 0 && last_step - below <= steps / 2 ? below : below + steps));
  }
  if (options.checkpoint.directory.empty()) return absl::OkStatus();
  if (options.checkpoint_every > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(of, "a checkpoint every ", options.checkpoint_every,
                     " steps would have to drain the pipeline; without --checkpoint-every there is one at the end"));
  }
  if (options.resume) {
    return absl::InvalidArgumentError(
        absl::StrCat(of,
                     "a checkpoint does not hold the microbatches and versions of weights that are under way, so "
                     "--resume would not continue the run; start a new one from its weights with --weights"));
  }
  return absl::OkStatus();
}

// All ranks send their events to rank 0, in one message in the end.
absl::Status CheckTraceSize(const Program& program, int64_t ranks, int64_t repetitions) {
  std::vector<double> steps_of_template;
  for (const Template& t : program.templates()) {
    double steps = 0;
    for (const Action& action : t.body()) {
      steps += IsCompute(action) ? program.segments(action.segment()).steps_size() : 1;
    }
    steps_of_template.push_back(steps);
  }
  double each = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) each += steps_of_template[TemplateOfRank(program, rank)];
  if (repetitions * each <= kMostTraceSteps) return absl::OkStatus();
  const int64_t most = static_cast<int64_t>(kMostTraceSteps / each);
  return absl::InvalidArgumentError(absl::StrCat(
      "--trace-steps: ", repetitions, repetitions == 1 ? " step" : " steps", " of ", each,
      " kernels and transfers over ", ranks, " ranks are too many for a trace, which holds ", kMostTraceSteps, "; ",
      most < 1 ? std::string("this program cannot be traced") : absl::StrCat("nearest valid: ", most)));
}

absl::StatusOr<RunResult> RunRanks(Shared& shared, const std::vector<std::unique_ptr<Endpoint>>& endpoints) {
  const RunOptions& options = shared.options;
  const int64_t epoch_ns = MonotonicNanoseconds();
  std::unique_ptr<ComputeSlots> slots;
  // A device that works on its own shares itself out.
  if (endpoints.size() > 1 && !shared.device->asynchronous()) {
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    const int count = options.slots > 0 ? options.slots : std::max(1, cores / options.threads_per_rank);
    std::vector<Endpoint*> all;
    for (const auto& endpoint : endpoints) all.push_back(endpoint.get());
    slots = std::make_unique<ComputeSlots>(count, std::move(all));
    if (count < static_cast<int>(endpoints.size())) shared.slots = slots.get();
  }
  // Runs outlive all threads: a rank that failed may still be read from by its partners.
  std::vector<std::unique_ptr<RankRun>> runs;
  FaultGuard guard(shared.program, endpoints,
                   {.timeout = options.timeout,
                    .predicted = &shared.predicted,
                    .generous_first = shared.device->asynchronous(),
                    .report_file = options.fault_report,
                    .give_up = options.on_stuck});
  for (size_t i = 0; i < endpoints.size(); ++i) {
    endpoints[i]->SetTimeout(options.timeout);
    runs.push_back(std::make_unique<RankRun>(shared, endpoints[i].get(), guard.flight(i), guard.deadlines(i)));
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < endpoints.size(); ++i) {
    auto run_rank = [&, i] {
      RankRun& run = *runs[i];
      run.status() = run.Prepare();
      if (!run.status().ok()) {
        run.status() = absl::Status(run.status().code(),
                                    absl::StrCat("rank ", endpoints[i]->rank(), ": ", run.status().message()));
      } else {
        run.status() = run.Run(epoch_ns);
      }
      if (!run.status().ok()) {
        run.status() = guard.Located(i, run.status());
        const bool first = endpoints[i]->Abort(run.status());
        guard.Returned(i, run.status(), first);
        run.status().SetPayload(first ? kInRun : kElsewhere, absl::Cord("1"));
      } else {
        guard.Returned(i, run.status(), false);
      }
    };
    // MPI may be called by the thread that initialized it only: a single rank runs on the caller's.
    if (endpoints.size() == 1) {
      run_rank();
    } else {
      threads.emplace_back(run_rank);
    }
  }
  for (std::thread& thread : threads) thread.join();
  // One file that cannot be written is no reason to lose what the run failed for.
  if (const absl::Status status = guard.report_status(); !status.ok() && options.on_warning) {
    options.on_warning(absl::StrCat("no fault report: ", status.message()));
  }
  // The failure that came first, if it was in this process.
  for (const auto& run : runs) {
    if (!run->status().ok() && !ReportedElsewhere(run->status())) return run->status();
  }
  for (const auto& run : runs) WEFT_RETURN_IF_ERROR(run->status());
  return runs[0]->TakeResult();
}

}  // namespace

bool ReportedElsewhere(const absl::Status& status) { return status.GetPayload(kElsewhere).has_value(); }

bool FailedInRun(const absl::Status& status) { return status.GetPayload(kInRun).has_value(); }

absl::StatusOr<RunResult> RunProgram(const Program& program, const DataSource& data, absl::string_view transport,
                                     const RunOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const TransportEntry* entry, FindTransport(transport));
  WEFT_RETURN_IF_ERROR(CheckOptions(program, options));
  WEFT_RETURN_IF_ERROR(
      VerifyProgram(program, {.completeness = options.verify_completeness, .algorithms = KnownCollectives()}));
  const int64_t ranks = MeshRanks(program.mesh());
  const bool one_process = entry->name == "inproc" || entry->name == "loopback";
  if (one_process && ranks > kMostThreads) {
    return absl::InvalidArgumentError(absl::StrCat("the program has ", ranks, " ranks; transport '", entry->name,
                                                   "' runs at most ", kMostThreads,
                                                   " in one process; --bootstrap=local starts one for each"));
  }
  const bool all_here = one_process || WantedBootstrap() == Bootstrap::kLocal;
  const bool on_host = options.backend == nullptr || options.backend->name == "cpu";
  WEFT_RETURN_IF_ERROR(CheckMachineMemory(program, options.eval_data != nullptr, on_host,
                                          all_here ? 0 : RankFromLauncher().rank % ranks, all_here ? ranks : 1));

  // Rule P3.
  if (!one_process && ranks > 1 && options.on_note) options.on_note("compute slots are not shared between processes");

  Shared shared(program, data, options);
  shared.backend = options.backend;
  if (shared.backend == nullptr) {
    WEFT_ASSIGN_OR_RETURN(shared.backend, FindBackend("cpu"));
  }
  // It outlives all that is in its memory.
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<ComputeDevice> device, shared.backend->open(options.device));
  shared.device = device.get();
  shared.last_step = options.steps > 0 ? options.steps : std::max<int64_t>(1, program.recipe().steps());
  WEFT_RETURN_IF_ERROR(CheckAsynchronous(program, shared.last_step, options));
  if (options.check_replicas > 0) WEFT_RETURN_IF_ERROR(CanCheckReplicas(program));
  if (options.predicted != nullptr) {
    WEFT_ASSIGN_OR_RETURN(shared.predicted, PredictedTimes::Make(program, *options.predicted));
  }
  if (options.trace_repetitions > 0) {
    const int64_t repetitions = std::max<int64_t>(1, shared.last_step / StepsPerRepetition(program));
    WEFT_RETURN_IF_ERROR(CheckTraceSize(program, ranks, std::min(options.trace_repetitions, repetitions)));
  }
  CheckpointManifest manifest;
  if (!options.checkpoint.directory.empty()) {
    WEFT_ASSIGN_OR_RETURN(const std::optional<std::string> found, FindCheckpoint(options.checkpoint.directory));
    if (found.has_value() && !options.resume) {
      return absl::FailedPreconditionError(absl::StrCat(
          *found, " is a checkpoint of an earlier run; add --resume to continue it, or choose another directory"));
    }
    if (found.has_value()) {
      WEFT_ASSIGN_OR_RETURN(manifest, ReadManifest(*found));
      WEFT_RETURN_IF_ERROR(CheckContinues(manifest, *found, program));
      shared.manifest = &manifest;
      shared.resumed_from = *found;
    }
    if (options.on_note && found.has_value()) {
      options.on_note(absl::StrCat("resuming after step ", manifest.step(), " from ", *found));
      for (const std::string& note : NotesOnContinuing(manifest, program, data.identity())) options.on_note(note);
    }
    if (options.on_warning && options.resume && !found.has_value()) {
      options.on_warning(absl::StrCat(options.checkpoint.directory, " has no checkpoint: starting at step 0"));
    }
  } else if (options.resume) {
    return absl::InvalidArgumentError("--resume needs --checkpoint DIR");
  }
  if (options.resume && !options.weights.empty()) {
    return absl::InvalidArgumentError(
        "--weights and --resume: a run starts from a weights file or from its checkpoint; give one of them");
  }
  std::unique_ptr<SafetensorsReader> weights;
  if (!options.weights.empty()) {
    WEFT_ASSIGN_OR_RETURN(weights, SafetensorsReader::Open(options.weights));
    WEFT_RETURN_IF_ERROR(MatchWeights(*weights, program).status());
    shared.weights = weights.get();
  }

  WEFT_ASSIGN_OR_RETURN(auto endpoints, entry->open(static_cast<int>(ranks)));
  for (auto& endpoint : endpoints) WEFT_RETURN_IF_ERROR(UseDeviceOrStage(endpoint, device.get()).status());
  WEFT_ASSIGN_OR_RETURN(RunResult result, RunRanks(shared, endpoints));
  RunReport& report = result.report;
  report.set_schema_version(1);
  report.set_program(program.name());
  report.set_backend(std::string(shared.backend->name));
  report.set_transport(std::string(entry->name));
  report.set_threads_per_rank(options.threads_per_rank);
  double seconds = 0, tokens = 0;
  for (const RunStep& step : report.steps()) {
    seconds += step.seconds();
    tokens += step.tokens();
  }
  report.set_tokens_per_second(seconds > 0 ? tokens / seconds : 0);
  for (const Template& t : program.templates()) {
    report.set_planned_bytes(std::max(report.planned_bytes(), t.device_arena_bytes()));
  }
  return result;
}

absl::StatusOr<RunResult> RunInProcess(const Program& program, const DataSource& data, const RunOptions& options) {
  return RunProgram(program, data, "inproc", options);
}

}  // namespace weft
