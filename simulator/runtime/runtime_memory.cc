#include "simulator/runtime/runtime_memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "proto/util/mesh.h"
#include "proto/util/units.h"

namespace weft::sim {
namespace {

constexpr int64_t kMax = int64_t{1} << 62;

bool IsOnDevice(const Buffer& buffer) { return buffer.persistent() && buffer.place() == DEVICE && buffer.bytes() > 0; }

int64_t Rounding(const Template& t, int64_t block) {
  int64_t bytes = 0;
  if (block <= 1) return 0;
  for (const Buffer& buffer : t.buffers()) {
    if (!IsOnDevice(buffer)) continue;
    bytes = std::min(kMax, bytes + (block - buffer.bytes() % block) % block);
  }
  return bytes;
}

double PersistentBytes(const Template& t) {
  double bytes = 0;
  for (const Buffer& buffer : t.buffers()) bytes += IsOnDevice(buffer) ? static_cast<double>(buffer.bytes()) : 0;
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

// The loss over a part of the vocabulary counts as a loss too.
int Normal(Kernel kernel) { return kernel == CROSS_ENTROPY_PARTIAL ? CROSS_ENTROPY : kernel; }

bool IsUpdate(int kernel) { return kernel == ADAMW || kernel == SGD_STEP; }

// True if the optimizer states are in host memory. They are then fetched to the device bucket by bucket.
bool StatesAreOnHost(const Template& t) {
  return std::any_of(t.buffers().begin(), t.buffers().end(), [](const Buffer& buffer) {
    return (buffer.role() == MOMENT1 || buffer.role() == MASTER) && buffer.place() == HOST;
  });
}

// For each kernel that has a workspace in some form, returns the elements of its largest first input in any action of
// the template. A loss is computed sample by sample, so the logits of all samples count together. An action updates all
// its tensors at once, unless the states are on the host.
std::map<int, double> InputElements(const Program& program, const Template& t, const Runtime& runtime) {
  std::map<int, double> inputs;
  for (const KernelForm& form : runtime.kernels()) {
    Kernel kernel;
    if (form.workspace() != 0 && Kernel_Parse(form.kernel(), &kernel)) inputs[kernel] = 0;
  }
  if (inputs.empty()) return inputs;
  const bool in_buckets = StatesAreOnHost(t);
  std::set<int32_t> segments;
  for (const Action& action : t.body()) {
    if (action.segment() < 0 || action.segment() >= program.segments_size() || action.operands_size() == 0) continue;
    if (!segments.insert(action.segment()).second) continue;
    const Segment& segment = program.segments(action.segment());
    // One sum is enough, because no segment has both a loss and an update.
    double together = 0;
    for (const Step& step : segment.steps()) {
      const auto found = inputs.find(Normal(step.kernel()));
      if (found == inputs.end() || step.inputs_size() == 0) continue;
      if (step.inputs(0) < 0 || step.inputs(0) >= segment.values_size()) continue;
      const auto elements = ElementCount(segment.values(step.inputs(0)).shape());
      if (!elements) continue;
      if (found->first == CROSS_ENTROPY || (IsUpdate(found->first) && !in_buckets)) {
        together += static_cast<double>(*elements);
      }
      found->second = std::max({found->second, static_cast<double>(*elements), together});
    }
  }
  return inputs;
}

// Returns the number of ranks that hold parts of one layer.
double RanksOfALayer(const Program& program) { return static_cast<double>(AxisSize(program.mesh(), "x")); }

struct WorkspaceBytes {
  // Bytes in the forward and backward passes, and in the optimizer step.
  double passes = 0, update = 0;
  // Planned bytes that tiles save in the passes: the part of `passes` that is negative.
  double tiled = 0;
};

WorkspaceBytes Workspaces(const Program& program, const Template& t, const Runtime& runtime) {
  std::map<int, double> inputs = InputElements(program, t, runtime);
  WorkspaceBytes bytes;
  const auto logits = inputs.find(CROSS_ENTROPY);
  if (runtime.memory().whole_logits() && logits != inputs.end()) {
    // The program already plans the logits and their gradient in 16 bits, for the rank's part of the vocabulary.
    constexpr double kPlanned = 4;
    const double ranks = RanksOfALayer(program);
    bytes.passes += (ranks - 1) * kPlanned * logits->second;
    logits->second *= ranks;
  }
  for (const KernelForm& form : runtime.kernels()) {
    Kernel kernel;
    if (form.workspace() == 0 || !Kernel_Parse(form.kernel(), &kernel)) continue;
    const double of_kernel = form.workspace() * inputs[kernel];
    (IsUpdate(kernel) ? bytes.update : bytes.passes) += of_kernel;
    if (!IsUpdate(kernel)) bytes.tiled += std::max(0.0, -of_kernel);
    // Forms of one kernel for different devices state the same memory, so only the first counts.
    inputs[kernel] = 0;
  }
  return bytes;
}

// Returns the bytes of a rank's tensors beyond the planned bytes; may be negative.
double TensorsBeside(const FrameworkBytes& bytes) {
  const double passes = bytes.passes + HeldBeside(bytes.held);
  if (!bytes.updates) return passes;
  return std::max(passes, bytes.update - (bytes.drained ? bytes.planned - bytes.persistent : 0));
}

// Returns the bytes of a rank in addition to the planned bytes. A negative result saves at most the planned bytes.
int64_t BytesBeside(const FrameworkBytes& bytes, const Runtime& runtime, bool tensors_only) {
  const RuntimeMemory& memory = runtime.memory();
  double beside = TensorsBeside(bytes);
  if (!tensors_only) beside += memory.fragmentation() * (bytes.planned + beside);
  const auto whole = static_cast<int64_t>(std::clamp(beside, -bytes.planned, 0x1p60));
  return tensors_only ? whole : std::min(kMax, whole + static_cast<int64_t>(bytes.rounding) + memory.reserved_bytes());
}

// Returns, for each template, the bytes of a rank: its arena and everything else.
std::vector<int64_t> BytesOfTemplates(const Program& program, const Runtime& runtime, bool tensors_only) {
  std::vector<int64_t> all;
  for (const Template& t : program.templates()) {
    const int64_t arena = t.device_arena_bytes();
    const int64_t beside = BytesBeside(FrameworkBytesOf(program, t, runtime), runtime, tensors_only);
    all.push_back(beside > 0 && arena > kMax - beside ? kMax : arena + beside);
  }
  return all;
}

// Returns by how much the bytes of the rank that needs most exceed the largest arena.
int64_t MostBeside(const Program& program, const Runtime& runtime, bool tensors_only) {
  if (program.templates().empty()) return tensors_only ? 0 : runtime.memory().reserved_bytes();
  int64_t arena = 0;
  for (const Template& t : program.templates()) arena = std::max(arena, t.device_arena_bytes());
  const std::vector<int64_t> all = BytesOfTemplates(program, runtime, tensors_only);
  return *std::max_element(all.begin(), all.end()) - arena;
}

}  // namespace

FrameworkBytes FrameworkBytesOf(const Program& program, const Template& t, const Runtime& runtime) {
  const WorkspaceBytes workspaces = Workspaces(program, t, runtime);
  const double kept = runtime.memory().bytes_per_wide_gradient() * WideGradients(t);
  return {.planned = static_cast<double>(t.device_arena_bytes()),
          .persistent = PersistentBytes(t),
          .passes = workspaces.passes + kept,
          .update = workspaces.update + kept,
          .updates = workspaces.update > 0,
          .held = HeldPeaksOf(program, t, runtime),
          .drained = program.steps_per_repetition() == 0,
          .rounding = static_cast<double>(Rounding(t, runtime.memory().block_bytes()))};
}

int64_t BytesUnder(const FrameworkBytes& bytes, const Runtime& runtime) {
  const auto planned = static_cast<int64_t>(bytes.planned);
  const int64_t beside = BytesBeside(bytes, runtime, /*tensors_only=*/false);
  return beside > 0 && planned > kMax - beside ? kMax : planned + beside;
}

int64_t TiledBytes(const Program& program, const Template& t, const Runtime& runtime) {
  return static_cast<int64_t>(std::ceil(std::min(Workspaces(program, t, runtime).tiled, 0x1p60)));
}

int64_t RuntimeBytes(const Program& program, const Runtime& runtime) { return MostBeside(program, runtime, false); }

int64_t RuntimeTensorBytes(const Program& program, const Runtime& runtime) {
  return MostBeside(program, runtime, true);
}

std::vector<int64_t> BytesOfTemplatesUnder(const Program& program, const Runtime& runtime) {
  return BytesOfTemplates(program, runtime, false);
}

}  // namespace weft::sim
