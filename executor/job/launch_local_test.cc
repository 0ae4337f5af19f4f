// The ranks of the jobs are processes of this test itself. Their command line selects their behavior.
#include "executor/job/launch_local.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "executor/job/bootstrap.h"
#include "executor/job/tcp_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::MatchesRegex;

volatile sig_atomic_t seen_signal = 0;

void Wait(int seconds) { std::this_thread::sleep_for(std::chrono::seconds(seconds)); }

// Waits until another rank has made the file.
void WaitFor(const std::string& path) {
  while (!std::ifstream(path).good()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

// Runs as rank `rank` of a job. `how` selects the behavior. Returns the exit status of the process.
int Behave(const std::string& how, const std::string& argument, int rank) {
  if (how == "describe") {
    const auto rendezvous = FindRendezvous(Bootstrap::kAuto, ProcessEnvironment());
    std::ofstream out(absl::StrCat(argument, "/", rank));
    if (!rendezvous.ok()) {
      out << rendezvous.status();
      return 1;
    }
    const bool listens = AdoptListener(rendezvous->listener_fd).ok();
    out << BootstrapName(rendezvous->process.bootstrap) << " " << rendezvous->process.rank << " of "
        << rendezvous->process.size << " local " << rendezvous->process.local_rank.value_or(-1) << " at "
        << rendezvous->host << (listens ? ", listens" : "") << (rendezvous->notes_fd >= 0 ? ", notes" : "")
        << ", secret of " << rendezvous->secret.size();
    return 0;
  }
  if (how == "rank 1 exits with 7") {
    if (rank == 1) return 7;
    Wait(60);
    return 0;
  }
  if (how == "rank 1 of two that would fail") {
    signal(SIGTERM, [](int number) { seen_signal = number; });
    if (rank == 2) std::ofstream(argument + "/ready") << "ready";
    if (rank == 1) {
      WaitFor(argument + "/ready");
      return 7;
    }
    const int patience = rank == 0 ? 20 : 100;
    for (int i = 0; i < patience && seen_signal == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::ofstream(absl::StrCat(argument, "/", rank)) << (seen_signal == 0 ? "says why" : "is silent");
    return 8;
  }
  if (how == "rank 1 is killed") {
    if (rank == 1) raise(SIGSEGV);
    Wait(60);
    return 0;
  }
  if (how == "rank 1 is killed and told of") {
    if (rank == 1) raise(SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return 4;
  }
  if (how == "rank 1 is killed after it is told of") {
    signal(SIGTERM, SIG_IGN);
    if (rank != 1) {
      WaitFor(argument + "/ready");
      return 4;
    }
    std::ofstream(argument + "/ready") << "ready";
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    raise(SIGKILL);
  }
  if (how == "stubborn") {
    signal(SIGTERM, SIG_IGN);
    if (rank == 1) return 3;
    Wait(60);
    return 0;
  }
  if (how == "rank 1 is stopped" || how == "all are stopped") {
    // As in weft-run, the first SIGTERM only requests a stop, and the second ends the process.
    struct sigaction action = {};
    action.sa_handler = [](int) {};
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGTERM, &action, nullptr);
    std::ofstream(absl::StrCat(argument, "/", rank)) << getpid();
    if (rank == 1 || how == "all are stopped") raise(SIGSTOP);
    for (int i = 0; i < 600; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return 0;
  }
  if (how == "until told") {
    signal(SIGUSR1, [](int number) { seen_signal = number; });
    std::ofstream(absl::StrCat(argument, "/", rank)) << getpid();
    for (int i = 0; i < 600 && seen_signal == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return seen_signal == SIGUSR1 ? 0 : 9;
  }
  return 99;
}

struct Outcome {
  int status = -1;
  std::vector<std::string> messages;
  double seconds = 0;
};

Outcome Launch(const std::string& how, const std::string& argument = "", int ranks = 3) {
  Outcome outcome;
  const auto start = std::chrono::steady_clock::now();
  const auto status = LaunchLocal({.ranks = ranks,
                                   .arguments = {"rank", "--behave", how, argument},
                                   .on_message = [&](const std::string& m) { outcome.messages.push_back(m); }});
  EXPECT_TRUE(status.ok()) << status.status();
  if (status.ok()) outcome.status = *status;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

std::string Folder() {
  std::string name = absl::StrCat(getenv("TEST_TMPDIR"), "/XXXXXX");
  return mkdtemp(name.data());
}

std::string Contents(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

TEST(LaunchLocalTest, RanksAreToldWhatTheyAre) {
  const std::string folder = Folder();
  EXPECT_EQ(Launch("describe", folder).status, 0);
  EXPECT_EQ(Contents(folder + "/0"), "local 0 of 3 local 0 at 127.0.0.1, listens, notes, secret of 64");
  EXPECT_EQ(Contents(folder + "/2"), "local 2 of 3 local 2 at 127.0.0.1, notes, secret of 64");
}

TEST(LaunchLocalTest, AFailureEndsTheOthersAndGivesTheStatus) {
  const Outcome outcome = Launch("rank 1 exits with 7");
  EXPECT_EQ(outcome.status, 7);
  // The launcher reports nothing, because the rank has reported its failure itself.
  EXPECT_TRUE(outcome.messages.empty());
  EXPECT_LT(outcome.seconds, 10);
}

// If several ranks would fail in the same way, only one reports it. The launcher stops the others at once with SIGTERM,
// except rank 0.
TEST(LaunchLocalTest, AFailureIsToldToTheOthers) {
  const std::string folder = Folder();
  EXPECT_EQ(Launch("rank 1 of two that would fail", folder).status, 7);
  EXPECT_EQ(Contents(folder + "/2"), "is silent");
  EXPECT_EQ(Contents(folder + "/0"), "says why");
}

TEST(LaunchLocalTest, ADeathOfWhichNobodyTellsIsTold) {
  const Outcome outcome = Launch("rank 1 is killed");
  EXPECT_EQ(outcome.status, 128 + SIGSEGV);
  ASSERT_EQ(outcome.messages.size(), 1);
  EXPECT_THAT(outcome.messages[0],
              MatchesRegex("rank 1 \\(process [0-9]+\\) was killed by signal 11 \\(Segmentation fault\\)"));
  EXPECT_LT(outcome.seconds, 10);
}

TEST(LaunchLocalTest, ADeathOfWhichAnotherRankTellsIsNot) {
  const Outcome outcome = Launch("rank 1 is killed and told of");
  EXPECT_EQ(outcome.status, 128 + SIGKILL);
  EXPECT_TRUE(outcome.messages.empty());
  EXPECT_LT(outcome.seconds, 5);
}

TEST(LaunchLocalTest, TheStatusIsThatOfTheDeathAlsoIfItIsSeenLater) {
  const Outcome outcome = Launch("rank 1 is killed after it is told of", Folder());
  EXPECT_EQ(outcome.status, 128 + SIGKILL);
  EXPECT_TRUE(outcome.messages.empty());
  EXPECT_LT(outcome.seconds, 5);
}

TEST(LaunchLocalTest, KillsRanksThatDoNotEnd) {
  const Outcome outcome = Launch("stubborn");
  EXPECT_EQ(outcome.status, 3);
  EXPECT_LT(outcome.seconds, 10);
}

TEST(LaunchLocalTest, SignalsArePassedOn) {
  const std::string folder = Folder();
  // Another process sends the signal once all ranks run. A second thread in this process must not send it, because the
  // signal could then be delivered to that thread.
  const pid_t self = getpid();
  const pid_t teller = fork();
  if (teller == 0) {
    for (int rank = 0; rank < 3; ++rank) {
      while (Contents(absl::StrCat(folder, "/", rank)).empty()) usleep(20000);
    }
    kill(self, SIGUSR1);
    _exit(0);
  }
  EXPECT_EQ(Launch("until told", folder).status, 0);
  waitpid(teller, nullptr, 0);
}

// The second signal ends at once every rank that can receive it. Other ranks are named and killed.
TEST(LaunchLocalTest, ASecondSignalWaitsForNobody) {
  for (const std::string how : {"rank 1 is stopped", "all are stopped"}) {
    const std::string folder = Folder();
    const pid_t self = getpid();
    const pid_t teller = fork();
    if (teller == 0) {
      for (int rank = 0; rank < 3; ++rank) {
        while (Contents(absl::StrCat(folder, "/", rank)).empty()) usleep(20000);
      }
      usleep(200000);
      for (int i = 0; i < 2; ++i) {
        kill(self, SIGTERM);
        usleep(200000);
      }
      _exit(0);
    }
    const Outcome outcome = Launch(how, folder);
    waitpid(teller, nullptr, 0);
    EXPECT_EQ(outcome.status, 128 + SIGTERM) << how;
    ASSERT_EQ(outcome.messages.size(), 1) << how;
    const std::string one = "rank [0-9] \\(process [0-9]+, stopped by a signal\\)";
    EXPECT_THAT(
        outcome.messages[0],
        MatchesRegex(absl::StrCat(how == "all are stopped" ? one + ", " + one + ", " + one + " do"
                                                           : "rank 1 \\(process [0-9]+, stopped by a signal\\) does",
                                  " not end after the second Terminated \\(signal 15\\); killed")));
    EXPECT_LT(outcome.seconds, 5) << how;
  }
}

TEST(LaunchLocalTest, NumbersOfRanks) {
  EXPECT_EQ(LaunchLocal({.ranks = 5000, .arguments = {"rank"}, .on_message = nullptr}).status().message(),
            "--bootstrap=local starts one process per rank on this node: 5000 ranks; allowed: 1 to 1024");
  EXPECT_FALSE(LaunchLocal({.ranks = 0, .arguments = {"rank"}, .on_message = nullptr}).ok());
}

}  // namespace
}  // namespace weft::exec

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--behave") == 0) {
    return weft::exec::Behave(argv[2], argv[3], std::atoi(getenv("RANK")));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
