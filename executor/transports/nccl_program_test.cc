// Runs programs over the transport nccl. Each rank is a thread with a deferred device as its GPU. The fake NCCL
// (fake_nccl.h) works in host memory and holds up streams as NCCL does. A verified program must end there, whatever
// order the devices pick, and must give the same results as ranks that are threads in host memory.
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu.h"
#include "executor/interpreter/interpreter.h"
#include "executor/program/arena.h"
#include "executor/program/stream_demand.h"
#include "executor/program/stream_fold.h"
#include "executor/testing/test_pipeline.h"
#include "executor/transports/nccl.h"
#include "executor/transports/testing/fake_nccl.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "tests/random_program.h"

namespace weft::exec {
namespace {

using ::testing::IsEmpty;

struct Outcome {
  absl::Status status;
  // The contents of the persistent buffers of all ranks, in turn.
  std::vector<std::string> memory;
  // Results of rank 0.
  std::vector<StepResult> steps;
  // By rank: number of streams of its device.
  std::vector<int> streams;
};

using BackendMaker = std::function<std::unique_ptr<Backend>()>;

// The caller frees `memory_of_rank`: a rank that fails must abort first, because others may be about to write there.
absl::Status RunRank(const Program &program, Endpoint *endpoint, ComputeDevice *device, Backend *backend,
                     int64_t repetitions, std::unique_ptr<Arena> *memory_of_rank, std::string *memory,
                     std::vector<StepResult> *steps) {
  const Template &t = program.templates(TemplateOfRank(program, endpoint->rank()));
  std::unique_ptr<Arena> &arena = *memory_of_rank;
  WEFT_ASSIGN_OR_RETURN(arena, Arena::Allocate(device, t.device_arena_bytes(), t.host_arena_bytes()));
  InterpreterOptions options;
  options.timeout = std::chrono::seconds(30);
  options.check_finite = false;
  WEFT_ASSIGN_OR_RETURN(const auto interpreter, Interpreter::Create(program, endpoint, backend, arena.get(), options));
  WEFT_RETURN_IF_ERROR(interpreter->RunPrologue());
  WEFT_RETURN_IF_ERROR(interpreter->RunBody(0, repetitions).status());
  WEFT_RETURN_IF_ERROR(interpreter->RunEpilogue());
  *steps = interpreter->results();
  for (const Buffer &buffer : t.buffers()) {
    if (!buffer.persistent()) continue;
    const size_t before = memory->size();
    memory->resize(before + buffer.bytes());
    WEFT_RETURN_IF_ERROR(device->CopyNow(memory->data() + before, arena->Data(buffer), buffer.bytes()));
  }
  return absl::OkStatus();
}

// Runs over NCCL with this seed, on devices with `queues` hardware queues (0 = any number). Seed 0: over inproc in host
// memory.
Outcome RunProgramOver(const Program &program, const BackendMaker &make_backend, int64_t repetitions, uint64_t seed,
                       int queues = 0) {
  const int ranks = static_cast<int>(MeshRanks(program.mesh()));
  auto hosts = *(*FindTransport("inproc"))->open(ranks);
  FakeNccl::Reset(seed);
  Outcome outcome;
  outcome.memory.resize(ranks);
  outcome.streams.resize(ranks);
  std::vector<std::vector<StepResult>> steps(ranks);
  std::vector<absl::Status> statuses(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      std::unique_ptr<ComputeDevice> device = MakeHostDevice();
      std::unique_ptr<Endpoint> endpoint = std::move(hosts[rank]);
      std::unique_ptr<Backend> backend = make_backend();
      absl::Status &status = statuses[rank];
      if (seed != 0) {
        auto gpu = std::make_unique<FakeGpu>(seed * 1000 + rank, queues);
        backend = MakeDeferredBackend(gpu.get(), std::move(backend));
        device = std::move(gpu);
        endpoint = MakeNcclEndpoint(FakeNccl::Table(), std::move(endpoint));
      }
      std::unique_ptr<Arena> arena;
      status = endpoint->UseDevice(device.get());
      if (status.ok()) {
        status = RunRank(program, endpoint.get(), device.get(), backend.get(), repetitions, &arena,
                         &outcome.memory[rank], &steps[rank]);
      }
      if (!status.ok()) endpoint->Abort(status);
      if (const auto *gpu = dynamic_cast<FakeGpu *>(device.get())) outcome.streams[rank] = gpu->streams();
    });
  }
  for (std::thread &thread : threads) thread.join();
  for (const absl::Status &status : statuses) outcome.status.Update(status);
  outcome.steps = std::move(steps[0]);
  EXPECT_THAT(FakeNccl::Violations(), IsEmpty());
  EXPECT_EQ(FakeNccl::Alive(), 0);
  return outcome;
}

TEST(NcclProgramTest, Pipelines) {
  for (const int ranks : {2, 4}) {
    const std::pair<const char *, TestPipeline> cases[] = {
        {"static", {.ranks = ranks, .limit = ranks}},
        {"arrival", {.ranks = ranks, .order = ARRIVAL, .limit = ranks}},
        {"backward first", {.ranks = ranks, .order = BACKWARD_FIRST, .limit = ranks}},
        {"per direction", {.ranks = ranks, .streams = PER_DIRECTION, .limit = ranks}},
        {"groups on one stream", {.ranks = ranks, .streams = SHARED, .limit = ranks, .groups = true}},
    };
    for (const auto &[name, pipeline] : cases) {
      const Program program = TestPipelineProgram(pipeline);
      for (const uint64_t seed : {1, 2, 3}) {
        SCOPED_TRACE(testing::Message() << name << ", " << ranks << " ranks, seed " << seed);
        const Outcome outcome = RunProgramOver(program, [] { return std::make_unique<AddingBackend>(); }, 5, seed);
        ASSERT_TRUE(outcome.status.ok()) << outcome.status;
        ASSERT_EQ(outcome.steps.size(), 5u);
        for (const StepResult &step : outcome.steps) {
          EXPECT_EQ(step.loss, TestPipelineLoss(pipeline, 0, step.step));
        }
      }
    }
  }
}

// True if the order of every sum is weft's. NCCL sums more than two parts in an order of its own (rule P10).
bool SumsInOurOrder(const Program &program) {
  for (const Template &t : program.templates()) {
    for (const auto *list : {&t.prologue(), &t.body(), &t.epilogue()}) {
      for (const Action &action : *list) {
        const bool sums = action.kind() == ALL_REDUCE || action.kind() == REDUCE_SCATTER;
        if (sums && GroupSize(program.mesh(), action.group()) > 2) return false;
      }
    }
  }
  return true;
}

TEST(NcclProgramTest, RandomPrograms) {
  int ran = 0, compared = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Program program = RandomProgram(seed, RunnablePrograms());
    const BackendMaker cpu = [] { return MakeCpuBackend(1); };
    const Outcome expected = RunProgramOver(program, cpu, 4, 0);
    ASSERT_TRUE(expected.status.ok()) << expected.status;
    const Outcome outcome = RunProgramOver(program, cpu, 4, seed);
    if (absl::IsResourceExhausted(outcome.status)) continue;
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    ++ran;
    if (!SumsInOurOrder(program)) continue;
    EXPECT_TRUE(outcome.memory == expected.memory);
    ++compared;
    if (HasFailure()) return;
  }
  EXPECT_GT(ran, 90);
  EXPECT_GT(compared, 40);
}

// No two streams may be in one hardware queue, where they could wait for each other for ever. With one queue too few,
// edges share streams if that is proven, and the results are the same; else the program is refused.
TEST(NcclProgramTest, StreamsFitTheHardwareQueues) {
  const BackendMaker cpu = [] { return MakeCpuBackend(1); };
  int shared = 0, refused = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Program program = RandomProgram(seed, RunnablePrograms());
    int most = 0, least = 0;
    for (int rank = 0; rank < MeshRanks(program.mesh()); ++rank) {
      most = std::max(most, DemandOf(program, rank, program.transfer_streams()).total());
      least = std::max(least, DemandOf(program, rank, PER_DIRECTION).total());
    }
    if (program.transfer_streams() != PER_EDGE || most <= least) continue;
    // Besides its program streams, a rank needs the transport's warm-up stream, and kReservedQueues stay free.
    const int queues = most - 1 + 1 + kReservedQueues;
    const Outcome outcome = RunProgramOver(program, cpu, 4, seed, queues);
    if (absl::IsResourceExhausted(outcome.status)) continue;
    if (absl::IsFailedPrecondition(outcome.status)) {
      EXPECT_THAT(std::string(outcome.status.message()),
                  testing::HasSubstr(absl::StrCat("of the device's ", queues, " hardware queues")));
      ++refused;
      continue;
    }
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    for (const int streams : outcome.streams) EXPECT_LE(streams, queues - kReservedQueues);
    ++shared;
    if (!SumsInOurOrder(program)) continue;
    EXPECT_TRUE(outcome.memory == RunProgramOver(program, cpu, 4, 0).memory);
    if (HasFailure()) return;
  }
  EXPECT_GE(shared, 3);
  EXPECT_GT(refused, 3);
}

}  // namespace
}  // namespace weft::exec
