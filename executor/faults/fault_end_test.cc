// However a rank fails on an asynchronous device (an error of its device, an error of the transport, a device that
// hangs), all ranks end within ten seconds, with one reason. Exactly one report states that its rank failed first.
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "executor/faults/fault_guard.h"
#include "executor/faults/fault_report.h"
#include "executor/job/store.h"
#include "executor/testing/device_ranks.h"
#include "executor/testing/test_pipeline.h"
#include "executor/transports/tcp.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"

namespace weft::exec {
namespace {

constexpr int kRanks = 3;

enum class Way { kLoopback, kStagedInproc, kStagedTcp };
enum class Fault { kDevice, kTransport, kHang };

std::vector<std::unique_ptr<Endpoint>> Open(Way way) {
  if (way != Way::kStagedTcp) return *(*FindTransport(way == Way::kLoopback ? "loopback" : "inproc"))->open(kRanks);
  Socket listener = *ListenOn((*ResolveHost("127.0.0.1", 0))[0]);
  const int port = LocalAddress(listener)->port();
  std::vector<std::unique_ptr<Endpoint>> endpoints(kRanks);
  std::vector<std::thread> threads;
  const int listener_fd = listener.Release();
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      Rendezvous rendezvous;
      rendezvous.process = {.bootstrap = Bootstrap::kEnv, .rank = rank, .size = kRanks, .local_rank = rank};
      rendezvous.host = "127.0.0.1";
      rendezvous.port = port;
      rendezvous.secret = "the secret of the job";
      if (rank == 0) rendezvous.listener_fd = listener_fd;
      auto endpoint = OpenTcpEndpoint(rendezvous, /*own_process=*/false);
      ASSERT_TRUE(endpoint.ok()) << endpoint.status();
      endpoints[rank] = *std::move(endpoint);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return endpoints;
}

// An endpoint whose link breaks after a number of sends.
class BreakingEndpoint : public Endpoint {
 public:
  BreakingEndpoint(std::unique_ptr<Endpoint> inner, int sends) : inner_(std::move(inner)), left_(sends) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void SetTimeout(std::chrono::nanoseconds timeout) override { inner_->SetTimeout(timeout); }
  absl::Status UseDevice(ComputeDevice* device) override { return inner_->UseDevice(device); }
  int ranks_on_device() const override { return inner_->ranks_on_device(); }
  absl::Status Connect(absl::Span<const Transfer* const> sends, absl::Span<const Transfer* const> receives) override {
    return inner_->Connect(sends, receives);
  }
  absl::Status BeginGroup() override { return inner_->BeginGroup(); }
  absl::Status EndGroup() override { return inner_->EndGroup(); }
  absl::Status PostSend(Transfer* transfer) override {
    if (left_-- <= 0) return absl::UnavailableError("the link is broken");
    return inner_->PostSend(transfer);
  }
  absl::Status PostRecv(Transfer* transfer) override { return inner_->PostRecv(transfer); }
  absl::StatusOr<bool> Poll() override { return inner_->Poll(); }
  absl::StatusOr<bool> WaitForProgress(std::chrono::nanoseconds timeout) override {
    return inner_->WaitForProgress(timeout);
  }
  void Wake() override { inner_->Wake(); }
  bool Abort(const absl::Status& status) override { return inner_->Abort(status); }
  absl::Status AbortReason() override { return inner_->AbortReason(); }
  void Note(int64_t step, int32_t action) override { inner_->Note(step, action); }
  absl::Status CheckPeers(LastNote* last) override { return inner_->CheckPeers(last); }

 private:
  std::unique_ptr<Endpoint> inner_;
  int left_;
};

// A backend with a kernel that fails on the device, after it was enqueued.
class FailingBackend : public AddingBackend {
 public:
  absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                   const StepContext& context) override {
    if (context.step == 1) return absl::InternalError("an illegal memory access was encountered");
    return AddingBackend::Run(step, inputs, outputs, context);
  }
};

// A device whose events never complete.
class HangingDevice : public DeferredDevice {
 public:
  HangingDevice() : DeferredDevice(1) {}
  absl::StatusOr<bool> Finished(int) override { return false; }
};

void Expect(Way way, Fault fault, int victim) {
  SCOPED_TRACE(testing::Message() << "way " << static_cast<int>(way) << ", fault " << static_cast<int>(fault)
                                  << ", rank " << victim);
  const Program program = TestPipelineProgram({.ranks = kRanks});
  const bool shared = way == Way::kLoopback;
  std::vector<std::unique_ptr<ComputeDevice>> devices;
  for (int i = 0; i < (shared ? 1 : kRanks); ++i) {
    const bool hangs = fault == Fault::kHang && (shared || i == victim);
    devices.push_back(hangs ? std::make_unique<HangingDevice>() : std::make_unique<DeferredDevice>(17 + i));
  }
  std::vector<std::unique_ptr<Endpoint>> endpoints = Open(way);
  std::vector<std::unique_ptr<Backend>> backends;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (fault == Fault::kTransport && rank == victim) {
      endpoints[rank] = std::make_unique<BreakingEndpoint>(std::move(endpoints[rank]), 4);
    }
    ComputeDevice* device = devices[shared ? 0 : rank].get();
    ASSERT_TRUE(UseDeviceOrStage(endpoints[rank], device).ok());
    std::unique_ptr<Backend> kernels = std::make_unique<AddingBackend>();
    if (fault == Fault::kDevice && rank == victim) kernels = std::make_unique<FailingBackend>();
    backends.push_back(MakeDeferredBackend(dynamic_cast<DeferredDevice*>(device), std::move(kernels)));
  }
  const std::string file = std::filesystem::path(testing::TempDir()) / "end.json";
  const auto start = std::chrono::steady_clock::now();
  std::vector<absl::Status> results(kRanks);
  {
    FaultGuard guard(program, endpoints, {.timeout = std::chrono::milliseconds(500), .report_file = file});
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        RanksOptions options;
        options.bodies = {6};
        options.interpreter.flight = guard.flight(rank);
        options.interpreter.deadlines = guard.deadlines(rank);
        guard.deadlines(rank)->Enter(RunPhase::kStepping);
        absl::Status status = device_ranks_internal::RunRank(program, options, endpoints[rank].get(),
                                                             devices[shared ? 0 : rank].get(), backends[rank].get())
                                  .status();
        if (!status.ok()) status = guard.Located(rank, status);
        const bool first = !status.ok() && endpoints[rank]->Abort(status);
        guard.Returned(rank, status, first);
        results[rank] = status;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(guard.report_status().ok()) << guard.report_status();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  const absl::StatusCode code = fault == Fault::kDevice      ? absl::StatusCode::kInternal
                                : fault == Fault::kTransport ? absl::StatusCode::kUnavailable
                                                             : absl::StatusCode::kDeadlineExceeded;
  int firsts = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(results[rank].code(), code) << results[rank];
    const absl::StatusOr<std::string> report = ReadFile(FaultFileOfRank(file, rank));
    ASSERT_TRUE(report.ok()) << report.status();
    firsts += report->find("\"first_to_fail\": true") != std::string::npos ? 1 : 0;
    std::filesystem::remove(FaultFileOfRank(file, rank));
  }
  EXPECT_EQ(firsts, 1);
}

TEST(FaultEndTest, ErrorsOfTheDevice) {
  for (const Way way : {Way::kLoopback, Way::kStagedInproc, Way::kStagedTcp}) {
    for (const int victim : {0, 2}) Expect(way, Fault::kDevice, victim);
  }
}

TEST(FaultEndTest, ErrorsOfTheTransport) {
  for (const Way way : {Way::kLoopback, Way::kStagedInproc, Way::kStagedTcp}) {
    for (const int victim : {0, 1}) Expect(way, Fault::kTransport, victim);
  }
}

TEST(FaultEndTest, ADeviceThatHangs) {
  for (const Way way : {Way::kLoopback, Way::kStagedInproc, Way::kStagedTcp}) Expect(way, Fault::kHang, 1);
}

}  // namespace
}  // namespace weft::exec
