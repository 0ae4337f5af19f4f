#include "executor/calibrate/calibrate_program.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/extents.h"
#include "kernels/kernel_key.h"
#include "proto/util/status.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

// True for a kernel that loads images. Calibration's data source has only tokens, so such a kernel cannot be measured.
bool ReadsImages(Kernel kernel) {
  const kernels::KernelRow& row = kernels::RowOf(kernel);
  return row.family == kernels::Family::kLoad && !row.calibrated;
}

CaseTensor TensorOf(const Value& value) {
  return {value.dtype(), std::vector<int64_t>(value.shape().begin(), value.shape().end())};
}

// The index of the input whose memory the output overwrites; -1 = none.
int InPlaceOf(const Segment& segment, const Step& step, int output) {
  const Value& out = segment.values(step.outputs(output));
  for (int i = 0; i < step.inputs_size(); ++i) {
    const Value& in = segment.values(step.inputs(i));
    const bool same =
        step.inputs(i) == step.outputs(output) || (in.operand() == out.operand() && in.offset() == out.offset());
    if (same && in.dtype() == out.dtype() &&
        std::equal(in.shape().begin(), in.shape().end(), out.shape().begin(), out.shape().end())) {
      return i;
    }
  }
  return -1;
}

// Rows of the table that tokens point into; 0 = the step has no table.
int64_t VocabularyOf(const Segment& segment, const Step& step) {
  if (step.attributes().vocabulary() > 0) return step.attributes().vocabulary();
  return kernels::ExtentsOf(segment, step)[kernels::Symbol::V];
}

KernelCase CaseOf(const Program& program, const Segment& segment, const Step& step) {
  KernelCase result;
  result.step = step;
  result.flops = static_cast<double>(step.work().flops());
  result.bytes = static_cast<double>(step.work().bytes());
  for (const int value : step.inputs()) result.inputs.push_back(TensorOf(segment.values(value)));
  for (int i = 0; i < step.outputs_size(); ++i) {
    result.outputs.push_back(TensorOf(segment.values(step.outputs(i))));
    result.in_place.push_back(InPlaceOf(segment, step, i));
  }
  result.vocabulary = VocabularyOf(segment, step);
  result.sequence = std::max<int64_t>(1, program.recipe().sequence_length());
  return result;
}

}  // namespace

std::vector<ProgramCase> CasesOf(absl::Span<const Program* const> programs) {
  std::vector<ProgramCase> cases;
  std::set<std::pair<std::string, DType>> seen;
  for (const Program* program : programs) {
    for (const Segment& segment : program->segments()) {
      for (const Step& step : segment.steps()) {
        if (step.stream() != COMPUTE || ReadsImages(step.kernel())) continue;
        std::string key = kernels::KernelKey(segment, step);
        if (!seen.insert({key, step.work().dtype()}).second) continue;
        cases.push_back({std::move(key), CaseOf(*program, segment, step)});
      }
    }
  }
  std::stable_sort(cases.begin(), cases.end(),
                   [](const ProgramCase& a, const ProgramCase& b) { return a.kernel.bytes > b.kernel.bytes; });
  return cases;
}

absl::Status MeasureCases(const std::vector<ProgramCase>& cases, const MeasureKernels& measure, Device* device,
                          std::vector<std::string>* left_out) {
  int64_t begun = 0;
  for (const ProgramCase& one : cases) {
    if (measure.on_progress) {
      measure.on_progress(absl::StrCat("steps of programs ", ++begun, " of ", cases.size(), ": ", one.key));
    }
    const absl::StatusOr<double> seconds = measure.seconds(one.kernel);
    if (absl::IsResourceExhausted(seconds.status()) || absl::IsInvalidArgument(seconds.status()) ||
        absl::IsUnimplemented(seconds.status())) {
      left_out->push_back(absl::StrCat(one.key, " is not measured: ", seconds.status().message()));
      continue;
    }
    if (!seconds.ok()) {
      return absl::Status(seconds.status().code(), absl::StrCat(one.key, ": ", seconds.status().message()));
    }
    const double all = *seconds + (measure.besides ? measure.besides(*seconds) : 0);
    KernelRate* row = device->add_kernel_rates();
    row->set_kernel(one.key);
    row->set_dtype(one.kernel.step.work().dtype());
    if (one.kernel.flops > 0) {
      row->set_flops_per_second(one.kernel.flops / all);
    } else if (one.kernel.bytes > 0) {
      row->set_bytes_per_second(one.kernel.bytes / all);
    } else {
      row->set_overhead_seconds(all);
    }
  }
  return absl::OkStatus();
}

}  // namespace weft::exec
