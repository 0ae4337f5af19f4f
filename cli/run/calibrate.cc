#include "cli/run/calibrate.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "catalog/load.h"
#include "cli/common/file_clash.h"
#include "cli/common/flags.h"
#include "cli/common/terminal.h"
#include "cli/run/run_flags.h"
#include "executor/calibrate/calibrate.h"
#include "executor/calibrate/calibrate_device.h"
#include "executor/interface/backend.h"
#include "executor/interface/tuning_options.h"
#include "executor/platform/shared_library.h"
#include "proto/io/io.h"
#include "proto/io/program_file.h"
#include "proto/util/status.h"
#include "proto/validate/validate.h"
#include "schedules/collective/plan.h"
#include "verifier/verify.h"

namespace weft {
namespace {

absl::StatusOr<std::vector<Program>> ReadPrograms(const std::vector<std::string>& paths) {
  std::vector<Program> programs;
  for (const std::string& path : paths) {
    WEFT_ASSIGN_OR_RETURN(programs.emplace_back(), ReadProgram(path));
    // Calibration measures single steps, so the whole program need not fit.
    const absl::Status status = VerifyProgram(programs.back(), {.allow_unfit = true, .algorithms = KnownCollectives()});
    if (!status.ok()) return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
  }
  return programs;
}

}  // namespace

absl::Status CalibrateCommand(absl::Span<const std::string> args) {
  Flags flags(
      "weft calibrate", "-o CLUSTER.textproto [flags]",
      "Measures this machine and writes a cluster file for compile and simulate: memory, rates of kernels and, on "
      "cpu,\n"
      "links between ranks and how ranks share the cores. It takes a few seconds more than --seconds, and longer if "
      "five\n"
      "calls of a slow kernel, or of a step of --program, take more than their part of that time. It writes only the\n"
      "cluster file and the file of --tuning; on a terminal it shows its progress.");
  std::string output, base, backend = "auto", tuning = "off";
  std::vector<std::string> lib_path, program_paths;
  int64_t ranks = 4, threads = 1, seconds = 0;
  flags.String("output", "FILE", "the cluster file to write; - is standard output", &output);
  flags.Short('o', "output");
  std::vector<std::string> backends = {"auto"};
  for (const exec::BackendEntry& entry : exec::Backends()) backends.emplace_back(entry.name);
  flags.Choice("backend", backends, "what runs the kernels; auto = cuda if the machine has a GPU, else cpu", &backend,
               kBackendWords);
  flags.String("base", "CLUSTER",
               "with --backend=cuda: the cluster (catalog name or file) whose figures are used for what one GPU cannot "
               "measure, such as nodes and links",
               &base);
  flags.Repeated("program", "FILE",
                 "also measure each step of this compiled program, so that its prediction uses measured times",
                 &program_paths);
  flags.String("tuning", "off|write FILE|read FILE",
               "with --backend=cuda: algorithms of matrix products, as in weft run", &tuning);
  flags.Repeated("lib-path", "DIR", "the folder to search first for CUDA's libraries", &lib_path);
  flags.Int("ranks", "R", "with --backend=cpu: ranks that share this machine, each a device of the cluster", &ranks, 1,
            256);
  flags.Int("threads", "N", "with --backend=cpu: threads per rank", &threads, 1, 256);
  flags.Int("seconds", "S", "approximate seconds to measure kernels; 0 = 25 on cpu, 60 on GPUs", &seconds, 0, 3600);
  flags.Example("weft calibrate --backend=cpu -o this-machine.textproto");
  flags.Example("weft calibrate --backend=cuda --program gpt.weft --tuning='read gpt.tuning' -o h200.textproto");
  WEFT_RETURN_IF_ERROR(flags.Parse(args, 0, 0));
  if (flags.help_wanted()) return Print(flags.Help());
  if (output.empty()) return UsageError("-o FILE is required");
  if (output == "-") output.clear();
  if (const absl::Status status = exec::ParseTuningOptions(tuning).status(); !status.ok()) {
    return UsageError(status.message());
  }
  const exec::TuningOptions tuned = *exec::ParseTuningOptions(tuning);
  std::vector<NamedFile> read = {{"--base", base}, {"--tuning", tuned.read()}};
  for (const std::string& path : program_paths) read.push_back({"--program", path});
  WEFT_RETURN_IF_ERROR(CheckFileClashes(read, {{"-o", output}, {"--tuning", tuned.written()}}));
  for (const std::string& path : {output, tuned.written()}) {
    if (!path.empty()) WEFT_RETURN_IF_ERROR(CheckWritable(path));
  }
  WEFT_RETURN_IF_ERROR(CheckLibraryPath(lib_path));
  exec::SetLibraryPath(lib_path);
  WEFT_ASSIGN_OR_RETURN(const std::vector<Program> programs, ReadPrograms(program_paths));
  std::vector<const Program*> measured;
  for (const Program& program : programs) measured.push_back(&program);
  WEFT_ASSIGN_OR_RETURN(const exec::BackendEntry* entry, exec::FindBackend(backend));
  Progress progress;
  std::vector<std::string> notes;
  const auto on_note = [&](const std::string& note) { notes.push_back(note); };
  auto on_progress = [&](const std::string& text) { progress.Step(text); };
  Cluster cluster;
  if (entry->name == "cpu") {
    if (!base.empty()) return UsageError("--base is for GPUs; on cpu weft measures everything; leave --base out");
    if (tuning != "off") {
      return UsageError(absl::StrCat("--tuning=", tuning, ": backend cpu has nothing to tune; leave it out"));
    }
    exec::CalibrateOptions options;
    options.programs = measured;
    options.on_note = on_note;
    options.ranks = static_cast<int>(ranks);
    options.threads_per_rank = static_cast<int>(threads);
    if (seconds > 0) options.seconds = static_cast<double>(seconds);
    options.on_progress = on_progress;
    WEFT_ASSIGN_OR_RETURN(cluster, exec::Calibrate(options));
  } else {
    if (flags.Given("ranks") || flags.Given("threads")) {
      return UsageError(
          absl::StrCat("--ranks and --threads are for --backend=cpu; the backend is ", std::string(entry->name)));
    }
    exec::CalibrateDeviceOptions options;
    options.programs = measured;
    options.on_note = on_note;
    Cluster of_base;
    if (!base.empty()) {
      WEFT_ASSIGN_OR_RETURN(of_base, LoadCluster(base));
      options.base = &of_base;
    }
    if (seconds > 0) options.seconds = static_cast<double>(seconds);
    options.on_progress = on_progress;
    WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<exec::ComputeDevice> device, entry->open({}));
    WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<exec::Backend> kernels, entry->make(device.get(), {.tuning = tuning}));
    WEFT_ASSIGN_OR_RETURN(cluster, exec::CalibrateDevice(device.get(), kernels.get(), options));
  }
  WEFT_RETURN_IF_ERROR(Validate(cluster));
  progress.Done();
  for (const std::string& note : notes) PrintNote(note);
  return output.empty() ? Print(MessageToText(cluster)) : WriteFileAtomic(output, MessageToText(cluster));
}

}  // namespace weft
