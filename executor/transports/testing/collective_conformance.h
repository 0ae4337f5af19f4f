// Tests collectives over a transport: all kinds and algorithms, on several communicators at the same time. Called like
// the cases of transport_conformance.h.
#ifndef WEFT_EXECUTOR_TRANSPORTS_TESTING_COLLECTIVE_CONFORMANCE_H_
#define WEFT_EXECUTOR_TRANSPORTS_TESTING_COLLECTIVE_CONFORMANCE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "executor/collective/collective.h"
#include "executor/interface/transport.h"
#include "executor/transports/testing/conformance_rank.h"
#include "proto/util/status.h"

namespace weft::exec {

// Runs an all-reduce, an all-gather and a reduce-scatter of all ranks, with float buffers of `share` elements per
// member, all under way at once.
inline absl::Status CollectivesConform(ConformanceRank& rank, const CollectiveEntry& algorithm, int64_t share) {
  Endpoint& endpoint = rank.endpoint();
  rank.Reset();
  const int members = endpoint.size(), self = endpoint.rank();
  struct Job {
    CollectiveKind kind;
    ConformanceRank::Memory source, destination;
    std::vector<float> expected;
    int stream = -1;
    std::unique_ptr<Communicator> communicator;
    std::unique_ptr<PreparedCollective> collective;
    bool done = false;
  };
  // Small integers, whose sums are exact in any order.
  const auto value = [](int member, int64_t i) { return static_cast<float>(member * 1000 + i % 997); };
  const auto sum = [&](int64_t i) {
    float total = 0;
    for (int m = 0; m < members; ++m) total += value(m, i);
    return total;
  };
  std::vector<Job> jobs;
  std::deque<Transfer> sends, receives;
  for (const CollectiveKind kind : kCollectiveKinds) {
    Job& job = jobs.emplace_back();
    job.kind = kind;
    const int64_t elements = kind == CollectiveKind::kAllGather ? share : share * members;
    WEFT_ASSIGN_OR_RETURN(job.source, rank.NewMemory(elements * 4));
    for (int64_t i = 0; i < elements; ++i) reinterpret_cast<float*>(job.source.host)[i] = value(self, i);
    for (int64_t i = 0; i < share * members; ++i) {
      if (kind == CollectiveKind::kAllReduce) job.expected.push_back(sum(i));
      if (kind == CollectiveKind::kAllGather) job.expected.push_back(value(static_cast<int>(i / share), i % share));
      if (kind == CollectiveKind::kReduceScatter && i / share == self) job.expected.push_back(sum(i) + 5);
    }
    const int64_t results = static_cast<int64_t>(job.expected.size());
    WEFT_ASSIGN_OR_RETURN(job.destination, rank.NewMemory(results * 4));
    std::fill_n(reinterpret_cast<float*>(job.destination.host), results, 5.0f);
    job.stream = rank.Stream(static_cast<int>(jobs.size()));
    std::vector<CollectivePeer> peers;
    for (int m = 0; m < members; ++m) peers.push_back({m, 20 + static_cast<int>(jobs.size())});
    WEFT_ASSIGN_OR_RETURN(job.communicator, Communicator::Create(std::move(peers), self,
                                                                 {.device = rank.device(), .stream = job.stream}));
    WEFT_ASSIGN_OR_RETURN(job.collective,
                          job.communicator->Prepare(algorithm, kind,
                                                    {{job.source.data, FP32, elements, job.destination.data, FP32,
                                                      kind == CollectiveKind::kReduceScatter}}));
    WEFT_RETURN_IF_ERROR(job.communicator->AllocateScratch());
    job.communicator->AppendTransfers(*job.collective, &sends, &receives);
  }
  WEFT_RETURN_IF_ERROR(rank.Connect(sends, receives));
  // The ranks start the jobs in different orders: rank r begins with job r.
  for (size_t i = 0; i < jobs.size(); ++i) {
    Job& job = jobs[(i + self) % jobs.size()];
    WEFT_RETURN_IF_ERROR(rank.Bring(job.source, job.stream));
    WEFT_RETURN_IF_ERROR(rank.Bring(job.destination, job.stream));
    WEFT_RETURN_IF_ERROR(job.communicator->Start(endpoint, *job.collective));
  }
  const int64_t deadline = MonotonicNanoseconds() + int64_t{60} * 1000 * 1000 * 1000;
  for (size_t left = jobs.size(); left > 0;) {
    for (Job& job : jobs) {
      if (job.done) continue;
      WEFT_ASSIGN_OR_RETURN(job.done, job.communicator->Advance(endpoint));
      if (!job.done) continue;
      --left;
      WEFT_RETURN_IF_ERROR(rank.Fetch(job.destination, job.stream));
      WEFT_RETURN_IF_ERROR(rank.Overwrite(job.source, job.stream));
    }
    if (left == 0) break;
    WEFT_RETURN_IF_ERROR(endpoint.WaitForProgress(std::chrono::milliseconds(100)).status());
    if (MonotonicNanoseconds() > deadline) return absl::DeadlineExceededError("collectives not done after 60 s");
  }
  WEFT_RETURN_IF_ERROR(rank.Finish());
  for (const Job& job : jobs) {
    if (std::equal(job.expected.begin(), job.expected.end(), reinterpret_cast<const float*>(job.destination.host))) {
      continue;
    }
    return absl::DataLossError(absl::StrCat("rank ", self, ": ", CollectiveKindName(job.kind), " by '", algorithm.name,
                                            "' of ", share, " elements per member is wrong"));
  }
  return absl::OkStatus();
}

// The algorithms, without those that send the same messages as another one for this many members.
inline std::vector<const CollectiveEntry*> DifferentCollectives(int members) {
  std::vector<const CollectiveEntry*> different;
  const auto same = [&](const CollectiveEntry& a, const CollectiveEntry& b) {
    return std::all_of(std::begin(kCollectiveKinds), std::end(kCollectiveKinds), [&](CollectiveKind kind) {
      return a.Build(members, kind)->rounds == b.Build(members, kind)->rounds;
    });
  };
  for (const CollectiveEntry& entry : Collectives()) {
    if (entry.in_switch()) continue;
    const bool known = members > 1 && std::any_of(different.begin(), different.end(),
                                                  [&](const CollectiveEntry* other) { return same(*other, entry); });
    if (!known) different.push_back(&entry);
  }
  return different;
}

inline absl::Status AllCollectivesConform(ConformanceRank& self) {
  for (const CollectiveEntry* entry : DifferentCollectives(self.endpoint().size())) {
    for (const int64_t share : {1, 1000, 70001}) {
      WEFT_RETURN_IF_ERROR(CollectivesConform(self, *entry, share));
    }
  }
  return absl::OkStatus();
}

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_TESTING_COLLECTIVE_CONFORMANCE_H_
