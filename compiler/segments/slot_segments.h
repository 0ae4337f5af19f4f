// Finds the segment that a slot of a schedule runs.
#ifndef WEFT_COMPILER_SEGMENTS_SLOT_SEGMENTS_H_
#define WEFT_COMPILER_SEGMENTS_SLOT_SEGMENTS_H_

#include "ir/dialect.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

inline ir::SegmentKind SegmentKindOf(SlotKind kind) {
  switch (kind) {
    case SlotKind::kForward:
      return ir::SegmentKind::Forward;
    case SlotKind::kBackward:
      return ir::SegmentKind::Backward;
    case SlotKind::kBackwardInput:
      return ir::SegmentKind::BackwardInput;
    case SlotKind::kBackwardWeight:
      return ir::SegmentKind::BackwardWeight;
  }
  return ir::SegmentKind::Forward;
}

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_SLOT_SEGMENTS_H_
