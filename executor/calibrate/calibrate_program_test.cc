#include "executor/calibrate/calibrate_program.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A product, a transposed product that is added to its output, an ADD in place, a FILL, a copy to the host, a step that
// reads images, and the first product again.
Program TestProgram() {
  Program program;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        recipe { sequence_length: 8 }
        segments {
          values { dtype: FP32 shape: 16 shape: 4 }
          values { operand: 1 dtype: FP32 shape: 4 shape: 8 }
          values { operand: 2 dtype: FP32 shape: 16 shape: 8 }
          values { operand: 2 dtype: FP32 shape: 16 shape: 8 }
          steps {
            kernel: MATMUL
            inputs: 0
            inputs: 1
            outputs: 2
            work { flops: 1024 bytes: 900 dtype: FP32 }
          }
          steps {
            kernel: MATMUL
            inputs: 0
            inputs: 2
            outputs: 1
            accumulate: true
            attributes { transpose_a: true }
            work { flops: 1024 bytes: 1000 dtype: FP32 }
          }
          steps {
            kernel: ADD
            inputs: 2
            inputs: 2
            outputs: 3
            work { bytes: 1536 dtype: FP32 }
          }
          steps {
            kernel: FILL
            outputs: 3
            work { dtype: FP32 }
          }
          steps { kernel: CAST stream: D2H inputs: 2 outputs: 3 }
          steps { kernel: LOAD_NOISE outputs: 3 }
        }
      )pb",
      &program));
  Segment& segment = *program.mutable_segments(0);
  *segment.add_steps() = segment.steps(0);
  return program;
}

std::vector<std::string> Keys(const std::vector<ProgramCase>& cases) {
  std::vector<std::string> keys;
  for (const ProgramCase& one : cases) keys.push_back(one.key);
  return keys;
}

TEST(CalibrateProgram, EveryDifferentStepOnceTheLargestFirst) {
  const Program program = TestProgram();
  const std::vector<ProgramCase> cases = CasesOf({&program, &program});
  EXPECT_THAT(Keys(cases), ElementsAre("ADD fp32*2>fp32 16x8", "MATMUL fp32*2>fp32 ta += 4x8x16",
                                       "MATMUL fp32*2>fp32 16x8x4", "FILL ->fp32 16x8"));
  EXPECT_EQ(cases[0].kernel.bytes, 1536);
  EXPECT_THAT(cases[0].kernel.in_place, ElementsAre(0));
  EXPECT_THAT(cases[1].kernel.in_place, ElementsAre(-1));
  EXPECT_TRUE(cases[1].kernel.step.accumulate());
  EXPECT_EQ(cases[2].kernel.flops, 1024);
  EXPECT_EQ(cases[2].kernel.sequence, 8);
}

TEST(CalibrateProgram, ARowForEachAndANoteForWhatCannotBeMeasured) {
  const Program program = TestProgram();
  std::vector<std::string> notes;
  Device device;
  MeasureKernels measure;
  measure.seconds = [](const KernelCase& kernel) -> absl::StatusOr<double> {
    if (kernel.step.accumulate()) return absl::ResourceExhaustedError("too large");
    return 0.5;
  };
  measure.besides = [](double seconds) { return seconds; };
  ASSERT_TRUE(MeasureCases(CasesOf({&program}), measure, &device, &notes).ok());
  EXPECT_THAT(notes, ElementsAre(HasSubstr("MATMUL fp32*2>fp32 ta += 4x8x16 is not measured: too large")));
  ASSERT_EQ(device.kernel_rates_size(), 3);
  EXPECT_EQ(device.kernel_rates(0).bytes_per_second(), 1536);
  EXPECT_EQ(device.kernel_rates(1).flops_per_second(), 1024);
  EXPECT_EQ(device.kernel_rates(1).kernel(), "MATMUL fp32*2>fp32 16x8x4");
  // The step of this rate has neither flops nor bytes, so its whole time is overhead.
  EXPECT_EQ(device.kernel_rates(2).overhead_seconds(), 1);
  // An error that does not come from the case ends the measurement.
  measure.seconds = [](const KernelCase&) -> absl::StatusOr<double> { return absl::InternalError("launch failed"); };
  EXPECT_THAT(std::string(MeasureCases(CasesOf({&program}), measure, &device, &notes).message()),
              HasSubstr("ADD fp32*2>fp32 16x8: launch failed"));
}

}  // namespace
}  // namespace weft::exec
