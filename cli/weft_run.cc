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
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/common/file_clash.h"
#include "cli/common/flags.h"
#include "cli/common/terminal.h"
#include "cli/results/trace_file.h"
#include "cli/run/calibrate.h"
#include "cli/run/launch.h"
#include "cli/run/run_files.h"
#include "cli/run/run_flags.h"
#include "cli/run/run_lines.h"
#include "cli/run/run_options.h"
#include "cli/run/run_output.h"
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

// True once the ranks meet. From then on the transport reports to the other ranks why this process failed.
bool meets = false;
// True for --transport=tcp: before the ranks meet, the rendezvous store reports the failure to the other ranks, even
// under an MPI launcher.
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

// --save-weights may overwrite the --weights that a run starts from, so these are not compared.
absl::Status CheckClashes(const std::string& program, const RunFlags& f, const exec::TuningOptions& tuning) {
  WEFT_RETURN_IF_ERROR(CheckFileClashes({{"the program", program},
                                         {"--data", f.data},
                                         {"--eval-data", f.eval_data},
                                         {"--predicted", f.predicted},
                                         {"--cluster", f.cluster}},
                                        {{"--trace", f.trace},
                                         {"--report", f.report},
                                         {"--save-weights", f.save_weights},
                                         {"--tuning", tuning.written()}}));
  return CheckFileClashes({{"--weights", f.weights}}, {{"--trace", f.trace}, {"--report", f.report}});
}

absl::Status CheckInputs(const std::string& program, const RunFlags& f, const exec::TuningOptions& tuning) {
  WEFT_RETURN_IF_ERROR(CheckRead("the program", program));
  WEFT_RETURN_IF_ERROR(CheckRead("--predicted", f.predicted));
  WEFT_RETURN_IF_ERROR(CheckRead("--cluster", f.cluster));
  return CheckRead("--tuning", tuning.read());
}

// The backend and the transport that are chosen for this process.
struct Machinery {
  const exec::BackendEntry* backend = nullptr;
  const exec::TransportEntry* transport = nullptr;
};

absl::StatusOr<Machinery> ChooseMachinery(const RunFlags& f, const Launch& launch) {
  Machinery chosen;
  WEFT_ASSIGN_OR_RETURN(chosen.backend, exec::FindBackend(f.backend));
  // CPU ranks need no LOCAL_RANK: any rank may run on any core.
  if (chosen.backend->name != "cpu") {
    WEFT_RETURN_IF_ERROR(exec::CheckLocalRank(launch.bootstrap, exec::ProcessEnvironment()));
  }
  WEFT_ASSIGN_OR_RETURN(chosen.transport,
                        exec::FindTransport(ChooseTransport(f.transport, chosen.backend->name, launch.bootstrap)));
  return chosen;
}

// "tiny: 2 ranks, backend cpu (auto), transport inproc (auto), bootstrap none (auto), 1 thread per rank\n".
std::string FirstLine(const Program& program, const RunFlags& f, const Machinery& chosen, const Launch& launch) {
  const int64_t ranks = MeshRanks(program.mesh());
  return absl::StrCat(program.name(), ": ", ranks, ranks == 1 ? " rank" : " ranks", ", backend ",
                      std::string(chosen.backend->name), f.backend == "auto" ? " (auto)" : "", ", transport ",
                      std::string(chosen.transport->name), f.transport == "auto" ? " (auto)" : "", ", bootstrap ",
                      exec::BootstrapName(launch.bootstrap), f.bootstrap == "auto" ? " (auto)" : "", ", ", f.threads,
                      f.threads == 1 ? " thread per rank\n" : " threads per rank\n");
}

// Sets the functions that `options` calls during the run. All arguments must outlive the run.
void SetCallbacks(const Program& program, const RunFlags& f, bool first, RunOutput& output, exec::RunOptions& options) {
  // End the process: nothing else can be done, because the rank's thread will not return.
  options.on_stuck = [](const absl::Status& reason, bool reports) {
    if (reports) std::fprintf(stderr, "weft run: %s\n", MessageLine(reason.message()).c_str());
    _exit(exec::ExitStatusOf(reason));
  };
  if (first) {
    options.on_warning = [](const std::string& warning) {
      std::fprintf(stderr, "weft run: %s\n", Printable(warning).c_str());
    };
    // Standard output holds either the report alone, or the lines of steps together with the notes.
    options.on_note = options.on_warning;
  }
  if (first && f.format == "text") {
    options.on_note = [&](const std::string& note) { output.Write(Printable(note) + "\n"); };
    options.on_step = [&](const RunStep& step) {
      output.Write(step.has_eval_loss() ? EvaluationLine(step) : StepLine(step));
    };
  }
  options.on_meeting = [&, first](bool met) {
    meets = true;
    announces_stop = first && met;
    const std::string note = first && !met ? exec::NoteOnSteps(program.recipe(), f.steps) : "";
    if (!note.empty()) options.on_warning(note);
    output.Accept(met);
  };
}

// Adds the fault reports, if there are any, to the error of a run that failed.
absl::Status WithFaultReport(const absl::Status& status, const exec::RunOptions& options, int64_t ranks) {
  if (!exec::FailedInStep(status) || !HasFaultReport(options.fault_report, ranks)) return status;
  // Keep the payloads, which state which processes report the error.
  absl::Status failed(status.code(), absl::StrCat(status.message(), "; the last actions of each rank are in ",
                                                  exec::FaultFileOfRank(options.fault_report, -1)));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) { failed.SetPayload(type, payload); });
  return failed;
}

// Writes the files and the last lines of a run that has ended.
absl::Status WriteResult(const exec::RunResult& result, const Program& program, const RunFlags& f, RunOutput& output) {
  // If one file cannot be written, still write the others.
  absl::Status written = result.save_status;
  if (result.trace.has_value()) written.Update(WriteTrace(*result.trace, program, f.trace));
  WEFT_ASSIGN_OR_RETURN(const std::string json, MessageToJson(result.report));
  if (!f.report.empty()) written.Update(WriteFileAtomic(f.report, json));
  if (f.format == "text") {
    output.Write(LastLines(result, f.checkpoint));
  } else {
    output.Write(json);
  }
  written.Update(output.status());
  return written;
}

// Runs the ranks of this process.
absl::Status RunRanks(const Program& program, const Flags& flags, const RunFlags& f, const Launch& launch) {
  WEFT_ASSIGN_OR_RETURN(const Machinery chosen, ChooseMachinery(f, launch));
  const bool first = exec::RankFromLauncher().rank == 0;
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<exec::DataSource> data, Open(f.data, program, f.token_type, "--data"));
  std::unique_ptr<exec::DataSource> eval_data;
  if (!f.eval_data.empty()) {
    // Without an evaluation program, RunProgram refuses --eval-data.
    const Program& evaluation = program.has_evaluation() ? program.evaluation() : program;
    WEFT_ASSIGN_OR_RETURN(eval_data, Open(f.eval_data, evaluation, f.token_type, "--eval-data"));
  }
  if (first) WEFT_RETURN_IF_ERROR(CheckOutputs(f));
  WEFT_RETURN_IF_ERROR(CheckFaultReport(f.fault_report, exec::RankFromLauncher().rank));
  WEFT_ASSIGN_OR_RETURN(exec::RunOptions options, OptionsOf(flags, f, *chosen.backend));
  options.eval_data = eval_data.get();
  WEFT_ASSIGN_OR_RETURN(const exec::PredictedTimes predicted, PredictTimes(program, f));
  options.predicted = &predicted;
  if (!f.fail_at.empty()) {
    WEFT_ASSIGN_OR_RETURN(options.failure, ParseFailure(f.fail_at));
  }
  RunOutput output;
  SetCallbacks(program, f, first, output, options);
  if (first && f.format == "text") output.Write(FirstLine(program, f, chosen, launch));
  absl::StatusOr<exec::RunResult> result = exec::RunProgram(program, *data, chosen.transport->name, options);
  if (!result.ok()) return WithFaultReport(result.status(), options, MeshRanks(program.mesh()));
  if (!first) return absl::OkStatus();
  return WriteResult(*result, program, f, output);
}

absl::Status RunMain(absl::Span<const std::string> args) {
  Flags flags(
      "weft run", "PROGRAM [flags]",
      "Trains: runs a compiled program on this machine, or as one process of a job on several machines "
      "(docs/launch.md).\n"
      "Exit status: 0 the run is complete, or was stopped by a signal and saved; 1 weft refused the run, or cannot\n"
      "continue it; 2 wrong usage; 3 a deadline has passed; 4 the process of another rank has died; 5 an error\n"
      "of a device or transport; 6 replicas differ; 128 + N, with --bootstrap=local, a rank died of signal N.");
  RunFlags f;
  DeclareRunFlags(flags, f);
  WEFT_RETURN_IF_ERROR(flags.Parse(args, 1, 1));
  if (flags.help_wanted()) return Print(flags.Help());
  WEFT_RETURN_IF_ERROR(CheckRunFlags(flags, f));
  const std::string& path = flags.positional()[0];
  // This cannot fail: CheckRunFlags has parsed the value before.
  const exec::TuningOptions tuning = *exec::ParseTuningOptions(f.tuning);
  WEFT_RETURN_IF_ERROR(CheckClashes(path, f, tuning));
  WEFT_ASSIGN_OR_RETURN(const Launch launch, ChooseLaunch(f.bootstrap, f.transport, exec::ProcessEnvironment()));
  has_store = f.transport == "tcp";
  WEFT_RETURN_IF_ERROR(CheckLibraryPath(f.lib_path));
  exec::SetLibraryPath(f.lib_path);
  if (!launch.starts_ranks) {
    exec::SetStopFlag(&stop_requested);
    CatchStopSignals();
  }
  WEFT_RETURN_IF_ERROR(CheckInputs(path, f, tuning));
  WEFT_ASSIGN_OR_RETURN(const Program program, LoadProgram(path));
  if (launch.starts_ranks) return RunLocally(static_cast<int>(MeshRanks(program.mesh())), args);
  return RunRanks(program, flags, f, launch);
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
  if (exec::ReportedRemotely(status)) return exit_status;
  const auto say = [&](const std::string& message) {
    // The message may contain a raw file name, so MessageLine makes it one line.
    std::fprintf(stderr, "weft %s: %s\n", calibrate ? "calibrate" : "run", MessageLine(message).c_str());
  };
  // Once the ranks have begun to connect, an error already names its rank.
  const exec::LauncherRank process = exec::RankFromLauncher();
  const std::string of_rank = process.rank == 0 || meets ? "" : absl::StrCat("rank ", process.rank, ": ");
  if (!calibrate && !meets) {
    // The other processes wait for this one, or will do so.
    const absl::StatusOr<exec::Rendezvous> rendezvous =
        exec::FindRendezvous(exec::WantedBootstrap(), exec::ProcessEnvironment());
    if (rendezvous.ok() && rendezvous->process.size > 1 &&
        (has_store || rendezvous->process.bootstrap != exec::Bootstrap::kMpi)) {
      exec::AnnounceFailure(*rendezvous, status, [&] { say(absl::StrCat(of_rank, status.message())); });
      return exit_status;
    }
  }
  // An error before the ranks run (a missing file) usually concerns all ranks. Rank 0 reports it, and the others are
  // ended before they repeat it. If only some ranks have the error, the lowest of them reports it first: higher ranks
  // wait longer (ranks from 40 on equally long).
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
  // When this process ends, mpirun ends the others, but srun leaves them waiting in MPI's initialization.
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
