#include "executor/run/job_agreement.h"

#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Returns the result on rank 0 if rank r has facts[r].
absl::Status Verdict(const std::vector<JobFacts>& facts) {
  const auto endpoints = *(*FindTransport("inproc"))->open(static_cast<int>(facts.size()));
  std::vector<absl::Status> results(facts.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < facts.size(); ++rank) {
    threads.emplace_back(
        [&, rank] { results[rank] = AgreeOnJob(*endpoints[rank], facts[rank], std::chrono::seconds(20)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t rank = 1; rank < facts.size(); ++rank) EXPECT_TRUE(results[rank].ok()) << results[rank];
  return results[0];
}

TEST(AgreeOnJob, TheSameIsFine) {
  EXPECT_TRUE(Verdict({{{"--steps", "3"}, {"data", ""}}}).ok());
  EXPECT_TRUE(Verdict({{{"--steps", "3"}, {"data", ""}}, {{"--steps", "3"}, {"data", ""}}}).ok());
}

TEST(AgreeOnJob, NamesRankAndWhatDiffers) {
  const absl::Status status = Verdict({{{"program", "5b27f346"}, {"--steps", "3"}},
                                       {{"program", "5b27f346"}, {"--steps", "3"}},
                                       {{"program", "5b27f346"}, {"--steps", "2"}}});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("rank 2 was started differently"),
                                                   HasSubstr("--steps is 2 on that rank and 3 on rank 0")));
}

// A rank with fewer facts may run another version of weft.
TEST(AgreeOnJob, FewerFactsAreOthers) {
  EXPECT_THAT(std::string(Verdict({{{"a", "1"}, {"b", "2"}}, {{"a", "1"}}}).message()),
              HasSubstr("b is unknown on that rank and 2 on rank 0"));
  EXPECT_FALSE(Verdict({{{"a", "1"}}, {}}).ok());
}

}  // namespace
}  // namespace weft::exec
