// Finds out which launcher started this process, and the place of the process in its job (--bootstrap). docs/launch.md
// explains how to start jobs.
#ifndef WEFT_EXECUTOR_JOB_BOOTSTRAP_H_
#define WEFT_EXECUTOR_JOB_BOOTSTRAP_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft::exec {

enum class Bootstrap {
  kAuto,   // not decided yet
  kNone,   // one process runs the whole job
  kLocal,  // a process per rank on this node, started by weft-run itself (launch_local.h)
  kEnv,    // RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, with GPUs LOCAL_RANK: torchrun, Kubernetes
  kMpi,    // mpirun, or srun --mpi=pmix
};
absl::string_view BootstrapName(Bootstrap bootstrap);

// Returns the value of an environment variable, or nullopt if the variable is not set.
using Environment = std::function<std::optional<std::string>(const char*)>;
Environment ProcessEnvironment();

// The place of this process in its job, from the launcher's variables. An MPI launcher's variables are those of Open
// MPI's mpirun, or of PMIx with Slurm's.
struct LaunchedAs {
  Bootstrap bootstrap = Bootstrap::kNone;
  int rank = 0;
  int size = 0;  // 0: no launcher
  // The number of this process among the processes of its node. Only GPUs need it (CheckLocalRank).
  std::optional<int> local_rank;
};

// Finds out from the environment what started this process: kLocal if weft-run's own launcher did, else kMpi, else kEnv
// if RANK or WORLD_SIZE is set, else kNone. `wanted` other than kAuto asks for that launcher only. InvalidArgument
// names every variable that is missing or wrong. A process that the local launcher has started is kLocal; a process
// that is still to start the others gets kNone.
absl::StatusOr<LaunchedAs> FindLauncher(Bootstrap wanted, const Environment& environment);

// InvalidArgument, naming the variable, if the launcher has not given this process its number among the processes of
// its node. Each process takes the GPU of that number.
absl::Status CheckLocalRank(Bootstrap bootstrap, const Environment& environment);

// The value of --bootstrap, for RankFromLauncher() (transport.h). main sets it before any transport is opened.
void SetBootstrap(Bootstrap wanted);
Bootstrap WantedBootstrap();

// Becomes true when this process is asked to stop. A process that waits for the others at the start then gives up. main
// sets the flag before any transport is opened; null = there is no flag.
void SetStopFlag(const std::atomic<bool>* stop);
const std::atomic<bool>* StopFlag();

// Where the processes of a job meet.
struct Rendezvous {
  LaunchedAs process;
  std::string host;  // MASTER_ADDR
  // Port of the store: WEFT_STORE_PORT if it is set, else MASTER_PORT, or one above it where torchrun's own store has
  // MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE=True).
  int port = 0;
  std::string secret;  // WEFT_JOB_SECRET, at least 16 characters
  // WEFT_RENDEZVOUS_TIMEOUT in seconds: how long to wait for the others at the start.
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
  // Given by the local launcher: the store's listening socket (rank 0) and shared memory for notes; -1 = none.
  int listener_fd = -1;
  int notes_fd = -1;
  // The flag that SetStopFlag has set; null = none.
  const std::atomic<bool>* stop = nullptr;
};

// InvalidArgument names every variable that is missing or wrong, including those of FindLauncher.
absl::StatusOr<Rendezvous> FindRendezvous(Bootstrap wanted, const Environment& environment);

// The local launcher sets these for its processes, besides the variables of kEnv: its process id, the two descriptors
// and the job's secret.
inline constexpr char kLocalLauncherVariable[] = "WEFT_LOCAL_LAUNCHER";
inline constexpr char kListenerVariable[] = "WEFT_STORE_LISTENER";
inline constexpr char kNotesVariable[] = "WEFT_NOTES";
inline constexpr char kSecretVariable[] = "WEFT_JOB_SECRET";

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_JOB_BOOTSTRAP_H_
