// Steps that are bound by memory traffic, at sizes that fit into no cache. They measure the kernels of the CUDA
// backend.
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
  // For INT32: values are below this bound, and the first `below` of them are all different. Elements of other types
  // are 1.
  int64_t below = 0;

  int64_t Elements() const;
  int64_t Bytes() const;
};

// One of the steps of a launch. `in` and `out` are indices into the case's inputs followed by its outputs.
struct BandwidthStep {
  Step step;
  std::vector<int> in, out;
};

struct BandwidthCase {
  // Kernel and types, and the columns if they are special, e.g. "RMS_NORM bf16 of 1024".
  std::string name;
  Step step;
  // Steps that run as one launch (Backend::PrepareRun); `step` is the first of them. Empty if the case is a single
  // step.
  std::vector<BandwidthStep> launch;
  std::vector<BandwidthOperand> in, out;
  // Output i has the memory of input `in_place[i]`; -1 = memory of its own.
  std::vector<int> in_place;
  StepContext context;
  // Bytes beyond one access per operand: added for operands both read and written, subtracted for parts that are not
  // accessed.
  int64_t other_bytes = 0;

  // Bytes that the case must read and write: each operand once, and `other_bytes`.
  int64_t Bytes() const;
};

// Returns cases for activations of rows x columns in bf16. `columns` must be a multiple of 128. `rows` must be a
// multiple of 256, and of `columns` for ATTENTION_SOFTMAX, whose sequences are that long. The cases include launches of
// a norm with its sums over rows if such launches exist for this number of columns (kernels/norm.h).
std::vector<BandwidthCase> BandwidthCases(int64_t rows, int64_t columns, int64_t vocabulary);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_BANDWIDTH_CASES_H_
