// The device memory that a plan takes on each rank of its pipeline, by what it is for.
#ifndef WEFT_PLANNER_FIT_PLAN_MEMORY_H_
#define WEFT_PLANNER_FIT_PLAN_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/live_bytes.h"
#include "proto/program.pb.h"
#include "proto/runtime.pb.h"
#include "simulator/runtime/runtime_memory.h"

namespace weft::planner {

struct RankMemory {
  // Bytes that live at the fullest moment.
  std::array<int64_t, BufferClass_ARRAYSIZE> classes = {};
  // The arena, which is at least as high as the sum of the classes.
  int64_t planned_bytes = 0;
  // Under a runtime: all that the framework takes besides the reserve of the device. Else planned_bytes.
  int64_t device_bytes = 0;
  int64_t host_bytes = 0;
};

// How the memory of a plan was found.
enum class Basis {
  // The plan was compiled.
  kCompiled,
  // Only the forms of its stages were compiled (memory_estimate.h).
  kEstimated,
};

struct PlanMemory {
  // By pipe rank.
  std::vector<RankMemory> ranks;
  Basis basis = Basis::kCompiled;
  // Largest relative error of the fullest rank's bytes.
  double error = 0;

  // Returns the device bytes of the rank that takes the most.
  int64_t MostDeviceBytes() const;
  // Returns MostDeviceBytes() plus the error: the plan surely fits in that many bytes.
  int64_t SurelyEnough() const;
};

// Figures of a rank that grow linearly with the layers of its stages, so the figures for two sizes give the figures for
// a third.
struct RankFigures {
  // Bytes that live at the fullest moment of the microbatches' actions, and at the fullest moment of the end of the
  // iteration. Both include persistent buffers.
  BytesByClass microbatches = {};
  BytesByClass end = {};
  double arena = 0;
  double host = 0;
  // Only under a runtime.
  sim::FrameworkBytes framework;
};

// Returns the figures of a template. `runtime` may be null.
RankFigures FiguresOf(const Program& program, const Template& t, const Runtime* runtime);

// Extrapolates linearly: returns large + further * (large - small).
RankFigures Extrapolate(const RankFigures& small, const RankFigures& large, double further);

RankMemory RankMemoryOf(const RankFigures& figures, const Runtime* runtime);

// Returns the memory of a compiled program by pipe rank. If there is no runtime, it includes the evaluation program.
PlanMemory MemoryOfProgram(const Program& program, const Runtime* runtime);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_FIT_PLAN_MEMORY_H_
