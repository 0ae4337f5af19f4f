// If the order of compute is chosen at run time, these waits keep the two queues of a rank in order with each other
// (rule P6).
#ifndef WEFT_SIMULATOR_PROGRAM_QUEUE_ORDER_H_
#define WEFT_SIMULATOR_PROGRAM_QUEUE_ORDER_H_

#include <cstdint>
#include <vector>

#include "proto/program.pb.h"
#include "simulator/program/program_view.h"

namespace weft::sim {

// The waits and objects that the queues add to each action. Both vectors are indexed by action.
struct QueueOrder {
  std::vector<std::vector<Wait>> waits;
  // Object that counts how often the action's steps have ended, -1 if nothing needs it.
  std::vector<int32_t> end_object;
};

// Returns the waits and adds their objects to `view`, which must have its actions.
QueueOrder OrderQueues(const Program& program, TemplateView& view);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_QUEUE_ORDER_H_
