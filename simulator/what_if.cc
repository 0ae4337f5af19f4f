#include "simulator/what_if.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/io/decimal.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "simulator/cost/cost_model.h"
#include "simulator/network/network_model.h"

namespace weft::sim {
namespace {

constexpr double kMinFactor = 0.01;
constexpr double kMaxFactor = 100;

// The figures that one change multiplies, each with its setter. Figures that the cluster does not state are left out.
using Figures = std::vector<std::pair<double, std::function<void(double)>>>;

template <typename Message>
void AddFigure(Message* message, double (Message::*get)() const, void (Message::*set)(double), Figures& figures) {
  const double value = (message->*get)();
  if (value > 0) figures.push_back({value, [message, set](double changed) { (message->*set)(changed); }});
}

void AddBandwidth(Link* link, Figures& figures) {
  AddFigure(link, &Link::bytes_per_second, &Link::set_bytes_per_second, figures);
}

void AddLatency(Link* link, Figures& figures) {
  AddFigure(link, &Link::latency_seconds, &Link::set_latency_seconds, figures);
  AddFigure(link, &Link::overhead_seconds, &Link::set_overhead_seconds, figures);
}

// This and the following functions add no part to the cluster that it does not have.
void NicFigures(Cluster& cluster, Figures& figures) {
  if (cluster.has_inter_node()) AddBandwidth(cluster.mutable_inter_node(), figures);
}

void IntraFigures(Cluster& cluster, Figures& figures) {
  if (cluster.has_intra_node()) AddBandwidth(cluster.mutable_intra_node(), figures);
  if (!cluster.has_node_links()) return;
  NodeLinks* links = cluster.mutable_node_links();
  for (DirectLink& direct : *links->mutable_direct()) {
    if (direct.has_link()) AddBandwidth(direct.mutable_link(), figures);
  }
  if (links->has_bridge()) AddBandwidth(links->mutable_bridge(), figures);
}

void LatencyFigures(Cluster& cluster, Figures& figures) {
  if (cluster.has_intra_node()) AddLatency(cluster.mutable_intra_node(), figures);
  if (cluster.has_inter_node()) AddLatency(cluster.mutable_inter_node(), figures);
  if (cluster.has_host()) AddLatency(cluster.mutable_host(), figures);
  if (cluster.has_node_links()) {
    NodeLinks* links = cluster.mutable_node_links();
    for (DirectLink& direct : *links->mutable_direct()) {
      if (direct.has_link()) AddLatency(direct.mutable_link(), figures);
    }
    if (links->has_bridge()) AddLatency(links->mutable_bridge(), figures);
  }
  if (cluster.has_fabric()) {
    AddFigure(cluster.mutable_fabric(), &Fabric::hop_latency_seconds, &Fabric::set_hop_latency_seconds, figures);
    AddFigure(cluster.mutable_fabric(), &Fabric::reduce_latency_seconds, &Fabric::set_reduce_latency_seconds, figures);
  }
}

void HostFigures(Cluster& cluster, Figures& figures) {
  if (cluster.has_host()) AddBandwidth(cluster.mutable_host(), figures);
}

std::vector<Device*> Devices(Cluster& cluster) {
  std::vector<Device*> devices;
  if (cluster.has_device()) devices.push_back(cluster.mutable_device());
  for (OtherDevices& other : *cluster.mutable_other_devices()) {
    if (other.has_device()) devices.push_back(other.mutable_device());
  }
  return devices;
}

void MemoryFigures(Cluster& cluster, Figures& figures) {
  for (Device* device : Devices(cluster)) {
    AddFigure(device, &Device::memory_bytes_per_second, &Device::set_memory_bytes_per_second, figures);
    for (KernelRate& row : *device->mutable_kernel_rates()) {
      AddFigure(&row, &KernelRate::bytes_per_second, &KernelRate::set_bytes_per_second, figures);
    }
  }
}

void ComputeFigures(Cluster& cluster, Figures& figures) {
  for (Device* device : Devices(cluster)) {
    for (Peak& row : *device->mutable_peaks()) {
      AddFigure(&row, &Peak::flops_per_second, &Peak::set_flops_per_second, figures);
    }
    for (KernelRate& row : *device->mutable_kernel_rates()) {
      AddFigure(&row, &KernelRate::flops_per_second, &KernelRate::set_flops_per_second, figures);
    }
  }
}

void LaunchFigures(Cluster& cluster, Figures& figures) {
  for (Device* device : Devices(cluster)) {
    AddFigure(device, &Device::launch_seconds, &Device::set_launch_seconds, figures);
    for (KernelRate& row : *device->mutable_kernel_rates()) {
      AddFigure(&row, &KernelRate::overhead_seconds, &KernelRate::set_overhead_seconds, figures);
    }
  }
}

struct Entry {
  absl::string_view name;
  void (*figures)(Cluster&, Figures&);
  // The name of the figure that the cluster must state.
  absl::string_view field;
  // `network`: true if the times of links between devices depend on the figure. `device`: true if the times of a device
  // alone do.
  bool network;
  bool device;
};

// Sorted by name.
constexpr Entry kEntries[] = {
    {"compute", ComputeFigures, "device.peaks", false, true},
    {"host", HostFigures, "host.bytes_per_second", false, true},
    {"intra", IntraFigures, "intra_node.bytes_per_second", true, false},
    {"latency", LatencyFigures, "latency_seconds of any link", true, true},
    {"launch", LaunchFigures, "device.launch_seconds", false, true},
    {"memory", MemoryFigures, "device.memory_bytes_per_second", false, true},
    {"nic", NicFigures, "inter_node.bytes_per_second", true, false},
};

const Entry* Find(absl::string_view name) {
  const auto* found =
      std::find_if(std::begin(kEntries), std::end(kEntries), [&](const Entry& entry) { return entry.name == name; });
  return found == std::end(kEntries) ? nullptr : found;
}

absl::StatusOr<WhatIfChange> ParseChange(absl::string_view text) {
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos) {
    const bool known = Find(text) != nullptr;
    return absl::InvalidArgumentError(absl::StrCat(Quoted(text), " is not of the form NAME=FACTOR, e.g. ",
                                                   known ? text : "nic", "=2x",
                                                   known ? "" : NameHelp(text, WhatIfNames())));
  }
  const absl::string_view name = text.substr(0, equals);
  if (Find(name) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("unknown what-if ", Quoted(name), NameHelp(name, WhatIfNames())));
  }
  absl::string_view number = text.substr(equals + 1);
  absl::ConsumeSuffix(&number, "x");
  double factor = 0;
  const absl::string_view without = BadBeginning(number);
  if (!without.empty() || number.find_first_not_of("0123456789.") != absl::string_view::npos ||
      !absl::SimpleAtod(number, &factor)) {
    return absl::InvalidArgumentError(absl::StrCat(name, "=", Quoted(text.substr(equals + 1)),
                                                   ": expected a factor from 0.01 to 100, e.g. 2x or 0.5x", without));
  }
  if (!(factor >= kMinFactor && factor <= kMaxFactor)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, "=", number,
        "x is out of range; allowed: 0.01 to 100, nearest valid: ", factor < kMinFactor ? kMinFactor : kMaxFactor));
  }
  return WhatIfChange{std::string(name), factor, std::string(text)};
}

}  // namespace

std::vector<std::string> WhatIfNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) names.emplace_back(entry.name);
  return names;
}

absl::StatusOr<WhatIfChanges> ParseWhatIf(absl::string_view text) {
  WhatIfChanges changes;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    WEFT_ASSIGN_OR_RETURN(WhatIfChange change, ParseChange(part));
    for (const WhatIfChange& earlier : changes) {
      if (earlier.name == change.name) {
        return absl::InvalidArgumentError(
            absl::StrCat(change.name, " is changed twice, by ", earlier.text, " and ", change.text));
      }
    }
    changes.push_back(std::move(change));
  }
  return changes;
}

absl::Status CheckWhatIf(const WhatIfChanges& changes, const SimulateOptions& options) {
  for (const WhatIfChange& change : changes) {
    const Entry* entry = Find(change.name);
    if (entry == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown what-if ", Quoted(change.name), NameHelp(change.name, WhatIfNames())));
    }
    if (change.name == "latency" && HasTrait(options.network, kChoosesAlgorithms)) {
      return absl::InvalidArgumentError(absl::StrCat(change.text, ": the network ", options.network,
                                                     " takes the latencies of links between devices from NCCL's own ",
                                                     "table, not from the cluster; nearest valid: --network=analytic"));
    }
    const bool network = entry->network && !HasTrait(options.network, kTakesNoTime);
    const bool device = entry->device && KnowsDevice(options.cost);
    if (network || device) continue;
    return absl::InvalidArgumentError(absl::StrCat(change.text, " changes nothing: ",
                                                   entry->network ? "with --network=none everything arrives at once"
                                                                  : "with --cost=unit the device has no effect"));
  }
  return absl::OkStatus();
}

namespace {

// Checks the changes that network "agnostic" uses only for some clusters. It gives all ranks one link: the link inside
// a node if there is one node, else the link between nodes.
absl::Status CheckAsked(const WhatIfChanges& changes, const Cluster& cluster, absl::string_view network) {
  if (network != "agnostic") return absl::OkStatus();
  const absl::string_view unasked = cluster.nodes() > 1 ? "intra" : "nic";
  for (const WhatIfChange& change : changes) {
    if (change.name != unasked) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(change.text, " changes nothing: with cluster.nodes = ", cluster.nodes(),
                     " the network agnostic connects all ranks by ",
                     cluster.nodes() > 1 ? "inter_node; nearest: 'nic'" : "intra_node; nearest: 'intra'"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Cluster> ChangedCluster(const Cluster& cluster, const WhatIfChanges& changes) {
  Cluster changed = cluster;
  for (const WhatIfChange& change : changes) {
    const Entry* entry = Find(change.name);
    if (entry == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown what-if ", Quoted(change.name), NameHelp(change.name, WhatIfNames())));
    }
    Figures figures;
    entry->figures(changed, figures);
    if (figures.empty()) {
      return absl::FailedPreconditionError(absl::StrCat("what-if ", change.text, ": cluster '", cluster.name(),
                                                        "' does not state cluster.", entry->field,
                                                        ", so there is nothing to change"));
    }
    for (const auto& [value, set] : figures) set(value * change.factor);
  }
  return changed;
}

absl::Status AddWhatIfs(const Program& program, const Cluster& cluster, const SimulateOptions& options,
                        absl::Span<const WhatIfChanges> what_if, SimulationReport* report) {
  SimulateOptions plain = options;
  plain.trace = false;
  plain.explain = false;
  plain.runs = 0;
  const auto add = [&](const WhatIfChanges& changes) -> absl::Status {
    const std::string text =
        absl::StrJoin(changes, ",", [](std::string* out, const WhatIfChange& change) { out->append(change.text); });
    for (const WhatIf& row : report->what_if()) {
      if (row.change() == text) return absl::OkStatus();
    }
    WEFT_RETURN_IF_ERROR(CheckWhatIf(changes, options));
    WEFT_RETURN_IF_ERROR(CheckAsked(changes, cluster, options.network));
    WEFT_ASSIGN_OR_RETURN(const Cluster changed, ChangedCluster(cluster, changes));
    WEFT_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(program, changed, plain));
    const double seconds = simulation.report.iteration_seconds();
    if (!(seconds > 0)) {
      return absl::FailedPreconditionError(
          absl::StrCat("what-if ", text, ": with this change the program takes no time, so it has no finite gain"));
    }
    WhatIf* row = report->add_what_if();
    row->set_change(text);
    row->set_iteration_seconds(seconds);
    row->set_gain(report->iteration_seconds() / seconds - 1);
    return absl::OkStatus();
  };
  for (const WhatIfChanges& changes : what_if) {
    if (changes.size() > 1) {
      for (const WhatIfChange& change : changes) WEFT_RETURN_IF_ERROR(add({change}));
    }
    WEFT_RETURN_IF_ERROR(add(changes));
  }
  return absl::OkStatus();
}

}  // namespace weft::sim
