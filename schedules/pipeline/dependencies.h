// The data that flows through a pipeline: which slots a slot waits for.
#ifndef WEFT_SCHEDULES_PIPELINE_DEPENDENCIES_H_
#define WEFT_SCHEDULES_PIPELINE_DEPENDENCIES_H_

#include <cstdint>
#include <vector>

#include "schedules/pipeline/schedule.h"

namespace weft {

// All slots of a schedule as numbers 0..size()-1, and what they wait for. The schedule outlives it and is well formed
// and complete (check.h).
class SlotGraph {
 public:
  SlotGraph(const PipelineSchedule& schedule, int microbatches);

  int64_t size() const { return static_cast<int64_t>(slots_.size()); }
  int rank(int64_t id) const { return slots_[id].rank; }
  const Slot& slot(int64_t id) const { return *slots_[id].slot; }

  // The slot before it in its rank's list, or -1.
  int64_t Previous(int64_t id) const;
  // The slots whose output it reads: forward reads the forward of the stage below; backward reads its own forward and
  // the backward of the stage above. -1 where there is none.
  struct Inputs {
    int64_t forward = -1;
    int64_t backward = -1;
  };
  Inputs DataInputs(int64_t id) const;

 private:
  struct Entry {
    const Slot* slot;
    int rank;
  };
  int64_t Find(SlotKind kind, int stage, int microbatch) const;

  int stages_;
  int microbatches_;
  std::vector<Entry> slots_;
  // By (kind, stage, microbatch): a microbatch is in one lane only, so the lane is not part of the key.
  std::vector<int64_t> ids_;
};

// An order of all slots in which each comes after its inputs and after the slots before it on its rank: `done`. If
// there is none, `cycle` holds slots of which each waits for the next and the last for the first.
struct SlotOrder {
  std::vector<int64_t> done;
  std::vector<int64_t> cycle;
};
SlotOrder OrderSlots(const SlotGraph& graph);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_DEPENDENCIES_H_
