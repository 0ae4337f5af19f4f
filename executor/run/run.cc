#include "executor/run/run.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "executor/checkpoint/checkpoint_branch.h"
#include "executor/checkpoint/checkpoint_moments.h"
#include "executor/collective/collective_check.h"
#include "executor/faults/end_guard.h"
#include "executor/faults/fault_guard.h"
#include "executor/faults/injected_failure.h"
#include "executor/interface/backend.h"
#include "executor/interface/channels.h"
#include "executor/interface/compute_slots.h"
#include "executor/interface/transport.h"
#include "executor/job/bootstrap.h"
#include "executor/platform/folder_lock.h"
#include "executor/program/arena_size.h"
#include "executor/run/rank_run.h"
#include "executor/run/replica_check.h"
#include "executor/state/safetensors.h"
#include "executor/state/weights.h"
#include "executor/transports/staged.h"
#include "proto/io/program_file.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/units.h"
#include "schedules/collective/plan.h"
#include "verifier/verify.h"

namespace weft::exec {
namespace {

constexpr char kInRun[] = "weft/failed_in_run";
constexpr char kInStep[] = "weft/failed_in_step";
constexpr int kMaxThreads = 256;
// Time that the device has to stop its work after a failure. The watchdog gives ranks five seconds, so the process that
// reports the failure ends within ten.
constexpr std::chrono::seconds kDeviceStopTime(4);
// Maximum number of steps in a trace. Their events take about 1 GiB.
constexpr int64_t kMaxTraceSteps = int64_t{1} << 24;

absl::Status CheckOptions(const Program& program, const RunOptions& options) {
  if (program.does_not_fit()) {
    return absl::FailedPreconditionError(
        absl::StrCat("program '", program.name(), "' does not fit its cluster's memory (compiled with --allow-oom); ",
                     "it can be simulated but not run"));
  }
  if (options.threads_per_rank < 1 || options.threads_per_rank > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads per rank = ", options.threads_per_rank, " must be from 1 to ", kMaxThreads));
  }
  if (options.eval_data != nullptr && !program.has_evaluation()) {
    return absl::FailedPreconditionError(absl::StrCat("program '", program.name(),
                                                      "' has no evaluation program; leave --eval-data out, or compile ",
                                                      "with a schedule that flushes"));
  }
  if (options.eval_data != nullptr && options.eval_batches < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation batches = ", options.eval_batches, " must be at least 1"));
  }
  return absl::OkStatus();
}

absl::Status WithFlag(absl::string_view flag, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(flag, ": ", status.message()));
}

// Rule P14: refuses options that a pipeline without a flush cannot support, because it does not drain between two
// repetitions.
absl::Status CheckAsynchronous(const Program& program, int64_t last_step, const RunOptions& options) {
  const int64_t steps = program.steps_per_repetition();
  if (steps == 0) return absl::OkStatus();
  const std::string of = absl::StrCat("schedule '", program.schedule(), "' updates the weights without a flush: ");
  if (last_step % steps != 0) {
    const int64_t below = last_step / steps * steps;
    return absl::InvalidArgumentError(
        absl::StrCat(of, "steps = ", last_step, "; allowed: multiples of ", steps,
                     " (the optimizer steps of a repetition); nearest valid: ",
                     below > 0 && last_step - below <= steps / 2 ? below : below + steps));
  }
  if (options.checkpoint.directory.empty()) return absl::OkStatus();
  if (options.checkpoint_every > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        of, "a checkpoint every ", options.checkpoint_every,
        " steps would have to drain the pipeline; leave --checkpoint-every out, and weft saves one at the end"));
  }
  if (options.resume) {
    return absl::InvalidArgumentError(
        absl::StrCat(of,
                     "a checkpoint does not hold the microbatches in flight and their versions of the weights, so "
                     "--resume cannot continue the run; start a new run from its weights with --weights"));
  }
  return absl::OkStatus();
}

// All ranks send their events to rank 0, in one message at the end, so their number is limited.
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
  if (repetitions * each <= kMaxTraceSteps) return absl::OkStatus();
  const int64_t most = static_cast<int64_t>(kMaxTraceSteps / each);
  return absl::InvalidArgumentError(absl::StrCat(
      "--trace-steps: ", repetitions, repetitions == 1 ? " step" : " steps", " of ", each,
      " kernels and transfers over ", ranks, " ranks do not fit into a trace, which holds at most ", kMaxTraceSteps,
      "; ", most < 1 ? std::string("this program cannot be traced") : absl::StrCat("nearest valid: ", most)));
}

absl::StatusOr<RunResult> RunRanks(SharedByRanks& shared, const std::vector<std::unique_ptr<Endpoint>>& endpoints,
                                   EndGuard& end) {
  const RunOptions& options = shared.options;
  const int64_t epoch_ns = MonotonicNanoseconds();
  std::unique_ptr<ComputeSlots> slots;
  // Ranks on an asynchronous device do not compute on host cores, so they need no compute slots.
  if (endpoints.size() > 1 && !shared.device->asynchronous()) {
    const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    const int count = options.slots > 0 ? options.slots : std::max(1, cores / options.threads_per_rank);
    std::vector<Endpoint*> all;
    for (const auto& endpoint : endpoints) all.push_back(endpoint.get());
    slots = std::make_unique<ComputeSlots>(count, std::move(all));
    if (count < static_cast<int>(endpoints.size())) shared.slots = slots.get();
  }
  // The RankRuns outlive all threads, because the partners of a rank that failed may still read its memory.
  std::vector<std::unique_ptr<RankRun>> runs;
  FaultGuard guard(shared.program, endpoints,
                   {.timeout = options.timeout,
                    .predicted = options.predicted,
                    .generous_first = shared.device->asynchronous(),
                    .stop = options.stop,
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
        // DataLoss is a damaged file here. Its code changes, because DataLoss also stands for replicas that differ.
        const bool damaged = run.status().code() == absl::StatusCode::kDataLoss;
        run.status() = absl::Status(damaged ? absl::StatusCode::kFailedPrecondition : run.status().code(),
                                    absl::StrCat("rank ", endpoints[i]->rank(), ": ", run.status().message()));
      } else {
        run.status() = run.Run(epoch_ns);
      }
      if (!run.status().ok()) {
        run.status() = guard.Located(i, run.status());
        const bool first = endpoints[i]->Abort(run.status());
        guard.Returned(i, run.status(), first);
        if (!first) run.status() = AsReportedRemotely(run.status());
        run.status().SetPayload(kInRun, absl::Cord("1"));
        if (guard.deadlines(i)->phase() != RunPhase::kStarting) run.status().SetPayload(kInStep, absl::Cord("1"));
      } else {
        guard.Returned(i, run.status(), false);
      }
    };
    // Only the thread that initialized MPI may call it, so a single rank runs on the caller's thread.
    if (endpoints.size() == 1) {
      run_rank();
    } else {
      threads.emplace_back(run_rank);
    }
  }
  for (std::thread& thread : threads) thread.join();
  // A report that cannot be written must not hide why the run failed.
  if (const absl::Status status = guard.report_status(); !status.ok() && options.on_warning) {
    options.on_warning(absl::StrCat("no fault report: ", status.message()));
  }
  // Prefer a failure that began in this process to failures that another process reports.
  for (const bool elsewhere : {false, true}) {
    for (const auto& run : runs) {
      if (run->status().ok() || ReportedRemotely(run->status()) != elsewhere) continue;
      // On a host, nothing can hang while it is released. Only the transport waits, until the other ranks have received
      // the failure.
      if (shared.device->asynchronous()) end.Failed(run->status(), /*told=*/!elsewhere);
      return run->status();
    }
  }
  RunResult result = runs[0]->TakeResult();
  for (size_t i = 1; i < runs.size(); ++i) {
    result.report.set_allocated_bytes(
        std::max(result.report.allocated_bytes(), runs[i]->TakeResult().report.allocated_bytes()));
  }
  return result;
}

bool RunsInOneProcess(const TransportEntry& transport) {
  return transport.name == "inproc" || transport.name == "loopback";
}

// Checks that this machine can hold the ranks that run on it.
absl::Status CheckMachine(const Program& program, const RunOptions& options, const TransportEntry& transport) {
  const int64_t ranks = MeshRanks(program.mesh());
  const bool one_process = RunsInOneProcess(transport);
  if (one_process && ranks > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("the program has ", ranks, " ranks; transport '", transport.name, "' runs at most ", kMaxThreads,
                     " in one process; to run one process per rank, use --bootstrap=local"));
  }
  const bool all_here = one_process || WantedBootstrap() == Bootstrap::kLocal;
  const bool on_host = options.backend == nullptr || options.backend->name == "cpu";
  std::string memory_note;
  WEFT_RETURN_IF_ERROR(CheckMachineMemory(program, options.eval_data != nullptr, on_host,
                                          all_here ? 0 : RankFromLauncher().rank % ranks, all_here ? ranks : 1,
                                          &memory_note));
  if (!memory_note.empty() && options.on_note) options.on_note(memory_note);
  // Rule P3: only ranks of one process can share compute slots.
  if (!one_process && ranks > 1 && options.on_note)
    options.on_note("ranks of different processes compute at the same time: --slots works only within a process");
  return absl::OkStatus();
}

void NoteDeadlines(const RunOptions& options) {
  if (options.predicted == nullptr || !options.on_note) return;
  const std::chrono::duration<double> longest =
      Deadlines::kFactor *
      std::chrono::nanoseconds(std::min(options.predicted->Longest(), INT64_MAX / Deadlines::kFactor));
  if (longest > options.timeout) {
    options.on_note(
        absl::StrCat("deadlines: up to ", longest.count(), " s, ", Deadlines::kFactor, " times the predicted time"));
  }
}

// Notes on a run that continues from the checkpoint `found`.
absl::Status NoteResuming(const SharedByRanks& shared, const CheckpointManifest& manifest, const std::string& found) {
  const RunOptions& options = shared.options;
  const std::string& directory = options.checkpoint.directory;
  options.on_note(absl::StrCat("resuming after step ", manifest.step(), " from ", found));
  const std::string latest = options.resume_step < 0 ? NoteOnLatest(directory, found) : std::string();
  if (!latest.empty()) options.on_note(latest);
  for (const std::string& note : NotesOnContinuing(manifest, shared.program, shared.data.identity())) {
    options.on_note(note);
  }
  const std::string moments = NoteOnMoments(found, manifest, shared.program);
  if (!moments.empty()) options.on_note(moments);
  WEFT_ASSIGN_OR_RETURN(const std::string left, NoteOnBranch(directory, manifest.step()));
  if (!left.empty()) options.on_note(left);
  return absl::OkStatus();
}

// Locks the folder of checkpoints, and reads the manifest of the checkpoint that the run continues from.
absl::Status OpenCheckpoint(bool saves, SharedByRanks& shared, CheckpointManifest& manifest, FolderLock& lock) {
  const RunOptions& options = shared.options;
  const std::string& directory = options.checkpoint.directory;
  if (directory.empty()) {
    return options.resume ? absl::InvalidArgumentError("--resume needs --checkpoint DIR") : absl::OkStatus();
  }
  // The process that saves also removes old checkpoints and writes `latest`, so it takes the lock.
  if (saves) {
    WEFT_ASSIGN_OR_RETURN(lock, FolderLock::Take(directory));
  }
  WEFT_ASSIGN_OR_RETURN(const std::optional<std::string> found,
                        FindCheckpoint(directory, options.resume ? options.resume_step : -1));
  if (!found.has_value()) {
    if (options.on_warning && options.resume) {
      options.on_warning(absl::StrCat(directory, " has no checkpoint: starting at step 0"));
    }
    return absl::OkStatus();
  }
  if (!options.resume) {
    return absl::FailedPreconditionError(absl::StrCat(
        *found, " is a checkpoint of an earlier run; add --resume to continue it, or choose another directory"));
  }
  absl::StatusOr<CheckpointManifest> read = ReadManifest(*found);
  if (!read.ok()) return WithUndamaged(read.status(), directory, *found);
  manifest = *std::move(read);
  WEFT_RETURN_IF_ERROR(CheckContinues(manifest, *found, shared.program));
  shared.manifest = &manifest;
  shared.resumed_from = *found;
  return options.on_note ? NoteResuming(shared, manifest, *found) : absl::OkStatus();
}

// Returns null if the run starts from no weights file.
absl::StatusOr<std::unique_ptr<SafetensorsReader>> OpenWeights(const Program& program, const RunOptions& options) {
  if (options.weights.empty()) return nullptr;
  if (options.resume) {
    return absl::InvalidArgumentError(
        "--weights and --resume: a run starts from a weights file or from its checkpoint; give one of them");
  }
  absl::StatusOr<std::unique_ptr<SafetensorsReader>> opened = SafetensorsReader::Open(options.weights);
  if (!opened.ok()) return WithFlag("--weights", opened.status());
  WEFT_RETURN_IF_ERROR(WithFlag("--weights", MatchWeights(**opened, program).status()));
  return opened;
}

// Lets the endpoints move memory of the device. The caller calls it after all ranks have met.
absl::Status AttachDevice(std::vector<std::unique_ptr<Endpoint>>& endpoints, ComputeDevice* device) {
  for (auto& endpoint : endpoints) {
    absl::Status status = UseDeviceOrStage(endpoint, device).status();
    if (status.ok()) continue;
    // Abort, because the other ranks have met this rank and would wait for it.
    const bool first = endpoint->Abort(status);
    if (!first) status = AsReportedRemotely(status);
    status.SetPayload(kInRun, absl::Cord("1"));
    return status;
  }
  return absl::OkStatus();
}

void FinishReport(const SharedByRanks& shared, const TransportEntry& transport, RunReport& report) {
  report.set_schema_version(1);
  report.set_program(shared.program.name());
  report.set_backend(std::string(shared.backend->name));
  report.set_transport(std::string(transport.name));
  report.set_threads_per_rank(shared.options.threads_per_rank);
  double seconds = 0, tokens = 0;
  for (const RunStep& step : report.steps()) {
    seconds += step.seconds();
    tokens += step.tokens();
  }
  report.set_tokens_per_second(seconds > 0 ? tokens / seconds : 0);
  for (const Template& t : shared.program.templates()) {
    report.set_planned_bytes(std::max(report.planned_bytes(), t.device_arena_bytes()));
  }
}

}  // namespace

bool FailedInRun(const absl::Status& status) { return status.GetPayload(kInRun).has_value(); }
bool FailedInStep(const absl::Status& status) { return status.GetPayload(kInStep).has_value(); }

absl::StatusOr<RunResult> RunProgram(const Program& program, const DataSource& data, absl::string_view transport,
                                     const RunOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const TransportEntry* entry, FindTransport(transport));
  WEFT_RETURN_IF_ERROR(CheckOptions(program, options));
  WEFT_RETURN_IF_ERROR(
      VerifyProgram(program, {.completeness = options.verify_completeness, .algorithms = KnownCollectives()}));
  const int64_t ranks = MeshRanks(program.mesh());
  const bool one_process = RunsInOneProcess(*entry);
  WEFT_RETURN_IF_ERROR(CheckMachine(program, options, *entry));
  SharedByRanks shared(program, data, options);
  shared.backend = options.backend;
  if (shared.backend == nullptr) {
    WEFT_ASSIGN_OR_RETURN(shared.backend, FindBackend("cpu"));
  }
  EndGuard end(options.on_stuck, kDeviceStopTime);
  // The device must outlive everything that is in its memory.
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<ComputeDevice> device, shared.backend->open(options.device));
  shared.device = device.get();
  shared.last_step = options.steps > 0 ? options.steps : std::max<int64_t>(1, program.recipe().steps());
  WEFT_RETURN_IF_ERROR(CheckAsynchronous(program, shared.last_step, options));
  // The transport refuses this too, but only when the ranks have met.
  if (entry->name == "nccl" && !device->asynchronous()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "transport 'nccl' moves memory of GPUs, but the backend's device is '", std::string(device->name()),
        "'; allowed transports: inproc, loopback, mpi, tcp; or use --backend=cuda"));
  }
  WEFT_RETURN_IF_ERROR(CheckCollectives(program, entry->name, /*native=*/entry->name == "nccl"));
  if (options.check_replicas > 0) WEFT_RETURN_IF_ERROR(CanCheckReplicas(program));
  NoteDeadlines(options);
  if (options.trace_repetitions > 0) {
    const int64_t repetitions = std::max<int64_t>(1, shared.last_step / StepsPerRepetition(program));
    WEFT_RETURN_IF_ERROR(CheckTraceSize(program, ranks, std::min(options.trace_repetitions, repetitions)));
  }
  CheckpointManifest manifest;
  FolderLock lock;
  // Rank 0 saves the checkpoints of all ranks.
  WEFT_RETURN_IF_ERROR(OpenCheckpoint(one_process || RankFromLauncher().rank == 0, shared, manifest, lock));
  if (options.failure.has_value()) {
    const int64_t steps = shared.last_step - (shared.manifest != nullptr ? manifest.step() : 0);
    WEFT_RETURN_IF_ERROR(CheckInjectedFailure(program, *options.failure, steps / StepsPerRepetition(program),
                                              shared.last_step, options.check_replicas));
  }
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsReader> weights, OpenWeights(program, options));
  shared.weights = weights.get();
  // Checked before the ranks meet, because AnnounceFailure passes an error on to the other ranks only until then.
  if (const int launched = RankFromLauncher().size; !one_process && launched > 0 && launched != ranks) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(entry->name), ": the launcher started ", launched,
                                                   " processes, but the program has ", ranks, " ranks"));
  }
  if (options.on_meeting) options.on_meeting(/*met=*/false);
  WEFT_ASSIGN_OR_RETURN(auto endpoints, entry->open(static_cast<int>(ranks)));
  if (options.on_meeting) options.on_meeting(/*met=*/true);
  WEFT_RETURN_IF_ERROR(AttachDevice(endpoints, device.get()));
  WEFT_ASSIGN_OR_RETURN(RunResult result, RunRanks(shared, endpoints, end));
  FinishReport(shared, *entry, result.report);
  return result;
}

absl::StatusOr<RunResult> RunInProcess(const Program& program, const DataSource& data, const RunOptions& options) {
  return RunProgram(program, data, "inproc", options);
}

}  // namespace weft::exec
