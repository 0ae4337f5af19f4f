#include "tests/accuracy/fit.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

Cluster Start() {
  Cluster cluster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(R"pb(
                                                              name: "c"
                                                              nodes: 1
                                                              devices_per_node: 1
                                                              device {
                                                                name: "d"
                                                                memory_bytes: 1
                                                                memory_bytes_per_second: 1e9
                                                                launch_seconds: 1e-6
                                                                peaks { dtype: FP32 flops_per_second: 1e12 }
                                                                matmul_efficiency { from: 0 fraction: 0.5 }
                                                              })pb",
                                                            &cluster));
  return cluster;
}

TEST(Fit, FindsFigures) {
  const ErrorFn error = [](const Cluster& c) -> absl::StatusOr<double> {
    return std::abs(std::log(c.device().launch_seconds() / 7e-6)) +
           std::abs(std::log(c.device().memory_bytes_per_second() / 3e8));
  };
  const auto fitted =
      FitFigures(Start(), {.fields = {"device.launch_seconds", "device.memory_bytes_per_second"}}, error);
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  EXPECT_LT(fitted->after, 0.03);
  EXPECT_NEAR(fitted->figures[0].after, 7e-6, 2e-7);
  EXPECT_NEAR(fitted->figures[1].after, 3e8, 1e7);
  EXPECT_EQ(fitted->figures[0].before, 1e-6);
}

TEST(Fit, StaysValid) {
  // The error always falls as the fraction grows, so the fit must stop at the largest valid fraction, 1.
  const auto fitted = FitFigures(
      Start(), {.fields = {"device.matmul_efficiency[0].fraction"}},
      [](const Cluster& c) -> absl::StatusOr<double> { return 10 - c.device().matmul_efficiency(0).fraction(); });
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  EXPECT_GT(fitted->figures[0].after, 0.95);
  EXPECT_LE(fitted->figures[0].after, 1);
}

TEST(Fit, RefusesWhatIsNoNumber) {
  const ErrorFn none = [](const Cluster&) -> absl::StatusOr<double> { return 0; };
  for (const char* field : {"device.name", "device.matmul_efficiency[1].fraction", "device.matmul_efficiency.fraction",
                            "device", "nodes", "nothing", "device.", ""}) {
    EXPECT_THAT(std::string(FitFigures(Start(), {.fields = {field}}, none).status().message()),
                HasSubstr("no number of a cluster"))
        << field;
  }
  EXPECT_THAT(
      std::string(FitFigures(Start(), {.fields = {"device.matmul_efficiency[0].from"}}, none).status().message()),
      HasSubstr("must be positive"));
}

}  // namespace
}  // namespace weft
