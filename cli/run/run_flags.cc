#include "cli/run/run_flags.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "executor/interface/backend.h"
#include "executor/interface/transport.h"
#include "executor/interface/tuning_options.h"
#include "proto/io/decimal.h"
#include "proto/util/suggest.h"

namespace weft {
namespace {

// Returns "auto" and the names of a registry.
template <typename Entries>
std::vector<std::string> Choices(const Entries& entries) {
  std::vector<std::string> names = {"auto"};
  for (const auto& entry : entries) names.emplace_back(entry.name);
  return names;
}

constexpr double kMinTimeout = 1e-6, kMaxTimeout = 1e6;

absl::Status ParseTimeout(const std::string& text, double* timeout) {
  const absl::string_view without = BadBeginning(text);
  if (!without.empty() || !absl::SimpleAtod(text, timeout) || std::isnan(*timeout)) {
    return absl::InvalidArgumentError(absl::StrCat("expected seconds from 0.000001 to 1000000", without));
  }
  if (*timeout >= kMinTimeout && *timeout <= kMaxTimeout) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("allowed: 0.000001 to 1000000 seconds, nearest valid: ",
                                                 *timeout < kMinTimeout ? "0.000001" : "1000000"));
}

}  // namespace

void DeclareRunFlags(Flags& flags, RunFlags& f) {
  flags.String(
      "data", "FILE",
      "training data: a token file, a Megatron .bin/.idx pair, or text as bytes; an image file for a model of images",
      &f.data);
  flags.Choice("token-type", {"uint16", "uint32", "bytes"},
               "the type of tokens in a raw file, which has no header; bytes: any file, each byte is a token",
               &f.token_type);
  flags.String("eval-data", "FILE", "evaluation data, in a format of --data", &f.eval_data);
  flags.Int("eval-every", "N", "evaluate after every N steps", &f.eval_every, 0, INT64_MAX);
  flags.Int("eval-batches", "N", "at most N global batches per evaluation", &f.eval_batches, 1, INT64_MAX);
  flags.Choice("backend", Choices(exec::Backends()), "what runs the kernels", &f.backend, kBackendWords);
  flags.Choice(
      "transport", Choices(exec::Transports()),
      "how ranks communicate: as threads of one process (inproc; loopback on a GPU), or as processes (the others)",
      &f.transport);
  flags.Choice("bootstrap", {"auto", "none", "local", "env", "mpi"},
               "what starts the processes: none = one process holds all ranks; local = weft-run, on this node; env = a "
               "launcher that sets RANK and WORLD_SIZE; mpi = MPI's launcher",
               &f.bootstrap);
  flags.Repeated("lib-path", "DIR", "the folder to search first for the libraries of CUDA and MPI", &f.lib_path);
  flags.String("tuning", "off|write FILE|read FILE",
               "algorithms of matrix products on a GPU: off = the library's first choice; write FILE = measure each "
               "shape once and save the fastest in FILE; read FILE = use those of FILE",
               &f.tuning);
  flags.Int("threads", "N", "threads per rank; the results are the same with any number", &f.threads, 1, 256);
  flags.Int("slots", "N", "ranks of a process that compute at the same time; 0 = cores / threads", &f.slots, 0, 4096);
  flags.Int("steps", "N", "stop after optimizer step N instead of the recipe's last step", &f.steps, 1, INT64_MAX);
  flags.String("checkpoint", "DIR", "save checkpoints in this folder; without it, no checkpoint is saved",
               &f.checkpoint);
  flags.Int("checkpoint-every", "N", "save after every N steps; 0 = only at the end", &f.checkpoint_every, 0,
            INT64_MAX);
  flags.Int("keep", "N", "number of checkpoints to keep", &f.keep, 1, 1000000);
  flags.Bool("resume", "continue from the newest checkpoint in --checkpoint", &f.resume);
  flags.Custom("resume-step", "N", "continue from the checkpoint after N steps instead of the newest", "",
               [&f](const std::string& text) -> absl::Status {
                 return ReadCount(text, "expected the number of steps of a checkpoint, from 0", &f.resume_step);
               });
  flags.String("weights", "FILE", "start from these weights (safetensors)", &f.weights);
  flags.String("save-weights", "FILE", "write the final weights (safetensors, F32)", &f.save_weights);
  flags.String("trace", "FILE",
               "write the measured trace: for trace viewers too if the name ends in .json, else binary; "
               "`weft report` reads both",
               &f.trace);
  flags.Int("trace-steps", "N", "number of steps to trace", &f.trace_steps, 1, 1000000);
  flags.Choice("format", {"text", "json"}, "the format of the printed output", &f.format);
  flags.String("report", "FILE", "also write the report as JSON", &f.report);
  flags.Custom("timeout", "SECONDS",
               "end the run if an action takes longer than this and longer than 20 times its predicted time", "300",
               [&f](const std::string& text) { return ParseTimeout(text, &f.timeout); });
  flags.String("cluster", "NAME|FILE",
               "the cluster that predicts how long actions take, for their deadlines; 'none' = use --timeout alone. "
               "Default: the program's cluster, if it is in the catalog",
               &f.cluster);
  flags.String("predicted", "TRACE", "take the deadlines from this trace of `weft simulate --trace`", &f.predicted);
  flags.String(
      "fault-report", "FILE",
      "where a failed run writes the last actions of each rank: one file per rank, with the rank before the extension; "
      "'none' = nowhere. Default: weft-fault.json with the checkpoints, else beside the trace, else in this folder",
      &f.fault_report);
  flags.Int("check-replicas", "N", "compare the replicas of all weights after every N steps; 0 = never",
            &f.check_replicas, 0, INT64_MAX);
  flags.String("inject-failure", "RANK:STEP:ACTION[:kill|:stall|:flip]",
               "make this action fail, to test how a run ends: kill = its process dies; stall = it hangs; flip = after "
               "STEP, a bit of the rank's weights differs; by default an error",
               &f.fail_at);
  flags.Example("weft run gpt.weft --data /usr/share/common-licenses/GPL-3 --steps 20");
}

absl::Status CheckRunFlags(const Flags& flags, RunFlags& f) {
  if (f.data.empty()) {
    return UsageError("--data FILE is required, e.g. a text file (docs/data.md has the formats); see weft run --help");
  }
  if (!f.eval_data.empty() && f.eval_every == 0) return UsageError("--eval-data needs --eval-every N");
  if (f.eval_data.empty() && f.eval_every > 0) return UsageError("--eval-every needs --eval-data FILE");
  if (f.checkpoint.empty() &&
      (f.resume || flags.Given("resume-step") || f.checkpoint_every > 0 || flags.Given("keep"))) {
    return UsageError("--resume, --resume-step, --checkpoint-every and --keep need --checkpoint DIR");
  }
  if (flags.Given("trace-steps") && f.trace.empty()) {
    return UsageError("--trace-steps needs --trace=FILE");
  }
  f.resume |= flags.Given("resume-step");
  if (f.resume && !f.weights.empty()) {
    return UsageError(
        "--weights and --resume: a run starts from a weights file or from its checkpoint; give one of them");
  }
  if (!f.cluster.empty() && !f.predicted.empty()) {
    return UsageError("--cluster and --predicted both set the deadlines; give one of them");
  }
  if (const absl::Status tuning = exec::ParseTuningOptions(f.tuning).status(); !tuning.ok()) {
    return UsageError(tuning.message());
  }
  return f.fail_at.empty() ? absl::OkStatus() : ParseFailure(f.fail_at).status();
}

absl::Status CheckLibraryPath(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::error_code error;
    if (std::filesystem::is_directory(folder, error)) continue;
    const bool there = std::filesystem::exists(folder, error);
    return absl::NotFoundError(
        absl::StrCat("--lib-path: ", folder, there ? ": is not a folder" : ": there is no such folder"));
  }
  return absl::OkStatus();
}

absl::StatusOr<exec::InjectedFailure> ParseFailure(const std::string& text) {
  exec::InjectedFailure failure;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  const absl::string_view how = parts.size() == 4 ? parts[3] : absl::string_view();
  failure.kill = how == "kill";
  failure.stall = how == "stall";
  failure.flip = how == "flip";
  const bool odd =
      std::any_of(parts.begin(), parts.end(), [](absl::string_view p) { return !BadBeginning(p).empty(); });
  if (odd || parts.size() < 3 || parts.size() > 4 || !absl::SimpleAtoi(parts[0], &failure.rank) ||
      !absl::SimpleAtoi(parts[1], &failure.repetition) || !absl::SimpleAtoi(parts[2], &failure.action) ||
      failure.rank < 0 || failure.repetition < 0 || failure.action < 0 ||
      (parts.size() == 4 && !failure.kill && !failure.stall && !failure.flip)) {
    return UsageError(
        absl::StrCat("--inject-failure=", Quoted(text), ": expected RANK:STEP:ACTION[:kill|:stall|:flip]"));
  }
  return failure;
}

}  // namespace weft
