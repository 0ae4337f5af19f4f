#include "proto/validate/validate_device.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "proto/program.pb.h"
#include "proto/util/kernel_key.h"
#include "proto/util/status.h"
#include "proto/validate/field_check.h"

namespace weft {
namespace {

absl::Status CheckComputeDType(const std::string& path, DType dtype) {
  constexpr char kAllowed[] = "FP64, FP32, TF32, BF16 or FP16";
  if (dtype == FP64 || dtype == FP32 || dtype == TF32 || dtype == BF16 || dtype == FP16) return absl::OkStatus();
  if (!DType_IsValid(dtype)) return BadField(path, static_cast<int>(dtype), kAllowed);
  return BadField(path, DType_Name(dtype), kAllowed);
}

absl::Status ValidatePeaks(const std::string& path, const Device& device) {
  if (device.peaks_size() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".peaks is missing; give a peak for each dtype of matrix products"));
  }
  std::set<DType> seen;
  for (int i = 0; i < device.peaks_size(); ++i) {
    const Peak& peak = device.peaks(i);
    const std::string row = absl::StrCat(path, ".peaks[", i, "]");
    WEFT_RETURN_IF_ERROR(CheckComputeDType(absl::StrCat(row, ".dtype"), peak.dtype()));
    if (!seen.insert(peak.dtype()).second) {
      return absl::InvalidArgumentError(absl::StrCat(row, ".dtype = ", DType_Name(peak.dtype()), " is listed twice"));
    }
    WEFT_RETURN_IF_ERROR(CheckPositive(absl::StrCat(row, ".flops_per_second"), peak.flops_per_second()));
  }
  return absl::OkStatus();
}

absl::Status ValidateEfficiencies(const std::string& field,
                                  const google::protobuf::RepeatedPtrField<Efficiency>& rows) {
  for (int i = 0; i < rows.size(); ++i) {
    const std::string path = absl::StrCat(field, "[", i, "]");
    WEFT_RETURN_IF_ERROR(CheckNotNegative(absl::StrCat(path, ".from"), rows[i].from()));
    if (i > 0 && rows[i].from() <= rows[i - 1].from()) {
      return BadField(absl::StrCat(path, ".from"), rows[i].from(),
                      absl::StrCat("greater than in the previous row, ", rows[i - 1].from()));
    }
    if (!(rows[i].fraction() > 0 && rows[i].fraction() <= 1)) {
      return BadField(absl::StrCat(path, ".fraction"), rows[i].fraction(), "greater than 0 and at most 1");
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateKernelRates(const std::string& device_path, const Device& device) {
  std::map<std::pair<std::string, DType>, const KernelRate*> last;
  for (int i = 0; i < device.kernel_rates_size(); ++i) {
    const KernelRate& rate = device.kernel_rates(i);
    const std::string path = absl::StrCat(device_path, ".kernel_rates[", i, "]");
    std::string kernel = rate.kernel();
    if (KernelKeyParts key; rate.kernel().find(' ') != std::string::npos) {
      if (!ParseKernelKey(rate.kernel(), &key)) {
        return BadField(absl::StrCat(path, ".kernel"), rate.kernel(),
                        "a kernel, or the key of one: KERNEL types options extents (proto/util/kernel_key.h)");
      }
      kernel = std::string(key.kernel);
    }
    WEFT_RETURN_IF_ERROR(CheckKernel(absl::StrCat(path, ".kernel"), kernel));
    // Kernels that only move token ids work on INT32. Dropout masks are UINT8.
    if (rate.dtype() != INT32 && rate.dtype() != UINT8 && rate.dtype() != EXACT192) {
      WEFT_RETURN_IF_ERROR(CheckComputeDType(absl::StrCat(path, ".dtype"), rate.dtype()));
    }
    if (rate.dtype() == TF32 && kernel != Kernel_Name(MATMUL)) {
      return BadField(
          absl::StrCat(path, ".dtype"), DType_Name(rate.dtype()),
          absl::StrCat("the dtype of the first operand of ", kernel, ": only ", Kernel_Name(MATMUL), " works in TF32"));
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
          absl::StrCat("greater than in the previous row of the same kernel and dtype, ", before->from_work()));
    }
    if (before != nullptr && (rate.flops_per_second() > 0) != (before->flops_per_second() > 0)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ".flops_per_second = ", rate.flops_per_second(),
                                                     " does not match the previous row of the same kernel and dtype (",
                                                     before->flops_per_second(),
                                                     "): either all of these rows have a rate of flops, or none has"));
    }
    before = &rate;
  }
  return absl::OkStatus();
}

absl::Status CheckFraction(const std::string& path, double fraction) {
  if (fraction > 0 && fraction <= 1) return absl::OkStatus();
  return BadField(path, fraction, "greater than 0 and at most 1");
}

absl::Status ValidateTiles(const std::string& path, const TileFigures& figures) {
  constexpr int kMax = 1 << 20;
  WEFT_RETURN_IF_ERROR(CheckWithin(path + ".multiprocessors", figures.multiprocessors(), 1, kMax));
  WEFT_RETURN_IF_ERROR(CheckWithin(path + ".attention_rows", figures.attention_rows(), 1, kMax));
  if (figures.tiles_size() == 0) {
    return absl::InvalidArgumentError(path + ".tiles is missing; the tile of one kernel at least is required");
  }
  for (int i = 0; i < figures.tiles_size(); ++i) {
    const std::string tile = absl::StrCat(path, ".tiles[", i, "]");
    WEFT_RETURN_IF_ERROR(CheckWithin(tile + ".rows", figures.tiles(i).rows(), 1, kMax));
    WEFT_RETURN_IF_ERROR(CheckWithin(tile + ".columns", figures.tiles(i).columns(), 1, kMax));
    WEFT_RETURN_IF_ERROR(CheckFraction(tile + ".fraction", figures.tiles(i).fraction()));
  }
  WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".half_depth", figures.half_depth()));
  WEFT_RETURN_IF_ERROR(CheckFraction(path + ".attention_fraction", figures.attention_fraction()));
  WEFT_RETURN_IF_ERROR(CheckFraction(path + ".attention_backward_fraction", figures.attention_backward_fraction()));
  WEFT_RETURN_IF_ERROR(CheckFraction(path + ".memory_fraction", figures.memory_fraction()));
  return CheckNotNegative(path + ".half_bytes", figures.half_bytes());
}

absl::Status ValidateLoad(const std::string& path, const Device& device) {
  // A step may run beside two collectives (rule P3), which must leave it some multiprocessors and memory bandwidth.
  const CommunicationLoad& load = device.communication_load();
  const int most = device.has_tiles() ? (device.tiles().multiprocessors() - 1) / 2 : 0;
  if (load.multiprocessors() > 0 && !device.has_tiles()) {
    return BadField(path + ".communication_load.multiprocessors", load.multiprocessors(),
                    absl::StrCat("0 without ", path, ".tiles: the value counts multiprocessors of that field"));
  }
  WEFT_RETURN_IF_ERROR(CheckWithin(path + ".communication_load.multiprocessors", load.multiprocessors(), 0, most));
  WEFT_RETURN_IF_ERROR(
      CheckNotNegative(path + ".communication_load.memory_bytes_per_second", load.memory_bytes_per_second()));
  if (2 * load.memory_bytes_per_second() >= device.memory_bytes_per_second()) {
    return BadField(
        path + ".communication_load.memory_bytes_per_second", load.memory_bytes_per_second(),
        absl::StrCat("less than half of ", path, ".memory_bytes_per_second = ", device.memory_bytes_per_second(),
                     ", because two collectives may run at the same time"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateDevice(const std::string& path, const Device& device) {
  WEFT_RETURN_IF_ERROR(CheckName(path + ".name", device.name()));
  WEFT_RETURN_IF_ERROR(CheckAtLeast(path + ".memory_bytes", device.memory_bytes(), 1));
  WEFT_RETURN_IF_ERROR(CheckPositive(path + ".memory_bytes_per_second", device.memory_bytes_per_second()));
  WEFT_RETURN_IF_ERROR(ValidatePeaks(path, device));
  WEFT_RETURN_IF_ERROR(ValidateEfficiencies(path + ".matmul_efficiency", device.matmul_efficiency()));
  WEFT_RETURN_IF_ERROR(ValidateEfficiencies(path + ".memory_efficiency", device.memory_efficiency()));
  WEFT_RETURN_IF_ERROR(CheckNotNegative(path + ".launch_seconds", device.launch_seconds()));
  WEFT_RETURN_IF_ERROR(CheckAtLeast(path + ".reserved_bytes", device.reserved_bytes(), 0));
  if (device.reserved_bytes() >= device.memory_bytes()) {
    return BadField(path + ".reserved_bytes", device.reserved_bytes(),
                    absl::StrCat("less than ", path, ".memory_bytes = ", device.memory_bytes()));
  }
  if (device.has_tiles()) WEFT_RETURN_IF_ERROR(ValidateTiles(path + ".tiles", device.tiles()));
  WEFT_RETURN_IF_ERROR(ValidateLoad(path, device));
  // The GPU generations so far have compute capabilities from 10 to 121.
  WEFT_RETURN_IF_ERROR(CheckWithin(path + ".compute_capability", device.compute_capability(), 0, 999));
  return ValidateKernelRates(path, device);
}

}  // namespace weft
