// Checks whether lists with explicit transfers can run at all. The check uses no schedule: its conditions hold however
// the lists were made.
#ifndef WEFT_SCHEDULES_PIPELINE_TRANSFER_CHECK_H_
#define WEFT_SCHEDULES_PIPELINE_TRANSFER_CHECK_H_

#include "absl/status/status.h"
#include "schedules/pipeline/action_list.h"

namespace weft {

// Determines which transfers of a rank run one after the other. Transfers on one communicator are also matched by
// order: the i-th RECV of rank b from rank a receives the i-th SEND of a to b.
enum class Communicators : uint8_t {
  // One communicator for each ordered pair of ranks and each direction of the pipeline.
  kPerEdge,
  // Two communicators: one for data that flows towards the loss, one for data that flows back.
  kPerDirection,
  kOne,
};

struct TransferOptions {
  Communicators communicators = Communicators::kPerEdge;
  // If true, consecutive transfers of a rank start together, when the partners of all of them are ready.
  bool grouped = false;
};

// OK if
// - every SEND has its RECV on the other rank and the other way round, each once, and on each communicator the two ends
//   come in the same order;
// - a SEND comes after what it sends, a RECV before what reads it, and an action that reads another rank's result has a
//   RECV;
// - a stage's backward comes after its forward, and its weight gradient after its input gradient;
// - nothing waits for itself, given that a rank computes in list order; a transfer waits for everything that its rank
//   computes before it in the list and for the transfers before it on its communicator, and runs when both its ends
//   are ready (rendezvous); and a compute action waits for its RECV, but not for other transfers.
//
// InvalidArgument names ranks, counted from 0, and actions, counted from 1 in each list; it names a deadlock as a
// cycle.
absl::Status CheckTransfers(const ActionLists& lists, const TransferOptions& options = {});

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_TRANSFER_CHECK_H_
