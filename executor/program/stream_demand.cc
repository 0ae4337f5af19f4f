#include "executor/program/stream_demand.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "executor/interface/channels.h"
#include "executor/program/stream_fold.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "verifier/verify.h"

namespace weft::exec {
namespace {

std::string Text(const StreamDemand& demand) {
  return absl::StrCat(demand.total(), " streams (1 for compute, ", demand.copies, " for copies, ", demand.communicators,
                      " for communicators, ", demand.transfers + demand.forks, " for transfers)");
}

}  // namespace

StreamDemand DemandOf(const Program& program, int rank, TransferStreams sharing) {
  StreamDemand demand;
  const int index = TemplateOfRank(program, rank);
  if (index < 0) return demand;
  const Template& t = program.templates(index);
  std::set<ChannelKey> communicators;
  std::set<std::tuple<int64_t, bool, ChannelKey>> edges;
  std::set<int> streams, copies, segments;
  bool grouped = false;
  for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
    for (const Action& action : *list) {
      if (IsTransfer(action)) {
        edges.emplace(PeerRank(program.mesh(), rank, action.peer()), action.kind() == SEND, TransferKey(action));
        streams.insert(sharing == PER_DIRECTION ? static_cast<int>(action.direction()) : 0);
        grouped |= action.transfer_group() != 0;
      } else if (IsCollective(action)) {
        communicators.insert(CommunicatorKey(program.mesh(), rank, action.group(), action.purpose()));
      } else if (action.segment() >= 0 && action.segment() < program.segments_size()) {
        segments.insert(action.segment());
      }
    }
  }
  for (const int segment : segments) {
    for (const Step& step : program.segments(segment).steps()) {
      if (IsCollective(step)) {
        const Collective& collective = step.collective();
        communicators.insert(CommunicatorKey(program.mesh(), rank, collective.group(), collective.purpose()));
      } else if (step.stream() == D2H || step.stream() == H2D) {
        copies.insert(step.stream());
      }
    }
  }
  demand.copies = static_cast<int>(copies.size());
  demand.communicators = static_cast<int>(communicators.size());
  demand.transfers = static_cast<int>(sharing == PER_EDGE ? edges.size() : streams.size());
  if (grouped) demand.forks = static_cast<int>(edges.size()) - demand.transfers;
  return demand;
}

absl::StatusOr<TransferStreams> FitTransferStreams(const Program& program, int rank, int budget, int queues) {
  const StreamDemand own = DemandOf(program, rank, program.transfer_streams());
  if (own.total() <= budget) return program.transfer_streams();
  for (const TransferStreams sharing : {PER_DIRECTION, SHARED}) {
    if (program.transfer_streams() != PER_EDGE && sharing != SHARED) continue;
    if (sharing == program.transfer_streams() || DemandOf(program, rank, sharing).total() > budget) continue;
    Program shared = program;
    shared.set_transfer_streams(sharing);
    // Completeness is not proven again: it does not depend on the sharing and has been proven before.
    if (VerifyProgram(shared, {.allow_unfit = true, .completeness = false}).ok()) return sharing;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "rank ", rank, ": the program needs ", Text(own), ", but only ", std::max(0, budget), " of the device's ", queues,
      " hardware queues (CUDA_DEVICE_MAX_CONNECTIONS, at most 32) are free; with this transport, streams "
      "that share a queue may deadlock; set plan.transfer_order to BY_DIRECTION or TOGETHER, use fewer "
      "lanes or virtual stages, or use --transport=mpi"));
}

absl::StatusOr<StreamPlan> PlanStreams(const Program& program, const Endpoint& endpoint, const ComputeDevice& device) {
  StreamPlan plan = {.transfer_streams = program.transfer_streams()};
  if (!device.asynchronous()) return plan;
  const int budget = StreamFold::Budget(device, endpoint.ranks_on_device(), endpoint.own_streams());
  if (budget == 0) return plan;
  if (!endpoint.holds_streams() || endpoint.size() == 1) {
    // A rank alone on its device gains nothing from fewer streams than there are uses.
    plan.fold_budget = endpoint.ranks_on_device() > 1 ? budget : std::max(budget, kStreamUses);
    return plan;
  }
  // Transfers of this transport occupy a stream until the partner is there. That would block other program streams on
  // the same device stream, so each program stream gets its own.
  WEFT_ASSIGN_OR_RETURN(plan.transfer_streams,
                        FitTransferStreams(program, endpoint.rank(), budget, device.hardware_queues()));
  return plan;
}

}  // namespace weft::exec
