#include "simulator/runtime/runtime_memory.h"

#include <algorithm>
#include <map>
#include <set>

#include "proto/units.h"
#include "simulator/runtime/held_activations.h"

namespace weft {
namespace {

constexpr int64_t kMost = int64_t{1} << 62;

bool IsOnDevice(const Buffer& buffer) { return buffer.persistent() && buffer.place() == DEVICE && buffer.bytes() > 0; }

int64_t Rounding(const Template& t, int64_t block) {
  int64_t bytes = 0;
  if (block <= 1) return 0;
  for (const Buffer& buffer : t.buffers()) {
    if (!IsOnDevice(buffer)) continue;
    bytes = std::min(kMost, bytes + (block - buffer.bytes() % block) % block);
  }
  return bytes;
}

double Elements(const Buffer& buffer) {
  return static_cast<double>(buffer.bytes()) / static_cast<double>(std::max<int64_t>(DTypeBytes(buffer.dtype()), 1));
}

double WideGradients(const Template& t) {
  double elements = 0;
  for (const Buffer& buffer : t.buffers()) {
    if (buffer.role() == GRAD && buffer.dtype() == FP32 && buffer.place() == DEVICE) elements += Elements(buffer);
  }
  return elements;
}

// The loss over a part of the vocabulary is a loss too.
int Normal(Kernel kernel) { return kernel == CROSS_ENTROPY_PARTIAL ? CROSS_ENTROPY : kernel; }

// By kernel that a form gives a workspace: elements of the largest first input that an action of the template has. A
// loss is computed sample by sample; its logits are those of all of them.
std::map<int, double> LargestInputs(const Program& program, const Template& t, const Runtime& runtime) {
  std::map<int, double> largest;
  for (const KernelForm& form : runtime.kernels()) {
    Kernel kernel;
    if (form.workspace() != 0 && Kernel_Parse(form.kernel(), &kernel)) largest[kernel] = 0;
  }
  if (largest.empty()) return largest;
  std::set<int32_t> segments;
  for (const Action& action : t.body()) {
    if (action.segment() < 0 || action.segment() >= program.segments_size() || action.operands_size() == 0) continue;
    if (!segments.insert(action.segment()).second) continue;
    const Segment& segment = program.segments(action.segment());
    double logits = 0;
    for (const Step& step : segment.steps()) {
      const auto found = largest.find(Normal(step.kernel()));
      if (found == largest.end() || step.inputs_size() == 0) continue;
      if (step.inputs(0) < 0 || step.inputs(0) >= segment.values_size()) continue;
      const auto elements = ElementCount(segment.values(step.inputs(0)).shape());
      if (!elements) continue;
      logits += found->first == CROSS_ENTROPY ? static_cast<double>(*elements) : 0;
      found->second = std::max({found->second, static_cast<double>(*elements), logits});
    }
  }
  return largest;
}

// Ranks that hold parts of one layer.
double RanksOfALayer(const Program& program) {
  for (const MeshAxis& axis : program.mesh().axes()) {
    if (axis.name() == "x") return static_cast<double>(std::max<int64_t>(axis.size(), 1));
  }
  return 1;
}

double Workspaces(const Program& program, const Template& t, const Runtime& runtime) {
  std::map<int, double> largest = LargestInputs(program, t, runtime);
  double bytes = 0;
  const auto logits = largest.find(CROSS_ENTROPY);
  if (runtime.memory().whole_logits() && logits != largest.end()) {
    // The program's own are logits and their gradient in 16 bits, of the rank's part of the vocabulary.
    constexpr double kPlanned = 4;
    const double ranks = RanksOfALayer(program);
    bytes += (ranks - 1) * kPlanned * logits->second;
    logits->second *= ranks;
  }
  for (const KernelForm& form : runtime.kernels()) {
    Kernel kernel;
    if (form.workspace() == 0 || !Kernel_Parse(form.kernel(), &kernel)) continue;
    bytes += form.workspace() * largest[kernel];
    // Forms for other devices say the same of memory.
    largest[kernel] = 0;
  }
  return bytes;
}

// Tensors of a rank of the template beside the planned ones; may be negative.
double Tensors(const Program& program, const Template& t, const Runtime& runtime) {
  return Workspaces(program, t, runtime) + runtime.memory().bytes_per_wide_gradient() * WideGradients(t) +
         HeldBeside(program, t, runtime);
}

// May be negative, but never takes more than is planned.
int64_t OfTemplate(const Program& program, const Template& t, const Runtime& runtime, bool tensors_only) {
  const RuntimeMemory& memory = runtime.memory();
  const double planned = static_cast<double>(t.device_arena_bytes());
  double beside = Tensors(program, t, runtime);
  if (!tensors_only) beside += memory.fragmentation() * (planned + beside);
  const int64_t bytes = static_cast<int64_t>(std::clamp(beside, -planned, 0x1p60));
  return tensors_only ? bytes : std::min(kMost, bytes + Rounding(t, memory.block_bytes()) + memory.reserved_bytes());
}

// Beside the largest arena.
int64_t BytesBeside(const Program& program, const Runtime& runtime, bool tensors_only) {
  int64_t arena = 0, most = tensors_only ? 0 : runtime.memory().reserved_bytes();
  for (const Template& t : program.templates()) arena = std::max(arena, t.device_arena_bytes());
  for (int i = 0; i < program.templates_size(); ++i) {
    const Template& t = program.templates(i);
    const int64_t bytes = OfTemplate(program, t, runtime, tensors_only) - (arena - t.device_arena_bytes());
    most = i == 0 ? bytes : std::max(most, bytes);
  }
  return most;
}

}  // namespace

int64_t RuntimeBytes(const Program& program, const Runtime& runtime) { return BytesBeside(program, runtime, false); }

int64_t RuntimeTensorBytes(const Program& program, const Runtime& runtime) {
  return BytesBeside(program, runtime, true);
}

void AddRuntimeBytes(const Program& program, const Runtime& runtime, SimulationReport* report) {
  const int64_t bytes = RuntimeBytes(program, runtime);
  report->set_device_bytes(report->device_bytes() > kMost - bytes ? kMost : report->device_bytes() + bytes);
  const bool host_fits =
      report->host_capacity_bytes() <= 0 || report->planned_host_bytes() <= report->host_capacity_bytes();
  report->set_fits(report->device_bytes() <= report->capacity_bytes() && host_fits);
}

}  // namespace weft
