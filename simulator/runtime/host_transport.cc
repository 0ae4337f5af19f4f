#include "simulator/runtime/host_transport.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "proto/util/status.h"

namespace weft::sim {
namespace {

// Returns the largest number of stages, over all ranks, whose gradients one rank sums.
int64_t SumsOfARank(const Program& program) {
  size_t most = 1;
  for (const Template& t : program.templates()) {
    std::set<int32_t> stages;
    for (const Action& action : t.body()) {
      if (action.purpose() == GRADIENT_SYNC) stages.insert(action.stage());
    }
    most = std::max(most, stages.size());
  }
  return static_cast<int64_t>(most);
}

// True if messages are copied on the stream on which an action of this kind computes.
bool ReadsMessages(ActionKind kind) {
  return kind == FORWARD || kind == BACKWARD || kind == BACKWARD_INPUT || kind == FORWARD_BACKWARD;
}

// True if the buffer is an operand of the action. (An action may also wait for a message only to reuse its memory.)
bool HasBuffer(const Action& action, int32_t buffer) {
  return std::find(action.operands().begin(), action.operands().end(), buffer) != action.operands().end();
}

class HostTransportNetwork : public NetworkModel {
 public:
  HostTransportNetwork(const Runtime& runtime, const Program& program, std::unique_ptr<NetworkModel> network)
      : runtime_(runtime), network_(std::move(network)) {
    if (runtime.communicators_by_stage() && network_->LinkCapacities().empty()) sums_ = SumsOfARank(program);
  }

  absl::Span<const int64_t> LinkCapacities() const override { return network_->LinkCapacities(); }

  absl::StatusOr<TransferTime> Transfer(int64_t source, int64_t destination, int64_t bytes) const override {
    WEFT_ASSIGN_OR_RETURN(TransferTime time, network_->Transfer(source, destination, bytes));
    time.occupancy.ps += MoreOfTransfer(bytes, time).ps;
    return time;
  }

  absl::StatusOr<Flow> TransferFlow(int64_t source, int64_t destination, int64_t bytes) const override {
    WEFT_ASSIGN_OR_RETURN(const TransferTime time, network_->Transfer(source, destination, bytes));
    WEFT_ASSIGN_OR_RETURN(Flow flow, network_->TransferFlow(source, destination, bytes));
    return DelayFlow(MoreOfTransfer(bytes, time), std::move(flow));
  }

  absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm& form,
                                          absl::Span<const int64_t> members) const override {
    WEFT_ASSIGN_OR_RETURN(TransferTime time, network_->Collective(call, form, members));
    time.occupancy.ps += MoreOfCollective(call, members, time).ps;
    return time;
  }

  absl::StatusOr<Flow> CollectiveFlow(const CollectiveCall& call, const GroupForm& form,
                                      absl::Span<const int64_t> members) const override {
    WEFT_ASSIGN_OR_RETURN(const TransferTime time, network_->Collective(call, form, members));
    WEFT_ASSIGN_OR_RETURN(Flow flow, network_->CollectiveFlow(call, form, members));
    return DelayFlow(MoreOfCollective(call, members, time), std::move(flow));
  }

 private:
  static Flow DelayFlow(Time more, Flow flow) {
    if (more.ps > 0) flow.phases.insert(flow.phases.begin(), FlowPhase{.fixed_ps = more.ps});
    return flow;
  }

  // Returns the time that the transfer takes in addition to `time`.
  Time MoreOfTransfer(int64_t bytes, const TransferTime& time) const {
    double more = runtime_.host().transfer_seconds();
    if (runtime_.has_host_transport() && bytes > 0) {
      more += OverThread(static_cast<double>(bytes), ToSeconds(time.occupancy)) +
              runtime_.host_transport().latency_seconds();
    }
    return FromSeconds(more);
  }

  Time MoreOfCollective(const CollectiveCall& call, absl::Span<const int64_t> members, const TransferTime& time) const {
    if (!runtime_.has_host_transport() || members.size() < 2) return Time{};
    const double alone = ToSeconds(time.occupancy);
    const double shared = alone * static_cast<double>(sums_);
    const auto count = static_cast<int64_t>(members.size());
    double rounds = 0;
    for (const CollectivePhase& phase : CollectivePhases(call, count))
      rounds += static_cast<double>(phase.stage.rounds);
    return FromSeconds(shared - alone + OverThread(static_cast<double>(CollectiveBytesSent(call, count)), shared) +
                       rounds * runtime_.host_transport().latency_seconds());
  }

  // Returns the additional time if the thread needs longer than `seconds` for these bytes, else 0.
  double OverThread(double bytes, double seconds) const {
    const double rate = runtime_.host_transport().bytes_per_second();
    return rate > 0 ? std::max(0.0, bytes / rate - seconds) : 0;
  }

  const Runtime& runtime_;
  int64_t sums_ = 1;
  std::unique_ptr<NetworkModel> network_;
};

}  // namespace

std::unique_ptr<NetworkModel> ThroughHosts(const Runtime& runtime, const Program& program,
                                           std::unique_ptr<NetworkModel> network) {
  if (!runtime.has_host_transport() && !(runtime.host().transfer_seconds() > 0)) return network;
  return std::make_unique<HostTransportNetwork>(runtime, program, std::move(network));
}

std::map<int32_t, int64_t> MessageBytesOfSegments(const Program& program) {
  std::map<int32_t, int64_t> most;
  for (const Template& t : program.templates()) {
    absl::flat_hash_map<int32_t, int> index_of_id;
    for (int i = 0; i < t.body_size(); ++i) index_of_id[t.body(i).id()] = i;
    std::vector<int64_t> bytes(t.body_size(), 0);
    for (int i = 0; i < t.body_size(); ++i) {
      const Action& action = t.body(i);
      const bool computes = ReadsMessages(action.kind());
      if (action.kind() != SEND && !computes) continue;
      // Dependencies on earlier repetitions count too: where the pipeline never drains, a message may be in flight from
      // one repetition to the next.
      for (const Dependency& dep : action.deps()) {
        const auto found = index_of_id.find(dep.action());
        if (found == index_of_id.end()) continue;
        const Action& other = t.body(found->second);
        if (computes && other.kind() == RECV && HasBuffer(action, other.destinations(0))) {
          bytes[i] += t.buffers(other.destinations(0)).bytes();
        }
        if (!computes && ReadsMessages(other.kind()) && HasBuffer(other, action.sources(0))) {
          bytes[found->second] += t.buffers(action.sources(0)).bytes();
        }
      }
    }
    for (int i = 0; i < t.body_size(); ++i) {
      if (!ReadsMessages(t.body(i).kind())) continue;
      int64_t& of_segment = most[t.body(i).segment()];
      of_segment = std::max(of_segment, bytes[i]);
    }
  }
  return most;
}

}  // namespace weft::sim
