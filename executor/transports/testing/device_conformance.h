// Runs the conformance suite over ranks that are threads of one process, with their messages in device memory.
#ifndef WEFT_EXECUTOR_TRANSPORTS_TESTING_DEVICE_CONFORMANCE_H_
#define WEFT_EXECUTOR_TRANSPORTS_TESTING_DEVICE_CONFORMANCE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/interface/device.h"
#include "executor/interface/transport.h"
#include "executor/testing/deferred_device.h"
#include "executor/transports/testing/conformance_job.h"
#include "gtest/gtest.h"

namespace weft::exec {

// Returns the host itself for seed 0, else a deferred device.
inline std::unique_ptr<ComputeDevice> ConformanceDevice(uint64_t seed) {
  if (seed == 0) return MakeHostDevice();
  return std::make_unique<DeferredDevice>(seed);
}

// Runs all cases, on `streams` streams of devices[rank] each. Sends long messages only if `big`.
inline void ExpectConforms(const std::vector<std::unique_ptr<Endpoint>>& endpoints,
                           absl::Span<ComputeDevice* const> devices, int streams, bool big) {
  const int ranks = static_cast<int>(endpoints.size());
  std::vector<std::unique_ptr<ConformanceRank>> under_test(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    auto made = ConformanceRank::OnDevice(endpoints[rank].get(), devices[rank], streams);
    ASSERT_TRUE(made.ok()) << made.status();
    under_test[rank] = *std::move(made);
  }
  ExpectConforms(endpoints, under_test, big);
}

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_TESTING_DEVICE_CONFORMANCE_H_
