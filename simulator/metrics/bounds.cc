#include "simulator/metrics/bounds.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "proto/util/mesh.h"
#include "proto/util/units.h"
#include "simulator/metrics/sent_bytes.h"
#include "simulator/network/collective_call.h"
#include "simulator/network/network_model.h"
#include "simulator/program/view_actions.h"

namespace weft::sim {
namespace {

constexpr __int128 kMaxTime = int64_t{1} << 62;

struct ComputeTimes {
  __int128 ideal = 0;
  __int128 costed = 0;
};

// Least time of a step on a device that runs at `speed` millionths of its kind's speed. Rounded down, because a bound
// must not be too large.
int64_t IdealPicoseconds(const Step& step, const Device& device, int64_t speed) {
  double peak = 0;
  for (const Peak& row : device.peaks()) {
    if (row.dtype() == step.work().dtype()) peak = row.flops_per_second();
  }
  double seconds = 0;
  if (peak > 0) seconds = static_cast<double>(step.work().flops()) / peak;
  if (device.memory_bytes_per_second() > 0) {
    seconds = std::max(seconds, static_cast<double>(step.work().bytes()) / device.memory_bytes_per_second());
  }
  seconds *= static_cast<double>(kFullSpeed) / static_cast<double>(std::max<int64_t>(speed, 1));
  return static_cast<int64_t>(std::min(std::floor(seconds * 1e12), 0x1p62));
}

// Least time of a step of a view. If steps are joined, the first one counts with the time of all their launches, and
// the others count as 0.
int64_t IdealPicoseconds(const Segment& segment, const StepRef& ref, const Device& device, int64_t speed) {
  if (ref.range == nullptr) return IdealPicoseconds(segment.steps(ref.step), device, speed);
  if (ref.step != ref.range->first) return 0;
  __int128 sum = 0;
  for (const std::vector<int>& launch : ref.range->launches) {
    sum += IdealPicoseconds(AsOneStep(segment, launch), device, speed);
  }
  return static_cast<int64_t>(std::min(sum, kMaxTime));
}

// Compute times of one repetition.
ComputeTimes ComputeOf(const Program& program, const TemplateView& t, const Device& device, int64_t speed) {
  ComputeTimes times;
  // Compute times by first run. Actions of one kind on one segment whose steps are joined alike share their runs.
  std::map<int32_t, ComputeTimes> of_runs;
  for (const StreamView& stream : t.streams) {
    if (stream.key.kind != StreamClass::kCompute) continue;
    const Range& body = stream.entries[static_cast<int>(ListKind::kBody)];
    for (int32_t e = body.begin; e < body.end; ++e) {
      const Entry& entry = t.entries[e];
      const auto [found, is_new] = of_runs.try_emplace(entry.runs.begin);
      ComputeTimes& once = found->second;
      for (int32_t r = entry.runs.begin; is_new && r < entry.runs.end; ++r) {
        for (int32_t s = t.runs[r].steps.begin; s < t.runs[r].steps.end; ++s) {
          const Segment& segment = program.segments(t.actions[entry.action].action->segment());
          once.ideal += std::min(IdealPicoseconds(segment, t.steps[s], device, speed), t.steps[s].cost_ps[0]);
          once.costed += t.steps[s].cost_ps[0];
        }
      }
      times.ideal += once.ideal;
      times.costed += once.costed;
    }
  }
  return times;
}

double Seconds(__int128 picoseconds) { return ToSeconds({static_cast<int64_t>(std::min(picoseconds, kMaxTime))}); }

// Least bytes that a member sends with any algorithm. For a gather, it sends its own part. For a sum, it sends
// everything once except the part that it keeps.
int64_t LeastBytesSent(const CollectiveCall& call, int64_t members) {
  __int128 bytes = 0;
  for (const CollectivePart& part : call.parts) {
    bytes += static_cast<__int128>(part.elements) * std::max<int64_t>(part.element_bytes, 0);
  }
  if (members < 2) return 0;
  const __int128 own = bytes / members;
  const __int128 sent = call.kind == CollectiveKind::kAllGather ? own : bytes - own - (bytes % members != 0);
  return static_cast<int64_t>(std::min<__int128>(sent, INT64_MAX));
}

// Most bytes that one repetition sends in sequence on one channel between two ranks or on one communicator.
int64_t MaxSentInOrder(const Mesh& mesh, const TemplateView& t, bool any_algorithm) {
  std::vector<int64_t> channels(t.channels.size(), 0);
  int64_t most = 0;
  const auto add = [&](int32_t action, int32_t channel) {
    const Action& transfer = *t.actions[action].action;
    if (transfer.kind() != SEND) return;
    for (const int32_t source : transfer.sources()) {
      channels[channel] = AddBytes(channels[channel], t.proto->buffers(source).bytes());
    }
    most = std::max(most, channels[channel]);
  };
  for (int32_t s = 0; s < static_cast<int32_t>(t.streams.size()); ++s) {
    const StreamView& stream = t.streams[s];
    const Range& body = stream.entries[static_cast<int>(ListKind::kBody)];
    const bool communicator = stream.key.kind == StreamClass::kCollective;
    const int64_t members = communicator ? FormSize(mesh, stream.key.group) : 0;
    int64_t sent = 0;
    for (int32_t e = body.begin; e < body.end; ++e) {
      const Entry& entry = t.entries[e];
      if (entry.channel >= 0) add(entry.action, entry.channel);
      // Members of a group run at the same time, even on one stream.
      if (entry.group >= 0) {
        const Range& members = t.groups[entry.group].members;
        for (int32_t i = members.begin; i < members.end; ++i) {
          if (t.group_members[i].stream == s) add(t.group_members[i].action, t.group_members[i].channel);
        }
      }
      for (int32_t r = entry.runs.begin; communicator && r < entry.runs.end; ++r) {
        const CollectiveCall& call = t.collectives[t.runs[r].collective];
        sent = AddBytes(sent, any_algorithm ? LeastBytesSent(call, members) : CollectiveBytesSent(call, members));
      }
    }
    most = std::max(most, sent);
  }
  return most;
}

// Bandwidth of all links that a device can send on, with `interfaces` interfaces of its node.
double LinksOf(const Cluster& cluster, int64_t device, double interfaces) {
  const double intra = cluster.intra_node().bytes_per_second();
  double bandwidth = intra;
  if (cluster.node_links().all_pairs()) bandwidth = intra * std::max<double>(1, cluster.devices_per_node() - 1);
  for (const DirectLink& direct : cluster.node_links().direct()) {
    if (direct.first() == device || direct.second() == device) bandwidth += direct.link().bytes_per_second();
  }
  return bandwidth + interfaces * cluster.inter_node().bytes_per_second();
}

}  // namespace

LowerBounds BoundsOf(const ProgramView& view, const Cluster& cluster, const RankPlacement& placement,
                     absl::string_view network) {
  LowerBounds bounds;
  const InterfacePorts ports(cluster);
  const bool leaves_node = placement.nodes().size() > 1;
  // Bytes that a rank sends, by template; -1 = not known yet.
  std::vector<int64_t> sent(view.templates.size(), -1);
  for (int64_t rank = 0; rank < static_cast<int64_t>(view.template_of_rank.size()); ++rank) {
    const int32_t index = view.template_of_rank[rank];
    if (sent[index] < 0) {
      const TemplateView& t = view.templates[index];
      // All ranks of a template view have devices of one kind and speed.
      const auto [kind, speed] = placement.KindAndSpeed(rank);
      const ComputeTimes compute = ComputeOf(*view.program, t, *placement.kinds()[kind], speed);
      bounds.set_compute_seconds(std::max(bounds.compute_seconds(), Seconds(compute.ideal)));
      bounds.set_costed_seconds(std::max(bounds.costed_seconds(), Seconds(compute.costed)));
      sent[index] = HasTrait(network, kTakesNoTime)
                        ? 0
                        : MaxSentInOrder(view.program->mesh(), t, HasTrait(network, kChoosesAlgorithms));
    }
    if (sent[index] == 0) continue;
    // If the network ignores placement, every message counts as one between nodes.
    const double interfaces = HasTrait(network, kIgnoresPlacement) ? static_cast<double>(cluster.nics_per_node())
                              : leaves_node                        ? ports.NodeShare(placement.NodeOf(rank))
                                                                   : 0;
    const double bandwidth = LinksOf(cluster, placement.DeviceInNode(rank), interfaces);
    // Without stated link speeds there is no bound.
    if (!(bandwidth > 0)) continue;
    bounds.set_communication_seconds(
        std::max(bounds.communication_seconds(), static_cast<double>(sent[index]) / bandwidth));
  }
  return bounds;
}

}  // namespace weft::sim
