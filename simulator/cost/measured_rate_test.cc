#include "simulator/cost/measured_rate.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "kernels/kernel_key.h"
#include "simulator/cost/cost_model.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// A product of [rows x 32] [32 x 128].
Segment Product(int rows, const std::string& attributes = "") {
  return Parse<Segment>(
      "values { dtype: BF16 shape: " + std::to_string(rows) +
      " shape: 32 } values { dtype: BF16 shape: 32 shape: 128 } values { dtype: BF16 shape: " + std::to_string(rows) +
      " shape: 128 } steps { kernel: MATMUL inputs: 0 inputs: 1 outputs: 2 work { flops: 1000000 "
      "bytes: 1000 dtype: BF16 } " +
      attributes + "}");
}

constexpr char kRates[] = R"pb(
  name: "d"
  launch_seconds: 1e-6
  memory_bytes_per_second: 1e12
  peaks { dtype: BF16 flops_per_second: 1e15 }
  kernel_rates { kernel: "MATMUL" dtype: BF16 flops_per_second: 1e9 }
  kernel_rates { kernel: "MATMUL bf16*2>bf16 64x128x32" dtype: BF16 flops_per_second: 2e9 overhead_seconds: 1e-4 }
  kernel_rates { kernel: "MATMUL bf16*2>bf16 256x128x32" dtype: BF16 flops_per_second: 8e9 }
  kernel_rates { kernel: "MATMUL bf16*2>bf16 tb 128x128x32" dtype: BF16 flops_per_second: 5e9 }
)pb";

MeasuredRate RateOf(const Segment& segment) {
  return FindMeasuredRate(segment.steps(0), &segment, Parse<Device>(kRates));
}

TEST(MeasuredRate, TheSameStepBeforeSimilarOnesBeforeTheKernel) {
  const MeasuredRate same = RateOf(Product(64));
  EXPECT_EQ(same.source, RateSource::kSame);
  EXPECT_EQ(same.flops_per_second, 2e9);
  EXPECT_EQ(same.overhead_seconds, 1e-4);
  EXPECT_EQ(same.entry, "MATMUL bf16*2>bf16 64x128x32");
  // The shape is in the middle by logarithm, so the rate is the geometric mean. The rate with transposed factors does
  // not count.
  const MeasuredRate near = RateOf(Product(128));
  EXPECT_EQ(near.source, RateSource::kNear);
  EXPECT_NEAR(near.flops_per_second, 4e9, 1);
  EXPECT_NEAR(near.overhead_seconds, 5e-5, 1e-12);
  // 200 rows are nearer to the larger shape; for 1024 rows only the larger one is near enough.
  EXPECT_GT(RateOf(Product(200)).flops_per_second, 4e9);
  EXPECT_EQ(RateOf(Product(200)).entry, "MATMUL bf16*2>bf16 256x128x32");
  EXPECT_NEAR(RateOf(Product(1024)).flops_per_second, 8e9, 1);
  const MeasuredRate far = RateOf(Product(1025));
  EXPECT_EQ(far.source, RateSource::kByWork);
  EXPECT_EQ(far.flops_per_second, 1e9);
  EXPECT_EQ(RateOf(Product(64, "accumulate: true")).source, RateSource::kByWork);
  // Without a segment only rates by work apply.
  const Segment segment = Product(64);
  EXPECT_EQ(FindMeasuredRate(segment.steps(0), nullptr, Parse<Device>(kRates)).source, RateSource::kByWork);
  EXPECT_EQ(FindMeasuredRate(segment.steps(0), &segment, Device()).source, RateSource::kNone);
}

TEST(MeasuredRate, CostModelsTakeIt) {
  Cluster cluster;
  *cluster.mutable_device() = Parse<Device>(kRates);
  const Segment segment = Product(64);
  for (const char* model : {"roofline", "tiles"}) {
    const auto time =
        (*FindCostModel(model))->cost(segment.steps(0), ShapesOf(segment, segment.steps(0)), FORWARD, 0, cluster, {});
    ASSERT_TRUE(time.ok()) << time.status();
    EXPECT_NEAR(static_cast<double>(time->ps), 1e8 + 5e8, 2);
  }
}

TEST(RatesOfSteps, OneRowForEveryDifferentStep) {
  Program program;
  *program.add_segments() = Product(64);
  *program.add_segments() = Product(64);
  *program.add_segments() = Product(128);
  program.mutable_segments(2)->add_steps()->set_stream(H2D);
  const std::vector<StepRate> rates = RatesOfSteps(program, Parse<Device>(kRates));
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates[0].key, "MATMUL bf16*2>bf16 128x128x32");
  EXPECT_EQ(rates[0].rate.source, RateSource::kNear);
  EXPECT_EQ(rates[1].steps, 2);
  EXPECT_EQ(rates[1].rate.source, RateSource::kSame);
  EXPECT_THAT(NotesOnRates(program, Parse<Device>(kRates)),
              ElementsAre(HasSubstr("1 of 3 steps use measured rates of")));
  EXPECT_THAT(NotesOnRates(program, Device()), IsEmpty());
}

TEST(NotesOnRates, SayWhatIsNotMeasured) {
  Program program;
  *program.add_segments() = Parse<Segment>(R"pb(
    values { dtype: BF16 shape: 32 shape: 96 }
    values { dtype: BF16 shape: 32 shape: 32 }
    values { dtype: FP32 shape: 32 shape: 2 }
    steps {
      kernel: ATTENTION
      inputs: 0
      outputs: 1
      outputs: 2
      work { flops: 1000 dtype: BF16 }
      attributes { heads: 2 sequence: 16 causal: true dropout: 0.1 }
    }
  )pb");
  Device device = Parse<Device>(kRates);
  EXPECT_THAT(NotesOnRates(program, device), ElementsAre(HasSubstr("d has no measured rate of ATTENTION")));
  // On a GPU, attention with dropout runs on other kernels than those that rates by work and cost models describe.
  device.set_compute_capability(90);
  KernelRate* rate = device.add_kernel_rates();
  rate->set_kernel("ATTENTION");
  rate->set_dtype(BF16);
  rate->set_flops_per_second(1e12);
  EXPECT_THAT(NotesOnRates(program, device), ElementsAre(HasSubstr("attention with dropout (ATTENTION")));
  Program windowed = program;
  StepAttributes* attributes = windowed.mutable_segments(0)->mutable_steps(0)->mutable_attributes();
  attributes->clear_dropout();
  attributes->set_window(4);
  EXPECT_THAT(NotesOnRates(windowed, device), IsEmpty());
  rate->set_kernel(kernels::KernelKey(program.segments(0), program.segments(0).steps(0)));
  EXPECT_THAT(NotesOnRates(program, device), IsEmpty());
}

}  // namespace
}  // namespace weft::sim
