#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "proto/field_check.h"
#include "proto/program.pb.h"
#include "proto/status.h"
#include "proto/validate.h"

namespace weft {
namespace {

absl::Status CheckComputeDType(const std::string& path, DType dtype) {
  if (dtype == FP64 || dtype == FP32 || dtype == BF16 || dtype == FP16) return absl::OkStatus();
  if (!DType_IsValid(dtype)) return BadField(path, static_cast<int>(dtype), "FP64, FP32, BF16 or FP16");
  return BadField(path, DType_Name(dtype), "FP64, FP32, BF16 or FP16");
}

absl::Status ValidatePeaks(const Device& device) {
  if (device.peaks_size() == 0) {
    return absl::InvalidArgumentError("cluster.device.peaks is missing; a peak per dtype of products is required");
  }
  std::set<DType> seen;
  for (int i = 0; i < device.peaks_size(); ++i) {
    const Peak& peak = device.peaks(i);
    const std::string path = absl::StrCat("cluster.device.peaks[", i, "]");
    WEFT_RETURN_IF_ERROR(CheckComputeDType(absl::StrCat(path, ".dtype"), peak.dtype()));
    if (!seen.insert(peak.dtype()).second) {
      return absl::InvalidArgumentError(absl::StrCat(path, ".dtype = ", DType_Name(peak.dtype()), " is listed twice"));
    }
    WEFT_RETURN_IF_ERROR(CheckPositive(absl::StrCat(path, ".flops_per_second"), peak.flops_per_second()));
  }
  return absl::OkStatus();
}

absl::Status ValidateEfficiencies(absl::string_view field, const google::protobuf::RepeatedPtrField<Efficiency>& rows) {
  for (int i = 0; i < rows.size(); ++i) {
    const std::string path = absl::StrCat("cluster.device.", field, "[", i, "]");
    WEFT_RETURN_IF_ERROR(CheckNotNegative(absl::StrCat(path, ".from"), rows[i].from()));
    if (i > 0 && rows[i].from() <= rows[i - 1].from()) {
      return BadField(absl::StrCat(path, ".from"), rows[i].from(),
                      absl::StrCat("greater than that of the row before, ", rows[i - 1].from()));
    }
    if (!(rows[i].fraction() > 0 && rows[i].fraction() <= 1)) {
      return BadField(absl::StrCat(path, ".fraction"), rows[i].fraction(), "greater than 0 and at most 1");
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> KernelNames() {
  std::vector<std::string> names;
  const google::protobuf::EnumDescriptor& kernels = *Kernel_descriptor();
  for (int i = 0; i < kernels.value_count(); ++i) {
    if (kernels.value(i)->number() != KERNEL_UNSPECIFIED) names.push_back(kernels.value(i)->name());
  }
  return names;
}

absl::Status ValidateKernelRates(const Device& device) {
  const std::vector<std::string> kernels = KernelNames();
  std::map<std::pair<std::string, DType>, const KernelRate*> last;
  for (int i = 0; i < device.kernel_rates_size(); ++i) {
    const KernelRate& rate = device.kernel_rates(i);
    const std::string path = absl::StrCat("cluster.device.kernel_rates[", i, "]");
    WEFT_RETURN_IF_ERROR(CheckOneOf(absl::StrCat(path, ".kernel"), rate.kernel(), kernels));
    // INT32 is what kernels that only move token ids work on.
    if (rate.dtype() != INT32 && rate.dtype() != EXACT192) {
      WEFT_RETURN_IF_ERROR(CheckComputeDType(absl::StrCat(path, ".dtype"), rate.dtype()));
    }
    WEFT_RETURN_IF_ERROR(CheckNotNegative(absl::StrCat(path, ".from_work"), rate.from_work()));
    WEFT_RETURN_IF_ERROR(CheckNotNegative(absl::StrCat(path, ".flops_per_second"), rate.flops_per_second()));
    WEFT_RETURN_IF_ERROR(CheckNotNegative(absl::StrCat(path, ".bytes_per_second"), rate.bytes_per_second()));
    WEFT_RETURN_IF_ERROR(CheckNotNegative(absl::StrCat(path, ".overhead_seconds"), rate.overhead_seconds()));
    if (rate.flops_per_second() == 0 && rate.bytes_per_second() == 0 && rate.overhead_seconds() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " has neither a rate nor an overhead; the kernel would take no time"));
    }
    const KernelRate*& before = last[{rate.kernel(), rate.dtype()}];
    if (before != nullptr && rate.from_work() <= before->from_work()) {
      return BadField(
          absl::StrCat(path, ".from_work"), rate.from_work(),
          absl::StrCat("greater than that of the row before of the same kernel and dtype, ", before->from_work()));
    }
    if (before != nullptr && (rate.flops_per_second() > 0) != (before->flops_per_second() > 0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ".flops_per_second = ", rate.flops_per_second(), " differs in kind from the row before of the same ",
          "kernel and dtype (", before->flops_per_second(), "): from_work counts flops in all of them or in none"));
    }
    before = &rate;
  }
  return absl::OkStatus();
}

absl::Status CheckFraction(const std::string& path, double fraction) {
  if (fraction > 0 && fraction <= 1) return absl::OkStatus();
  return BadField(path, fraction, "greater than 0 and at most 1");
}

absl::Status ValidateTiles(const TileFigures& figures) {
  constexpr int kMost = 1 << 20;
  const std::string path = "cluster.device.tiles";
  WEFT_RETURN_IF_ERROR(CheckWithin(path + ".multiprocessors", figures.multiprocessors(), 1, kMost));
  WEFT_RETURN_IF_ERROR(CheckWithin(path + ".attention_rows", figures.attention_rows(), 1, kMost));
  if (figures.tiles_size() == 0) {
    return absl::InvalidArgumentError(path + ".tiles is missing; the tile of one kernel at least is required");
  }
  for (int i = 0; i < figures.tiles_size(); ++i) {
    const std::string tile = absl::StrCat(path, ".tiles[", i, "]");
    WEFT_RETURN_IF_ERROR(CheckWithin(tile + ".rows", figures.tiles(i).rows(), 1, kMost));
    WEFT_RETURN_IF_ERROR(CheckWithin(tile + ".columns", figures.tiles(i).columns(), 1, kMost));
    WEFT_RETURN_IF_ERROR(CheckFraction(tile + ".fraction", figures.tiles(i).fraction()));
  }
  WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".half_depth", figures.half_depth()));
  WEFT_RETURN_IF_ERROR(CheckFraction(path + ".attention_fraction", figures.attention_fraction()));
  WEFT_RETURN_IF_ERROR(CheckFraction(path + ".attention_backward_fraction", figures.attention_backward_fraction()));
  WEFT_RETURN_IF_ERROR(CheckFraction(path + ".memory_fraction", figures.memory_fraction()));
  return CheckNotNegative(path + ".half_bytes", figures.half_bytes());
}

absl::Status ValidateDevice(const Device& device) {
  WEFT_RETURN_IF_ERROR(CheckNotEmpty("cluster.device.name", device.name()));
  WEFT_RETURN_IF_ERROR(CheckAtLeast("cluster.device.memory_bytes", device.memory_bytes(), 1));
  WEFT_RETURN_IF_ERROR(CheckPositive("cluster.device.memory_bytes_per_second", device.memory_bytes_per_second()));
  WEFT_RETURN_IF_ERROR(ValidatePeaks(device));
  WEFT_RETURN_IF_ERROR(ValidateEfficiencies("matmul_efficiency", device.matmul_efficiency()));
  WEFT_RETURN_IF_ERROR(ValidateEfficiencies("memory_efficiency", device.memory_efficiency()));
  WEFT_RETURN_IF_ERROR(CheckNotNegative("cluster.device.launch_seconds", device.launch_seconds()));
  WEFT_RETURN_IF_ERROR(CheckAtLeast("cluster.device.reserved_bytes", device.reserved_bytes(), 0));
  if (device.reserved_bytes() >= device.memory_bytes()) {
    return BadField("cluster.device.reserved_bytes", device.reserved_bytes(),
                    absl::StrCat("less than cluster.device.memory_bytes = ", device.memory_bytes()));
  }
  if (device.has_tiles()) WEFT_RETURN_IF_ERROR(ValidateTiles(device.tiles()));
  return ValidateKernelRates(device);
}

absl::Status ValidateLink(const std::string& path, const Link& link) {
  WEFT_RETURN_IF_ERROR(CheckPositive(path + ".bytes_per_second", link.bytes_per_second()));
  WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".latency_seconds", link.latency_seconds()));
  return CheckNotNegative(path + ".overhead_seconds", link.overhead_seconds());
}

absl::Status Required(absl::string_view field, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("cluster.", field, " is missing; it is required for ", why));
}

}  // namespace

absl::Status Validate(const Cluster& cluster) {
  constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
  WEFT_RETURN_IF_ERROR(CheckNotEmpty("cluster.name", cluster.name()));
  if (!cluster.has_device()) return Required("device", "every cluster");
  WEFT_RETURN_IF_ERROR(ValidateDevice(cluster.device()));
  WEFT_RETURN_IF_ERROR(CheckWithin("cluster.nodes", cluster.nodes(), 1, kMaxInt32));
  WEFT_RETURN_IF_ERROR(CheckWithin("cluster.devices_per_node", cluster.devices_per_node(), 1, kMaxInt32));
  WEFT_RETURN_IF_ERROR(CheckWithin("cluster.nodes * cluster.devices_per_node",
                                   cluster.nodes() * cluster.devices_per_node(), 1, kMaxInt32));
  if (cluster.devices_per_node() > 1 && !cluster.has_intra_node()) {
    return Required("intra_node", "nodes of several devices");
  }
  if (cluster.has_intra_node()) WEFT_RETURN_IF_ERROR(ValidateLink("cluster.intra_node", cluster.intra_node()));
  if (cluster.nodes() > 1 && !cluster.has_inter_node()) return Required("inter_node", "several nodes");
  if (cluster.has_inter_node()) WEFT_RETURN_IF_ERROR(ValidateLink("cluster.inter_node", cluster.inter_node()));
  WEFT_RETURN_IF_ERROR(
      CheckWithin("cluster.nics_per_node", cluster.nics_per_node(), cluster.nodes() > 1 ? 1 : 0, kMaxInt32));
  if (cluster.has_host()) WEFT_RETURN_IF_ERROR(ValidateLink("cluster.host", cluster.host()));
  WEFT_RETURN_IF_ERROR(CheckAtLeast("cluster.host_memory_bytes", cluster.host_memory_bytes(), 0));
  WEFT_RETURN_IF_ERROR(CheckWithin("cluster.compute_slots_per_node", cluster.compute_slots_per_node(), 0, kMaxInt32));
  return CheckNotNegative("cluster.compute_turn_seconds", cluster.compute_turn_seconds());
}

}  // namespace weft
