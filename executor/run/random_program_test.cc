// Verified random programs, with everything that pipeline schedules use, end with the same memory for any timing: at
// full speed, with ranks that take turns on one compute slot, and with ranks that pause between steps.
#include "tests/random_program.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "executor/interpreter/interpreter.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"

namespace weft::exec {
namespace {

class DawdlingBackend : public Backend {
 public:
  DawdlingBackend(int rank, bool dawdles) : rank_(rank), dawdles_(dawdles), backend_(MakeCpuBackend(1)) {}

  absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                   const StepContext& context) override {
    if (dawdles_ && (++steps_ * 7 + rank_ * 3) % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(150));
    return backend_->Run(step, inputs, outputs, context);
  }

 private:
  int rank_;
  bool dawdles_;
  int steps_ = 0;
  std::unique_ptr<Backend> backend_;
};

// The persistent device memory of every rank after some repetitions; empty if a rank failed.
std::vector<std::string> RunTimed(const Program& program, bool one_slot, bool dawdle) {
  const int count = static_cast<int>(MeshRanks(program.mesh()));
  auto endpoints = *(*FindTransport("inproc"))->open(count);
  std::vector<Endpoint*> pointers;
  for (auto& endpoint : endpoints) pointers.push_back(endpoint.get());
  ComputeSlots slots(1, pointers);
  InterpreterOptions options;
  options.timeout = std::chrono::seconds(20);
  options.check_finite = false;
  if (one_slot) options.slots = &slots;
  std::vector<std::unique_ptr<Arena>> arenas;
  for (int rank = 0; rank < count; ++rank) {
    const Template& t = program.templates(TemplateOfRank(program, rank));
    arenas.push_back(*Arena::Allocate(t.device_arena_bytes(), t.host_arena_bytes()));
  }
  std::vector<absl::Status> statuses(count);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      DawdlingBackend backend(rank, dawdle);
      const auto run = [&]() -> absl::Status {
        auto interpreter = Interpreter::Create(program, endpoints[rank].get(), &backend, arenas[rank].get(), options);
        if (!interpreter.ok()) return interpreter.status();
        if (absl::Status status = (*interpreter)->RunPrologue(); !status.ok()) return status;
        if (absl::Status status = (*interpreter)->RunBody(0, 4).status(); !status.ok()) return status;
        return (*interpreter)->RunEpilogue();
      };
      statuses[rank] = run();
      if (!statuses[rank].ok()) endpoints[rank]->Abort(statuses[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::string> memory;
  for (int rank = 0; rank < count; ++rank) {
    EXPECT_TRUE(statuses[rank].ok()) << "rank " << rank << ": " << statuses[rank];
    if (!statuses[rank].ok()) return {};
    const Template& t = program.templates(TemplateOfRank(program, rank));
    for (const Buffer& buffer : t.buffers()) {
      if (!buffer.persistent()) continue;
      memory.emplace_back(reinterpret_cast<const char*>(arenas[rank]->Data(buffer)), buffer.bytes());
    }
  }
  return memory;
}

TEST(RandomPrograms, EndTheSameForAnyTiming) {
  RandomProgramOptions options = RunnablePrograms();
  options.collectives = true;
  int dynamic = 0, filled = 0;
  for (uint64_t seed = 0; seed < 250; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Program program = RandomProgram(seed, options);
    dynamic += program.compute_order() != STATIC_ORDER;
    const std::vector<std::string> expected = RunTimed(program, /*one_slot=*/false, /*dawdle=*/false);
    EXPECT_TRUE(RunTimed(program, /*one_slot=*/true, /*dawdle=*/false) == expected);
    EXPECT_TRUE(RunTimed(program, /*one_slot=*/false, /*dawdle=*/true) == expected);
    for (const std::string& bytes : expected)
      filled += std::any_of(bytes.begin(), bytes.end(), [](char c) { return c != 0; });
    if (HasFailure()) return;
  }
  EXPECT_GT(filled, 100);
  EXPECT_GT(dynamic, 20);
}

}  // namespace
}  // namespace weft::exec
