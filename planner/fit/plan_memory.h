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
  // What lives at the fullest moment.
  std::array<int64_t, BufferClass_ARRAYSIZE> classes = {};
  // The arena, which is at least as high as the sum of the classes.
  int64_t planned_bytes = 0;
  // Under a runtime: all that the framework takes besides the reserve of the device. Else planned_bytes.
  int64_t device_bytes = 0;
  int64_t host_bytes = 0;
};

// How a plan's memory is known.
enum class Basis {
  // The plan was compiled.
  kCompiled,
  // Its stages' forms were compiled (memory_estimate.h).
  kEstimated,
};

struct PlanMemory {
  // By pipe rank.
  std::vector<RankMemory> ranks;
  Basis basis = Basis::kCompiled;
  // The bytes of the fullest rank are right up to this share.
  double error = 0;

  // Of the rank that takes most.
  int64_t MostDeviceBytes() const;
  // MostDeviceBytes() with the error on top: a plan surely fits in that much.
  int64_t SurelyEnough() const;
};

// Figures of a rank that grow linearly with the layers of its stages, so that those of two sizes give a third.
struct RankFigures {
  // Live at the fullest moment of the microbatches' actions, and of the end of the step. Both include persistent
  // buffers.
  BytesByClass microbatches = {};
  BytesByClass end = {};
  double arena = 0;
  double host = 0;
  // Only under a runtime.
  sim::FrameworkBytes framework;
};

// The figures of a template. `runtime` may be null.
RankFigures FiguresOf(const Program& program, const Template& t, const Runtime* runtime);

// small + (1 + further) * (large - small), where `large` has one layer more per stage than `small`.
RankFigures Extrapolate(const RankFigures& small, const RankFigures& large, double further);

RankMemory RankMemoryOf(const RankFigures& figures, const Runtime* runtime);

// The memory of a compiled program, by pipe rank; with its evaluation program if there is no runtime.
PlanMemory MemoryOfProgram(const Program& program, const Runtime* runtime);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_FIT_PLAN_MEMORY_H_
