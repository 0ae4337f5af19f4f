// Which kernels are measured on which shapes. Internal to calibration.
#ifndef WEFT_EXECUTOR_CALIBRATE_KERNELS_H_
#define WEFT_EXECUTOR_CALIBRATE_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "executor/backend.h"
#include "executor/data.h"
#include "proto/program.pb.h"

namespace weft {

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
};

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
bool HasCases(Kernel kernel);

// Every kernel of program.proto that can, in its order, on shapes of small GPT models.
std::vector<KernelFamily> KernelFamilies();

// The smallest step there is: what is left is the cost of starting one.
KernelCase SmallestStep();

// Memory for a case: several copies of its tensors, 16 MiB of them if that many fit into 32 copies.
class KernelBuffers {
 public:
  struct Copy {
    std::vector<TensorView> inputs;
    std::vector<TensorView> outputs;
  };
  // `kernel` must outlive this.
  explicit KernelBuffers(const KernelCase& kernel);

  const Copy& Next() { return copies_[next_++ % copies_.size()]; }
  const StepContext& context() const { return context_; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  TensorView Allocate(const CaseTensor& tensor, uint32_t* random);

  std::vector<std::unique_ptr<void, Free>> memory_;
  std::vector<Copy> copies_;
  size_t next_ = 0;
  StepContext context_;
  std::unique_ptr<DataSource> data_;
};

}  // namespace weft

#endif  // WEFT_EXECUTOR_CALIBRATE_KERNELS_H_
