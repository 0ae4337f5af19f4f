// Which kernels are measured on which shapes. Internal to calibration.
#ifndef WEFT_EXECUTOR_CALIBRATE_CALIBRATE_KERNELS_H_
#define WEFT_EXECUTOR_CALIBRATE_CALIBRATE_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/program.pb.h"

namespace weft::exec {

struct CaseTensor {
  DType dtype = FP32;
  std::vector<int64_t> shape;
};

// One step with tensors of its own. `flops` and `bytes` are counted as the compiler counts a step's work.
struct KernelCase {
  Step step;
  std::vector<CaseTensor> inputs;
  std::vector<CaseTensor> outputs;
  double flops = 0;
  double bytes = 0;
  // Of each output the input that it replaces, -1 for none; empty: optimizers work in place, nothing else does.
  std::vector<int> in_place = {};
  // Tokens are below it, and so many of them are a sequence; 0 = as the shapes of the machine say.
  int64_t vocabulary = 0;
  int64_t sequence = 0;
};

// What the cases of a machine are like.
struct CalibrationShapes {
  // Rows and columns of activations.
  struct Extent {
    int64_t rows = 0, d = 0;
  };
  struct Linear {
    int64_t rows = 0, in = 0, out = 0;
  };
  // Of activations and weights; losses, statistics and optimizer states have theirs.
  DType dtype = FP32;
  int64_t vocabulary = 0;
  int64_t sequence = 0;
  int64_t head_size = 0;
  // Ascending.
  std::vector<Linear> products;
  // Dtypes of which products are measured besides; TF32 is of factors stored in FP32.
  std::vector<DType> product_dtypes;
  // Dtypes of which only the peak is measured, on this product.
  Linear peak_product;
  std::vector<DType> peaks;
  std::vector<Extent> attention;
  // Of kernels bound by memory.
  std::vector<Extent> elementwise;
  // Copies of a case's tensors take turns until they are so many bytes together, at most 32.
  double turn_bytes = 0;
};
// Small GPT models in fp32, on cores; and layers of 0.1 to 8 billion parameters in bf16, on GPUs.
const CalibrationShapes& SmallShapes();
const CalibrationShapes& LargeShapes();

struct KernelFamily {
  Kernel kernel = KERNEL_UNSPECIFIED;
  // Of Step.work: that of the first floating-point input, else of the first output.
  DType dtype = FP32;
  bool by_flops = false;
  // Measured for the device's peaks only.
  bool peak_only = false;
  // Ascending; each size has one or more variants that occur equally often.
  std::vector<std::vector<KernelCase>> sizes;
};

// Whether a kernel can be measured by itself, as all can but those that work on parts of split tensors.
bool HasCases(const CalibrationShapes& shapes, Kernel kernel);

// Every kernel of program.proto that can, in its order.
std::vector<KernelFamily> KernelFamilies(const CalibrationShapes& shapes);

// The smallest step there is: what is left is the cost of starting one.
KernelCase SmallestStep();

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_CALIBRATE_CALIBRATE_KERNELS_H_
