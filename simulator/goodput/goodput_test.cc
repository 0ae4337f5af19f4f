#include "simulator/goodput/goodput.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/util/state_part.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;

// 16,384 devices on 2,048 nodes, interrupted as often as the 54 days that Llama 3's report describes: 419 times, 246 of
// them by a device (arXiv:2407.21783, sec. 3.3.4).
Cluster ManyNodes() {
  Cluster cluster;
  cluster.set_name("many");
  cluster.set_nodes(2048);
  cluster.set_devices_per_node(8);
  Reliability& reliability = *cluster.mutable_reliability();
  reliability.set_failures_per_device_year(246.0 / 16384 / 54 * 365);
  reliability.set_failures_per_node_year(173.0 / 2048 / 54 * 365);
  reliability.set_restart_seconds(600);
  reliability.set_checkpoint_bytes_per_second(2e12);
  return cluster;
}

// A program with the tensors of a model of `parameters` parameters: BF16 weights, FP32 masters and moments.
Program WithParameters(int64_t parameters) {
  Program program;
  program.add_tensors()->add_shape(parameters);
  Template& t = *program.add_templates();
  for (const auto& [role, dtype] : {std::pair{PARAM, BF16}, {MASTER, FP32}, {MOMENT1, FP32}, {MOMENT2, FP32}}) {
    Buffer& buffer = *t.add_buffers();
    buffer.set_role(role);
    buffer.set_dtype(dtype);
  }
  return program;
}

SimulationReport WithStep(int64_t ranks, double seconds) {
  SimulationReport report;
  report.set_ranks(ranks);
  report.set_iteration_seconds(seconds);
  report.set_tokens_per_second(1000);
  return report;
}

TEST(PredictGoodput, MatchesThePublishedRunOfLlama) {
  const Program program = WithParameters(405'853'388'800);
  EXPECT_EQ(CheckpointBytes(program), 405'853'388'800 * 12);
  const auto goodput = PredictGoodput(program, ManyNodes(), WithStep(16384, 6), {});
  ASSERT_TRUE(goodput.ok()) << goodput.status();
  EXPECT_NEAR(goodput->seconds_between_failures(), 54 * 86400 / 419.0, 1);
  // The report says "higher than 90 %".
  EXPECT_GT(goodput->useful(), 0.9);
  EXPECT_LT(goodput->useful(), 0.95);
  EXPECT_NEAR(goodput->useful() + goodput->saving() + goodput->repeated() + goodput->restarting(), 1, 1e-12);
  EXPECT_EQ(goodput->waiting(), 0);
  EXPECT_EQ(goodput->tokens_per_second(), 1000 * goodput->useful());
  EXPECT_EQ(goodput->interval_seconds(), 6.0 * static_cast<double>(goodput->steps_between_checkpoints()));
  EXPECT_EQ(goodput->runs(), 0);
}

TEST(PredictGoodput, DrawnRunsSurroundTheLongRun) {
  const Program program = WithParameters(70'000'000'000);
  const auto once = PredictGoodput(program, ManyNodes(), WithStep(16384, 6), {.days = 30, .seed = 5});
  const auto again = PredictGoodput(program, ManyNodes(), WithStep(16384, 6), {.days = 30, .seed = 5});
  const auto other = PredictGoodput(program, ManyNodes(), WithStep(16384, 6), {.days = 30, .seed = 6});
  ASSERT_TRUE(once.ok() && again.ok() && other.ok());
  EXPECT_EQ(once->SerializeAsString(), again->SerializeAsString());
  EXPECT_NE(once->useful_mean(), other->useful_mean());
  EXPECT_LT(once->useful_p10(), once->useful_p50());
  EXPECT_LT(once->useful_p50(), once->useful_p90());
  EXPECT_NEAR(once->useful_mean(), once->useful(), 0.002);
}

TEST(PredictGoodput, BackgroundWritesHelpAndMissingSparesHurt) {
  const Program program = WithParameters(405'853'388'800);
  Cluster cluster = ManyNodes();
  cluster.mutable_reliability()->set_checkpoint_bytes_per_second(5e10);
  const SimulationReport report = WithStep(16384, 6);
  const double stopped = PredictGoodput(program, cluster, report, {})->useful();
  cluster.mutable_reliability()->set_background_stop_seconds(2);
  const double background = PredictGoodput(program, cluster, report, {})->useful();
  EXPECT_GT(background, stopped);
  cluster.mutable_reliability()->set_spare_nodes(4);
  cluster.mutable_reliability()->set_repair_seconds(2 * 86400);
  const auto spares = PredictGoodput(program, cluster, report, {});
  EXPECT_GT(spares->waiting(), 0.1);
  EXPECT_NEAR(spares->useful(), background * (1 - spares->waiting()), 1e-9);
}

TEST(PredictGoodput, Errors) {
  const Program program = WithParameters(1'000'000);
  const auto message = [&](const Cluster& cluster, const SimulationReport& report, const GoodputOptions& options) {
    return std::string(PredictGoodput(program, cluster, report, options).status().message());
  };
  Cluster cluster;
  cluster.set_name("calm");
  EXPECT_THAT(message(cluster, WithStep(8, 1), {}), HasSubstr("'calm' does not state how often jobs are interrupted"));
  cluster = ManyNodes();
  SimulationReport asynchronous = WithStep(8, 1);
  asynchronous.set_steps_per_repetition(4);
  EXPECT_THAT(message(cluster, asynchronous, {}), HasSubstr("asynchronous"));
  EXPECT_THAT(message(cluster, WithStep(16384, 1e6), {}), HasSubstr("too often to train: a step takes 1"));
  EXPECT_THAT(message(cluster, WithStep(16384, 6), {.days = kMaxDays}), HasSubstr("at most 1"));
}

}  // namespace
}  // namespace weft::sim
