#include "simulator/runtime/kernel_form.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/util/suggest.h"

namespace weft::sim {
namespace {

bool IsFor(const KernelForm& form, int capability) {
  return capability >= form.from_compute_capability() &&
         (form.below_compute_capability() == 0 || capability < form.below_compute_capability());
}

// Formats the range of compute capabilities that a form is for: "1 to 88", "90 and more".
std::string CapabilitiesOf(const KernelForm& form) {
  const int below = form.below_compute_capability();
  return absl::StrCat(form.from_compute_capability(), below == 0 ? " and more" : absl::StrCat(" to ", below - 1));
}

bool Has(const Program& program, const std::string& kernel) {
  return std::any_of(program.segments().begin(), program.segments().end(), [&](const Segment& segment) {
    return std::any_of(segment.steps().begin(), segment.steps().end(),
                       [&](const Step& step) { return Kernel_Name(step.kernel()) == kernel; });
  });
}

// Returns the name of a kernel of the program that has forms for lower and for higher capabilities, but none for this
// one; "" = no such kernel.
std::string KernelInAGap(const Runtime& runtime, int capability, const Program& program) {
  for (const KernelForm& form : runtime.kernels()) {
    const auto other = [&](auto is_other) {
      return std::any_of(runtime.kernels().begin(), runtime.kernels().end(),
                         [&](const KernelForm& f) { return f.kernel() == form.kernel() && is_other(f); });
    };
    if (other([&](const KernelForm& f) { return IsFor(f, capability); })) continue;
    const bool below = other([&](const KernelForm& f) { return f.from_compute_capability() <= capability; });
    const bool above = other([&](const KernelForm& f) { return f.from_compute_capability() > capability; });
    if (below && above && Has(program, form.kernel())) return form.kernel();
  }
  return "";
}

// True if the program's products are in 8 bits on a device of this capability.
bool MultipliesIn8Bits(const Runtime& runtime, int capability, const Program& program) {
  const KernelForm* form = FormOf(runtime, MATMUL, capability);
  return form != nullptr && form->in_8_bits() && Has(program, Kernel_Name(MATMUL));
}

bool IsWide(DType compute) { return compute == FP64 || compute == FP32 || compute == TF32; }

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
  for (const KernelForm& form : runtime.kernels()) {
    if (!form.unsupported() || !IsFor(form, capability) || !Has(program, form.kernel())) continue;
    // If a later form is for this device, only the later form counts.
    Kernel kernel = KERNEL_UNSPECIFIED;
    if (!Kernel_Parse(form.kernel(), &kernel) || FormOf(runtime, kernel, capability) != &form) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("runtime ", Quoted(runtime.name()), " has no kernel for ", form.kernel(),
                     " on devices of compute capability ", CapabilitiesOf(form), "; ", Quoted(device.name()),
                     capability > 0 ? absl::StrCat(" has ", capability) : " states none"));
  }
  // The figures of a form with products in 8 bits are relative to products in 16 bits.
  const DType compute = program.precision().compute();
  if (IsWide(compute) && MultipliesIn8Bits(runtime, capability, program)) {
    return absl::FailedPreconditionError(
        absl::StrCat("precision.compute = ", DType_Name(compute), " in program ", Quoted(program.name()),
                     "; allowed for runtime ", Quoted(runtime.name()), ", which multiplies in 8 bits: BF16, FP16"));
  }
  return absl::OkStatus();
}

std::vector<std::string> NotesOnForms(const Runtime& runtime, const Device& device, const Program& program) {
  std::vector<std::string> notes;
  const int capability = device.compute_capability();
  if (MultipliesIn8Bits(runtime, capability, program)) {
    notes.push_back(
        absl::StrCat("runtime ", Quoted(runtime.name()),
                     " multiplies in 8 bits, but MFU, HFU and the lower bound of computation use the peak of ",
                     DType_Name(program.precision().compute()), ", which products in 8 bits can exceed"));
  }
  if (capability > 0) {
    const std::string kernel = KernelInAGap(runtime, capability, program);
    if (kernel.empty()) return notes;
    notes.push_back(absl::StrCat("runtime ", Quoted(runtime.name()), " has forms of ", kernel,
                                 " for compute capabilities below and above ", capability, ", that of ",
                                 Quoted(device.name()),
                                 ", but no form for it, so weft predicts the kernel without a form"));
    return notes;
  }
  for (const KernelForm& form : runtime.kernels()) {
    if (!form.unsupported() || IsFor(form, 0) || !Has(program, form.kernel())) continue;
    notes.push_back(
        absl::StrCat("runtime ", Quoted(runtime.name()), " has no kernel for ", form.kernel(),
                     " on devices of compute capability ", CapabilitiesOf(form), "; ", Quoted(device.name()),
                     " states none, so weft assumes a device with the kernel (set device.compute_capability)"));
    break;
  }
  return notes;
}

}  // namespace weft::sim
