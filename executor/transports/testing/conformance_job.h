// Runs the conformance cases on all ranks of a job, each on a thread of its own.
#ifndef WEFT_EXECUTOR_TRANSPORTS_TESTING_CONFORMANCE_JOB_H_
#define WEFT_EXECUTOR_TRANSPORTS_TESTING_CONFORMANCE_JOB_H_

#include <algorithm>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "executor/interface/transport.h"
#include "executor/transports/testing/transport_conformance.h"
#include "gtest/gtest.h"

namespace weft::exec {

// Returns the result of `run` on each rank.
template <typename F>
std::vector<absl::Status> OnAllRanks(int ranks, const F& run) {
  std::vector<absl::Status> results(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&, rank] { results[rank] = run(rank); });
  for (std::thread& thread : threads) thread.join();
  return results;
}

// Sends long messages only if `big`.
inline void ExpectConforms(const std::vector<std::unique_ptr<Endpoint>>& endpoints,
                           const std::vector<std::unique_ptr<ConformanceRank>>& under_test, bool big) {
  const int ranks = static_cast<int>(endpoints.size());
  for (const ConformanceCase& test : ConformanceCases()) {
    if (test.name == "big messages" && !big) continue;
    const std::vector<absl::Status> results = OnAllRanks(ranks, [&](int rank) {
      const absl::Status status = test.run(*under_test[rank]);
      // After this abort, the other ranks need not wait for this rank's messages.
      if (!status.ok()) endpoints[rank]->Abort(status);
      return status;
    });
    for (int rank = 0; rank < ranks; ++rank) {
      ASSERT_TRUE(results[rank].ok()) << test.name << ", rank " << rank << " of " << ranks << ": " << results[rank];
    }
  }
}

// Runs the cases with messages in host memory.
inline void ExpectConforms(const std::vector<std::unique_ptr<Endpoint>>& endpoints, bool big) {
  std::vector<std::unique_ptr<ConformanceRank>> under_test;
  for (const auto& endpoint : endpoints) under_test.push_back(std::make_unique<ConformanceRank>(endpoint.get()));
  ExpectConforms(endpoints, under_test, big);
}

inline void ExpectOneOfRacingAbortsWins(const std::vector<std::unique_ptr<Endpoint>>& endpoints) {
  const int ranks = static_cast<int>(endpoints.size());
  // Not vector<bool>, because each rank writes its own element.
  std::deque<bool> won(ranks);
  for (const absl::Status& status :
       OnAllRanks(ranks, [&](int rank) { return RacingAbortsConform(*endpoints[rank], &won[rank]); })) {
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(std::count(won.begin(), won.end(), true), 1);
}

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_TESTING_CONFORMANCE_JOB_H_
