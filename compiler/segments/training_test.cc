#include "compiler/segments/training.h"

#include <limits>
#include <string>
#include <vector>

#include "compiler/segments/diagnostic_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/dialect.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TrainingTest : public testing::Test {
 protected:
  TrainingTest() : builder_(&context_) {
    context_.loadDialect<ir::WeftDialect>();
    module_ = mlir::ModuleOp::create(builder_.getUnknownLoc());
  }

  Training Plain() {
    Training training;
    training.grads = builder_.getF32Type();
    training.master = builder_.getF64Type();
    training.moments = builder_.getBF16Type();
    training.clip_norm = 1.5;
    training.beta1 = 0.9;
    training.beta2 = 0.95;
    training.epsilon = 1e-8;
    return training;
  }
  // The error that GetTraining reports for the attribute, "" = none.
  std::string Error() {
    DiagnosticCollector errors(&context_);
    return std::string(errors.ToStatus(GetTraining(*module_)).message());
  }
  // The error if a field of `training` is replaced by `value`, or removed if `value` is null.
  std::string ErrorWith(const Training& training, llvm::StringRef field, mlir::Attribute value) {
    SetTraining(*module_, training);
    mlir::NamedAttrList fields((*module_)->getAttrOfType<mlir::DictionaryAttr>("weft.training"));
    if (value) {
      fields.set(field, value);
    } else {
      fields.erase(field);
    }
    (*module_)->setAttr("weft.training", fields.getDictionary(&context_));
    return Error();
  }

  mlir::MLIRContext context_{mlir::MLIRContext::Threading::DISABLED};
  mlir::Builder builder_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
};

TEST_F(TrainingTest, ReadsWhatWasSet) {
  for (int bits = 0; bits < 32; ++bits) {
    Training training = Plain();
    training.accumulation = bits & 1 ? EXACT : IN_ORDER;
    if (bits & 2) {
      training.adamw = false;
      training.beta1 = training.beta2 = training.epsilon = 0;
      training.momentum = 0.75;
    }
    if (bits & 4) training.loss_scale = 1024;
    // growth_interval is valid only with a loss scale.
    if ((bits & 4) && (bits & 8)) training.growth_interval = 17;
    training.asynchronous = bits & 16;
    training.stochastic_rounding = bits & 8;
    SetTraining(*module_, training);
    const auto read = GetTraining(*module_);
    ASSERT_TRUE(mlir::succeeded(read)) << bits;
    EXPECT_EQ(read->accumulation, training.accumulation);
    EXPECT_EQ(read->clip_norm, training.clip_norm);
    EXPECT_TRUE(read->grads == training.grads && read->master == training.master && read->moments == training.moments);
    EXPECT_EQ(read->adamw, training.adamw);
    EXPECT_EQ(read->beta1, training.beta1);
    EXPECT_EQ(read->beta2, training.beta2);
    EXPECT_EQ(read->epsilon, training.epsilon);
    EXPECT_EQ(read->momentum, training.momentum);
    EXPECT_EQ(read->loss_scale, training.loss_scale);
    EXPECT_EQ(read->growth_interval, training.growth_interval);
    EXPECT_EQ(read->scaled(), (bits & 4) != 0);
    EXPECT_EQ(read->dynamic(), (bits & 12) == 12);
    EXPECT_EQ(read->asynchronous, training.asynchronous);
    EXPECT_EQ(read->stochastic_rounding, training.stochastic_rounding);
  }
}

TEST_F(TrainingTest, AFieldThatIsWrongIsNamed) {
  EXPECT_THAT(Error(), HasSubstr("needs the attribute weft.training"));
  const Training adamw = Plain();
  EXPECT_EQ(ErrorWith(adamw, "accumulation", builder_.getStringAttr("exact")), "");
  const auto number = [&](double value) { return builder_.getF64FloatAttr(value); };
  const mlir::Attribute none;
  struct Wrong {
    const char* field;
    mlir::Attribute value;
    const char* allowed;
  };
  const std::vector<Wrong> wrongs = {
      {"accumulation", builder_.getStringAttr("exactly"), "\"exact\" or \"in_order\""},
      {"accumulation", number(1), "\"exact\" or \"in_order\""},
      {"accumulation", none, "\"exact\" or \"in_order\""},
      {"clip_norm", number(-1e-300), "an f64, at least 0"},
      {"clip_norm", number(std::numeric_limits<double>::quiet_NaN()), "an f64, at least 0"},
      {"clip_norm", builder_.getF32FloatAttr(1), "an f64, at least 0"},
      {"clip_norm", none, "an f64, at least 0"},
      {"grads", mlir::TypeAttr::get(builder_.getI32Type()), "a type of floats"},
      {"master", builder_.getStringAttr("f32"), "a type of floats"},
      {"moments", none, "a type of floats"},
      {"optimizer", builder_.getStringAttr("adam"), "\"adamw\" or \"sgd\""},
      {"beta1", none, "an f64, at least 0"},
      {"beta2", number(-0.5), "an f64, at least 0"},
      {"epsilon", builder_.getI32IntegerAttr(1), "an f64, at least 0"},
      {"loss_scale", number(-2), "an f64, at least 0"},
      // growth_interval is wrong without a loss scale.
      {"growth_interval", builder_.getI32IntegerAttr(2000), "an i32, at least 1, beside loss_scale"},
  };
  for (const Wrong& wrong : wrongs) {
    EXPECT_THAT(ErrorWith(adamw, wrong.field, wrong.value),
                HasSubstr("field " + std::string(wrong.field) + " of weft.training must be " + wrong.allowed));
  }
  Training sgd = Plain();
  sgd.adamw = false;
  EXPECT_THAT(ErrorWith(sgd, "momentum", none), HasSubstr("field momentum of weft.training"));
  // Fields of the other optimizer are not required.
  EXPECT_EQ(ErrorWith(sgd, "beta1", none), "");
  Training scaled = Plain();
  scaled.loss_scale = 8;
  scaled.growth_interval = 1;
  for (const mlir::Attribute interval : {mlir::Attribute(builder_.getI32IntegerAttr(0)),
                                         mlir::Attribute(builder_.getI64IntegerAttr(5)), mlir::Attribute(number(5))}) {
    EXPECT_THAT(ErrorWith(scaled, "growth_interval", interval), HasSubstr("field growth_interval of weft.training"));
  }
}

TEST_F(TrainingTest, AllFieldsThatAreWrongAreNamed) {
  SetTraining(*module_, Plain());
  (*module_)->setAttr("weft.training", builder_.getDictionaryAttr({}));
  EXPECT_THAT(Error(), AllOf(HasSubstr("field accumulation"), HasSubstr("field clip_norm"), HasSubstr("field grads"),
                             HasSubstr("field master"), HasSubstr("field moments"), HasSubstr("field optimizer")));
}

// TF32 is the exception: products round their factors to it, but nothing is stored in it.
TEST_F(TrainingTest, EveryTypeOfTheContractsHasOneOfTheIr) {
  const google::protobuf::EnumDescriptor& types = *DType_descriptor();
  for (int i = 0; i < types.value_count(); ++i) {
    const DType dtype = static_cast<DType>(types.value(i)->number());
    const mlir::Type type = TypeOfDType(&context_, dtype);
    const bool stored = dtype != DTYPE_UNSPECIFIED && dtype != TF32;
    EXPECT_EQ(static_cast<bool>(type), stored) << DType_Name(dtype);
    if (!type) continue;
    EXPECT_EQ(DTypeOfType(type), dtype) << DType_Name(dtype);
  }
}

TEST_F(TrainingTest, OtherTypesHaveNone) {
  for (const mlir::Type type :
       {mlir::Type(builder_.getI64Type()), mlir::Type(builder_.getI1Type()), mlir::Type(builder_.getIndexType()),
        mlir::Type(builder_.getIntegerType(8)), mlir::Type(builder_.getIntegerType(8, /*isSigned=*/true)),
        mlir::Type(builder_.getNoneType())}) {
    EXPECT_EQ(DTypeOfType(type), DTYPE_UNSPECIFIED);
  }
}

}  // namespace
}  // namespace weft
