#include "executor/job/bootstrap.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft::exec {
namespace {

constexpr size_t kMinSecret = 16;
constexpr int kMaxProcesses = 1 << 20;

Bootstrap wanted_bootstrap = Bootstrap::kAuto;
const std::atomic<bool>* stop_flag = nullptr;

// Reads variables and collects what is wrong with them, so that one message names all errors.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  int Number(const char* name, int low, int high, const char* meaning) {
    const std::optional<int> value = NumberIfSet(name, low, high, meaning);
    if (!Has(name)) missing_.push_back(name);
    return value.value_or(0);
  }
  std::optional<int> NumberIfSet(const char* name, int low, int high, const char* meaning) {
    if (!Has(name)) return std::nullopt;
    const std::string text = *environment_(name);
    int value = 0;
    if (absl::SimpleAtoi(text, &value) && value >= low && value <= high) return value;
    wrong_.push_back(absl::StrCat(name, "='", text, "' must be a ", meaning, " from ", low, " to ", high));
    return std::nullopt;
  }
  std::string Text(const char* name) {
    std::optional<std::string> text = environment_(name);
    if (!text.has_value() || text->empty()) missing_.push_back(name);
    return std::move(text).value_or("");
  }
  bool Has(const char* name) const {
    const std::optional<std::string> text = environment_(name);
    return text.has_value() && !text->empty();
  }
  void Wrong(std::string what) { wrong_.push_back(std::move(what)); }
  bool missing(absl::string_view name) const {
    for (const std::string& each : missing_) {
      if (each == name) return true;
    }
    return false;
  }

  // Returns one error that names all variables that are wrong or missing, followed by `advice`; Ok if there are none.
  absl::Status Verdict(absl::string_view advice) const {
    std::vector<std::string> all = wrong_;
    if (!missing_.empty()) {
      all.push_back(absl::StrCat(absl::StrJoin(missing_, ", "), missing_.size() == 1 ? " is not set" : " are not set"));
    }
    if (all.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(absl::StrJoin(all, "; "), advice));
  }

 private:
  const Environment& environment_;
  std::vector<std::string> missing_, wrong_;
};

// The names of one launcher's variables.
struct Names {
  Bootstrap bootstrap;
  const char *rank, *size, *local_rank;
};

LaunchedAs Read(const Names& names, Variables& variables) {
  LaunchedAs process;
  process.bootstrap = names.bootstrap;
  process.size = variables.Number(names.size, 1, kMaxProcesses, "number of processes");
  process.rank = variables.Number(names.rank, 0, kMaxProcesses - 1, "rank");
  process.local_rank = variables.NumberIfSet(names.local_rank, 0, kMaxProcesses - 1, "rank on its node");
  if (process.size > 0 && process.rank >= process.size && !variables.missing(names.size)) {
    variables.Wrong(absl::StrCat(names.rank, "=", process.rank, " must be below ", names.size, "=", process.size));
  }
  return process;
}

constexpr Names kEnvironmentNames = {Bootstrap::kEnv, "RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr Names kOpenMpiNames = {Bootstrap::kMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                 "OMPI_COMM_WORLD_LOCAL_RANK"};
// PMIx gives a process its rank; Slurm gives the rest.
constexpr Names kSlurmNames = {Bootstrap::kMpi, "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"};

// True if the local launcher has started this process. A process that a rank starts itself inherits the variables, so
// the launcher must also be the parent.
bool StartedHere(const Environment& environment) {
  int launcher = 0;
  return absl::SimpleAtoi(environment(kLocalLauncherVariable).value_or(""), &launcher) && launcher == getppid();
}

}  // namespace

absl::string_view BootstrapName(Bootstrap bootstrap) {
  switch (bootstrap) {
    case Bootstrap::kAuto:
      return "auto";
    case Bootstrap::kNone:
      return "none";
    case Bootstrap::kLocal:
      return "local";
    case Bootstrap::kEnv:
      return "env";
    case Bootstrap::kMpi:
      return "mpi";
  }
  return "?";
}

Environment ProcessEnvironment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

void SetBootstrap(Bootstrap wanted) { wanted_bootstrap = wanted; }
Bootstrap WantedBootstrap() { return wanted_bootstrap; }

void SetStopFlag(const std::atomic<bool>* stop) { stop_flag = stop; }
const std::atomic<bool>* StopFlag() { return stop_flag; }

namespace {

bool HasOpenMpi(const Variables& variables) {
  return variables.Has(kOpenMpiNames.rank) || variables.Has(kOpenMpiNames.size);
}

// Returns the launcher that `wanted` asks for. For kAuto, the environment decides.
Bootstrap Decide(Bootstrap wanted, const Variables& variables, const Environment& environment) {
  if (wanted != Bootstrap::kAuto) return wanted;
  if (StartedHere(environment)) return Bootstrap::kLocal;
  const bool pmix = variables.Has(kSlurmNames.rank) && variables.Has(kSlurmNames.size);
  if (HasOpenMpi(variables) || pmix) return Bootstrap::kMpi;
  const bool named = variables.Has(kEnvironmentNames.rank) || variables.Has(kEnvironmentNames.size);
  return named ? Bootstrap::kEnv : Bootstrap::kNone;
}

// Errors in variables are collected in `variables`. InvalidArgument if kMpi is wanted and no MPI launcher has started
// this process.
absl::StatusOr<LaunchedAs> ReadLauncher(Bootstrap wanted, const Environment& environment, Variables& variables) {
  switch (wanted) {
    case Bootstrap::kAuto:
    case Bootstrap::kNone:
      return LaunchedAs{};
    case Bootstrap::kLocal: {
      if (!StartedHere(environment)) return LaunchedAs{};
      LaunchedAs process = Read(kEnvironmentNames, variables);
      process.bootstrap = Bootstrap::kLocal;
      return process;
    }
    case Bootstrap::kEnv:
      return Read(kEnvironmentNames, variables);
    case Bootstrap::kMpi: {
      const bool open_mpi = HasOpenMpi(variables);
      if (!open_mpi && !variables.Has(kSlurmNames.rank)) {
        return absl::InvalidArgumentError(
            "--bootstrap=mpi: no MPI launcher has started this process (neither OMPI_COMM_WORLD_RANK nor PMIX_RANK is "
            "set); start it with mpirun or srun --mpi=pmix");
      }
      return Read(open_mpi ? kOpenMpiNames : kSlurmNames, variables);
    }
  }
  return absl::InternalError("no such bootstrap");
}

std::string Advice(Bootstrap wanted) {
  return wanted == Bootstrap::kEnv   ? " (--bootstrap=env; torchrun sets them)"
         : wanted == Bootstrap::kMpi ? " (--bootstrap=mpi)"
                                     : "";
}

// True for an address that stands for all addresses of a machine. Other processes cannot connect to it.
bool StandsForAll(absl::string_view host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return host == "0.0.0.0" || host == "0" || host == "::" || host == "*";
}

// Longest name in the DNS, as text: RFC 1035, sec. 2.3.4.
constexpr size_t kMaxHost = 253;

// Returns why the text is no address or name at all; empty if it may be one.
std::string NoAddress(absl::string_view host) {
  if (host.size() > kMaxHost) {
    return absl::StrCat("MASTER_ADDR=", Quoted(host), " has ", host.size(), " characters; allowed: at most ", kMaxHost);
  }
  for (const char c : host) {
    if (absl::ascii_isspace(c) || absl::ascii_iscntrl(c) || c == '/' || c == ',') {
      return absl::StrCat("MASTER_ADDR=", Quoted(host),
                          " is neither an address nor the name of a machine; allowed: e.g. 10.0.0.1, ::1 or node-1");
    }
  }
  // Finds an address with a port: "10.0.0.1:29500", "[::1]:29500". Text with more colons and no brackets is an IPv6
  // address without a port.
  const size_t colon = host.rfind(':');
  if (colon == absl::string_view::npos) return "";
  const absl::string_view before = host.substr(0, colon), port = host.substr(colon + 1);
  const bool one = before.find(':') == absl::string_view::npos;
  const bool brackets = before.size() > 2 && before.front() == '[' && before.back() == ']';
  if (!one && !brackets) return "";
  return absl::StrCat("MASTER_ADDR=", Quoted(host),
                      " contains a port, which belongs in MASTER_PORT; nearest valid: MASTER_ADDR=", before,
                      port.empty() ? "" : absl::StrCat(" MASTER_PORT=", port));
}

}  // namespace

absl::StatusOr<LaunchedAs> FindLauncher(Bootstrap wanted, const Environment& environment) {
  Variables variables(environment);
  wanted = Decide(wanted, variables, environment);
  WEFT_ASSIGN_OR_RETURN(const LaunchedAs process, ReadLauncher(wanted, environment, variables));
  WEFT_RETURN_IF_ERROR(variables.Verdict(Advice(wanted)));
  return process;
}

absl::Status CheckLocalRank(Bootstrap bootstrap, const Environment& environment) {
  WEFT_ASSIGN_OR_RETURN(const LaunchedAs process, FindLauncher(bootstrap, environment));
  if (process.size == 0 || process.local_rank.has_value()) return absl::OkStatus();
  const bool open_mpi = HasOpenMpi(Variables(environment));
  const Names& names = process.bootstrap != Bootstrap::kMpi ? kEnvironmentNames
                       : open_mpi                           ? kOpenMpiNames
                                                            : kSlurmNames;
  return absl::InvalidArgumentError(
      absl::StrCat(names.local_rank, " is not set; with GPUs it selects the GPU of each process on its node",
                   process.bootstrap == Bootstrap::kMpi ? "" : " (torchrun sets it)"));
}

absl::StatusOr<Rendezvous> FindRendezvous(Bootstrap wanted, const Environment& environment) {
  Rendezvous rendezvous;
  Variables variables(environment);
  wanted = Decide(wanted, variables, environment);
  WEFT_ASSIGN_OR_RETURN(rendezvous.process, ReadLauncher(wanted, environment, variables));
  if (rendezvous.process.bootstrap == Bootstrap::kNone) {
    return absl::FailedPreconditionError(
        "no launcher has started this process (RANK and WORLD_SIZE are not set); --bootstrap=local starts a process "
        "per rank on this node");
  }
  rendezvous.stop = StopFlag();
  rendezvous.host = variables.Text("MASTER_ADDR");
  if (std::string reason = NoAddress(rendezvous.host); !reason.empty()) variables.Wrong(std::move(reason));
  if (StandsForAll(rendezvous.host)) {
    variables.Wrong(absl::StrCat("MASTER_ADDR='", rendezvous.host,
                                 "' means all addresses of a machine; allowed: one address of rank 0's machine that "
                                 "the other ranks can reach, or the machine's name"));
  }
  if (variables.Has("WEFT_STORE_PORT")) {
    rendezvous.port = variables.Number("WEFT_STORE_PORT", 1, 65535, "port");
  } else {
    rendezvous.port = variables.Number("MASTER_PORT", 1, 65534, "port");
    if (environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True") ++rendezvous.port;
  }
  rendezvous.secret = variables.Text(kSecretVariable);
  if (!rendezvous.secret.empty() && rendezvous.secret.size() < kMinSecret) {
    variables.Wrong(absl::StrCat(kSecretVariable, " has ", rendezvous.secret.size(), " characters; allowed: at least ",
                                 kMinSecret));
  }
  if (variables.Has("WEFT_RENDEZVOUS_TIMEOUT")) {
    rendezvous.timeout =
        std::chrono::seconds(variables.Number("WEFT_RENDEZVOUS_TIMEOUT", 1, 7 * 24 * 3600, "number of seconds"));
  }
  if (rendezvous.process.bootstrap == Bootstrap::kLocal) {
    if (variables.Has(kListenerVariable)) {
      rendezvous.listener_fd = variables.Number(kListenerVariable, 3, 1 << 20, "descriptor");
    }
    if (variables.Has(kNotesVariable)) rendezvous.notes_fd = variables.Number(kNotesVariable, 3, 1 << 20, "descriptor");
  }
  const bool launcher = variables.missing("RANK") || variables.missing("WORLD_SIZE");
  std::vector<std::string> advice;
  if (wanted == Bootstrap::kEnv && launcher) advice.push_back("--bootstrap=env; torchrun sets them, except ");
  if (variables.missing(kSecretVariable)) {
    advice.push_back(absl::StrCat(kSecretVariable,
                                  ": give all processes of the job the same secret, e.g. from `openssl rand -hex 32`"));
  } else if (!advice.empty()) {
    advice = {"--bootstrap=env; torchrun sets them"};
  }
  WEFT_RETURN_IF_ERROR(variables.Verdict(advice.empty() ? "" : absl::StrCat(" (", absl::StrJoin(advice, ""), ")")));
  return rendezvous;
}

}  // namespace weft::exec
