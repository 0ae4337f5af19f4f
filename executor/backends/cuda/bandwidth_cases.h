// Steps whose time is that of their memory traffic, at sizes that no cache holds: what the kernels of the CUDA backend
// are measured by.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_BANDWIDTH_CASES_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_BANDWIDTH_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "executor/interface/backend.h"
#include "proto/program.pb.h"

namespace weft::exec::cuda {

struct BandwidthOperand {
  DType dtype = DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  // Of INT32: values are below it, and all different if there are so many; else all are 1.
  int64_t below = 0;

  int64_t Elements() const;
  int64_t Bytes() const;
};

// One of several steps, with its operands by their numbers in the case: inputs, then outputs.
struct BandwidthStep {
  Step step;
  std::vector<int> in, out;
};

struct BandwidthCase {
  // Kernel and types, e.g. "RMS_NORM bf16 of 1024": columns.
  std::string name;
  Step step;
  // If any: steps that run as one launch (Backend::PrepareRun), `step` the first of them.
  std::vector<BandwidthStep> launch;
  std::vector<BandwidthOperand> in, out;
  // Output i is input `in_place[i]`, -1: it is not.
  std::vector<int> in_place;
  StepContext context;
  // Of operands that are read and written; less those of which only a part is.
  int64_t other_bytes = 0;

  // That must be read and written: each operand once, and `other_bytes`.
  int64_t Bytes() const;
};

// For activations of rows x columns in bf16; `columns` is a multiple of 128, `rows` of 256, and of `columns` for
// ATTENTION_SOFTMAX, whose sequences are that long. Launches of a norm with its sums over rows are among them if there
// are any of so many columns (kernels/norm.h).
std::vector<BandwidthCase> BandwidthCases(int64_t rows, int64_t columns, int64_t vocabulary);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_BANDWIDTH_CASES_H_
