#include "executor/program/program_edges.h"

#include <deque>
#include <vector>

#include "executor/collective/collective.h"
#include "proto/util/status.h"

namespace weft::exec {

void DescribeTransfer(const PreparedProgram& program, const PreparedAction& action, Transfer* transfer) {
  transfer->data = action.data;
  transfer->bytes = action.bytes;
  transfer->peer = action.peer;
  transfer->channel = action.channel;
  transfer->grouped = action.group >= 0;
  transfer->stream = program.streams[action.steps[0].stream].device_stream;
}

absl::Status ConnectEdges(const PreparedProgram& program, Endpoint& endpoint) {
  for (const PreparedStream& stream : program.streams) {
    if (stream.communicator != nullptr) WEFT_RETURN_IF_ERROR(stream.communicator->AllocateScratch());
  }
  // In deques, because a Transfer cannot be moved.
  std::deque<Transfer> sends, receives;
  for (const PreparedAction& action : program.actions) {
    if (action.peer >= 0) DescribeTransfer(program, action, &(action.sends ? sends : receives).emplace_back());
    for (const PreparedStep& step : action.steps) {
      if (step.collective == nullptr) continue;
      program.streams[step.stream].communicator->AppendTransfers(*step.collective, &sends, &receives);
    }
  }
  std::vector<const Transfer*> all[2];
  for (const Transfer& send : sends) all[0].push_back(&send);
  for (const Transfer& receive : receives) all[1].push_back(&receive);
  return endpoint.Connect(all[0], all[1]);
}

}  // namespace weft::exec
