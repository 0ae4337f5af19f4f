// weft-run: runs compiled programs and calibrates machines. It links no LLVM. `weft run` and `weft calibrate` start it.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "cli/common/file_clash.h"
#include "cli/common/flags.h"
#include "cli/common/terminal.h"
#include "cli/results/trace_file.h"
#include "cli/run/calibrate.h"
#include "cli/run/launch.h"
#include "cli/run/predict.h"
#include "cli/run/run_files.h"
#include "cli/run/run_flags.h"
#include "cli/run/run_lines.h"
#include "cli/run/stop_signals.h"
#include "executor/data/data.h"
#include "executor/faults/fault_guard.h"
#include "executor/faults/fault_report.h"
#include "executor/interface/backend.h"
#include "executor/interface/transport.h"
#include "executor/interface/tuning_options.h"
#include "executor/job/announce_failure.h"
#include "executor/job/bootstrap.h"
#include "executor/numerics/learning_rate.h"
#include "executor/platform/shared_library.h"
#include "executor/run/run.h"
#include "executor/transports/mpi.h"
#include "proto/io/io.h"
#include "proto/io/json.h"
#include "proto/io/program_file.h"
#include "proto/util/mesh.h"
#include "proto/util/printable.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/validate/validate.h"
#include "proto/version.h"
#include "schedules/collective/plan.h"
#include "verifier/verify.h"

namespace weft {
namespace {

// True once the ranks meet. From then on the transport tells the other ranks why this process failed.
bool meets = false;
// True for --transport=tcp: before the ranks meet, the rendezvous store tells them, even under an MPI launcher.
bool has_store = false;

// Reads a program file and proves it: its content may then be used without checks.
absl::StatusOr<Program> LoadProgram(const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(Program program, ReadProgram(path));
  // RunProgram checks whether the program fits.
  absl::Status status = VerifyProgram(program, {.allow_unfit = true, .algorithms = KnownCollectives()});
  if (!status.ok()) return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
  return program;
}

absl::StatusOr<std::unique_ptr<exec::DataSource>> Open(const std::string& path, const Program& program,
                                                       const std::string& token_type, absl::string_view flag) {
  absl::StatusOr<std::unique_ptr<exec::DataSource>> source =
      exec::OpenData(exec::DataOptionsOf(program, path, token_type));
  if (source.ok()) return source;
  return absl::Status(source.status().code(), absl::StrCat(flag, ": ", source.status().message()));
}

absl::Status RunMain(absl::Span<const std::string> args) {
  Flags flags(
      "weft run", "PROGRAM [flags]",
      "Trains: runs a compiled program on this machine, or as one process of a job on several (docs/launch.md).\n"
      "Exit status: 0 the run is complete, or was stopped by a signal and saved; 1 refused, or the training\n"
      "cannot go on; 2 wrong usage; 3 a deadline has passed; 4 the process of another rank has died; 5 an error\n"
      "of a device or transport; 6 replicas differ; 128 + N, with --bootstrap=local, a rank died of signal N.");
  RunFlags f;
  DeclareRunFlags(flags, f);
  WEFT_RETURN_IF_ERROR(flags.Parse(args, 1, 1));
  if (flags.help_wanted()) return Print(flags.Help());
  WEFT_RETURN_IF_ERROR(CheckRunFlags(flags, f));
  // --save-weights may overwrite the --weights that a run starts from, so these are not compared.
  WEFT_RETURN_IF_ERROR(CheckFileClashes({{"the program", flags.positional()[0]},
                                         {"--data", f.data},
                                         {"--eval-data", f.eval_data},
                                         {"--predicted", f.predicted},
                                         {"--cluster", f.cluster}},
                                        {{"--trace", f.trace},
                                         {"--report", f.report},
                                         {"--save-weights", f.save_weights},
                                         {"--tuning", exec::ParseTuningOptions(f.tuning)->written()}}));
  WEFT_RETURN_IF_ERROR(CheckFileClashes({{"--weights", f.weights}}, {{"--trace", f.trace}, {"--report", f.report}}));
  WEFT_ASSIGN_OR_RETURN(const Launch launch, ChooseLaunch(f.bootstrap, f.transport, exec::ProcessEnvironment()));
  has_store = f.transport == "tcp";
  WEFT_RETURN_IF_ERROR(CheckLibraryPath(f.lib_path));
  exec::SetLibraryPath(f.lib_path);
  if (!launch.starts_ranks) {
    exec::SetStopFlag(&stop_requested);
    CatchStopSignals();
  }
  WEFT_RETURN_IF_ERROR(CheckRead("the program", flags.positional()[0]));
  WEFT_RETURN_IF_ERROR(CheckRead("--predicted", f.predicted));
  WEFT_RETURN_IF_ERROR(CheckRead("--cluster", f.cluster));
  // This cannot fail: CheckRunFlags has parsed the value before.
  const exec::TuningOptions tuning = *exec::ParseTuningOptions(f.tuning);
  WEFT_RETURN_IF_ERROR(CheckRead("--tuning", tuning.read()));
  WEFT_ASSIGN_OR_RETURN(const Program program, LoadProgram(flags.positional()[0]));
  if (launch.starts_ranks) return RunLocally(static_cast<int>(MeshRanks(program.mesh())), args);
  WEFT_ASSIGN_OR_RETURN(const exec::BackendEntry* backend, exec::FindBackend(f.backend));
  // CPU ranks need no LOCAL_RANK: any rank may run on any core.
  if (backend->name != "cpu") WEFT_RETURN_IF_ERROR(exec::CheckLocalRank(launch.bootstrap, exec::ProcessEnvironment()));
  WEFT_ASSIGN_OR_RETURN(const exec::TransportEntry* transport,
                        exec::FindTransport(ChooseTransport(f.transport, backend->name, launch.bootstrap)));
  const bool first = exec::RankFromLauncher().rank == 0;
  const bool text = first && f.format == "text";

  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<exec::DataSource> data, Open(f.data, program, f.token_type, "--data"));
  std::unique_ptr<exec::DataSource> eval_data;
  if (!f.eval_data.empty()) {
    // If there is no evaluation program, RunProgram refuses.
    const Program& evaluation = program.has_evaluation() ? program.evaluation() : program;
    WEFT_ASSIGN_OR_RETURN(eval_data, Open(f.eval_data, evaluation, f.token_type, "--eval-data"));
  }
  if (first) WEFT_RETURN_IF_ERROR(CheckOutputs(f));
  WEFT_RETURN_IF_ERROR(CheckFaultReport(f.fault_report, exec::RankFromLauncher().rank));
  exec::RunOptions options;
  options.backend = backend;
  if (tuning.mode != exec::TuningOptions::Mode::kOff && backend->name != "cuda") {
    return absl::InvalidArgumentError(absl::StrCat("--tuning is '", f.tuning, "', but backend ",
                                                   std::string(backend->name), " has nothing to tune; allowed: off"));
  }
  options.tuning = f.tuning;
  options.steps = f.steps;
  options.threads_per_rank = static_cast<int>(f.threads);
  options.slots = static_cast<int>(f.slots);
  options.timeout = std::chrono::nanoseconds(static_cast<int64_t>(f.timeout * 1e9));
  options.eval_data = eval_data.get();
  options.eval_every = f.eval_every;
  options.eval_batches = f.eval_batches;
  options.checkpoint = {.directory = f.checkpoint, .keep = f.keep, .timeout = options.timeout};
  options.checkpoint_every = f.checkpoint_every;
  options.resume = f.resume;
  if (flags.Given("resume-step")) options.resume_step = f.resume_step;
  options.weights = f.weights;
  options.save_weights = f.save_weights;
  options.trace_repetitions = f.trace.empty() ? 0 : f.trace_steps;
  options.stop = &stop_requested;
  options.check_replicas = f.check_replicas;
  if (f.fault_report.empty()) {
    options.fault_report = exec::DefaultFaultFile(f.checkpoint, f.trace);
  } else if (f.fault_report != "none") {
    options.fault_report = f.fault_report;
  }
  Prediction prediction;
  if (!f.predicted.empty()) {
    absl::StatusOr<Trace> trace = ReadTrace(f.predicted);
    if (!trace.ok()) {
      return absl::Status(trace.status().code(), absl::StrCat("--predicted: ", trace.status().message()));
    }
    prediction.trace = *std::move(trace);
  } else {
    WEFT_ASSIGN_OR_RETURN(prediction, PredictRun(program, f.cluster));
  }
  exec::PredictedTimes predicted;
  if (prediction.trace.has_value()) {
    absl::StatusOr<exec::PredictedTimes> times = exec::PredictedTimes::Make(program, *prediction.trace);
    if (!times.ok()) {
      return absl::Status(times.status().code(),
                          absl::StrCat("--predicted=", f.predicted, ": ", times.status().message()));
    }
    predicted = *std::move(times);
    // Free the trace, which may be large.
    prediction.trace.reset();
  }
  options.predicted = &predicted;
  // Nothing else can be done: the rank's thread will not return.
  options.on_stuck = [](const absl::Status& reason, bool told) {
    if (told) std::fprintf(stderr, "weft run: %s\n", MessageLine(reason.message()).c_str());
    _exit(exec::ExitStatusOf(reason));
  };
  if (!f.fail_at.empty()) {
    WEFT_ASSIGN_OR_RETURN(options.failure, ParseFailure(f.fail_at));
  }
  if (first) {
    options.on_warning = [](const std::string& warning) {
      std::fprintf(stderr, "weft run: %s\n", Printable(warning).c_str());
    };
    // Standard output holds either the report alone, or the lines of steps with their notes.
    options.on_note = options.on_warning;
  }
  absl::Status printed;
  // A run that is refused prints nothing: lines wait until nothing can be refused any more.
  std::string waiting;
  bool accepted = false, have_met = false;
  auto print = [&](const std::string& line) {
    waiting += line;
    if (!accepted) return;
    if (printed.ok()) printed = Print(std::exchange(waiting, ""));
    // If nobody reads the output any more, stop as a signal would. If the ranks have not met, a stop would end the run
    // before it has done anything.
    if (!printed.ok() && have_met) stop_requested = true;
  };
  if (text) {
    options.on_note = [&](const std::string& note) { print(Printable(note) + "\n"); };
    options.on_step = [&](const RunStep& step) { print(step.has_eval_loss() ? EvaluationLine(step) : StepLine(step)); };
    const int64_t ranks = MeshRanks(program.mesh());
    print(absl::StrCat(program.name(), ": ", ranks, ranks == 1 ? " rank" : " ranks", ", backend ",
                       std::string(backend->name), f.backend == "auto" ? " (auto)" : "", ", transport ",
                       std::string(transport->name), f.transport == "auto" ? " (auto)" : "", ", bootstrap ",
                       exec::BootstrapName(launch.bootstrap), f.bootstrap == "auto" ? " (auto)" : "", ", ", f.threads,
                       f.threads == 1 ? " thread per rank\n" : " threads per rank\n"));
  }
  options.on_meeting = [&](bool met) {
    meets = true;
    announces_stop = first && met;
    accepted = true;
    have_met = met;
    const std::string note = first && !met ? exec::NoteOnSteps(program.recipe(), f.steps) : "";
    if (!note.empty()) options.on_warning(note);
    print("");
  };
  absl::StatusOr<exec::RunResult> ran = exec::RunProgram(program, *data, transport->name, options);
  if (!ran.ok() && exec::FailedInStep(ran.status()) &&
      HasFaultReport(options.fault_report, MeshRanks(program.mesh()))) {
    // Keep the payloads, which say who reports the error.
    absl::Status failed(ran.status().code(), absl::StrCat(ran.status().message(), "; what the ranks did last is in ",
                                                          exec::FaultFileOfRank(options.fault_report, -1)));
    ran.status().ForEachPayload(
        [&](absl::string_view type, const absl::Cord& payload) { failed.SetPayload(type, payload); });
    return failed;
  }
  WEFT_ASSIGN_OR_RETURN(const exec::RunResult result, std::move(ran));
  accepted = true;
  if (!first) return absl::OkStatus();
  // If one file cannot be written, still write the others.
  absl::Status written = result.save_status;
  if (result.trace.has_value()) written.Update(WriteTrace(*result.trace, program, f.trace));
  WEFT_ASSIGN_OR_RETURN(const std::string json, MessageToJson(result.report));
  if (!f.report.empty()) written.Update(WriteFileAtomic(f.report, json));
  if (!text) {
    print(json);
    written.Update(printed);
    return written;
  }
  if (result.stopped) {
    print(absl::StrCat("stopped by signal after step ", result.last_step,
                       f.checkpoint.empty() ? "; nothing was saved (no --checkpoint)\n"
                                            : absl::StrCat("; saved in ", Printable(f.checkpoint), "\n")));
  }
  if (result.first_step == result.last_step) {
    print(absl::StrCat("nothing to do: ", result.last_step,
                       result.last_step == 1 ? " step is done\n" : " steps are done\n"));
  } else {
    const int64_t steps = result.last_step - result.first_step;
    print(absl::StrFormat("%d step%s, %.0f tokens/s, planned bytes per rank %d\n", steps, steps == 1 ? "" : "s",
                          result.report.tokens_per_second(), result.report.planned_bytes()));
    print(SkippedLine(result.report));
  }
  written.Update(printed);
  return written;
}

int Main(std::vector<std::string> args) {
  const std::string command = args.empty() ? "" : args[0];
  if (command == "--version") return Print(absl::StrCat("weft-run ", kVersion, "\n")).ok() ? 0 : 1;
  const bool calibrate = command == "calibrate";
  if (calibrate || command == "run") args.erase(args.begin());
  const absl::Status status = calibrate ? CalibrateCommand(args) : RunMain(args);
  if (status.ok()) return 0;
  if (const std::optional<int> launched = LaunchedExitStatus(status); launched.has_value()) return *launched;
  const int exit_status = IsUsageError(status) ? 2 : exec::FailedInRun(status) ? exec::ExitStatusOf(status) : 1;
  if (exec::ReportedElsewhere(status)) return exit_status;
  const auto say = [&](const std::string& message) {
    // The message may contain a raw file name, so MessageLine makes it one line.
    std::fprintf(stderr, "weft %s: %s\n", calibrate ? "calibrate" : "run", MessageLine(message).c_str());
  };
  // An error of the run itself names its rank already.
  const exec::LauncherRank process = exec::RankFromLauncher();
  const bool named = process.rank == 0 || meets || absl::StrContains(status.message().substr(0, 8), "rank ");
  const std::string of_rank = named ? "" : absl::StrCat("rank ", process.rank, ": ");
  if (!calibrate && !meets) {
    // The other processes wait for this one, now or later.
    const absl::StatusOr<exec::Rendezvous> rendezvous =
        exec::FindRendezvous(exec::WantedBootstrap(), exec::ProcessEnvironment());
    if (rendezvous.ok() && rendezvous->process.size > 1 &&
        (has_store || rendezvous->process.bootstrap != exec::Bootstrap::kMpi)) {
      exec::AnnounceFailure(*rendezvous, status, [&] { say(absl::StrCat(of_rank, status.message())); });
      return exit_status;
    }
  }
  // An error before the ranks run (a missing file) usually concerns all ranks. Rank 0 reports it, and the others are
  // ended before they repeat it. If only some ranks have the error, the lowest of them reports it.
  const bool waits_its_turn = process.rank > 0 && !exec::FailedInRun(status) && !absl::IsCancelled(status);
  const auto say_in_turn = [&] {
    if (waits_its_turn) {
      const int64_t pause_ms = 2500 + 50 * std::min(process.rank, 40);
      for (int64_t i = 0; i < pause_ms / 50 && !stop_requested; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      if (stop_requested) return;
    }
    say(absl::StrCat(of_rank, status.message()));
  };
  // When this process ends, mpirun ends the others, but srun leaves them waiting in MPI's start.
  const absl::StatusOr<exec::LaunchedAs> launcher =
      exec::FindLauncher(exec::WantedBootstrap(), exec::ProcessEnvironment());
  const bool srun = launcher.ok() && launcher->bootstrap == exec::Bootstrap::kMpi && launcher->size > 1 &&
                    !exec::ProcessEnvironment()("OMPI_COMM_WORLD_RANK").has_value();
  if (calibrate || meets || has_store || !srun) {
    say_in_turn();
    return stop_requested && waits_its_turn ? 1 : exit_status;
  }
  std::thread saying(say_in_turn);
  exec::EndMpiJob(exit_status, /*patience_seconds=*/20, [&] { saying.join(); });
  if (saying.joinable()) saying.join();
  return exit_status;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  weft::HoldStandardStreams();
  return weft::Main(std::vector<std::string>(argv + (argc > 0), argv + argc));
}
