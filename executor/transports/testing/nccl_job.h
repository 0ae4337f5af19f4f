// Jobs of a few ranks over the fake NCCL.
#ifndef WEFT_EXECUTOR_TRANSPORTS_TESTING_NCCL_JOB_H_
#define WEFT_EXECUTOR_TRANSPORTS_TESTING_NCCL_JOB_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "executor/transports/nccl.h"
#include "executor/transports/testing/fake_nccl.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec {

// Ranks as threads, each with its own GPU.
class NcclJob {
 public:
  NcclJob(int ranks, uint64_t seed, std::chrono::nanoseconds timeout = std::chrono::seconds(60)) {
    FakeNccl::Reset(seed);
    auto hosts = *(*FindTransport("inproc"))->open(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      gpus.push_back(std::make_unique<FakeGpu>(seed * 100 + rank));
      endpoints.push_back(MakeNcclEndpoint(FakeNccl::Table(), std::move(hosts[rank])));
      endpoints.back()->SetTimeout(timeout);
    }
  }

  // Runs `run` for each rank on a thread, which also ends the rank's endpoint (or aborts it, after an error).
  std::vector<absl::Status> Run(const std::function<absl::Status(int)>& run) {
    std::vector<absl::Status> results(endpoints.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < endpoints.size(); ++rank) {
      threads.emplace_back([&, rank] {
        results[rank] = run(static_cast<int>(rank));
        if (!results[rank].ok() && endpoints[rank] != nullptr) endpoints[rank]->Abort(results[rank]);
        endpoints[rank].reset();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  // Like Run, but every rank must succeed and leave nothing behind.
  void RunWell(const std::function<absl::Status(int)>& run) {
    const std::vector<absl::Status> results = Run(run);
    for (size_t rank = 0; rank < results.size(); ++rank) EXPECT_TRUE(results[rank].ok()) << rank << results[rank];
    EXPECT_THAT(FakeNccl::Violations(), ::testing::IsEmpty());
    EXPECT_EQ(FakeNccl::Alive(), 0);
  }

  std::vector<std::unique_ptr<FakeGpu>> gpus;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_TESTING_NCCL_JOB_H_
