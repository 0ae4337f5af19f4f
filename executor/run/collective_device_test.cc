// Collectives in the memory of an asynchronous device give the same bits as in host memory. If the transport has
// collectives of its own, they are used.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/collective/collective.h"
#include "executor/numerics/exact192.h"
#include "executor/numerics/sum_parts.h"
#include "executor/testing/deferred_device.h"
#include "executor/transports/testing/conformance_rank.h"
#include "gtest/gtest.h"
#include "proto/util/status.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

struct BufferSpec {
  DType dtype;
  // Elements of the source.
  int64_t elements;
  DType destination_dtype;
  bool accumulate = false;
  // True if source and destination share memory. All-reduce: the source is the destination. All-gather: the source is
  // the member's range of the destination.
  bool in_place = false;
};

struct Spec {
  CollectiveKind kind;
  std::string algorithm;
  int members;
  std::vector<BufferSpec> buffers;
  // True if all values are whole numbers, whose sums are exact in any order.
  bool whole_numbers = false;
};

int64_t DestinationElements(const Spec& spec, const BufferSpec& buffer) {
  if (spec.kind == CollectiveKind::kAllGather) return buffer.elements * spec.members;
  return spec.kind == CollectiveKind::kReduceScatter ? buffer.elements / spec.members : buffer.elements;
}

// Random values, as bytes.
std::vector<std::byte> Values(DType dtype, int64_t elements, bool whole_numbers, std::mt19937& random) {
  std::vector<float> values(elements);
  for (float& x : values) {
    x = whole_numbers
            ? static_cast<float>(random() % 50)
            : std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random), static_cast<int>(random() % 10));
  }
  std::vector<std::byte> bytes(elements * DTypeBytes(dtype));
  AddTo(FP32, values.data(), elements, /*accumulate=*/false, dtype, bytes.data());
  return bytes;
}

// Collectives of a transport, for ranks that share a device. The members' threads meet on the host. The last member to
// arrive enqueues the work of all members on its stream, and adds the members' terms in descending member order. That
// work comes after the earlier work and before the later work of every member's stream.
class FakeCollectives {
 public:
  explicit FakeCollectives(ComputeDevice* device, DType without) : device_(*device), without_(without) {}

  class Rank : public NativeCollectives {
   public:
    Rank(FakeCollectives* all, int rank) : all_(*all), rank_(rank) {}

    absl::StatusOr<int> NewGroup(absl::Span<const int> ranks, absl::string_view name) override {
      EXPECT_EQ(std::string(name), "test");
      self_ = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
      members_ = static_cast<int>(ranks.size());
      return 7;
    }
    bool Has(const Call& call) const override { return call.dtype != EXACT192 && call.dtype != all_.without_; }
    bool KeepsOrder(const Call& call, absl::string_view algorithm, int) const override {
      return algorithm == "ring" && call.kind == REDUCE_SCATTER;
    }
    absl::Status Enqueue(int group, absl::Span<const Call> calls, int stream) override {
      EXPECT_EQ(group, 7);
      for (const Call& call : calls) WEFT_RETURN_IF_ERROR(all_.Run(self_, members_, call, stream));
      return absl::OkStatus();
    }

   private:
    FakeCollectives& all_;
    const int rank_;
    int self_ = 0;
    int members_ = 0;
  };

  int64_t calls() const { return calls_; }
  int64_t most_bytes() const { return most_bytes_; }

 private:
  absl::Status Run(int self, int members, const NativeCollectives::Call& call, int stream) {
    std::unique_lock<std::mutex> lock(mutex_);
    joined_[self] = {call, stream};
    if (static_cast<int>(joined_.size()) < members) {
      const int64_t mine = calls_;
      met_.wait(lock, [&] { return calls_ > mine; });
      return status_;
    }
    status_ = RunAll(members, stream);
    joined_.clear();
    ++calls_;
    met_.notify_all();
    return status_;
  }

  absl::Status RunAll(int members, int stream) {
    WEFT_ASSIGN_OR_RETURN(const int event, device_.NewEvent(false));
    for (const auto& [member, joined] : joined_) {
      WEFT_RETURN_IF_ERROR(device_.Record(event, joined.second));
      WEFT_RETURN_IF_ERROR(device_.Wait(stream, event));
    }
    const NativeCollectives::Call& any = joined_[0].first;
    const int64_t element = DTypeBytes(any.dtype), share = any.elements / members;
    most_bytes_ = std::max(most_bytes_, any.elements * element);
    if (any.kind == ALL_GATHER) {
      for (int from = 0; from < members; ++from) {
        for (int to = 0; to < members; ++to) {
          std::byte* place = static_cast<std::byte*>(joined_[to].first.destination) + from * any.elements * element;
          if (place == joined_[from].first.source) continue;
          WEFT_RETURN_IF_ERROR(device_.Copy(stream, place, joined_[from].first.source, any.elements * element));
        }
      }
    } else {
      std::vector<const void*> parts;
      for (int m = members - 1; m >= 0; --m) parts.push_back(joined_[m].first.source);
      WEFT_ASSIGN_OR_RETURN(void* const sum, device_.Allocate(DEVICE, any.elements * element));
      WEFT_RETURN_IF_ERROR(device_.Sum(stream, any.dtype, any.elements, parts, sum));
      for (int m = 0; m < members; ++m) {
        const bool scatters = any.kind == REDUCE_SCATTER;
        WEFT_RETURN_IF_ERROR(device_.Copy(stream, joined_[m].first.destination,
                                          static_cast<std::byte*>(sum) + (scatters ? m * share * element : 0),
                                          (scatters ? share : any.elements) * element));
      }
    }
    WEFT_RETURN_IF_ERROR(device_.Record(event, stream));
    for (const auto& [member, joined] : joined_) WEFT_RETURN_IF_ERROR(device_.Wait(joined.second, event));
    return absl::OkStatus();
  }

  ComputeDevice& device_;
  const DType without_;
  std::mutex mutex_;
  std::condition_variable met_;
  std::map<int, std::pair<NativeCollectives::Call, int>> joined_;
  absl::Status status_;
  int64_t calls_ = 0;
  int64_t most_bytes_ = 0;
};

using Bytes = std::vector<std::byte>;
// Contents of the destinations after a collective, by member and buffer.
using Results = std::vector<std::vector<Bytes>>;

// Runs one member's part of a collective twice in a row. The second run reads the same memory again; in place, it holds
// results of the first run.
absl::Status RunMember(const Spec& spec, ConformanceRank& rank, NativeCollectives* native, int seed,
                       std::vector<Bytes>* results, bool* keeps_order) {
  Endpoint& endpoint = rank.endpoint();
  const int self = endpoint.rank(), stream = rank.Stream(0);
  std::vector<CollectivePeer> peers;
  for (int m = 0; m < spec.members; ++m) peers.push_back({m, 3});
  WEFT_ASSIGN_OR_RETURN(
      const auto communicator,
      Communicator::Create(peers, self, {.device = rank.device(), .stream = stream, .native = native, .name = "test"}));
  std::mt19937 random(seed * 100 + self);
  std::vector<CollectiveBuffer> buffers;
  std::vector<ConformanceRank::Memory> sources, destinations;
  for (const BufferSpec& buffer : spec.buffers) {
    const int64_t results_of = DestinationElements(spec, buffer);
    const Bytes source = Values(buffer.dtype, buffer.elements, spec.whole_numbers, random);
    const Bytes before = Values(buffer.destination_dtype, results_of, spec.whole_numbers, random);
    WEFT_ASSIGN_OR_RETURN(destinations.emplace_back(), rank.NewMemory(before.size()));
    std::copy(before.begin(), before.end(), reinterpret_cast<std::byte*>(destinations.back().host));
    int64_t offset = 0;
    if (buffer.in_place) {
      sources.push_back(destinations.back());
      if (spec.kind == CollectiveKind::kAllGather) offset = self * static_cast<int64_t>(source.size());
    } else {
      WEFT_ASSIGN_OR_RETURN(sources.emplace_back(), rank.NewMemory(source.size()));
    }
    std::copy(source.begin(), source.end(), reinterpret_cast<std::byte*>(sources.back().host) + offset);
    buffers.push_back({static_cast<std::byte*>(sources.back().data) + offset, buffer.dtype, buffer.elements,
                       destinations.back().data, buffer.destination_dtype, buffer.accumulate});
  }
  WEFT_ASSIGN_OR_RETURN(const CollectiveEntry* algorithm, FindCollective(spec.algorithm));
  WEFT_ASSIGN_OR_RETURN(const auto collective, communicator->Prepare(*algorithm, spec.kind, buffers));
  *keeps_order = collective->keeps_order();
  WEFT_RETURN_IF_ERROR(communicator->AllocateScratch());
  EXPECT_LE(communicator->scratch_bytes(), Communicator::kScratchBytes);
  for (int use = 0; use < 2; ++use) {
    for (size_t b = 0; b < buffers.size() && use == 0; ++b) {
      WEFT_RETURN_IF_ERROR(rank.Bring(destinations[b], stream));
      if (!spec.buffers[b].in_place) WEFT_RETURN_IF_ERROR(rank.Bring(sources[b], stream));
    }
    WEFT_RETURN_IF_ERROR(communicator->Start(endpoint, *collective));
    while (true) {
      WEFT_ASSIGN_OR_RETURN(const bool done, communicator->Advance(endpoint));
      if (done) break;
      WEFT_RETURN_IF_ERROR(endpoint.WaitForProgress(std::chrono::milliseconds(100)).status());
    }
  }
  for (size_t b = 0; b < buffers.size(); ++b) {
    WEFT_RETURN_IF_ERROR(rank.Fetch(destinations[b], stream));
    if (!spec.buffers[b].in_place) WEFT_RETURN_IF_ERROR(rank.Overwrite(sources[b], stream));
  }
  WEFT_RETURN_IF_ERROR(rank.Finish());
  for (const ConformanceRank::Memory& memory : destinations) {
    const auto* bytes = reinterpret_cast<const std::byte*>(memory.host);
    results->emplace_back(bytes, bytes + memory.bytes);
  }
  return absl::OkStatus();
}

struct Outcome {
  Results results;
  bool keeps_order = true;
  int64_t native_calls = 0;
  int64_t most_native_bytes = 0;
};

// Runs in host memory over inproc if `device_seed` is 0, else on a deferred device over loopback.
Outcome RunOver(const Spec& spec, int seed, uint64_t device_seed, bool native, DType without = DTYPE_UNSPECIFIED) {
  auto endpoints = *(*FindTransport(device_seed == 0 ? "inproc" : "loopback"))->open(spec.members);
  DeferredDevice device(device_seed);
  FakeCollectives fake(&device, without);
  Outcome outcome;
  outcome.results.resize(spec.members);
  std::vector<absl::Status> statuses(spec.members);
  std::vector<std::thread> threads;
  for (int member = 0; member < spec.members; ++member) {
    threads.emplace_back([&, member] {
      auto rank = device_seed == 0 ? std::make_unique<ConformanceRank>(endpoints[member].get())
                                   : *ConformanceRank::OnDevice(endpoints[member].get(), &device, 1);
      FakeCollectives::Rank collectives(&fake, member);
      bool keeps_order = true;
      statuses[member] =
          RunMember(spec, *rank, native ? &collectives : nullptr, seed, &outcome.results[member], &keeps_order);
      if (!statuses[member].ok()) endpoints[member]->Abort(statuses[member]);
      if (member == 0) outcome.keeps_order = keeps_order;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  outcome.native_calls = fake.calls();
  outcome.most_native_bytes = fake.most_bytes();
  return outcome;
}

std::vector<BufferSpec> MixedBuffers(CollectiveKind kind, int members, int64_t size) {
  const int64_t n = size * members;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return {{FP32, n, FP32},
              {FP64, 17, FP64, false, true},
              {BF16, n + 1, BF16},
              {EXACT192, 40, EXACT192, false, true},
              {FP16, 3, FP16}};
    case CollectiveKind::kAllGather:
      return {{FP32, n, FP32}, {BF16, 5, BF16, false, true}, {EXACT192, 7, EXACT192}};
    case CollectiveKind::kReduceScatter:
      return {{FP32, n, FP32},
              {BF16, n, FP32, true},
              {FP32, n, BF16},
              {FP64, n, FP32, true},
              {FP32, 8 * members, EXACT192, true},
              {FP16, members, FP16, true},
              {EXACT192, members, EXACT192, true}};
  }
  return {};
}

TEST(CollectiveDeviceTest, TheBitsAreThoseOfTheHost) {
  for (const int members : {1, 2, 3, 4}) {
    for (const CollectiveKind kind : kCollectiveKinds) {
      for (const CollectiveEntry& entry : Collectives()) {
        if (entry.in_switch()) continue;
        const Spec spec = {kind, std::string(entry.name), members, MixedBuffers(kind, members, 501)};
        const Results expected = RunOver(spec, members, 0, /*native=*/false).results;
        for (const uint64_t seed : {1, 2, 3}) {
          EXPECT_TRUE(RunOver(spec, members, seed, /*native=*/false).results == expected)
              << spec.algorithm << " " << std::string(CollectiveKindName(kind)) << ", " << members << " members, seed "
              << seed;
        }
      }
    }
  }
}

TEST(CollectiveDeviceTest, PiecesChangeNoBit) {
  for (const CollectiveKind kind : kCollectiveKinds) {
    const Spec spec = {kind, "ring", 3, {{FP32, 3 * 700001, FP32}, {FP32, 33, FP32}}};
    EXPECT_TRUE(RunOver(spec, 1, 5, false).results == RunOver(spec, 1, 0, false).results)
        << std::string(CollectiveKindName(kind));
  }
}

TEST(CollectiveDeviceTest, TheTransportsOwnDoWhatTheyCan) {
  for (const CollectiveKind kind : kCollectiveKinds) {
    for (const int members : {1, 2, 3}) {
      for (const DType without : {DTYPE_UNSPECIFIED, BF16}) {
        const Spec spec = {kind, "ring", members, MixedBuffers(kind, members, 333), /*whole_numbers=*/true};
        const Results expected = RunOver(spec, members, 0, false).results;
        const Outcome outcome = RunOver(spec, members, 11, /*native=*/true, without);
        EXPECT_TRUE(outcome.results == expected) << std::string(CollectiveKindName(kind)) << " " << members;
        // Each buffer takes two calls of the transport, one per run. A buffer takes none if the transport does not
        // support its type, or if its terms are added to an EXACT192 buffer, because such terms are added one by one.
        int64_t calls = 0;
        for (const BufferSpec& buffer : spec.buffers) {
          calls += 2 * (members > 1 && buffer.dtype != EXACT192 && buffer.dtype != without &&
                        (kind != CollectiveKind::kReduceScatter || buffer.destination_dtype != EXACT192));
        }
        EXPECT_EQ(outcome.native_calls, calls);
      }
    }
  }
}

TEST(CollectiveDeviceTest, LongSumsOfTheTransportGoInPieces) {
  // A share of 2.4 MB fits the scratch memory. A share three times as long is sent in one call if it is copied to its
  // place, and in pieces if it is added to the content of its place.
  const int64_t share = 600001;
  for (const bool accumulate : {false, true}) {
    const Spec spec = {CollectiveKind::kReduceScatter, "ring", 3, {{FP32, 3 * share, FP32, accumulate}}, true};
    const Outcome outcome = RunOver(spec, 2, 3, /*native=*/true);
    EXPECT_TRUE(outcome.results == RunOver(spec, 2, 0, false).results);
    EXPECT_EQ(outcome.native_calls, 2);
    const Spec longer = {CollectiveKind::kReduceScatter, "ring", 3, {{FP32, 9 * share, FP32, accumulate}}, true};
    const Outcome pieces = RunOver(longer, 2, 4, /*native=*/true);
    EXPECT_TRUE(pieces.results == RunOver(longer, 2, 0, false).results);
    EXPECT_EQ(pieces.native_calls, accumulate ? 2 * 7 : 2);
    EXPECT_LE(pieces.most_native_bytes, accumulate ? Communicator::kScratchBytes : 36 * share);
  }
}

TEST(CollectiveDeviceTest, AnotherOrderOfSumsIsSaid) {
  const auto keeps = [](CollectiveKind kind, const std::string& algorithm, DType dtype, bool native) {
    const Spec spec = {kind, algorithm, 2, {{dtype, 4, dtype}}, true};
    return RunOver(spec, 1, 1, native).keeps_order;
  };
  EXPECT_FALSE(keeps(CollectiveKind::kAllReduce, "ring", FP32, true));
  EXPECT_TRUE(keeps(CollectiveKind::kAllReduce, "ring", FP32, false));
  EXPECT_TRUE(keeps(CollectiveKind::kAllReduce, "ring", EXACT192, true));
  EXPECT_TRUE(keeps(CollectiveKind::kAllGather, "ring", FP32, true));
  EXPECT_TRUE(keeps(CollectiveKind::kReduceScatter, "ring", FP32, true));
  EXPECT_FALSE(keeps(CollectiveKind::kReduceScatter, "direct", FP32, true));
}

}  // namespace
}  // namespace weft::exec
