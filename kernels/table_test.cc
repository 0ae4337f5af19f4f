// Tests that the table of kernels is complete and consistent.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "kernels/attributes.h"
#include "kernels/check_alone.h"
#include "kernels/row.h"
#include "kernels/rows.h"
#include "kernels/sample.h"
#include "kernels/step_view.h"
#include "kernels/traits.h"

namespace weft::kernels {
namespace {

std::vector<const KernelRow*> AllRows() {
  std::vector<const KernelRow*> rows;
  for (const absl::Span<const KernelRow> part :
       {kTokenRows, kProductRows, kNormRows, kAttentionRows, kPointwiseRows, kOptimizerRows, kImageRows, kSplitRows}) {
    for (const KernelRow& row : part) rows.push_back(&row);
  }
  return rows;
}

TEST(TableTest, EveryKernelHasOneRow) {
  std::set<Kernel> seen;
  for (const KernelRow* row : AllRows()) {
    EXPECT_TRUE(seen.insert(row->kernel).second) << Kernel_Name(row->kernel) << " has two rows";
  }
  for (int i = 0; i < Kernel_descriptor()->value_count(); ++i) {
    const Kernel kernel = static_cast<Kernel>(Kernel_descriptor()->value(i)->number());
    EXPECT_EQ(seen.count(kernel), kernel == KERNEL_UNSPECIFIED ? 0u : 1u) << Kernel_Name(kernel);
    const KernelRow* row = FindRow(kernel);
    ASSERT_EQ(row == nullptr, kernel == KERNEL_UNSPECIFIED) << Kernel_Name(kernel);
    if (row != nullptr) {
      EXPECT_EQ(row->kernel, kernel);
    }
  }
  EXPECT_EQ(FindRow(static_cast<Kernel>(-1)), nullptr);
  EXPECT_EQ(FindRow(static_cast<Kernel>(Kernel_ARRAYSIZE)), nullptr);
}

// attributes.def lists the fields of StepAttributes in their order, with their numbers and kinds.
TEST(TableTest, AttributesAreTheProtos) {
  const auto* attributes = StepAttributes::descriptor();
  ASSERT_EQ(attributes->field_count(), static_cast<int>(Symbol::kAttributes));
  for (int i = 0; i < attributes->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = attributes->field(i);
    const Attribute& attribute = kAttributes[i];
    EXPECT_EQ(field->name(), attribute.name);
    EXPECT_EQ(field->number(), attribute.number) << attribute.name;
    AttributeKind kind = AttributeKind::kInt;
    if (field->cpp_type() == field->CPPTYPE_BOOL) kind = AttributeKind::kBool;
    if (field->cpp_type() == field->CPPTYPE_DOUBLE) kind = AttributeKind::kDouble;
    if (field->cpp_type() == field->CPPTYPE_MESSAGE) kind = AttributeKind::kShift;
    if (field->cpp_type() == field->CPPTYPE_STRING) kind = AttributeKind::kNames;
    EXPECT_EQ(kind, attribute.kind) << attribute.name;
    EXPECT_EQ(field->is_repeated(), kind == AttributeKind::kNames) << attribute.name;
  }
}

TEST(TableTest, OperandsNameOneAnother) {
  for (const KernelRow* row : AllRows()) {
    const std::string kernel = Kernel_Name(row->kernel);
    std::set<std::string> inputs, all;
    for (const OperandSpec& operand : row->inputs) {
      ASSERT_NE(operand.name, nullptr) << kernel;
      inputs.insert(operand.name);
      all.insert(operand.name);
    }
    for (const OperandSpec& operand : row->outputs) {
      ASSERT_NE(operand.name, nullptr) << kernel;
      EXPECT_TRUE(all.insert(operand.name).second || row->family == Family::kOptimizer || operand.in_place)
          << kernel << " has two operands " << operand.name;
    }
    for (const auto* operands : {row->inputs.begin(), row->outputs.begin()}) {
      const size_t count = operands == row->inputs.begin() ? row->inputs.size() : row->outputs.size();
      for (size_t i = 0; i < count; ++i) {
        const OperandSpec& operand = operands[i];
        if (operand.shape.kind == Shape::Kind::kLike) {
          EXPECT_TRUE(all.count(operand.shape.like)) << kernel << " " << operand.shape.like;
        }
        if (operand.alias != nullptr && operand.alias[0] != 0) {
          EXPECT_TRUE(inputs.count(operand.alias)) << kernel << " " << operand.alias;
        }
      }
    }
  }
}

// Optional operands come last, so that the number of a step's operands determines which of them it has.
TEST(TableTest, OptionalOperandsAreLast) {
  for (const KernelRow* row : AllRows()) {
    bool optional = false;
    for (const OperandSpec& operand : row->inputs) {
      if (operand.presence == Presence::kOptional) optional = true;
      if (operand.presence == Presence::kRequired && operand.when.attribute == Symbol::kNone) {
        EXPECT_FALSE(optional) << Kernel_Name(row->kernel) << " " << operand.name;
      }
    }
  }
}

// If a shape divides by a name, an attribute rule or another rule of the row checks that the division leaves no
// remainder.
TEST(TableTest, DivisionsAreChecked) {
  for (const KernelRow* row : AllRows()) {
    for (const auto* operands : {row->inputs.begin(), row->outputs.begin()}) {
      const size_t count = operands == row->inputs.begin() ? row->inputs.size() : row->outputs.size();
      for (size_t i = 0; i < count; ++i) {
        for (const Dim& dim : operands[i].shape.dims) {
          for (const Term& term : dim.terms) {
            for (const Factor& factor : term.factors) {
              if (!factor.divides) continue;
              bool checked = !row->rules.empty() || row->microbatch.whole;
              for (const AttributeRule& rule : row->attributes) {
                checked = checked || (rule.attribute == factor.symbol && rule.relation == Relation::kDivides);
              }
              EXPECT_TRUE(checked) << Kernel_Name(row->kernel) << " " << operands[i].shape.text;
            }
          }
        }
      }
    }
  }
}

// pointwise.def lists exactly the rows that set `pointwise`, with their numbers of operands.
TEST(TableTest, PointwiseRowsHaveFormulas) {
  struct Line {
    Kernel kernel;
    size_t inputs, outputs;
  };
  constexpr Line kLines[] = {
#define POINTWISE(op, inputs, outputs, kernel, when) {kernel, inputs, outputs},
#include "kernels/pointwise.def"
#undef POINTWISE
  };
  std::set<Kernel> listed;
  for (const Line& line : kLines) {
    const KernelRow& row = RowOf(line.kernel);
    EXPECT_TRUE(row.pointwise) << Kernel_Name(line.kernel);
    EXPECT_EQ(row.inputs.size(), line.inputs) << Kernel_Name(line.kernel);
    EXPECT_EQ(row.outputs.size(), line.outputs) << Kernel_Name(line.kernel);
    listed.insert(line.kernel);
  }
  for (const KernelRow* row : AllRows()) EXPECT_EQ(row->pointwise, listed.count(row->kernel) == 1u);
}

TEST(TableTest, SamplesFitTheirRows) {
  for (const SampleSizes& sizes :
       {SampleSizes{.rows = 4096, .d = 1024, .vocabulary = 256, .sequence = 256, .head_size = 64},
        SampleSizes{.rows = 512, .d = 512, .vocabulary = 64, .sequence = 256, .head_size = 32}}) {
    for (const KernelRow* row : AllRows()) {
      const Sample sample = MakeSample(*row, sizes);
      std::vector<StepTensor> in, out;
      for (const SampleTensor& tensor : sample.in) in.push_back({"in", tensor.dtype, tensor.shape});
      for (const SampleTensor& tensor : sample.out) out.push_back({"out", tensor.dtype, tensor.shape});
      EXPECT_EQ(CheckAlone(sample.step, in, out), "") << Kernel_Name(row->kernel);
    }
  }
}

TEST(TraitsTest, Families) {
  EXPECT_TRUE(IsLoss(CROSS_ENTROPY));
  EXPECT_TRUE(IsLoss(CROSS_ENTROPY_COMBINE));
  EXPECT_TRUE(IsLoss(SQUARED_ERROR));
  EXPECT_FALSE(IsLoss(CROSS_ENTROPY_PARTIAL));
  EXPECT_TRUE(IsCollective(GROUP_ALL_REDUCE));
  EXPECT_FALSE(IsCollective(MATMUL));
  EXPECT_TRUE(IsOptimizer(ADAMW));
  EXPECT_FALSE(IsOptimizer(KERNEL_UNSPECIFIED));
}

TEST(TraitsTest, OperandsOfSteps) {
  Step step;
  step.set_kernel(SGD_STEP);
  EXPECT_EQ(OptimizerStates(step), 1);
  step.mutable_attributes()->set_momentum(0.9);
  EXPECT_EQ(OptimizerStates(step), 2);
  step.set_kernel(ADAMW);
  EXPECT_EQ(OptimizerStates(step), 3);
  for (int i = 0; i < 6; ++i) step.add_inputs(i);
  EXPECT_EQ(FindInput(step, "scale"), 5);
  EXPECT_EQ(FindInput(step, "no such operand"), -1);
  step.set_kernel(DROPOUT);
  EXPECT_TRUE(MayReadMicrobatch(DROPOUT));
  EXPECT_TRUE(WritesPartOfOutput(
      [] {
        Step norm;
        norm.set_kernel(SQUARED_NORM);
        norm.add_outputs(0);
        return norm;
      }(),
      0));
  Step product;
  product.set_kernel(MATMUL);
  product.add_outputs(0);
  EXPECT_FALSE(AddsToOutput(product, 0));
  product.set_accumulate(true);
  EXPECT_TRUE(AddsToOutput(product, 0));
}

}  // namespace
}  // namespace weft::kernels
