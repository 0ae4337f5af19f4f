#include "absl/strings/str_cat.h"
#include "executor/interface/backend.h"

namespace weft::exec {

using DeviceOpenFn = absl::StatusOr<std::unique_ptr<ComputeDevice>>(const DeviceOptions& options);
using BackendMakeFn = absl::StatusOr<std::unique_ptr<Backend>>(ComputeDevice* device, const BackendOptions& options);

#define BACKEND(name, open, make, description) \
  DeviceOpenFn open;                           \
  BackendMakeFn make;
#include "executor/backends/registry.def"
#undef BACKEND

namespace {
constexpr BackendEntry kBackends[] = {
#define BACKEND(name, open, make, description) {name, &open, &make, description},
#include "executor/backends/registry.def"
#undef BACKEND
};
}  // namespace

absl::Span<const BackendEntry> Backends() { return kBackends; }

absl::StatusOr<const BackendEntry*> FindBackend(absl::string_view name) {
  std::string known = "auto";
  for (const BackendEntry& entry : kBackends) {
    if (entry.name == name) return &entry;
    absl::StrAppend(&known, ", ", entry.name);
  }
  if (name != "auto") return absl::NotFoundError(absl::StrCat("no backend '", name, "'; known: ", known));
  // For "auto", return the first backend other than `cpu` that can be opened here, else `cpu`.
  const BackendEntry* cpu = nullptr;
  for (const BackendEntry& entry : kBackends) {
    if (entry.name == "cpu") {
      cpu = &entry;
    } else if (entry.open({}).ok()) {
      return &entry;
    }
  }
  return cpu;
}

absl::StatusOr<std::unique_ptr<ComputeDevice>> OpenCpuDevice(const DeviceOptions& options) { return MakeHostDevice(); }

absl::StatusOr<std::unique_ptr<Backend>> MakeCpu(ComputeDevice* device, const BackendOptions& options) {
  if (device->asynchronous()) {
    return absl::InvalidArgumentError(absl::StrCat("the CPU backend does not run on device '", device->name(), "'"));
  }
  return MakeCpuBackend(options.threads);
}

}  // namespace weft::exec
