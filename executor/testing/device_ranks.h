// For tests: runs the ranks of a program as threads of this process, on the host or on deferred devices.
#ifndef WEFT_EXECUTOR_TESTING_DEVICE_RANKS_H_
#define WEFT_EXECUTOR_TESTING_DEVICE_RANKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/interface/backend.h"
#include "executor/interface/transport.h"
#include "executor/interpreter/interpreter.h"
#include "executor/program/arena.h"
#include "executor/testing/deferred_device.h"
#include "executor/transports/staged.h"
#include "gtest/gtest.h"
#include "proto/program.pb.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"

namespace weft::exec {

enum class RanksOn {
  // The host, which is synchronous; messages go by inproc.
  kHost,
  // One deferred device for all ranks; messages go by loopback.
  kSharedDevice,
  // One deferred device per rank; messages are staged through inproc.
  kOwnDevices,
};

struct RankResult {
  std::vector<StepResult> steps;
  RankTrace trace;
  // The contents of all persistent buffers in turn.
  std::string memory;
};

struct RanksOptions {
  RanksOn on = RanksOn::kHost;
  // Seed of the deferred devices.
  uint64_t seed = 1;
  int64_t first_step = 0;
  // Number of repetitions of each call of RunBody, in order.
  std::vector<int64_t> bodies = {4};
  InterpreterOptions interpreter;
  // The kernels of a rank, on the host.
  std::function<std::unique_ptr<Backend>(int rank)> backend = [](int) { return MakeCpuBackend(1); };
  // ComputeDevice::hardware_queues of a shared device.
  int hardware_queues = 0;
  // If set, makes the devices instead of those that `on` selects.
  std::function<std::unique_ptr<ComputeDevice>(int rank)> device;
};

namespace device_ranks_internal {

inline absl::StatusOr<RankResult> RunRank(const Program& program, const RanksOptions& options, Endpoint* endpoint,
                                          ComputeDevice* device, Backend* backend) {
  const Template& t = program.templates(TemplateOfRank(program, endpoint->rank()));
  WEFT_ASSIGN_OR_RETURN(const auto arena, Arena::Allocate(device, t.device_arena_bytes(), t.host_arena_bytes()));
  WEFT_ASSIGN_OR_RETURN(const auto interpreter,
                        Interpreter::Create(program, endpoint, backend, arena.get(), options.interpreter));
  WEFT_RETURN_IF_ERROR(interpreter->RunPrologue(options.first_step));
  int64_t step = options.first_step;
  for (const int64_t repetitions : options.bodies) {
    WEFT_ASSIGN_OR_RETURN(const int64_t ran, interpreter->RunBody(step, repetitions));
    step += ran * std::max(1, program.steps_per_repetition());
    if (program.post_validation()) WEFT_RETURN_IF_ERROR(interpreter->RunEpilogue(step));
  }
  if (!program.post_validation()) WEFT_RETURN_IF_ERROR(interpreter->RunEpilogue(step));
  RankResult result{interpreter->results(), interpreter->TakeTrace(), {}};
  for (const Buffer& buffer : t.buffers()) {
    if (!buffer.persistent()) continue;
    const size_t before = result.memory.size();
    result.memory.resize(before + buffer.bytes());
    WEFT_RETURN_IF_ERROR(device->CopyNow(result.memory.data() + before, arena->Data(buffer), buffer.bytes()));
  }
  return result;
}

}  // namespace device_ranks_internal

// Returns the results by rank. If a rank fails, the others fail too.
inline std::vector<absl::StatusOr<RankResult>> RunRanksOn(const Program& program, const RanksOptions& options) {
  const int count = static_cast<int>(MeshRanks(program.mesh()));
  const bool shared = options.on == RanksOn::kSharedDevice;
  // The devices outlive everything that uses them.
  std::vector<std::unique_ptr<ComputeDevice>> devices;
  for (int rank = 0; rank < (shared ? 1 : count); ++rank) {
    if (options.device) {
      devices.push_back(options.device(rank));
    } else if (options.on == RanksOn::kHost) {
      devices.push_back(MakeHostDevice());
    } else {
      devices.push_back(std::make_unique<DeferredDevice>(options.seed * 100 + rank, options.hardware_queues));
    }
  }
  std::vector<std::unique_ptr<Endpoint>> endpoints = *(*FindTransport(shared ? "loopback" : "inproc"))->open(count);
  // Work that a rank has enqueued may still run when the rank has failed, so the backends outlive the threads.
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<absl::StatusOr<RankResult>> results(count);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    ComputeDevice* device = devices[shared ? 0 : rank].get();
    backends.push_back(options.backend(rank));
    if (auto* deferred = dynamic_cast<DeferredDevice*>(device)) {
      backends.back() = MakeDeferredBackend(deferred, std::move(backends.back()));
    }
    absl::Status used = UseDeviceOrStage(endpoints[rank], device).status();
    threads.emplace_back([&, rank, device, used, backend = backends.back().get()] {
      results[rank] =
          used.ok() ? device_ranks_internal::RunRank(program, options, endpoints[rank].get(), device, backend) : used;
      if (!results[rank].ok()) endpoints[rank]->Abort(results[rank].status());
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

// Memory and losses of all ranks, to compare bit for bit. A rank that failed fails the test; the result is then empty.
inline std::vector<std::string> OutcomeOn(const Program& program, const RanksOptions& options) {
  std::vector<std::string> outcome;
  for (const auto& rank : RunRanksOn(program, options)) {
    EXPECT_TRUE(rank.ok()) << rank.status();
    if (!rank.ok()) return {};
    outcome.push_back(rank->memory);
    for (const StepResult& step : rank->steps) {
      const double figures[] = {static_cast<double>(step.step), step.loss, step.norm, step.loss_scale};
      outcome.emplace_back(reinterpret_cast<const char*>(figures), sizeof(figures));
    }
  }
  return outcome;
}

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TESTING_DEVICE_RANKS_H_
