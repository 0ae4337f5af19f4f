#include "executor/job/launch_local.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/job/bootstrap.h"
#include "executor/job/handshake.h"
#include "executor/job/store.h"
#include "executor/job/tcp_socket.h"
#include "executor/platform/monotonic_clock.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

constexpr int64_t kSecond = int64_t{1000} * 1000 * 1000;
// kAfterDeath: time for the other ranks to notice that a rank has died and to report it. kAfterFailure: time for them
// to react to a rank that has failed and has reported it. kAfterRequest: time for ranks to end after they are asked to.
constexpr int64_t kAfterDeath = 5 * kSecond;
constexpr int64_t kAfterFailure = 3 * kSecond;
constexpr int64_t kAfterRequest = 5 * kSecond / 2;
// Time that ranks have to end after the same signal is passed on again.
constexpr int64_t kAfterAgain = kSecond;
// Time limit of one attempt to inform the other ranks, for a rank that died before all ranks had met.
constexpr std::chrono::milliseconds kAttempt(300);
constexpr int kPassedOn[] = {SIGUSR1, SIGTERM, SIGINT, SIGHUP};
constexpr int kMaxRanks = 1024;
// Exit status of a rank that has noticed the death of another rank (docs/faults.md).
constexpr int kAnotherDied = 4;
// Bytes per rank in the memory that the ranks share for notes (transports/tcp.cc).
constexpr size_t kNoteBytes = 16;

// Maximum number of ranks that a message names.
constexpr size_t kMaxNamed = 8;

// True if a process is stopped, so that of all signals only SIGKILL ends it. /proc/PID/stat holds the process's state
// after its name in parentheses.
bool IsStopped(pid_t process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/stat"));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && name_end + 2 < text.size() &&
         (text[name_end + 2] == 'T' || text[name_end + 2] == 't');
}

struct Child {
  pid_t process = -1;
  bool ended = false;
};

class Launcher {
 public:
  explicit Launcher(const LocalLaunch& launch) : launch_(launch), children_(launch.ranks) {
    sigemptyset(&waited_);
    sigaddset(&waited_, SIGCHLD);
    for (int signal : kPassedOn) sigaddset(&waited_, signal);
    sigprocmask(SIG_BLOCK, &waited_, &before_);
  }
  ~Launcher() {
    SignalRanks(SIGKILL);
    for (Child& child : children_) {
      if (child.process > 0 && !child.ended) waitpid(child.process, nullptr, 0);
    }
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

  absl::Status Start() {
    WEFT_ASSIGN_OR_RETURN(const std::vector<SocketAddress> loopback, ResolveHost("127.0.0.1", 0));
    WEFT_ASSIGN_OR_RETURN(const Socket listener, ListenOn(loopback[0]));
    WEFT_ASSIGN_OR_RETURN(const SocketAddress address, LocalAddress(listener));
    const Socket notes(memfd_create("weft notes", MFD_CLOEXEC));
    if (!notes.open() || ftruncate(notes.fd(), static_cast<off_t>(kNoteBytes) * launch_.ranks) != 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("--bootstrap=local: cannot share memory: ", std::strerror(errno)));
    }
    WEFT_ASSIGN_OR_RETURN(const Nonce secret, RandomNonce());
    port_ = address.port();
    secret_ = absl::BytesToHexString(absl::string_view(secret.data(), secret.size()));
    const std::pair<const char*, std::string> common[] = {
        {"WORLD_SIZE", absl::StrCat(launch_.ranks)},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", absl::StrCat(address.port())},
        {"WEFT_STORE_PORT", absl::StrCat(address.port())},
        {kSecretVariable, secret_},
        {kLocalLauncherVariable, absl::StrCat(getpid())},
        {kNotesVariable, absl::StrCat(notes.fd())},
    };
    for (int rank = 0; rank < launch_.ranks; ++rank) {
      const pid_t self = getpid();
      const pid_t process = fork();
      if (process < 0) {
        return absl::ResourceExhaustedError(absl::StrCat("--bootstrap=local: cannot start a process for rank ", rank,
                                                         " of ", launch_.ranks, ": ", std::strerror(errno)));
      }
      if (process > 0) {
        children_[rank].process = process;
        continue;
      }
      // This is the child. It must die with the launcher. If the launcher has died before the prctl call, no signal
      // comes, but the child has another parent by now.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != self) _exit(1);
      // In a process group of its own, the child does not receive a terminal's Ctrl-C directly. It receives the signal
      // once, from the launcher.
      setpgid(0, 0);
      for (const auto& [name, value] : common) setenv(name, value.c_str(), 1);
      setenv("RANK", absl::StrCat(rank).c_str(), 1);
      setenv("LOCAL_RANK", absl::StrCat(rank).c_str(), 1);
      unsetenv(kListenerVariable);
      fcntl(notes.fd(), F_SETFD, 0);
      if (rank == 0) {
        fcntl(listener.fd(), F_SETFD, 0);
        setenv(kListenerVariable, absl::StrCat(listener.fd()).c_str(), 1);
      }
      sigprocmask(SIG_SETMASK, &before_, nullptr);
      std::vector<std::string> words = launch_.arguments;
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      execv("/proc/self/exe", argv.data());
      const std::string text =
          absl::StrCat("weft run: --bootstrap=local: cannot start rank ", rank, ": ", std::strerror(errno), "\n");
      [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
      _exit(127);
    }
    return absl::OkStatus();
  }

  int Watch() {
    while (alive() > 0) {
      timespec timeout = {.tv_sec = 1, .tv_nsec = 0};
      if (next_ns_.has_value()) {
        const int64_t left = std::clamp<int64_t>(*next_ns_ - MonotonicNanoseconds(), 0, kSecond);
        timeout = {.tv_sec = left / kSecond, .tv_nsec = left % kSecond};
      }
      const int signal = sigtimedwait(&waited_, nullptr, &timeout);
      if (signal > 0 && signal != SIGCHLD) PassOn(signal);
      Reap();
      if (unreported_rank_ >= 0 && !reported_ && !end_requested_) NotifyOtherRanks();
      if (next_ns_.has_value() && MonotonicNanoseconds() >= *next_ns_) Escalate();
    }
    // A rank that a signal has killed cannot report its death, so another rank reports it. If no rank has, the launcher
    // does.
    if (killed_rank_ >= 0 && !reported_ && launch_.on_message) launch_.on_message(DescribeDeath());
    return first_;
  }

 private:
  int alive() const {
    return static_cast<int>(std::count_if(children_.begin(), children_.end(),
                                          [](const Child& child) { return child.process > 0 && !child.ended; }));
  }

  void SignalRanks(int signal, int first = 0) {
    for (int rank = first; rank < launch_.ranks; ++rank) {
      const Child& child = children_[rank];
      if (child.process > 0 && !child.ended) kill(child.process, signal);
    }
  }

  void PassOn(int signal) {
    // SIGUSR1 only asks for a stop, so a second one changes nothing.
    signaled_again_ = signaled_again_ || (signal == passed_on_ && signal != SIGUSR1);
    passed_on_ = signal;
    SignalRanks(signal);
    if (signaled_again_) next_ns_ = std::min(next_ns_.value_or(INT64_MAX), MonotonicNanoseconds() + kAfterAgain);
  }

  void Reap() {
    for (int rank = 0; rank < launch_.ranks; ++rank) {
      Child& child = children_[rank];
      int status = 0;
      if (child.ended || waitpid(child.process, &status, WNOHANG) != child.process) continue;
      child.ended = true;
      const bool killed = WIFSIGNALED(status);
      const int code = killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      if (code == 0) continue;
      if (signaled_again_ && killed) {
        if (first_ == 0) first_ = 128 + passed_on_;
        continue;
      }
      // A rank that no signal has killed has reported why it failed, or leaves the report to another rank.
      if (!killed && !end_requested_) reported_ = true;
      if (first_ != 0) {
        // The launcher may see the end of a rank that noticed a death before it sees the death itself. The exit status
        // is then the one of the rank that died.
        if (first_ == kAnotherDied && killed && !end_requested_ && WTERMSIG(status) != SIGTERM &&
            WTERMSIG(status) != passed_on_) {
          first_ = code;
        }
        continue;
      }
      first_ = code;
      // A death by a signal that was passed on is expected.
      if (killed && WTERMSIG(status) != passed_on_) killed_rank_ = unreported_rank_ = rank;
      next_ns_ = MonotonicNanoseconds() + (killed ? kAfterDeath : kAfterFailure);
      // The failure has been reported. Stop the other ranks before they find and report the same failure. Rank 0 is
      // left alone, because it would answer to SIGTERM with a report.
      if (!killed) SignalRanks(SIGTERM, /*first=*/1);
    }
  }

  std::string DescribeDeath() const {
    return absl::StrCat("rank ", killed_rank_, " (process ", children_[killed_rank_].process, ") was killed by signal ",
                        first_ - 128, " (", strsignal(first_ - 128), ")");
  }

  // Called if a rank has been killed. Before the ranks have met, the others would wait for it, so the launcher reports
  // the death to the store in that rank's name. The store refuses the launcher if the rank was already connected; the
  // store has then noticed the death itself.
  void NotifyOtherRanks() {
    const StoreOptions options = {.size = launch_.ranks, .secret = secret_};
    absl::StatusOr<std::unique_ptr<StoreClient>> store = absl::UnavailableError("rank 0 serves it");
    if (unreported_rank_ > 0) store = StoreClient::Connect("127.0.0.1", port_, unreported_rank_, options, kAttempt);
    if (store.ok()) {
      reported_ = true;
      if ((*store)->Fail(absl::AbortedError(DescribeDeath())).ok() && launch_.on_message)
        launch_.on_message(DescribeDeath());
    }
    // A deadline means that rank 0 does not serve the store yet. The launcher then tries again later.
    if (!absl::IsDeadlineExceeded(store.status())) unreported_rank_ = -1;
  }

  // Called when the job should be over but some processes have not ended.
  void Escalate() {
    if (signaled_again_ && !end_requested_) NameUnresponsiveRanks();
    SignalRanks(end_requested_ || signaled_again_ ? SIGKILL : SIGTERM);
    end_requested_ = true;
    next_ns_ = MonotonicNanoseconds() + kAfterRequest;
  }

  void NameUnresponsiveRanks() const {
    std::vector<std::string> names;
    for (int rank = 0; rank < launch_.ranks; ++rank) {
      const Child& child = children_[rank];
      if (child.process <= 0 || child.ended) continue;
      names.push_back(absl::StrCat("rank ", rank, " (process ", child.process,
                                   IsStopped(child.process) ? ", stopped by a signal)" : ")"));
    }
    if (names.empty() || !launch_.on_message) return;
    const size_t more = names.size() - std::min(names.size(), kMaxNamed);
    names.resize(names.size() - more);
    launch_.on_message(absl::StrCat(absl::StrJoin(names, ", "), more > 0 ? absl::StrCat(" and ", more, " more") : "",
                                    names.size() + more == 1 ? " does" : " do", " not end after the second ",
                                    strsignal(passed_on_), " (signal ", passed_on_, "); killed"));
  }

  const LocalLaunch& launch_;
  std::vector<Child> children_;
  sigset_t waited_, before_;
  // Exit status of the job so far: the status of the first rank that failed, of a rank whose death made that one fail,
  // or 128 + the signal that came twice. `killed_rank_` is the first rank that failed if a signal killed it, other than
  // a signal that the launcher passed on; else -1.
  int first_ = 0;
  int killed_rank_ = -1;
  // `killed_rank_` while the other ranks may not know of its death, else -1.
  int unreported_rank_ = -1;
  std::string secret_;
  int port_ = 0;
  bool reported_ = false;
  int passed_on_ = 0;
  // True after the same signal, other than SIGUSR1, came twice in a row: the launcher then ends the job within about a
  // second.
  bool signaled_again_ = false;
  // Time of the next step against processes that have not ended. Empty until the job must end.
  std::optional<int64_t> next_ns_;
  bool end_requested_ = false;
};

}  // namespace

absl::StatusOr<int> LaunchLocal(const LocalLaunch& launch) {
  if (access("/proc/self/exe", X_OK) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("--bootstrap=local: cannot find this program itself: /proc/self/exe: ", std::strerror(errno)));
  }
  if (launch.ranks < 1 || launch.ranks > kMaxRanks || launch.arguments.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--bootstrap=local starts one process per rank on this node: ",
                                                   launch.ranks, " ranks; allowed: 1 to ", kMaxRanks));
  }
  Launcher launcher(launch);
  WEFT_RETURN_IF_ERROR(launcher.Start());
  return launcher.Watch();
}

}  // namespace weft::exec
