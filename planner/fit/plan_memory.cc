#include "planner/fit/plan_memory.h"

#include <algorithm>
#include <numeric>

#include "planner/evaluate.h"
#include "proto/util/mesh.h"

namespace weft::planner {
namespace {

double SumOf(const BytesByClass& classes) { return std::accumulate(classes.begin(), classes.end(), 0.0); }

}  // namespace

int64_t PlanMemory::MostDeviceBytes() const {
  int64_t most = 0;
  for (const RankMemory& rank : ranks) most = std::max(most, rank.device_bytes);
  return most;
}

int64_t PlanMemory::SurelyEnough() const {
  return static_cast<int64_t>(static_cast<double>(MostDeviceBytes()) * (1 + error));
}

RankFigures FiguresOf(const Program& program, const Template& t, const Runtime* runtime) {
  RankFigures figures;
  const FullestMoments moments = FullestMomentsOf(t);
  figures.microbatches = moments.microbatches;
  figures.end = moments.end;
  figures.arena = static_cast<double>(t.device_arena_bytes());
  figures.host = static_cast<double>(t.host_arena_bytes());
  if (runtime != nullptr) figures.framework = sim::FrameworkBytesOf(program, t, *runtime);
  return figures;
}

RankFigures Extrapolate(const RankFigures& small, const RankFigures& large, double further) {
  const auto at = [&](double one, double two) { return two + further * (two - one); };
  RankFigures figures;
  for (size_t c = 0; c < figures.end.size(); ++c) {
    figures.microbatches[c] = at(small.microbatches[c], large.microbatches[c]);
    figures.end[c] = at(small.end[c], large.end[c]);
  }
  figures.arena = at(small.arena, large.arena);
  figures.host = at(small.host, large.host);
  const sim::FrameworkBytes &one = small.framework, &two = large.framework;
  const sim::HeldPeaks &held_one = one.held, &held_two = two.held;
  figures.framework = {
      .planned = at(one.planned, two.planned),
      .persistent = at(one.persistent, two.persistent),
      .passes = at(one.passes, two.passes),
      .update = at(one.update, two.update),
      .updates = two.updates,
      .held = {at(held_one.planned_microbatches, held_two.planned_microbatches),
               at(held_one.planned_end, held_two.planned_end),
               at(held_one.held_microbatches, held_two.held_microbatches), at(held_one.held_end, held_two.held_end)},
      .drained = two.drained,
      .rounding = at(one.rounding, two.rounding)};
  return figures;
}

RankMemory RankMemoryOf(const RankFigures& figures, const Runtime* runtime) {
  const bool ends = SumOf(figures.end) > SumOf(figures.microbatches);
  const BytesByClass& fullest = ends ? figures.end : figures.microbatches;
  RankMemory memory;
  for (size_t c = 0; c < fullest.size(); ++c) memory.classes[c] = static_cast<int64_t>(fullest[c]);
  memory.planned_bytes = static_cast<int64_t>(std::max(SumOf(fullest), figures.arena));
  memory.host_bytes = static_cast<int64_t>(figures.host);
  memory.device_bytes = memory.planned_bytes;
  if (runtime != nullptr) {
    sim::FrameworkBytes framework = figures.framework;
    framework.planned = static_cast<double>(memory.planned_bytes);
    memory.device_bytes = sim::BytesUnder(framework, *runtime);
  }
  return memory;
}

PlanMemory MemoryOfProgram(const Program& program, const Runtime* runtime) {
  PlanMemory memory;
  memory.ranks.resize(AxisSize(program.mesh(), "pipe"));
  for (const Template& t : program.templates()) {
    RankMemory& rank = memory.ranks[PipeRankOf(t)];
    const RankMemory own = RankMemoryOf(FiguresOf(program, t, runtime), runtime);
    if (own.device_bytes > rank.device_bytes) rank = own;
  }
  if (runtime != nullptr) return memory;
  for (const Template& t : program.evaluation().templates()) {
    RankMemory& rank = memory.ranks[PipeRankOf(t)];
    rank.planned_bytes = std::max(rank.planned_bytes, t.device_arena_bytes());
    rank.device_bytes = std::max(rank.device_bytes, t.device_arena_bytes());
  }
  return memory;
}

}  // namespace weft::planner
