#include "simulator/runtime/kernel_form.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/suggest.h"

namespace weft {
namespace {

bool IsFor(const KernelForm& form, int capability) {
  return capability >= form.from_compute_capability() &&
         (form.below_compute_capability() == 0 || capability < form.below_compute_capability());
}

// Compute capabilities from `begin` on, below `end`, that no form of the kernel is for, while some are for lower and
// for higher ones; that in which `capability` is, or if it is in none the lowest.
struct Gap {
  int begin = 0, end = 0;
};

Gap GapOf(const Runtime& runtime, const std::string& kernel, int capability) {
  std::vector<Gap> forms;
  for (const KernelForm& form : runtime.kernels()) {
    if (form.kernel() != kernel) continue;
    const int below = form.below_compute_capability();
    forms.push_back({form.from_compute_capability(), below == 0 ? std::numeric_limits<int>::max() : below});
  }
  std::sort(forms.begin(), forms.end(), [](const Gap& a, const Gap& b) { return a.begin < b.begin; });
  Gap found;
  int covered = forms.empty() ? 0 : forms.front().end;
  for (const Gap& form : forms) {
    const bool in_it = capability >= covered && capability < form.begin;
    if (form.begin > covered && (found.end == 0 || in_it)) found = {covered, form.begin};
    covered = std::max(covered, form.end);
  }
  return found;
}

std::set<std::string> KernelsOf(const Runtime& runtime) {
  std::set<std::string> kernels;
  for (const KernelForm& form : runtime.kernels()) kernels.insert(form.kernel());
  return kernels;
}

bool Has(const Program& program, const std::string& kernel) {
  return std::any_of(program.segments().begin(), program.segments().end(), [&](const Segment& segment) {
    return std::any_of(segment.steps().begin(), segment.steps().end(),
                       [&](const Step& step) { return Kernel_Name(step.kernel()) == kernel; });
  });
}

}  // namespace

const KernelForm* FormOf(const Runtime& runtime, Kernel kernel, int capability) {
  const KernelForm* found = nullptr;
  const std::string& name = Kernel_Name(kernel);
  for (const KernelForm& form : runtime.kernels()) {
    if (form.kernel() == name && IsFor(form, capability)) found = &form;
  }
  return found;
}

absl::Status CheckForms(const Runtime& runtime, const Device& device, const Program& program) {
  const int capability = device.compute_capability();
  for (const std::string& kernel : KernelsOf(runtime)) {
    const Gap gap = GapOf(runtime, kernel, capability);
    if (capability < gap.begin || capability >= gap.end || !Has(program, kernel)) continue;
    return absl::FailedPreconditionError(absl::StrCat("runtime ", Quoted(runtime.name()), " computes ", kernel,
                                                      " on devices of compute capability ", gap.end,
                                                      " and more, and not on those of ", gap.begin, " to ", gap.end - 1,
                                                      "; ", Quoted(device.name()), " has ", capability));
  }
  return absl::OkStatus();
}

std::string NoteOnForms(const Runtime& runtime, const Device& device) {
  if (device.compute_capability() > 0) return "";
  for (const std::string& kernel : KernelsOf(runtime)) {
    const Gap gap = GapOf(runtime, kernel, 0);
    if (gap.begin < 1 || gap.end == 0) continue;
    return absl::StrCat("runtime ", Quoted(runtime.name()), " computes ", kernel,
                        " in a way that devices of compute capability ", gap.begin, " to ", gap.end - 1,
                        " do not have; ", Quoted(device.name()),
                        " states none, and is believed to have it (device.compute_capability)");
  }
  return "";
}

}  // namespace weft
