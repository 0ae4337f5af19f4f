// Makes sample steps from rows, for calibration, bandwidth figures and tests.
#ifndef WEFT_KERNELS_SAMPLE_H_
#define WEFT_KERNELS_SAMPLE_H_

#include <cstdint>
#include <vector>

#include "kernels/row.h"

namespace weft::kernels {

struct SampleSizes {
  int64_t rows = 0, d = 0;  // Extents of activations.
  int64_t vocabulary = 0, sequence = 0, head_size = 0;
  int64_t tensors = 8;  // Number of tensors whose norms one step reads.
  DType dtype = FP32;   // The dtype of activations; gradients and states are in FP32.
};

struct SampleTensor {
  DType dtype = FP32;
  std::vector<int64_t> shape;
};

struct Sample {
  Step step;
  std::vector<SampleTensor> in, out;
  // The step's flops and bytes, as the compiler counts them.
  double flops = 0, bytes = 0;
};

// Makes a step with all required operands and no optional ones. Gradients of weights accumulate.
Sample MakeSample(const KernelRow& row, const SampleSizes& sizes);

}  // namespace weft::kernels

#endif  // WEFT_KERNELS_SAMPLE_H_
