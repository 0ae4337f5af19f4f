// The conformance suite as an MPI program: run it under an MPI launcher, with two ranks or more.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/interface/transport.h"
#include "executor/interpreter/control.h"
#include "executor/interpreter/interpreter.h"
#include "executor/testing/deferred_device.h"
#include "executor/testing/test_pipeline.h"
#include "executor/transports/mpi.h"
#include "executor/transports/staged.h"
#include "executor/transports/testing/transport_conformance.h"
#include "proto/util/status.h"

namespace {

// Has streams like a GPU, and memory that MPI can read.
class SharedMemoryDevice : public weft::exec::DeferredDevice {
 public:
  using DeferredDevice::DeferredDevice;
  absl::StatusOr<void*> Allocate(weft::Place, int64_t bytes) override {
    return DeferredDevice::Allocate(weft::HOST, bytes);
  }
};

// Runs this rank's part of a pipeline over all ranks.
absl::Status RunPipeline(const weft::exec::TestPipeline& pipeline, weft::exec::Endpoint& endpoint) {
  const weft::Program program = weft::exec::TestPipelineProgram(pipeline);
  const weft::Template& t = program.templates(endpoint.rank());
  WEFT_ASSIGN_OR_RETURN(const auto arena, weft::exec::Arena::Allocate(t.device_arena_bytes(), t.host_arena_bytes()));
  weft::exec::AddingBackend backend;
  weft::exec::InterpreterOptions options;
  options.timeout = std::chrono::seconds(20);
  WEFT_ASSIGN_OR_RETURN(const auto interpreter,
                        weft::exec::Interpreter::Create(program, &endpoint, &backend, arena.get(), options));
  WEFT_RETURN_IF_ERROR(interpreter->RunBody(0, 5).status());
  for (const weft::exec::StepResult& result : interpreter->results()) {
    const double expected = weft::exec::TestPipelineLoss(pipeline, 0, result.step);
    if (endpoint.rank() == 0 && result.loss != expected) {
      return absl::InternalError(absl::StrCat("step ", result.step, ": loss ", result.loss, ", expected ", expected));
    }
  }
  return weft::exec::Barrier(endpoint, options.timeout);
}

// Runs pipelines with several orders of compute and several ways to share streams. All cases run before the first error
// ends the job.
int RunPipelines(weft::exec::Endpoint& endpoint) {
  const int ranks = endpoint.size();
  const struct {
    const char* name;
    weft::exec::TestPipeline pipeline;
  } cases[] = {
      {"static", {.ranks = ranks, .limit = ranks}},
      {"arrival", {.ranks = ranks, .order = weft::ARRIVAL, .limit = ranks}},
      {"backward first", {.ranks = ranks, .order = weft::BACKWARD_FIRST, .limit = ranks}},
      {"arrival, per direction",
       {.ranks = ranks, .order = weft::ARRIVAL, .streams = weft::PER_DIRECTION, .limit = ranks}},
      {"groups on one stream", {.ranks = ranks, .streams = weft::SHARED, .limit = ranks, .groups = true}},
  };
  for (const auto& [name, pipeline] : cases) {
    const absl::Status status = RunPipeline(pipeline, endpoint);
    if (!status.ok()) {
      std::fprintf(stderr, "%s, rank %d: %s\n", name, endpoint.rank(), status.ToString().c_str());
      endpoint.Abort(status);
      return 1;
    }
    if (endpoint.rank() == 0) std::printf("%s: ok\n", name);
  }
  return 0;
}

}  // namespace

// "staged SEED" runs the conformance suite on deferred devices, one per process. "direct SEED" does the same, as if MPI
// took their memory. "race" runs only RacingAbortsConform, which ends the job. "pipeline" runs only pipelines.
int main(int argc, char** argv) {
  const weft::exec::LauncherRank launcher = weft::exec::RankFromLauncher();
  if (launcher.size < 2) {
    std::fprintf(stderr, "run this under mpirun with at least two ranks\n");
    return 2;
  }
  const bool direct = argc > 2 && std::strcmp(argv[1], "direct") == 0;
  absl::StatusOr<std::vector<std::unique_ptr<weft::exec::Endpoint>>> endpoints =
      std::vector<std::unique_ptr<weft::exec::Endpoint>>();
  if (direct) {
    auto endpoint = weft::exec::OpenMpiEndpoint(launcher.size, weft::exec::MpiDeviceMemory::kTaken);
    if (endpoint.ok()) {
      endpoints->push_back(*std::move(endpoint));
    } else {
      endpoints = endpoint.status();
    }
  } else {
    endpoints = (*weft::exec::FindTransport("mpi"))->open(launcher.size);
  }
  if (!endpoints.ok()) {
    std::fprintf(stderr, "%s\n", endpoints.status().ToString().c_str());
    return 1;
  }
  int failures = 0;
  if (argc > 1 && std::strcmp(argv[1], "race") == 0) {
    bool won = false;
    const absl::Status status = weft::exec::RacingAbortsConform(*(*endpoints)[0], &won);
    if (!status.ok()) std::fprintf(stderr, "race, rank %d: %s\n", launcher.rank, status.ToString().c_str());
    if (won) std::printf("race: rank %d won\n", launcher.rank);
    std::fflush(stdout);
    usleep(300 * 1000);
    _exit(status.ok() ? 0 : 1);
  }
  if (argc > 1 && std::strcmp(argv[1], "pipeline") == 0) return RunPipelines(*(*endpoints)[0]);
  std::unique_ptr<weft::exec::ComputeDevice> device;
  auto rank = std::make_unique<weft::exec::ConformanceRank>((*endpoints)[0].get());
  std::unique_ptr<weft::exec::Endpoint> staged;
  if (argc > 2 && std::strcmp(argv[1], "staged") == 0) {
    const int seed = std::atoi(argv[2]);
    if (launcher.rank == 0) std::printf("staged, seed %d, 0 for the host's memory\n", seed);
    device = seed == 0 ? weft::exec::MakeHostDevice()
                       : std::make_unique<weft::exec::DeferredDevice>(seed + 100 * launcher.rank);
    staged = weft::exec::MakeStagedEndpoint(std::move((*endpoints)[0]));
    auto on_device = weft::exec::ConformanceRank::OnDevice(staged.get(), device.get(), 5);
    if (!on_device.ok()) {
      std::fprintf(stderr, "%s\n", on_device.status().ToString().c_str());
      return 1;
    }
    rank = *std::move(on_device);
  }
  if (direct) {
    const int seed = std::atoi(argv[2]);
    if (launcher.rank == 0) std::printf("direct, seed %d\n", seed);
    device = std::make_unique<SharedMemoryDevice>(seed + 100 * launcher.rank);
    auto on_device = weft::exec::ConformanceRank::OnDevice((*endpoints)[0].get(), device.get(), 5);
    if (!on_device.ok()) {
      std::fprintf(stderr, "%s\n", on_device.status().ToString().c_str());
      return 1;
    }
    rank = *std::move(on_device);
  }
  for (const weft::exec::ConformanceCase& test : weft::exec::ConformanceCases()) {
    const absl::Status status = test.run(*rank);
    if (!status.ok()) {
      std::fprintf(stderr, "%s, rank %d: %s\n", std::string(test.name).c_str(), launcher.rank,
                   status.ToString().c_str());
      ++failures;
    } else if (launcher.rank == 0) {
      std::printf("%s: ok\n", std::string(test.name).c_str());
    }
  }
  std::fflush(stdout);
  // The last case has aborted the job, so there is no orderly MPI_Finalize. The others get time to see the abort.
  usleep(300 * 1000);
  _exit(failures == 0 ? 0 : 1);
}
