#include "kernels/shape.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/row.h"
#include "kernels/step_view.h"

namespace weft::kernels {
namespace {

TEST(ShapeTest, ReadsText) {
  constexpr Shape any("..."), like("=x"), dims("@[rows,3*heads*h]"), swapped("[m,k]^transpose_a"),
      sum("[n+2,d/groups]");
  EXPECT_EQ(any.kind, Shape::Kind::kAny);
  EXPECT_EQ(like.kind, Shape::Kind::kLike);
  EXPECT_STREQ(like.like, "x");
  EXPECT_TRUE(dims.first);
  ASSERT_EQ(dims.dims.size(), 2u);
  ASSERT_EQ(dims.dims[1].terms.size(), 1u);
  ASSERT_EQ(dims.dims[1].terms[0].factors.size(), 3u);
  EXPECT_EQ(dims.dims[1].terms[0].factors[0].number, 3);
  EXPECT_EQ(dims.dims[1].terms[0].factors[1].symbol, Symbol::heads);
  EXPECT_EQ(swapped.swapped_by, Symbol::transpose_a);
  EXPECT_FALSE(swapped.first);
  EXPECT_EQ(sum.dims[0].terms.size(), 2u);
  EXPECT_TRUE(sum.dims[1].terms[0].factors[1].divides);
  EXPECT_EQ(Shape("[]").dims.size(), 0u);
}

struct Tensor {
  std::vector<int64_t> shape;
};

// Checks one step of a row without a program, and returns the faults.
std::string FaultsOf(const KernelRow& row, const StepAttributes& attributes, const std::vector<Tensor>& in,
                     const std::vector<Tensor>& out) {
  Step step;
  step.set_kernel(row.kernel);
  *step.mutable_attributes() = attributes;
  std::vector<StepTensor> inputs, outputs;
  for (const Tensor& tensor : in) inputs.push_back({"in", FP32, tensor.shape});
  for (const Tensor& tensor : out) outputs.push_back({"out", FP32, tensor.shape});
  std::string faults;
  const auto report = [&](const char* rule, std::string message) { faults += message + "\n"; };
  StepView(row, step, inputs, outputs, nullptr, report).Check();
  return faults;
}

constexpr KernelRow kProduct = {.kernel = MATMUL,
                                .inputs = {{"a", "[m,k]^transpose_a"}, {"b", "[k,n]"}},
                                .outputs = {{"y", "[m,n]"}},
                                .attributes = {Any("transpose_a")}};
constexpr KernelRow kHeads = {.kernel = ATTENTION,
                              .inputs = {{"qkv", "[rows,3*heads*h]"}},
                              .outputs = {{"y", "[rows,heads*h]"}},
                              .attributes = {From("heads", 1, "at least 1")}};
constexpr KernelRow kLike = {.kernel = ADD, .inputs = {{"a", "=b"}, {"b", "..."}}, .outputs = {{"y", "=a"}}};

TEST(ShapeTest, BindsVariables) {
  EXPECT_EQ(FaultsOf(kProduct, {}, {{{2, 3}}, {{3, 4}}}, {{{2, 4}}}), "");
  EXPECT_EQ(FaultsOf(kProduct, {}, {{{2, 3}}, {{4, 4}}}, {{{2, 4}}}), "value 'in' fp32 [4,4] must have shape [3,4]\n");
  EXPECT_EQ(FaultsOf(kProduct, {}, {{{2, 3}}, {{3, 4}}}, {{{2, 5}}}), "value 'out' fp32 [2,5] must have shape [2,4]\n");
  EXPECT_EQ(FaultsOf(kProduct, {}, {{{2}}, {{3, 4}}}, {{{2, 4}}}), "value 'in' fp32 [2] must have 2 dimensions\n");
}

TEST(ShapeTest, SwapsDims) {
  StepAttributes transposed;
  transposed.set_transpose_a(true);
  EXPECT_EQ(FaultsOf(kProduct, transposed, {{{3, 2}}, {{3, 4}}}, {{{2, 4}}}), "");
  EXPECT_NE(FaultsOf(kProduct, transposed, {{{2, 3}}, {{3, 4}}}, {{{2, 4}}}), "");
}

TEST(ShapeTest, DividesProducts) {
  StepAttributes heads;
  heads.set_heads(5);
  EXPECT_EQ(FaultsOf(kHeads, heads, {{{2, 30}}}, {{{2, 10}}}), "");
  EXPECT_EQ(FaultsOf(kHeads, heads, {{{2, 31}}}, {{{2, 10}}}).substr(0, 68),
            "columns of 'in' fp32 [2,31] must be a multiple of 3 x 5 heads\n");
  heads.set_heads(0);  // A refused attribute is reported once; shapes that name it are skipped.
  EXPECT_EQ(FaultsOf(kHeads, heads, {{{2, 31}}}, {{{2, 10}}}), "heads is 0; it must be at least 1\n");
}

TEST(ShapeTest, ComparesWithOtherOperands) {
  EXPECT_EQ(FaultsOf(kLike, {}, {{{2, 3}}, {{2, 3}}}, {{{2, 3}}}), "");
  EXPECT_EQ(FaultsOf(kLike, {}, {{{2, 3}}, {{2, 3}}}, {{{3, 2}}}),
            "value 'out' fp32 [3,2] must have the shape of 'in' fp32 [2,3]\n");
}

}  // namespace
}  // namespace weft::kernels
