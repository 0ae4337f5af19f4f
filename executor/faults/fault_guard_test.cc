#include "executor/faults/fault_guard.h"

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "executor/faults/fault_report.h"
#include "executor/interpreter/named_action.h"
#include "executor/testing/fault_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

std::string TestFile(const char* name) { return std::filesystem::path(testing::TempDir()) / name; }

TEST(FaultGuardTest, RanksThatReturnWithAnErrorAreReportedOnce) {
  const Program program = ForwardAndBackward();
  const auto endpoints = *(*FindTransport("inproc"))->open(2);
  const std::string file = TestFile("returned.json");
  {
    FaultGuard guard(program, endpoints, {.report_file = file});
    guard.deadlines(0)->Enter(RunPhase::kStepping);
    guard.deadlines(1)->Enter(RunPhase::kEnding);
    guard.flight(0)->Begin(0, 1);
    guard.flight(1)->Begin(1, 2);
    const absl::Status reason = absl::InternalError("why");
    EXPECT_TRUE(endpoints[1]->Abort(reason));
    guard.Returned(1, reason, true);
    guard.Returned(0, reason, false);
    guard.Returned(0, absl::InternalError("later"), true);
    EXPECT_TRUE(guard.report_status().ok());
  }
  EXPECT_THAT(*ReadFile(FaultFileOfRank(file, 1)),
              AllOf(HasSubstr("\"first_to_fail\": true"), HasSubstr("\"name\": \"B\"")));
  EXPECT_THAT(*ReadFile(FaultFileOfRank(file, 0)),
              AllOf(HasSubstr("\"first_to_fail\": false"), HasSubstr("\"reason\": \"why\"")));
}

TEST(FaultGuardTest, GoodRunsAndThoseWithoutAFileWriteNothing) {
  const Program program = ForwardAndBackward();
  const auto endpoints = *(*FindTransport("inproc"))->open(2);
  const std::string file = TestFile("good.json");
  {
    FaultGuard guard(program, endpoints, {.report_file = file});
    guard.Returned(0, absl::OkStatus(), false);
    guard.Returned(1, absl::OkStatus(), false);
  }
  EXPECT_FALSE(std::filesystem::exists(FaultFileOfRank(file, 0)));
  FaultGuard guard(program, endpoints, {});
  guard.Returned(0, absl::InternalError("why"), true);
  EXPECT_TRUE(guard.report_status().ok());
}

// A refusal before the first step writes no fault report.
TEST(FaultGuardTest, BeforeTheFirstStepNothingIsWritten) {
  const Program program = ForwardAndBackward();
  const auto endpoints = *(*FindTransport("inproc"))->open(2);
  const std::string file = TestFile("refused.json");
  FaultGuard guard(program, endpoints, {.report_file = file});
  guard.deadlines(0)->Enter(RunPhase::kStepping);
  const absl::Status reason = absl::FailedPreconditionError("why");
  endpoints[1]->Abort(reason);
  guard.Returned(1, reason, true);
  guard.Returned(0, reason, false);
  EXPECT_FALSE(std::filesystem::exists(FaultFileOfRank(file, 1)));
  EXPECT_TRUE(std::filesystem::exists(FaultFileOfRank(file, 0)));
}

TEST(FaultGuardTest, AFileThatCannotBeWrittenIsSaid) {
  const Program program = ForwardAndBackward();
  const auto endpoints = *(*FindTransport("inproc"))->open(2);
  FaultGuard guard(program, endpoints, {.report_file = "/nowhere/fault.json"});
  guard.deadlines(0)->Enter(RunPhase::kStepping);
  guard.Returned(0, absl::InternalError("why"), true);
  EXPECT_THAT(std::string(guard.report_status().message()), HasSubstr("/nowhere/fault-0.json"));
}

// The rank's thread never returns: its report is written for it, and the process is asked to end.
TEST(FaultGuardTest, ARankThatIsStuckIsGivenUp) {
  const Program program = ForwardAndBackward();
  const auto endpoints = *(*FindTransport("inproc"))->open(2);
  const std::string file = TestFile("stuck.json");
  std::atomic<int> given_up{0};
  absl::Status reason;
  bool reports = false;
  {
    FaultGuard guard(program, endpoints,
                     {.timeout = std::chrono::milliseconds(200),
                      .report_file = file,
                      .give_up = [&](const absl::Status& status, bool tell) {
                        reason = status;
                        reports = tell;
                        ++given_up;
                      }});
    guard.deadlines(1)->Enter(RunPhase::kStepping);
    guard.flight(1)->Begin(1, 7);
    guard.flight(1)->Enter(1);
    while (endpoints[0]->Poll().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    guard.Returned(0, endpoints[0]->Poll().status(), false);
    const auto start = std::chrono::steady_clock::now();
    while (given_up == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  }
  EXPECT_EQ(given_up, 1);
  EXPECT_TRUE(reports);
  EXPECT_EQ(reason.message(), "rank 1, step 7, action 4 'B' has run for more than 0.2 s");
  EXPECT_THAT(*ReadFile(FaultFileOfRank(file, 1)), HasSubstr("\"end_ns\": null"));
}

// Another rank of the process has found the failure and has returned. The process must still report it.
TEST(FaultGuardTest, AStuckRankDoesNotSilenceTheOthers) {
  const Program program = ForwardAndBackward();
  const auto endpoints = *(*FindTransport("inproc"))->open(2);
  std::atomic<int> reports{-1};
  FaultGuard guard(program, endpoints, {.give_up = [&](const absl::Status&, bool tell) { reports = tell ? 1 : 0; }});
  const absl::Status reason = absl::DeadlineExceededError("rank 0 has waited for rank 1");
  EXPECT_TRUE(endpoints[0]->Abort(reason));
  guard.Returned(0, reason, true);
  while (reports < 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(reports, 1);
  guard.Returned(1, reason, false);
}

TEST(FaultGuardTest, AnErrorWithoutAPlaceGetsOne) {
  const Program program = ForwardAndBackward();
  const auto endpoints = *(*FindTransport("inproc"))->open(2);
  FaultGuard guard(program, endpoints, {});
  const absl::Status cuda = absl::InternalError("cudaEventQuery: an illegal memory access was encountered");
  // Before the first action there is no place to name.
  EXPECT_EQ(guard.Located(1, cuda), cuda);
  guard.flight(1)->Begin(1, 3);
  EXPECT_EQ(guard.Located(1, cuda).message(),
            "rank 1: cudaEventQuery: an illegal memory access was encountered; the last action that it began is step "
            "3, action 4 'B'");
  EXPECT_EQ(guard.Located(1, absl::InternalError("rank 1: NCCL communicator 'weft data' failed")).message(),
            "rank 1: NCCL communicator 'weft data' failed; the last action that it began is step 3, action 4 'B'");
  for (const absl::Status& status :
       {absl::OkStatus(), ErrorAtAction(absl::StatusCode::kInternal, "rank 1, step 3, action 0 'F': why"),
        absl::DataLossError("replicas")}) {
    EXPECT_EQ(guard.Located(1, status), status);
  }
  // A failure of another rank stays as it is.
  endpoints[0]->Abort(cuda);
  EXPECT_EQ(guard.Located(1, cuda), cuda);
}

TEST(FaultGuardTest, AnExitStatusPerCause) {
  EXPECT_EQ(ExitStatusOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitStatusOf(absl::OutOfRangeError("loss")), 1);
  EXPECT_EQ(ExitStatusOf(absl::DeadlineExceededError("")), 3);
  EXPECT_EQ(ExitStatusOf(absl::AbortedError("died")), 4);
  EXPECT_EQ(ExitStatusOf(absl::InternalError("CUDA")), 5);
  EXPECT_EQ(ExitStatusOf(absl::UnavailableError("MPI")), 5);
  EXPECT_EQ(ExitStatusOf(absl::DataLossError("replicas")), 6);
}

}  // namespace
}  // namespace weft::exec
