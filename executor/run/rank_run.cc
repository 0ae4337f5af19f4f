#include "executor/run/rank_run.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/interpreter/control.h"
#include "executor/program/arena_size.h"
#include "executor/run/job_agreement.h"
#include "executor/run/replica_check.h"
#include "executor/run/trace_align.h"
#include "executor/state/weights.h"
#include "proto/io/program_file.h"
#include "proto/util/status.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

constexpr int64_t kMaxStepsAtOnce = 10000;

int64_t NextMultiple(int64_t step, int64_t every) {
  return every <= 0 || step > INT64_MAX - every ? INT64_MAX : (step / every + 1) * every;
}

// Converts Backend::Digest to a number; 0 if the digest is empty because there was nothing to choose.
uint64_t NumberOf(const std::string& digest) {
  uint64_t number = 0;
  std::from_chars(digest.data(), digest.data() + digest.size(), number, 16);
  return number;
}

}  // namespace

absl::Status RankRun::Prepare() {
  const Program& program = shared_.program;
  const ArenaSize size = ArenaOf(program, endpoint_.rank(), shared_.options.eval_data != nullptr);
  const int64_t begin_ns = MonotonicNanoseconds();
  WEFT_ASSIGN_OR_RETURN(arena_, Arena::Allocate(shared_.device, size.device, size.host));
  const int64_t arena_ns = MonotonicNanoseconds();
  WEFT_ASSIGN_OR_RETURN(backend_, shared_.backend->make(shared_.device, {.threads = shared_.options.threads_per_rank,
                                                                         .program = &program,
                                                                         .rank = endpoint_.rank(),
                                                                         // The arena holds no data yet.
                                                                         .idle_memory = arena_->device_memory(),
                                                                         .idle_bytes = size.device,
                                                                         .tuning = shared_.options.tuning}));
  if (const std::string digest = backend_->Digest();
      !digest.empty() && endpoint_.rank() == 0 && shared_.options.on_note) {
    shared_.options.on_note(
        absl::StrCat("algorithms of rank 0's matrix products: tuning ", shared_.options.tuning, ", digest ", digest));
  }
  if (endpoint_.rank() == 0 && shared_.options.on_note) {
    for (const std::string& note : backend_->Notes()) shared_.options.on_note(note);
  }
  const int64_t backend_ns = MonotonicNanoseconds();
  state_ = std::make_unique<RankState>(program, endpoint_.rank(), arena_.get());
  if (shared_.manifest != nullptr) {
    const absl::Status loaded = LoadCheckpoint(shared_.resumed_from, *shared_.manifest, program, state_.get());
    if (absl::IsDataLoss(loaded)) {
      return WithUndamaged(loaded, shared_.options.checkpoint.directory, shared_.resumed_from);
    }
    WEFT_RETURN_IF_ERROR(loaded);
  } else {
    WEFT_RETURN_IF_ERROR(state_->Initialize());
    if (shared_.weights != nullptr) {
      const absl::Status loaded = LoadWeights(*shared_.weights, program, state_.get());
      if (!loaded.ok()) return absl::Status(loaded.code(), absl::StrCat("--weights: ", loaded.message()));
    }
  }
  // On an asynchronous device, these preparations can take minutes.
  if (shared_.device->asynchronous() && endpoint_.rank() == 0 && shared_.options.on_note) {
    shared_.options.on_note(absl::StrFormat(
        "rank 0 is ready: %.1f s for memory, %.1f s for kernels and libraries, %.1f s for the initial weights",
        1e-9 * (arena_ns - begin_ns), 1e-9 * (backend_ns - arena_ns), 1e-9 * (MonotonicNanoseconds() - backend_ns)));
  }
  return absl::OkStatus();
}

JobFacts RankRun::Facts() const {
  const RunOptions& options = shared_.options;
  const auto data = [](const DataSource* source) {
    if (source == nullptr) return std::string("none");
    const DataIdentity identity = source->identity();
    return absl::StrCat(identity.tokens, " tokens or images with checksum ", absl::StrFormat("%08x", identity.crc32c));
  };
  const auto given = [](const std::string& text) { return std::string(text.empty() ? "not given" : "given"); };
  return {
      {"the program's checksum", absl::StrFormat("%08x", ProgramCrc(shared_.program))},
      {"--data", data(&shared_.data)},
      {"--timeout", absl::StrCat(std::chrono::duration<double>(options.timeout).count(), " s")},
      {"the prediction of action times (--cluster, --predicted)",
       options.predicted == nullptr ? std::string("none") : options.predicted->Digest()},
      {"--backend", std::string(shared_.backend->name)},
      {"the last step (--steps)", absl::StrCat(shared_.last_step)},
      {"the step to go on from (--resume)", absl::StrCat(shared_.manifest != nullptr ? shared_.manifest->step() : 0)},
      {"--checkpoint", given(options.checkpoint.directory)},
      {"--checkpoint-every", absl::StrCat(options.checkpoint_every)},
      {"--check-replicas", absl::StrCat(options.check_replicas)},
      {"--eval-data", data(options.eval_data)},
      {"--eval-every", absl::StrCat(options.eval_every)},
      {"batches of an evaluation (--eval-batches)", absl::StrCat(options.eval_batches)},
      {"--weights", given(options.weights)},
      {"steps to trace (--trace)", absl::StrCat(options.trace_repetitions)},
      {"whether weights are gathered (--save-weights)",
       options.collect_weights || !options.save_weights.empty() ? "yes" : "no"},
  };
}

absl::Status RankRun::Run(int64_t epoch_ns) {
  const RunOptions& options = shared_.options;
  WEFT_RETURN_IF_ERROR(AgreeOnJob(endpoint_, Facts(), options.timeout));
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
  // An epoch in the future or more than 10 s ago comes from the clock of another host. It means nothing here, so the
  // trace then starts when this rank does.
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
    // These belong to the training program.
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

absl::Status RankRun::ShareEpoch(int64_t* epoch_ns) {
  if (endpoint_.rank() != 0) return RecvNow(endpoint_, 0, epoch_ns, sizeof(*epoch_ns), shared_.options.timeout);
  for (int rank = 1; rank < endpoint_.size(); ++rank) {
    WEFT_RETURN_IF_ERROR(SendNow(endpoint_, rank, epoch_ns, sizeof(*epoch_ns), shared_.options.timeout));
  }
  return absl::OkStatus();
}

absl::Status RankRun::Train() {
  const RunOptions& options = shared_.options;
  const bool saves = !options.checkpoint.directory.empty();
  const int64_t steps_per_repetition = StepsPerRepetition(shared_.program);
  int64_t step = shared_.manifest != nullptr ? shared_.manifest->step() : 0;
  int64_t saved = shared_.manifest != nullptr ? step : -1;
  result_.first_step = step;
  deadlines_->Enter(RunPhase::kStepping);
  WEFT_RETURN_IF_ERROR(interpreter_->RunPrologue(step));
  last_end_ns_ = MonotonicNanoseconds();
  while (step < shared_.last_step && !result_.stopped) {
    // Memory for the results of steps is reserved in advance, so one call runs at most kMaxStepsAtOnce repetitions.
    int64_t next = std::min(shared_.last_step, step + kMaxStepsAtOnce * steps_per_repetition);
    if (options.eval_data != nullptr) next = std::min(next, NextMultiple(step, options.eval_every));
    if (saves) next = std::min(next, NextMultiple(step, options.checkpoint_every));
    next = std::min(next, NextMultiple(step, options.check_replicas));
    deadlines_->Enter(RunPhase::kStepping);
    WEFT_ASSIGN_OR_RETURN(const int64_t ran, interpreter_->RunBody(step, (next - step) / steps_per_repetition));
    step += ran * steps_per_repetition;
    // Rule P15: the epilogue must run before the code below reads the weights.
    if (shared_.program.post_validation()) WEFT_RETURN_IF_ERROR(interpreter_->RunEpilogue(step));
    deadlines_->Enter(RunPhase::kEnding);
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
      checkpoint.follows = saved;
      WEFT_RETURN_IF_ERROR(SaveCheckpoint(checkpoint, shared_.program, step, *state_, endpoint_));
      saved = step;
      result_.checkpoint_seconds += 1e-9 * (MonotonicNanoseconds() - start);
    }
    // The next step is timed from here, so that evaluation and checkpoints count for no step.
    last_end_ns_ = MonotonicNanoseconds();
  }
  result_.last_step = step;
  deadlines_->Enter(RunPhase::kEnding);
  if (!shared_.program.post_validation()) WEFT_RETURN_IF_ERROR(interpreter_->RunEpilogue());
  return evaluator_ != nullptr ? evaluator_->RunEpilogue() : absl::OkStatus();
}

void RankRun::RecordStep(const StepResult& result) {
  RunStep* step = result_.report.add_steps();
  step->set_step(result.step);
  step->set_loss(result.loss);
  step->set_learning_rate(result.learning_rate);
  step->set_grad_norm(result.norm);
  if (result.loss_scale > 0) step->set_loss_scale(result.loss_scale);
  step->set_skipped(result.skipped);
  step->set_tokens(shared_.program.recipe().global_batch_sequences() * shared_.program.recipe().sequence_length());
  // The steps of one repetition end together, so each gets an equal share of the repetition's time.
  if (result.end_ns != last_end_ns_) {
    step_seconds_ = 1e-9 * (result.end_ns - last_end_ns_) / static_cast<double>(result.steps_of_repetition);
  }
  step->set_seconds(step_seconds_);
  last_end_ns_ = result.end_ns;
  if (shared_.options.on_step) shared_.options.on_step(*step);
}

absl::Status RankRun::Evaluate() {
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

absl::Status RankRun::Finish() {
  const RunOptions& options = shared_.options;
  result_.report.set_tuning_digest(NumberOf(backend_->Digest()));
  result_.report.set_allocated_bytes(arena_->bytes(DEVICE));
  if (options.trace_repetitions > 0) {
    RankTrace own = interpreter_->TakeTrace();
    own.set_buffer_bytes(arena_->bytes(DEVICE));
    WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> traces,
                          GatherBytes(endpoint_, own.SerializeAsString(), options.timeout));
    if (endpoint_.rank() == 0) {
      Trace& trace = result_.trace.emplace();
      trace.set_origin("measured");
      trace.set_program_name(shared_.program.name());
      trace.set_program_crc(ProgramCrc(shared_.program));
      trace.set_tuning_digest(result_.report.tuning_digest());
      trace.set_repetitions(static_cast<int32_t>(std::min(
          options.trace_repetitions, (result_.last_step - result_.first_step) / StepsPerRepetition(shared_.program))));
      for (const std::string& bytes : traces) {
        if (!trace.add_ranks()->ParseFromString(bytes)) return absl::InternalError("a rank's trace is damaged");
      }
      AlignStarts(shared_.program, &trace);
    }
  }
  if (options.collect_weights || !options.save_weights.empty()) WEFT_RETURN_IF_ERROR(CollectWeights());
  return Barrier(endpoint_, options.timeout);
}

absl::Status RankRun::CollectWeights() {
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
        WEFT_RETURN_IF_ERROR(RecvNow(endpoint_, holder.rank, piece.bytes.data(), piece.bytes.size(), options.timeout));
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
  // Moves the tensors that were not moved above: the rest if rank 0 could not write the file, and all of them on other
  // ranks or if no file is wanted.
  for (; next < program.tensors_size(); ++next) {
    WEFT_ASSIGN_OR_RETURN(TensorData data, tensor(next));
    if (collects) result_.weights.push_back(std::move(data));
  }
  return absl::OkStatus();
}

}  // namespace weft::exec
