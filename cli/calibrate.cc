#include "cli/calibrate.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "catalog/load_cluster.h"
#include "cli/flags.h"
#include "cli/terminal.h"
#include "executor/backend.h"
#include "executor/calibrate.h"
#include "executor/calibrate_device.h"
#include "proto/io.h"
#include "proto/status.h"
#include "proto/validate.h"

namespace weft {

absl::Status CalibrateCommand(absl::Span<const std::string> args) {
  Flags flags("weft calibrate", "-o CLUSTER.textproto [flags]",
              "Measures this machine into a cluster file for compile and simulate. Takes about a minute.");
  std::string output, base, backend = "auto";
  int64_t ranks = 4, threads = 1, seconds = 0;
  flags.String("output", "FILE", "the cluster file to write", &output);
  flags.Short('o', "output");
  std::vector<std::string> backends = {"auto"};
  for (const BackendEntry& entry : Backends()) backends.emplace_back(entry.name);
  flags.Choice("backend", backends, "what runs the kernels; auto = cuda where there is a GPU, else cpu", &backend);
  flags.String("base", "CLUSTER",
               "of a GPU: the catalog's cluster or file to take from what one device cannot tell, as nodes and links",
               &base);
  flags.Int("ranks", "R", "cpu: devices, that is ranks that share this machine", &ranks, 1, 256);
  flags.Int("threads", "N", "cpu: threads per rank", &threads, 1, 256);
  flags.Int("seconds", "S", "about how long kernels are measured; 0 = 25 on cpu, 60 on GPUs", &seconds, 0, 3600);
  flags.Example("weft calibrate --backend=cpu -o this-machine.textproto");
  WEFT_RETURN_IF_ERROR(flags.Parse(args, 0, 0));
  if (flags.help_wanted()) return Print(flags.Help());
  if (output.empty()) return UsageError("-o FILE is required");
  WEFT_RETURN_IF_ERROR(CheckWritable(output));
  WEFT_ASSIGN_OR_RETURN(const BackendEntry* entry, FindBackend(backend));
  Progress progress;
  auto on_progress = [&](const std::string& text) { progress.Step(text); };
  Cluster cluster;
  if (entry->name == "cpu") {
    if (!base.empty()) return UsageError("--base is for GPUs: of cores everything is measured; leave it out");
    CalibrateOptions options;
    options.ranks = static_cast<int>(ranks);
    options.threads_per_rank = static_cast<int>(threads);
    if (seconds > 0) options.seconds = static_cast<double>(seconds);
    options.on_progress = on_progress;
    WEFT_ASSIGN_OR_RETURN(cluster, Calibrate(options));
  } else {
    if (flags.Given("ranks") || flags.Given("threads")) {
      return UsageError(
          absl::StrCat("--ranks and --threads are for --backend=cpu; the backend is ", std::string(entry->name)));
    }
    CalibrateDeviceOptions options;
    Cluster of_base;
    if (!base.empty()) {
      WEFT_ASSIGN_OR_RETURN(of_base, LoadCluster(base));
      options.base = &of_base;
    }
    if (seconds > 0) options.seconds = static_cast<double>(seconds);
    options.on_progress = on_progress;
    WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<ComputeDevice> device, entry->open({}));
    WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> kernels, entry->make(device.get(), {}));
    WEFT_ASSIGN_OR_RETURN(cluster, CalibrateDevice(device.get(), kernels.get(), options));
  }
  WEFT_RETURN_IF_ERROR(Validate(cluster));
  return WriteFileAtomic(output, MessageToText(cluster));
}

}  // namespace weft
