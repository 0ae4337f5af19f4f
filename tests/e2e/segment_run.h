// Runs segments one after the other on a backend, without an executor.
#ifndef WEFT_TESTS_E2E_SEGMENT_RUN_H_
#define WEFT_TESTS_E2E_SEGMENT_RUN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "executor/interface/backend.h"
#include "gtest/gtest.h"
#include "proto/program.pb.h"

namespace weft {

// Bytes aligned as a backend expects. Fill them with garbage to expose reads before writes.
struct Bytes {
  Bytes(int64_t size, char fill) : storage(static_cast<size_t>(size) + 64, fill), size(size) {}
  char* data() {
    const auto address = reinterpret_cast<uintptr_t>(storage.data());
    return reinterpret_cast<char*>((address + 63) / 64 * 64);
  }
  std::vector<char> storage;
  int64_t size;
};

// Runs all steps of a segment on the memory of its operands. `context_of` gives the context of a step with these
// outputs.
inline void RunSegment(
    exec::Backend& backend, const Segment& segment, const std::vector<char*>& operands,
    absl::FunctionRef<exec::StepContext(const Step&, absl::Span<const exec::TensorView>)> context_of) {
  std::vector<exec::TensorView> values;
  for (const Value& value : segment.values()) {
    values.push_back({operands[value.operand()] + value.offset(), value.dtype(), absl::MakeConstSpan(value.shape())});
  }
  for (const Step& step : segment.steps()) {
    std::vector<exec::TensorView> inputs, outputs;
    for (const int input : step.inputs()) inputs.push_back(values[input]);
    for (const int output : step.outputs()) outputs.push_back(values[output]);
    const absl::Status status = backend.Run(step, inputs, outputs, context_of(step, outputs));
    ASSERT_TRUE(status.ok()) << segment.name() << " " << step.name() << ": " << status;
  }
}

}  // namespace weft

#endif  // WEFT_TESTS_E2E_SEGMENT_RUN_H_
