#include "executor/calibrate/calibrate_kernels.h"

#include <set>
#include <utility>

#include "gtest/gtest.h"
#include "kernels/check_alone.h"
#include "kernels/traits.h"
#include "proto/program.pb.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

class KernelFamiliesTest : public testing::TestWithParam<const CalibrationShapes*> {};
INSTANTIATE_TEST_SUITE_P(Shapes, KernelFamiliesTest, testing::Values(&SmallShapes(), &LargeShapes()));

TEST_P(KernelFamiliesTest, SizesAscendInTheirWork) {
  for (const KernelFamily& family : KernelFamilies(*GetParam())) {
    ASSERT_FALSE(family.sizes.empty()) << Kernel_Name(family.kernel);
    double before = 0;
    for (const auto& size : family.sizes) {
      ASSERT_FALSE(size.empty());
      for (const KernelCase& kernel : size) {
        EXPECT_EQ(kernel.step.kernel(), family.kernel);
        EXPECT_GT(family.by_flops ? kernel.flops : kernel.bytes, before) << Kernel_Name(family.kernel);
      }
      before = family.by_flops ? size[0].flops : size[0].bytes;
    }
  }
}

// Every step that is measured could occur in a Program.
TEST_P(KernelFamiliesTest, CasesFitTheirRows) {
  for (const KernelFamily& family : KernelFamilies(*GetParam())) {
    for (const auto& size : family.sizes) {
      for (const KernelCase& kernel : size) {
        std::vector<kernels::StepTensor> in, out;
        for (const CaseTensor& tensor : kernel.inputs) in.push_back({"in", tensor.dtype, tensor.shape});
        for (const CaseTensor& tensor : kernel.outputs) out.push_back({"out", tensor.dtype, tensor.shape});
        EXPECT_EQ(kernels::CheckAlone(kernel.step, in, out), "") << Kernel_Name(family.kernel);
      }
    }
  }
}

// A step reads or writes each of its tensors once. A tensor that it adds to counts twice, because the step reads and
// writes it. An embedding reads only the rows of its table that the tokens select.
TEST_P(KernelFamiliesTest, BytesAreThoseOfTheTensors) {
  const auto bytes_of = [](const CaseTensor& tensor) {
    return static_cast<double>(*ElementCount(tensor.shape) * DTypeBytes(tensor.dtype));
  };
  for (const KernelFamily& family : KernelFamilies(*GetParam())) {
    for (const auto& size : family.sizes) {
      for (const KernelCase& kernel : size) {
        double bytes = 0;
        for (const CaseTensor& tensor : kernel.inputs) bytes += bytes_of(tensor);
        for (const CaseTensor& tensor : kernel.outputs)
          bytes += bytes_of(tensor) * (kernels::AddsToOutput(kernel.step, 0) ? 2 : 1);
        if (family.kernel == EMBEDDING) bytes += bytes_of(kernel.outputs[0]) - bytes_of(kernel.inputs[1]);
        EXPECT_EQ(kernel.bytes, bytes) << Kernel_Name(family.kernel);
      }
    }
  }
}

// C[m,n] = op(A) op(B) takes 2 m n k flops, whichever factor is transposed, and the shapes match.
TEST_P(KernelFamiliesTest, ProductsAreOfTheirShapes) {
  int products = 0;
  for (const KernelFamily& family : KernelFamilies(*GetParam())) {
    if (family.kernel != MATMUL) continue;
    EXPECT_TRUE(family.by_flops);
    for (const auto& size : family.sizes) {
      ASSERT_EQ(size.size(), 3u);
      for (const KernelCase& kernel : size) {
        const bool ta = kernel.step.attributes().transpose_a(), tb = kernel.step.attributes().transpose_b();
        const auto &a = kernel.inputs[0].shape, &b = kernel.inputs[1].shape, &c = kernel.outputs[0].shape;
        EXPECT_EQ(a[ta ? 1 : 0], c[0]);
        EXPECT_EQ(b[tb ? 0 : 1], c[1]);
        EXPECT_EQ(a[ta ? 0 : 1], b[tb ? 1 : 0]);
        EXPECT_EQ(kernel.flops, 2.0 * c[0] * c[1] * a[ta ? 0 : 1]);
        ++products;
      }
    }
  }
  EXPECT_GE(products, 3 * 6);
}

// A rate is identified by kernel and dtype, so each pair occurs once.
TEST_P(KernelFamiliesTest, EachIsThereOnce) {
  std::set<std::pair<Kernel, DType>> seen;
  for (const KernelFamily& family : KernelFamilies(*GetParam())) {
    EXPECT_TRUE(seen.insert({family.kernel, family.dtype}).second) << Kernel_Name(family.kernel);
  }
}

// On GPUs, TF32 products are measured like products in half precision. On CPU cores, only their peak is measured.
TEST(KernelFamilies, ProductsInTf32AreOfFactorsInFp32) {
  for (const CalibrationShapes* shapes : {&SmallShapes(), &LargeShapes()}) {
    int families = 0;
    for (const KernelFamily& family : KernelFamilies(*shapes)) {
      if (family.dtype == TF32) {
        ++families;
        EXPECT_EQ(family.kernel, MATMUL);
        EXPECT_EQ(family.peak_only, shapes == &SmallShapes());
        EXPECT_EQ(family.sizes.size(), family.peak_only ? 1 : shapes->products.size());
      }
      for (const auto& size : family.sizes) {
        for (const KernelCase& kernel : size) {
          EXPECT_EQ(kernel.step.attributes().tf32(), family.dtype == TF32);
          for (const CaseTensor& tensor : kernel.inputs) EXPECT_NE(tensor.dtype, TF32);
          if (family.dtype == TF32) {
            EXPECT_EQ(kernel.inputs[0].dtype, FP32);
            EXPECT_EQ(kernel.outputs[0].dtype, FP32);
          }
        }
      }
    }
    EXPECT_EQ(families, 1);
  }
}

}  // namespace
}  // namespace weft::exec
