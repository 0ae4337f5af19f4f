// Collectives that a network switch performs: it adds up the messages of all members and sends each member its result.
//
//   n = 3, all-reduce, one round:      m0, m1, m2 -> switch -> m0 + m1 + m2 to each
//
// In an all-reduce, every byte of a buffer leaves each member once and reaches it once; in a ring it leaves a member 2
// (n-1)/n times on average. With many members the switch takes half of the ring's time, and one latency. In a
// reduce-scatter a member sends the chunks of the others and receives the sum of its own. In an all-gather it sends its
// own chunk and receives the others' chunks, which the switch multicasts. The switch decides the order of summation.
// There is no plan, because no member sends anything to another.
//
// Traffic: one round. All-reduce: one message of the whole buffer up and one down. Reduce-scatter: n-1 messages of 1/n
//          up, one down. All-gather: one message of 1/n up, n-1 down.
// Source:  Graham et al., "Scalable hierarchical aggregation protocol (SHArP)", COMHPC 2016,
//          doi:10.1109/COMHPC.2016.006. NVLink does the same: NVSwitch reduces and multicasts loads and stores.
#include "schedules/collective/plan.h"

namespace weft {

CollectiveTraffic BuildSwitchTraffic(CollectiveKind kind, int64_t members) {
  const bool whole = kind == CollectiveKind::kAllReduce;
  const int32_t others = static_cast<int32_t>(members - 1);
  CollectiveStage stage = {.rounds = 1, .pattern = CollectiveStage::kSwitch, .exchanges = {}, .sent = 1, .received = 1};
  if (kind == CollectiveKind::kReduceScatter) stage.sent = others;
  if (kind == CollectiveKind::kAllGather) stage.received = others;
  return {.chunks = whole ? 1 : members, .stages = {stage}};
}

}  // namespace weft
