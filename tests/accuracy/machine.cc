#include "tests/accuracy/machine.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <regex>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "proto/util/suggest.h"

namespace weft {
namespace {

// Fraction of an interface's nominal rate that messages reach: calculon's InfiniBand efficiency (simulator README).
constexpr double kWireFraction = 0.9;

struct DeviceName {
  // Words that the device's name must contain, all of them.
  std::vector<absl::string_view> words;
  absl::string_view machine;
  // The device's power limit (data sheets); 0 = not known.
  double watts = 0;
};

// Device names with their machine. If several entries match a name, the first one counts.
const std::vector<DeviceName>& DeviceNames() {
  static const auto* names = new std::vector<DeviceName>{
      {{"GB300"}, "gb300-nvl72", 1400},
      {{"B300"}, "dgx-b300", 1100},
      {{"GB200"}, "gb200-nvl72", 1200},
      {{"B200"}, "dgx-b200", 1000},
      // A GH200 is an H100 with an Arm processor, more memory and other links, so it is not the catalog's H100.
      {{"GH200"}, ""},
      {{"H200", "PCIE"}, ""},
      {{"H200"}, "dgx-h200", 700},
      {{"H800", "PCIE"}, ""},
      {{"H800"}, "hgx-h800", 700},
      {{"H100", "PCIE"}, ""},
      {{"H100"}, "dgx-h100", 700},
      {{"A800", "PCIE"}, ""},
      {{"A800"}, "hgx-a800", 400},
      {{"A100", "PERLMUTTER"}, "perlmutter", 400},
      {{"A100", "LONESTAR"}, "lonestar6", 250},
      {{"A100", "PCIE", "40GB"}, "lonestar6", 250},
      {{"A100", "PCIE"}, "local-a100-nvlink-pairs", 300},
      {{"A100", "40GB"}, "dgx-a100-40g", 400},
      {{"A100"}, "dgx-a100-80g", 400},
      {{"V100", "DGX-2"}, "dgx2-v100"},
      {{"V100", "SUMMIT"}, "summit"},
      {{"V100", "PCIE"}, ""},
      {{"V100"}, "jean-zay-v100"},
      {{"MI300X"}, "mi300x", 750},
      {{"MI250X"}, "frontier"},
      {{"P100"}, "piz-daint"},
  };
  return *names;
}

// True for "H100 NVL", which is a pair of cards; false for "NVLink" and "NVL72".
bool IsPairOfCards(absl::string_view name) {
  const size_t found = name.find("NVL");
  return found != absl::string_view::npos && (found + 3 == name.size() || !absl::ascii_isalnum(name[found + 3]));
}

bool HasNvlink(absl::string_view link) {
  const std::string words = absl::AsciiStrToUpper(link);
  return absl::StrContains(words, "NVLINK") || absl::StrContains(words, "NVSWITCH");
}

// Returns null if the device is not known.
const DeviceName* FindDevice(const Measurement::Machine& machine) {
  // Read "40 GB" as "40GB".
  std::string name =
      absl::StrReplaceAll(absl::AsciiStrToUpper(machine.gpu.substr(0, 400)), {{" GB)", "GB)"}, {" GB ", "GB "}});
  if (absl::EndsWith(name, " GB")) name.replace(name.size() - 3, 3, "GB");
  const std::string link = absl::AsciiStrToUpper(machine.intra_node_link.substr(0, 400));
  // A PCIe link without NVLink means that the device is a card, unless the device's name contains "SXM".
  const bool card = absl::StrContains(link, "PCIE") && !HasNvlink(link) && !absl::StrContains(name, "SXM");
  if (card || IsPairOfCards(name) || absl::StrContains(link, "PAIR")) absl::StrAppend(&name, " PCIE");
  for (const DeviceName& device : DeviceNames()) {
    const bool named = std::all_of(device.words.begin(), device.words.end(),
                                   [&](absl::string_view word) { return absl::StrContains(name, word); });
    if (named) return &device;
  }
  return nullptr;
}

std::optional<double> FirstNumber(const std::string& text, const char* pattern) {
  std::smatch match;
  double number = 0;
  if (!std::regex_search(text, match, std::regex(pattern)) || !absl::SimpleAtod(match[1].str(), &number) ||
      !(number > 0) || number > 1e6) {
    return std::nullopt;
  }
  return number;
}

bool IsPerDevice(absl::string_view words) {
  return absl::StrContains(words, "per GPU") || absl::StrContains(words, "/GPU");
}

}  // namespace

absl::StatusOr<std::string> CatalogMachineOf(const Measurement::Machine& machine) {
  const DeviceName* device = FindDevice(machine);
  if (device != nullptr && !device->machine.empty()) return std::string(device->machine);
  return absl::NotFoundError(absl::StrCat(
      "the catalog has no device like '", machine.gpu.substr(0, 80), "'",
      absl::StrContains(absl::AsciiStrToUpper(machine.intra_node_link.substr(0, 400)), "PCIE") ? " on PCIe" : ""));
}

Interfaces ParseInterfaces(absl::string_view text, int64_t gpus_per_node) {
  // std::regex uses recursion, so long texts are cut to avoid a stack overflow.
  const std::string words(text.substr(0, 200));
  double rate = 0;
  if (const auto terabits = FirstNumber(words, R"(([0-9.]+) ?Tb(?:/s|ps|it/s))")) rate = *terabits * 1e12 / 8;
  if (const auto gigabits = FirstNumber(words, R"(([0-9.]+) ?Gb(?:/s|ps|it/s|E))")) rate = *gigabits * 1e9 / 8;
  if (rate == 0 && absl::StrContains(words, "NDR")) rate = 50e9;
  if (rate == 0 && absl::StrContains(words, "HDR")) rate = 25e9;
  if (rate == 0 && absl::StrContains(words, "EDR")) rate = 12.5e9;
  if (const auto gigabytes = FirstNumber(words, R"(([0-9.]+) ?GB(?:/s|ps))"); rate == 0 && gigabytes) {
    if (IsPerDevice(words)) return {std::clamp<int64_t>(gpus_per_node, 1, 1024), *gigabytes * 1e9};
    return {1, *gigabytes * 1e9};
  }
  // If the source states a measured range over all interfaces of a node (lowest to highest), it replaces the nominal
  // rate.
  if (const auto least = FirstNumber(words, R"(measured all-reduce ([0-9.]+)-[0-9.]+ Gb/s)")) {
    const auto most = FirstNumber(words, R"(measured all-reduce [0-9.]+-([0-9.]+) Gb/s)");
    return {1, 0.5 * (*least + most.value_or(*least)) * 1e9 / 8, /*reached=*/true};
  }
  if (!(rate > 0)) return {};
  const std::optional<double> cards = FirstNumber(words, R"(([0-9]+) ?x)");
  // NCCL does not use several Omni-Path cards: of 400 Gb/s per node, 23 to 55 were measured between V100 nodes and 40
  // between A100 nodes (bigscience, experiments/bandwidth). One card fits the steps of BLOOM best.
  if (cards && absl::StrContains(words, "Omni-Path")) return {1, rate};
  if (cards && *cards <= 64) return {static_cast<int64_t>(*cards), rate};
  const int64_t devices = std::clamp<int64_t>(gpus_per_node, 1, 1024);
  if (IsPerDevice(words)) return {devices, rate};
  // Rate of the slowest InfiniBand card, in bytes per second. A lower stated rate is not the rate of a card.
  constexpr double kSlowestCard = 10e9;
  const bool card = absl::StrContains(words, "InfiniBand") || absl::StrContains(words, "NDR") ||
                    absl::StrContains(words, "HDR") || absl::StrContains(words, "EDR");
  if (card && !absl::StrContains(words, "per node") && rate >= kSlowestCard && rate <= 100e9) return {0, rate};
  // Otherwise the rate is for the whole node, and each device has a card with an equal share of it.
  return {devices, rate / static_cast<double>(devices), false, !absl::StrContains(words, "per node")};
}

absl::StatusOr<Cluster> MachineOf(const Measurement& run, const Cluster& base, std::vector<std::string>* assumptions) {
  if (!run.machine.gpus) return absl::InvalidArgumentError("cluster.gpus is not stated");
  Cluster cluster = base;
  const int64_t devices = *run.machine.gpus;
  const int64_t per_node = run.machine.gpus_per_node.value_or(base.devices_per_node());
  constexpr int64_t kMax = int64_t{1} << 24;
  if (devices > kMax || per_node > kMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster.gpus = ", devices, " in nodes of ", per_node, "; weft simulates at most 2^24 devices"));
  }
  if (!run.machine.gpus_per_node) {
    assumptions->push_back(absl::StrCat(per_node, " devices per node, as ", base.name(), " has"));
  }
  cluster.set_devices_per_node(std::min(per_node, devices));
  cluster.set_nodes((devices + cluster.devices_per_node() - 1) / cluster.devices_per_node());
  if (cluster.devices_per_node() != base.devices_per_node()) {
    cluster.mutable_node_links()->clear_direct();
    cluster.mutable_node_links()->clear_devices_per_bridge();
    cluster.mutable_node_links()->clear_bridge();
  }
  if (cluster.fabric().kind() == TORUS && cluster.nodes() != base.nodes()) cluster.clear_fabric();
  if (!absl::StrContains(absl::AsciiStrToUpper(run.machine.gpu), "PAIR") &&
      !absl::StrContains(absl::AsciiStrToUpper(run.machine.intra_node_link), "PAIR") &&
      cluster.intra_node().kind() == PCIE && cluster.node_links().direct_size() > 0) {
    cluster.mutable_node_links()->clear_direct();
    assumptions->push_back("no bridges between cards");
  }
  const Interfaces stated = ParseInterfaces(run.machine.inter_node_link, per_node);
  // Use as many interfaces per device as the catalog's machine has.
  const int64_t scaled =
      std::max<int64_t>(1, base.nics_per_node() * per_node / std::max<int64_t>(1, base.devices_per_node()));
  if (stated.bytes_per_second > 0) {
    cluster.set_nics_per_node(stated.per_node > 0 ? stated.per_node : scaled);
    if (stated.guessed && cluster.nodes() > 1) {
      assumptions->push_back(absl::StrFormat("%.3g GB/s per node", stated.bytes_per_second * per_node / 1e9));
    }
    if (stated.per_node == 0 && cluster.nodes() > 1) {
      assumptions->push_back(absl::StrFormat("%d interfaces per node, as %s has", scaled, base.name()));
    }
    cluster.mutable_inter_node()->set_bytes_per_second(stated.bytes_per_second * (stated.reached ? 1 : kWireFraction));
  } else if (cluster.nodes() > 1 && !(base.inter_node().bytes_per_second() > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster.inter_node_link = ", Quoted(run.machine.inter_node_link.substr(0, 80)),
                     " states no rate, and ", base.name(), " is one node"));
  } else if (cluster.nodes() > 1) {
    cluster.set_nics_per_node(scaled);
    assumptions->push_back(absl::StrFormat("%d interfaces of %.3g GB/s per node, as %s has", cluster.nics_per_node(),
                                           base.inter_node().bytes_per_second() / 1e9, base.name()));
  }
  // The run's device may have another memory size than the device in the catalog.
  const std::string gpu = run.machine.gpu.substr(0, 200);
  if (const auto gigabytes = FirstNumber(gpu, R"(([0-9]+) ?GB)")) {
    const double bytes = *gigabytes * (int64_t{1} << 30);
    const double known = static_cast<double>(base.device().memory_bytes());
    if (bytes < 0.9 * known || bytes > 1.1 * known)
      cluster.mutable_device()->set_memory_bytes(static_cast<int64_t>(bytes));
  }
  // A device with a lower power limit runs at a lower clock. Power is proportional to clock x voltage^2, and the
  // voltage grows with the clock.
  const DeviceName* name = FindDevice(run.machine);
  if (const auto watts = FirstNumber(gpu, R"(([0-9]+) ?W)"); watts && name != nullptr && name->watts > 0) {
    const double clock = std::cbrt(std::min(1.0, *watts / name->watts));
    for (Peak& peak : *cluster.mutable_device()->mutable_peaks())
      peak.set_flops_per_second(peak.flops_per_second() * clock);
    if (clock < 1) assumptions->push_back(absl::StrFormat("%.2f of the clock with %.0f W", clock, *watts));
  }
  if (const auto terabytes = FirstNumber(gpu, R"(([0-9.]+) ?TB/s)")) {
    cluster.mutable_device()->set_memory_bytes_per_second(*terabytes * 1e12);
  }
  cluster.set_name(absl::StrCat(base.name(), " x ", devices));
  return cluster;
}

}  // namespace weft
