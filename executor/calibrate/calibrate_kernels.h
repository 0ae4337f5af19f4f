// The kernels that calibration measures, and their shapes. Internal to calibration.
#ifndef WEFT_EXECUTOR_CALIBRATE_CALIBRATE_KERNELS_H_
#define WEFT_EXECUTOR_CALIBRATE_CALIBRATE_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/sample.h"
#include "proto/program.pb.h"

namespace weft::exec {

using CaseTensor = kernels::SampleTensor;

// One step with its own tensors. `flops` and `bytes` are counted as the compiler counts a step's work.
struct KernelCase {
  Step step;
  std::vector<CaseTensor> inputs;
  std::vector<CaseTensor> outputs;
  double flops = 0;
  double bytes = 0;
  // For each output, the index of the input that it overwrites; -1 = none. If empty, only optimizers work in place.
  std::vector<int> in_place = {};
  // Tokens are below `vocabulary`, and a sequence has `sequence` tokens; 0 = as in the shapes of the machine.
  int64_t vocabulary = 0;
  int64_t sequence = 0;
};

// The shapes of the cases that are measured on one kind of machine.
struct CalibrationShapes {
  // Rows and columns of activations.
  struct Extent {
    int64_t rows = 0, d = 0;
  };
  struct Linear {
    int64_t rows = 0, in = 0, out = 0;
  };
  // Type of activations and weights. Losses, statistics and optimizer states have their own types.
  DType dtype = FP32;
  int64_t vocabulary = 0;
  int64_t sequence = 0;
  int64_t head_size = 0;
  // The products to measure, in ascending order of size.
  std::vector<Linear> products;
  // Further dtypes whose products are measured. TF32 uses factors stored in FP32.
  std::vector<DType> product_dtypes;
  // The product on which the peaks of the dtypes in `peaks` are measured. No other product is measured in these dtypes.
  Linear peak_product;
  std::vector<DType> peaks;
  std::vector<Extent> attention;
  // Extents of the cases of kernels that are bound by memory.
  std::vector<Extent> elementwise;
  // Calls use several copies of a case's tensors in turn, so that caches hold no data of the previous call. There are 1
  // to 32 copies, about this many bytes together.
  double turn_bytes = 0;
};
// SmallShapes: small GPT models in fp32, on CPU cores. LargeShapes: layers of models with 0.1 to 8 billion parameters
// in bf16, on GPUs.
const CalibrationShapes& SmallShapes();
const CalibrationShapes& LargeShapes();

struct KernelFamily {
  Kernel kernel = KERNEL_UNSPECIFIED;
  // Type of Step.work: the type of the first floating-point input, else of the first output.
  DType dtype = FP32;
  bool by_flops = false;
  // Measured for the device's peaks only.
  bool peak_only = false;
  // The sizes to measure, ascending. Each size has one or more variants, which count as equally frequent.
  std::vector<std::vector<KernelCase>> sizes = {};
};

// Every kernel that the kernel table marks as calibrated (KernelRow::calibrated), in the order of program.proto.
std::vector<KernelFamily> KernelFamilies(const CalibrationShapes& shapes);

// The smallest possible step. Its time is the cost of starting a step.
KernelCase SmallestStep();

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CALIBRATE_CALIBRATE_KERNELS_H_
