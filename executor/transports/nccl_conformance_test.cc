// The conformance suite over the fake NCCL.
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <tuple>
#include <vector>

#include "executor/transports/testing/nccl_job.h"
#include "executor/transports/testing/transport_conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

using ::testing::IsEmpty;

constexpr int kChannels[] = {0, 1, 2, 5, 6, 9, 21, 22, 23};

// Posts every transfer on a device stream, one per edge, and calls it done when the stream has passed it.
class OnDevice : public Endpoint {
 public:
  OnDevice(std::unique_ptr<Endpoint> endpoint, FakeGpu* gpu) : endpoint_(std::move(endpoint)), gpu_(*gpu) {}

  absl::Status Open() {
    WEFT_RETURN_IF_ERROR(endpoint_->UseDevice(&gpu_));
    std::deque<Transfer> edges;
    std::vector<const Transfer*> sends, receives;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      for (const int channel : kChannels) {
        for (const bool send : {true, false}) {
          Transfer& edge = edges.emplace_back();
          edge.peer = peer;
          edge.channel = channel;
          WEFT_ASSIGN_OR_RETURN(edge.stream, gpu_.NewStream(ComputeDevice::Priority::kNormal));
          streams_[{peer, channel, send}] = edge.stream;
          (send ? sends : receives).push_back(&edge);
        }
      }
    }
    return endpoint_->Connect(sends, receives);
  }

  int rank() const override { return endpoint_->rank(); }
  int size() const override { return endpoint_->size(); }
  absl::Status PostSend(Transfer* transfer) override { return Post(transfer, true); }
  absl::Status PostRecv(Transfer* transfer) override { return Post(transfer, false); }
  absl::StatusOr<bool> Poll() override {
    WEFT_ASSIGN_OR_RETURN(bool news, endpoint_->Poll());
    for (auto posted = posted_.begin(); posted != posted_.end();) {
      WEFT_ASSIGN_OR_RETURN(const bool over, gpu_.Finished(posted->event));
      if (!over) {
        ++posted;
        continue;
      }
      posted->outer->start_ns = posted->inner->start_ns;
      posted->outer->end_ns = MonotonicNanoseconds();
      posted->outer->done = true;
      events_.push_back(posted->event);
      posted = posted_.erase(posted);
      news = true;
    }
    return news;
  }
  absl::StatusOr<bool> WaitForProgress(std::chrono::nanoseconds timeout) override {
    const auto end = std::chrono::steady_clock::now() + timeout;
    while (true) {
      WEFT_ASSIGN_OR_RETURN(const bool news, Poll());
      if (news || std::chrono::steady_clock::now() > end) return news;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  void Wake() override { endpoint_->Wake(); }
  bool Abort(const absl::Status& status) override { return endpoint_->Abort(status); }
  void Note(int64_t step, int32_t action) override { endpoint_->Note(step, action); }
  absl::Status CheckPeers(LastNote* last) override { return endpoint_->CheckPeers(last); }

 private:
  struct Posted {
    Transfer* outer;
    std::unique_ptr<Transfer> inner;
    int event;
  };

  absl::Status Post(Transfer* transfer, bool send) {
    Posted posted = {transfer, std::make_unique<Transfer>(), 0};
    Transfer& inner = *posted.inner;
    inner.data = transfer->data;
    inner.bytes = transfer->bytes;
    inner.peer = transfer->peer;
    inner.channel = transfer->channel;
    inner.stream = streams_.at({transfer->peer, transfer->channel, send});
    transfer->done = false;
    WEFT_RETURN_IF_ERROR(send ? endpoint_->PostSend(&inner) : endpoint_->PostRecv(&inner));
    if (!inner.done) return absl::InternalError("issued is not done");
    if (events_.empty()) {
      WEFT_ASSIGN_OR_RETURN(posted.event, gpu_.NewEvent(false));
    } else {
      posted.event = events_.back();
      events_.pop_back();
    }
    WEFT_RETURN_IF_ERROR(gpu_.Record(posted.event, inner.stream));
    posted_.push_back(std::move(posted));
    return absl::OkStatus();
  }

  std::unique_ptr<Endpoint> endpoint_;
  FakeGpu& gpu_;
  std::map<std::tuple<int, int, bool>, int> streams_;
  std::deque<Posted> posted_;
  std::vector<int> events_;
};

TEST(NcclConformanceTest, Conforms) {
  for (const int ranks : {2, 3}) {
    for (const uint64_t seed : {1, 2}) {
      SCOPED_TRACE(absl::StrCat(ranks, " ranks, seed ", seed));
      NcclJob job(ranks, seed);
      const auto results = job.Run([&](int rank) -> absl::Status {
        OnDevice endpoint(std::move(job.endpoints[rank]), job.gpus[rank].get());
        WEFT_RETURN_IF_ERROR(endpoint.Open());
        ConformanceRank under_test(&endpoint);
        for (const ConformanceCase& test : ConformanceCases()) {
          const absl::Status status = test.run(under_test);
          if (!status.ok()) return absl::InternalError(absl::StrCat(test.name, ": ", status.ToString()));
        }
        return absl::OkStatus();
      });
      for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
      EXPECT_THAT(FakeNccl::Violations(), IsEmpty());
      EXPECT_EQ(FakeNccl::Alive(), 0);
    }
  }
}

TEST(NcclConformanceTest, OneOfRacingAbortsWins) {
  NcclJob job(4, 5);
  bool won[4] = {};
  for (const absl::Status& status :
       job.Run([&](int rank) { return RacingAbortsConform(*job.endpoints[rank], &won[rank]); })) {
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(won[0] + won[1] + won[2] + won[3], 1);
}

}  // namespace
}  // namespace weft::exec
