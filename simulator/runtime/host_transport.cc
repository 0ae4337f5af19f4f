#include "simulator/runtime/host_transport.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/status.h"

namespace weft {
namespace {

// Stages whose gradients a rank sums, of the rank with most.
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

class HostTransportNetwork : public NetworkModel {
 public:
  HostTransportNetwork(const Runtime& runtime, const Program& program, const Cluster& cluster,
                       std::unique_ptr<NetworkModel> network)
      : runtime_(runtime), cluster_(cluster), network_(std::move(network)) {
    if (runtime.communicators_by_stage() && network_->LinkCapacities().empty()) sums_ = SumsOfARank(program);
  }

  absl::Span<const int64_t> LinkCapacities() const override { return network_->LinkCapacities(); }

  absl::StatusOr<TransferTime> Transfer(int64_t source, int64_t destination, int64_t bytes) const override {
    WEFT_ASSIGN_OR_RETURN(TransferTime time, network_->Transfer(source, destination, bytes));
    WEFT_ASSIGN_OR_RETURN(const Time more, MoreOfTransfer(bytes, time));
    time.occupancy.ps += more.ps;
    return time;
  }

  absl::StatusOr<Flow> TransferFlow(int64_t source, int64_t destination, int64_t bytes) const override {
    WEFT_ASSIGN_OR_RETURN(const TransferTime time, network_->Transfer(source, destination, bytes));
    WEFT_ASSIGN_OR_RETURN(const Time more, MoreOfTransfer(bytes, time));
    WEFT_ASSIGN_OR_RETURN(Flow flow, network_->TransferFlow(source, destination, bytes));
    return Behind(more, std::move(flow));
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
    return Behind(MoreOfCollective(call, members, time), std::move(flow));
  }

 private:
  static Flow Behind(Time more, Flow flow) {
    if (more.ps > 0) flow.phases.insert(flow.phases.begin(), FlowPhase{.fixed_ps = more.ps});
    return flow;
  }

  // What they take longer than `time`.
  absl::StatusOr<Time> MoreOfTransfer(int64_t bytes, const TransferTime& time) const {
    double more = runtime_.host().transfer_seconds();
    if (runtime_.has_host_transport() && bytes > 0) {
      const double link = cluster_.host().bytes_per_second();
      if (!(link > 0)) {
        return absl::FailedPreconditionError(absl::StrCat("cluster.host.bytes_per_second must be positive: runtime '",
                                                          runtime_.name(),
                                                          "' sends through host memory (runtime.host_transport)"));
      }
      more += OverThread(static_cast<double>(bytes), ToSeconds(time.occupancy)) +
              runtime_.host_transport().latency_seconds() + 2 * static_cast<double>(bytes) / link;
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

  // That the thread needs beyond `seconds`.
  double OverThread(double bytes, double seconds) const {
    const double rate = runtime_.host_transport().bytes_per_second();
    return rate > 0 ? std::max(0.0, bytes / rate - seconds) : 0;
  }

  const Runtime& runtime_;
  const Cluster& cluster_;
  int64_t sums_ = 1;
  std::unique_ptr<NetworkModel> network_;
};

}  // namespace

std::unique_ptr<NetworkModel> ThroughHosts(const Runtime& runtime, const Program& program, const Cluster& cluster,
                                           std::unique_ptr<NetworkModel> network) {
  if (!runtime.has_host_transport() && !(runtime.host().transfer_seconds() > 0)) return network;
  return std::make_unique<HostTransportNetwork>(runtime, program, cluster, std::move(network));
}

}  // namespace weft
