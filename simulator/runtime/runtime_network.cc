#include "simulator/runtime/runtime_network.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "proto/util/status.h"

namespace weft::sim {
namespace {

class RuntimeNetwork : public NetworkModel {
 public:
  RuntimeNetwork(const Runtime& runtime, const Program& program, std::unique_ptr<NetworkModel> network)
      : runtime_(runtime), mesh_(program.mesh()), network_(std::move(network)) {
    for (const MeshAxis& axis : mesh_.axes()) {
      const bool tensor = axis.name() == "x" && axis.size() > 1;
      is_replica_axis_.push_back(axis.name() == "data");
      layer_.push_back({.kind = tensor ? AxisPart::kAll : AxisPart::kOwn, .size = 0, .listed = {}});
      if (tensor) parts_ = axis.size();
    }
    if (!runtime.transfers_in_parts() || HasPartsAnyway(program)) parts_ = 1;
  }

  absl::Span<const int64_t> LinkCapacities() const override { return network_->LinkCapacities(); }

  absl::StatusOr<Flow> TransferFlow(int64_t source, int64_t destination, int64_t bytes) const override {
    WEFT_ASSIGN_OR_RETURN(Flow flow, network_->TransferFlow(source, destination, PartOf(bytes)));
    WEFT_ASSIGN_OR_RETURN(const Time gathered, Gathered(destination, bytes));
    flow.latency.ps += gathered.ps;
    return flow;
  }

  absl::StatusOr<TransferTime> Transfer(int64_t source, int64_t destination, int64_t bytes) const override {
    WEFT_ASSIGN_OR_RETURN(TransferTime time, network_->Transfer(source, destination, PartOf(bytes)));
    WEFT_ASSIGN_OR_RETURN(const Time gathered, Gathered(destination, bytes));
    time.latency.ps += gathered.ps;
    return time;
  }

  absl::StatusOr<TransferTime> Collective(const CollectiveCall& stated, const GroupForm& form,
                                          absl::Span<const int64_t> members) const override {
    const CollectiveCall call = AsSummed(stated, form);
    if (!IsOfReplicas(call, form)) return network_->Collective(call, form, members);
    TransferTime time;
    for (const CollectiveCall& part : CallsOf(call)) {
      WEFT_ASSIGN_OR_RETURN(const TransferTime own, network_->Collective(part, form, members));
      time.occupancy.ps += own.occupancy.ps + Host(members).ps;
      time.latency = own.latency;
    }
    return time;
  }

  absl::StatusOr<Flow> CollectiveFlow(const CollectiveCall& stated, const GroupForm& form,
                                      absl::Span<const int64_t> members) const override {
    const CollectiveCall call = AsSummed(stated, form);
    if (!IsOfReplicas(call, form)) return network_->CollectiveFlow(call, form, members);
    Flow flow;
    for (const CollectiveCall& part : CallsOf(call)) {
      WEFT_ASSIGN_OR_RETURN(Flow own, network_->CollectiveFlow(part, form, members));
      if (const Time host = Host(members); host.ps > 0) flow.phases.push_back({.fixed_ps = host.ps});
      std::move(own.phases.begin(), own.phases.end(), std::back_inserter(flow.phases));
      flow.latency = own.latency;
    }
    return flow;
  }

 private:
  // True if the program has sequence parallelism. Then a rank holds only a part of the activations anyway.
  static bool HasPartsAnyway(const Program& program) {
    for (const Segment& segment : program.segments()) {
      for (const Step& step : segment.steps()) {
        if (step.kernel() == GROUP_REDUCE_SCATTER && step.collective().purpose() == TENSOR) return true;
      }
    }
    return false;
  }

  int64_t PartOf(int64_t bytes) const { return bytes / parts_ + (bytes % parts_ != 0 ? 1 : 0); }

  // Returns the time that the ranks of the layer of `rank` need to gather their parts of a message of `bytes`.
  absl::StatusOr<Time> Gathered(int64_t rank, int64_t bytes) const {
    if (parts_ == 1 || bytes == 0) return Time{};
    CollectiveCall call = {.kind = CollectiveKind::kAllGather, .parts = {{.elements = bytes, .element_bytes = 1}}};
    WEFT_ASSIGN_OR_RETURN(call.algorithm, FindCollective("ring"));
    WEFT_ASSIGN_OR_RETURN(const TransferTime time,
                          network_->Collective(call, layer_, FormMembers(mesh_, rank, layer_)));
    return Time{time.occupancy.ps + time.latency.ps};
  }

  // True for a gather or scatter over replicas only.
  bool IsOfReplicas(const CollectiveCall& call, const GroupForm& form) const {
    return call.kind != CollectiveKind::kAllReduce && !call.parts.empty() && IsOverReplicas(form);
  }

  bool IsOverReplicas(const GroupForm& form) const {
    bool replicas = false;
    for (size_t axis = 0; axis < form.size(); ++axis) {
      if (form[axis].kind == AxisPart::kOwn) continue;
      if (axis >= is_replica_axis_.size() || !is_replica_axis_[axis]) return false;
      replicas = true;
    }
    return replicas;
  }

  // Returns a sum of gradients as the framework makes it: with elements of the framework's width, and as an all-reduce
  // of whole tensors if runtime.sums_whole.
  CollectiveCall AsSummed(CollectiveCall call, const GroupForm& form) const {
    constexpr int64_t kHalf = 2, kWide = 4;
    if (call.kind == CollectiveKind::kAllGather || !IsOverReplicas(form)) return call;
    if (runtime_.sums_whole()) call.kind = CollectiveKind::kAllReduce;
    for (CollectivePart& part : call.parts) {
      if (runtime_.sums_widened() && part.element_bytes == kHalf) part.element_bytes = kWide;
    }
    return call;
  }

  // Returns a gather of weights with the number of bytes that the weights have in the framework's type.
  CollectiveCall AsKept(CollectiveCall call) const {
    if (call.kind != CollectiveKind::kAllGather || !(runtime_.gathered_weight_bytes() > 0)) return call;
    for (CollectivePart& part : call.parts) {
      const double elements = std::ceil(static_cast<double>(part.elements) * runtime_.gathered_weight_bytes());
      part.elements = static_cast<int64_t>(std::min(elements, 0x1p62));
    }
    return call;
  }

  std::vector<CollectiveCall> CallsOf(const CollectiveCall& stated) const {
    const CollectiveCall call = AsKept(stated);
    if (!runtime_.states_per_tensor() || call.parts.size() < 2) return {call};
    std::vector<CollectiveCall> calls;
    for (const CollectivePart& part : call.parts) {
      calls.push_back({.kind = call.kind, .algorithm = call.algorithm, .parts = {part}});
    }
    return calls;
  }

  Time Host(absl::Span<const int64_t> members) const {
    if (members.size() < 2) return Time{};
    return FromSeconds(runtime_.member_seconds() * static_cast<double>(members.size()));
  }

  const Runtime& runtime_;
  const Mesh& mesh_;
  std::unique_ptr<NetworkModel> network_;
  std::vector<bool> is_replica_axis_;
  // The group of ranks that hold parts of one layer. `parts_` is their number if they share each transfer, else 1.
  GroupForm layer_;
  int64_t parts_ = 1;
};

}  // namespace

std::unique_ptr<NetworkModel> NetworkUnder(const Runtime& runtime, const Program& program,
                                           std::unique_ptr<NetworkModel> network) {
  if (!runtime.states_per_tensor() && !runtime.transfers_in_parts() && !(runtime.member_seconds() > 0) &&
      !(runtime.gathered_weight_bytes() > 0) && !runtime.sums_widened() && !runtime.sums_whole()) {
    return network;
  }
  return std::make_unique<RuntimeNetwork>(runtime, program, std::move(network));
}

}  // namespace weft::sim
