// The waits that keep the two queues of a rank whose order of compute is chosen at run time in order with each other
// (rule P6).
#ifndef WEFT_SIMULATOR_PROGRAM_QUEUE_ORDER_H_
#define WEFT_SIMULATOR_PROGRAM_QUEUE_ORDER_H_

#include <cstdint>
#include <vector>

#include "proto/program.pb.h"
#include "simulator/program/program_view.h"

namespace weft::sim {

// By action.
struct QueueOrder {
  std::vector<std::vector<Wait>> waits;
  // Object that counts how often its steps have ended, -1 if nothing asks for it.
  std::vector<int32_t> end_object;
};

// Adds the objects to `view`, whose actions are there.
QueueOrder OrderQueues(const Program& program, TemplateView& view);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_QUEUE_ORDER_H_
