#include "compiler/export/segment_storage.h"

#include <memory>

#include "gtest/gtest.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

namespace weft {
namespace {

class SegmentStorageTest : public testing::Test {
 protected:
  SegmentStorageTest() { context_.loadDialect<ir::WeftDialect>(); }

  // True if the places of this segment were found.
  bool Find(const std::string& segment) {
    module_ = mlir::parseSourceString<mlir::ModuleOp>(segment, &context_);
    if (!module_) return false;
    found_ = std::make_unique<SegmentStorage>(*module_->getOps<ir::SegmentOp>().begin(), tensors_);
    return mlir::succeeded(found_->Run());
  }
  mlir::Value Result(size_t step, unsigned number = 0) { return found_->steps()[step]->getResult(number); }
  mlir::Value Operand(size_t step, unsigned number) { return found_->steps()[step]->getOperand(number); }

  mlir::MLIRContext context_{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  const std::vector<ir::TensorOp> tensors_;
  std::unique_ptr<SegmentStorage> found_;
};

TEST_F(SegmentStorageTest, TiedAndReturnedValuesLieInTheirOperands) {
  ASSERT_TRUE(Find(R"(
    weft.segment @s backward stage 0 (%x: tensor<4x4xf32> as <input>, %dy: tensor<4x4xf32> as <output_grad>,
                                      %g: tensor<4x4xf32> as <grad tensor 0>) -> (<grad tensor 0>) {
      %t = weft.add %x, %dy : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %0 = weft.matmul %t, %dy init %g {transpose_a}
          : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      weft.return %0 : tensor<4x4xf32>
    })"));
  EXPECT_EQ(found_->steps().size(), 2u);
  EXPECT_EQ(found_->places().size(), 4u);
  EXPECT_EQ(found_->IndexOf(Result(1)), found_->IndexOf(Operand(1, 2)));
  const Storage& gradient = found_->StorageOf(Result(1));
  EXPECT_EQ(gradient.role.getRole(), ir::Role::Grad);
  EXPECT_TRUE(gradient.read_first);
  EXPECT_TRUE(gradient.written);
  const Storage& sum = found_->StorageOf(Result(0));
  EXPECT_FALSE(sum.role);
  EXPECT_EQ(sum.first_step, 0);
  EXPECT_EQ(sum.last_step, 1);
  EXPECT_EQ(sum.bytes(), 64);
}

// 16 elements over three members make parts of 6, 18 in all. A scattered tensor ends in zeros; a gathered one need not.
TEST_F(SegmentStorageTest, PartsThatAreRoundedUpHaveRoom) {
  ASSERT_TRUE(Find(R"(
    weft.segment @s backward stage 0 (%x: tensor<4x4xf32> as <input>, %part: tensor<6xf32> as <param tensor 0>,
                                      %g: tensor<6xf32> as <grad tensor 0>) -> (<grad tensor 0>) {
      %w = weft.group_all_gather (%part) over {data = array<i64>} members 3 gather_weights "ring" {blocking}
          : (tensor<6xf32>) -> tensor<4x4xf32>
      %dw = weft.matmul %x, %w {transpose_a} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %0 = weft.group_reduce_scatter (%dw) init (%g) over {data = array<i64>} members 3 scatter_gradients "ring"
          {blocking} : (tensor<4x4xf32>, tensor<6xf32>) -> tensor<6xf32>
      weft.return %0 : tensor<6xf32>
    })"));
  EXPECT_TRUE(IsRoundedUp(found_->steps()[0], 0));
  EXPECT_TRUE(WholesOf(found_->steps()[1]).empty());
  const Storage& gathered = found_->StorageOf(Result(0));
  EXPECT_EQ(gathered.room, 18);
  EXPECT_EQ(gathered.bytes(), 72);
  EXPECT_FALSE(gathered.ends_in_zeros);
  const Storage& scattered = found_->StorageOf(Result(1));
  EXPECT_EQ(scattered.room, 18);
  EXPECT_TRUE(scattered.ends_in_zeros);
  // The elements take 64 bytes, a multiple of 64, so zeros begin where the elements end.
  EXPECT_EQ(scattered.zeros_from(), 64);
  EXPECT_EQ(found_->StorageOf(Result(2)).room, 0);
}

TEST_F(SegmentStorageTest, ZerosBeginWhereValuesMay) {
  ASSERT_TRUE(Find(R"(
    weft.segment @s backward stage 0 (%x: tensor<5x5xf32> as <input>, %g: tensor<9xf32> as <grad tensor 0>)
        -> (<grad tensor 0>) {
      %dw = weft.matmul %x, %x {transpose_a} : (tensor<5x5xf32>, tensor<5x5xf32>) -> tensor<5x5xf32>
      %0 = weft.group_reduce_scatter (%dw) init (%g) over {data = array<i64>} members 3 scatter_gradients "ring"
          {blocking} : (tensor<5x5xf32>, tensor<9xf32>) -> tensor<9xf32>
      weft.return %0 : tensor<9xf32>
    })"));
  // The elements take 100 bytes; there is room for 27 elements.
  EXPECT_EQ(found_->StorageOf(Result(0)).zeros_from(), 64);
  EXPECT_EQ(found_->StorageOf(Result(0)).bytes(), 108);
}

}  // namespace
}  // namespace weft
