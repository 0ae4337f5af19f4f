#include "executor/backends/cuda/cuda_check.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace weft::exec::cuda {
namespace {

// Formats 12080 as "12.8".
std::string Version(int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }

std::string Gibibytes(int64_t bytes) { return absl::StrFormat("%.2f GiB", static_cast<double>(bytes) / (1 << 30)); }

}  // namespace

absl::Status CheckDriver(const DriverFacts& facts) {
  if (facts.driver_version == 0) {
    return absl::FailedPreconditionError(
        "backend cuda: this machine has no NVIDIA driver (the loader finds no libcuda.so.1); install one, or run with "
        "--backend=cpu");
  }
  // Within a major version, any driver runs the output of any toolkit (CUDA's minor version compatibility).
  if (facts.driver_version / 1000 < facts.runtime_version / 1000) {
    return absl::FailedPreconditionError(absl::StrCat(
        "backend cuda: the NVIDIA driver is too old (for CUDA ", Version(facts.driver_version),
        "); this program was built with CUDA ", Version(facts.runtime_version), " and needs a driver for CUDA ",
        facts.runtime_version / 1000, ".0 or newer; install one, or run with --backend=cpu"));
  }
  if (!facts.error.empty()) return absl::FailedPreconditionError(absl::StrCat("backend cuda: ", facts.error));
  if (facts.devices <= 0) {
    return absl::FailedPreconditionError(
        facts.visible_devices_set
            ? absl::StrCat("backend cuda: no GPU is visible (CUDA_VISIBLE_DEVICES is '", facts.visible_devices,
                           "'); unset it, or run with --backend=cpu")
            : std::string("backend cuda: this machine has an NVIDIA driver, but no GPU; run with --backend=cpu"));
  }
  return absl::OkStatus();
}

absl::Status CheckArchitecture(absl::string_view device, int major, int minor) {
  if (major >= 8) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("backend cuda: ", device, " has compute capability ", major, ".",
                                                    minor,
                                                    "; allowed: 8.0 (A100) or newer, because older devices have no "
                                                    "bfloat16 and CUDA 13 does not support V100 and older"));
}

absl::StatusOr<int> ChooseDevice(int wanted, int devices, const char* (*variable)(const char* name)) {
  std::string source = "the requested device";
  int chosen = wanted;
  if (wanted < 0) {
    chosen = 0;
    for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}) {
      const char* value = variable(name);
      if (value == nullptr || *value == '\0') continue;
      if (!absl::SimpleAtoi(value, &chosen) || chosen < 0) {
        return absl::InvalidArgumentError(absl::StrCat("backend cuda: ", name, " is '", value,
                                                       "'; allowed: the number of this process on its node, from 0"));
      }
      source = name;
      break;
    }
    // The launcher shows only one device to each process, so the process uses that device.
    if (devices == 1) chosen = 0;
  }
  if (chosen < devices) return chosen;
  return absl::FailedPreconditionError(absl::StrCat("backend cuda: ", source, " is ", chosen,
                                                    ", but this machine shows ", devices,
                                                    devices == 1 ? " GPU" : " GPUs", ", numbered from 0"));
}

absl::Status CheckMemory(absl::string_view device, int64_t planned, int64_t free, int64_t total) {
  if (planned <= free) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "backend cuda: too little memory on ", device, ": the plan needs ", planned, " bytes (", Gibibytes(planned),
      "), but only ", free, " (", Gibibytes(free), ") of ", total, " (", Gibibytes(total), ") are free"));
}

}  // namespace weft::exec::cuda
