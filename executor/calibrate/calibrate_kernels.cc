#include "executor/calibrate/calibrate_kernels.h"

#include <algorithm>
#include <utility>

#include "kernels/traits.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

using Shapes = CalibrationShapes;

double Bytes(const CaseTensor& tensor) {
  return static_cast<double>(ElementCount(tensor.shape).value_or(0) * DTypeBytes(tensor.dtype));
}

KernelCase Case(Kernel kernel, std::vector<CaseTensor> inputs, std::vector<CaseTensor> outputs) {
  KernelCase result;
  result.step.set_name(Kernel_Name(kernel));
  result.step.set_kernel(kernel);
  for (const CaseTensor& tensor : inputs) result.bytes += Bytes(tensor);
  for (const CaseTensor& tensor : outputs) result.bytes += Bytes(tensor);
  result.inputs = std::move(inputs);
  result.outputs = std::move(outputs);
  return result;
}

// Makes the kernel add to its outputs. It then also reads them, so it moves more bytes.
KernelCase Accumulating(KernelCase kernel) {
  kernel.step.set_accumulate(true);
  for (const CaseTensor& tensor : kernel.outputs) kernel.bytes += Bytes(tensor);
  return kernel;
}

// Returns the three products C[m,n] = op(A) op(B) of a linear layer that maps [rows, in] to [rows, out]: the forward,
// the input gradient and the weight gradient. TF32 uses factors in fp32.
std::vector<KernelCase> LinearLayer(DType of_products, int64_t rows, int64_t in, int64_t out) {
  const double flops = 2.0 * rows * in * out;
  const DType dtype = of_products == TF32 ? FP32 : of_products;
  std::vector<KernelCase> cases;
  cases.push_back(Case(MATMUL, {{dtype, {rows, in}}, {dtype, {in, out}}, {dtype, {out}}}, {{dtype, {rows, out}}}));
  cases.push_back(Case(MATMUL, {{dtype, {rows, out}}, {dtype, {in, out}}}, {{dtype, {rows, in}}}));
  cases.back().step.mutable_attributes()->set_transpose_b(true);
  cases.push_back(Accumulating(Case(MATMUL, {{dtype, {rows, in}}, {dtype, {rows, out}}}, {{dtype, {in, out}}})));
  cases.back().step.mutable_attributes()->set_transpose_a(true);
  for (KernelCase& kernel : cases) {
    kernel.flops = flops;
    kernel.step.mutable_attributes()->set_tf32(of_products == TF32);
  }
  return cases;
}

KernelCase SampleOf(const Shapes& shapes, Kernel kernel, Shapes::Extent e, DType dtype) {
  const kernels::SampleSizes sizes = {.rows = e.rows,
                                      .d = e.d,
                                      .vocabulary = shapes.vocabulary,
                                      .sequence = shapes.sequence,
                                      .head_size = shapes.head_size,
                                      // A kernel that reads only norms gets enough of them for its time to be
                                      // measurable.
                                      .tensors = kernel == NORM_TOTAL ? e.rows / 8 : 8,
                                      .dtype = dtype};
  kernels::Sample sample = kernels::MakeSample(kernels::RowOf(kernel), sizes);
  return {.step = std::move(sample.step),
          .inputs = std::move(sample.in),
          .outputs = std::move(sample.out),
          .flops = sample.flops,
          .bytes = sample.bytes};
}

void SetType(KernelCase& kernel, CaseTensor& tensor, DType dtype) {
  kernel.bytes -= Bytes(tensor);
  tensor.dtype = dtype;
  kernel.bytes += Bytes(tensor);
}

// Returns the dtype of a kernel's work as the compiler defines it: the type of the first floating-point input, else of
// the first output.
DType DTypeOfWork(const KernelCase& kernel) {
  for (const CaseTensor& tensor : kernel.inputs) {
    if (tensor.dtype == FP64 || tensor.dtype == FP32 || tensor.dtype == BF16 || tensor.dtype == FP16) {
      return tensor.dtype;
    }
  }
  return kernel.outputs[0].dtype;
}

// Adds every product in `shapes.dtype` and in each of `shapes.product_dtypes`, then the products that are measured for
// peaks only.
void AddProducts(const Shapes& shapes, std::vector<KernelFamily>* families) {
  std::vector<DType> dtypes = {shapes.dtype};
  dtypes.insert(dtypes.end(), shapes.product_dtypes.begin(), shapes.product_dtypes.end());
  for (const DType dtype : dtypes) {
    KernelFamily& family = families->emplace_back(KernelFamily{.kernel = MATMUL, .dtype = dtype, .by_flops = true});
    for (const auto& [rows, in, out] : shapes.products) family.sizes.push_back(LinearLayer(dtype, rows, in, out));
  }
  const auto& [rows, in, out] = shapes.peak_product;
  for (const DType dtype : shapes.peaks) {
    families->push_back({.kernel = MATMUL,
                         .dtype = dtype,
                         .by_flops = true,
                         .peak_only = true,
                         .sizes = {LinearLayer(dtype, rows, in, out)}});
  }
}

void AddSamples(const Shapes& shapes, Kernel kernel, DType dtype, std::vector<KernelFamily>* families) {
  const bool by_flops = kernels::RowOf(kernel).work == kernels::WorkKind::kAttention;
  KernelFamily& family = families->emplace_back(KernelFamily{.kernel = kernel, .by_flops = by_flops});
  for (const Shapes::Extent& extent : by_flops ? shapes.attention : shapes.elementwise) {
    KernelCase sample = SampleOf(shapes, kernel, extent, kernel == CAST ? FP32 : dtype);
    if (kernel == CAST) SetType(sample, sample.outputs[0], BF16);
    family.sizes.push_back({std::move(sample)});
  }
  family.dtype = DTypeOfWork(family.sizes[0][0]);
}

}  // namespace

const CalibrationShapes& SmallShapes() {
  static const CalibrationShapes shapes = {
      .dtype = FP32,
      // The vocabulary of byte tokens.
      .vocabulary = 256,
      .sequence = 128,
      .head_size = 32,
      .products = {{64, 64, 64}, {128, 64, 256}, {128, 128, 512}, {256, 256, 1024}, {512, 512, 2048}},
      .product_dtypes = {},
      .peak_product = {256, 256, 1024},
      .peaks = {FP64, BF16, FP16, TF32},
      .attention = {{128, 64}, {256, 128}, {1024, 256}},
      // 128 KiB, 1 MiB, 8 MiB per tensor.
      .elementwise = {{256, 128}, {1024, 256}, {4096, 512}},
      .turn_bytes = 16 << 20,
  };
  return shapes;
}

const CalibrationShapes& LargeShapes() {
  static const CalibrationShapes shapes = {
      .dtype = BF16,
      .vocabulary = 50304,
      .sequence = 1024,
      .head_size = 128,
      // Layers of GPT-2 124M, 1.5B, Qwen2.5 3B, Llama 8B (attention and feed-forward).
      .products = {{1024, 768, 768}, {4096, 768, 3072}, {8192, 1600, 6400}, {8192, 2048, 11008}, {8192, 4096, 14336}},
      .product_dtypes = {TF32},
      .peak_product = {8192, 4096, 4096},
      .peaks = {FP32, FP16},
      .attention = {{2048, 1024}, {8192, 2048}, {16384, 4096}},
      // 2 MiB, 32 MiB, 128 MiB per tensor.
      .elementwise = {{1024, 1024}, {8192, 2048}, {16384, 4096}},
      // More bytes than the second-level cache of a GPU holds.
      .turn_bytes = 512 << 20,
  };
  return shapes;
}

std::vector<KernelFamily> KernelFamilies(const CalibrationShapes& shapes) {
  std::vector<KernelFamily> families;
  for (int k = KERNEL_UNSPECIFIED + 1; k < Kernel_ARRAYSIZE; ++k) {
    const Kernel kernel = static_cast<Kernel>(k);
    const kernels::KernelRow* row = kernels::FindRow(kernel);
    if (row == nullptr || !row->calibrated) continue;
    if (kernel == MATMUL) {
      AddProducts(shapes, &families);
      continue;
    }
    AddSamples(shapes, kernel, shapes.dtype, &families);
    // Gradients are cleared and added in fp32, whatever type the activations have.
    if ((kernel == FILL || kernel == ADD) && shapes.dtype != FP32) AddSamples(shapes, kernel, FP32, &families);
    // These kernels read gradients in bf16 directly.
    if ((kernel == ADAMW || kernel == SQUARED_NORM) && shapes.dtype == BF16) {
      KernelFamily halves = families.back();
      halves.dtype = BF16;
      for (std::vector<KernelCase>& size : halves.sizes) SetType(size[0], size[0].inputs[0], BF16);
      families.push_back(std::move(halves));
    }
  }
  return families;
}

KernelCase SmallestStep() { return Case(FILL, {}, {{FP32, {1}}}); }

}  // namespace weft::exec
