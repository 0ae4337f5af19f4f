#include "simulator/simulate.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/json.h"
#include "proto/io/program_file.h"
#include "simulator/metrics/metrics.h"
#include "simulator/report/report_text.h"
#include "simulator/testing/test_programs.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Cluster TestCluster() {
  Cluster cluster;
  cluster.set_name("test");
  cluster.set_nodes(2);
  cluster.set_devices_per_node(4);
  Device* device = cluster.mutable_device();
  device->set_memory_bytes(10000);
  device->set_reserved_bytes(500);
  device->set_memory_bytes_per_second(1e12);
  Peak* peak = device->add_peaks();
  peak->set_dtype(BF16);
  peak->set_flops_per_second(1e12);
  cluster.mutable_intra_node()->set_bytes_per_second(1e9);
  cluster.mutable_inter_node()->set_bytes_per_second(1e9);
  cluster.set_nics_per_node(1);
  return cluster;
}

// A GPipe program with everything that the figures of a report need in addition to times.
Program TestProgram(int ranks, int microbatches) {
  Program program = GPipeProgram(ranks, microbatches, 100);
  program.set_runtime("weft");
  program.mutable_precision()->set_compute(BF16);
  program.mutable_recipe()->set_global_batch_sequences(microbatches);
  program.mutable_recipe()->set_sequence_length(10);
  program.set_model_flops(3e6);
  program.set_model_flops_masked(5e5);
  for (Template& t : *program.mutable_templates()) {
    int64_t offset = 0;
    for (Buffer& buffer : *t.mutable_buffers()) {
      buffer.set_offset(offset);
      offset += buffer.bytes();
    }
    t.set_device_arena_bytes(offset);
  }
  return program;
}

void SetFlops(Segment& segment, int64_t flops) {
  segment.mutable_steps(0)->mutable_work()->set_flops(flops);
  segment.mutable_steps(0)->mutable_work()->set_dtype(BF16);
}

SimulationReport Report(const Program& program, const Cluster& cluster, const SimulateOptions& options) {
  const auto simulation = Simulate(program, cluster, options);
  EXPECT_TRUE(simulation.ok()) << simulation.status();
  return simulation.ok() ? simulation->report : SimulationReport();
}

TEST(Simulate, UnitCostGivesTheSchedulesOwnNumbers) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (int microbatches = 1; microbatches <= 6; ++microbatches) {
      const SimulationReport report =
          Report(TestProgram(ranks, microbatches), TestCluster(), {.cost = "unit", .network = "none"});
      const double slots = microbatches + ranks - 1;
      EXPECT_DOUBLE_EQ(report.makespan_seconds(), slots * 3e-6);
      EXPECT_DOUBLE_EQ(report.iteration_seconds(), slots * 3e-6);
      EXPECT_NEAR(report.bubble_ratio(), (ranks - 1) / slots, 1e-12);
      for (const RankReport& rank : report.per_rank()) {
        EXPECT_DOUBLE_EQ(rank.busy_seconds(), microbatches * 3e-6);
        EXPECT_NEAR(rank.busy_seconds() + rank.idle_seconds(), report.makespan_seconds(), 1e-18);
        double causes = 0;
        for (const IdleCause& cause : rank.idle_causes()) causes += cause.seconds();
        EXPECT_NEAR(causes, rank.idle_seconds(), 1e-18);
      }
    }
  }
}

TEST(Simulate, FiguresFollowTheirEquations) {
  Program program = TestProgram(2, 4);
  // Forward and backward of every microbatch on both ranks: 16 times 250,000 flops.
  for (Segment& segment : *program.mutable_segments()) SetFlops(segment, 250'000);
  const SimulationReport report = Report(program, TestCluster(), {.cost = "unit", .network = "none"});
  const double seconds = 15e-6;
  EXPECT_EQ(report.schema_version(), 1);
  EXPECT_EQ(report.ranks(), 2);
  EXPECT_EQ(report.tokens_per_step(), 40);
  EXPECT_DOUBLE_EQ(report.tokens_per_second(), 40 / seconds);
  EXPECT_DOUBLE_EQ(report.tokens_per_second_per_device(), 20 / seconds);
  // A rank has 4 forwards, 4 backwards and 8 ends of transfers. The simulator first runs one repetition alone. Then it
  // runs repetitions until two successive differences of their times are equal; a further one may have begun by then.
  EXPECT_GE(report.simulated_steps(), 4 * 2 * 16);
  const SimulationReport costed = Report(program, TestCluster(), {.cost = "roofline", .network = "none"});
  const double peak_flops = 2 * 1e12 * costed.iteration_seconds();
  EXPECT_DOUBLE_EQ(costed.mfu(), 3e6 / peak_flops);
  EXPECT_DOUBLE_EQ(costed.mfu_causal(), 2.5e6 / peak_flops);
  EXPECT_DOUBLE_EQ(costed.hfu(), 4e6 / peak_flops);
}

// Actions that are done again if the norm was too large (P15) count as work only if they are run.
TEST(Simulate, FlopsAreThoseThatAreRun) {
  Program program = TestProgram(2, 4);
  for (Segment& segment : *program.mutable_segments()) SetFlops(segment, 250'000);
  Segment& validate = *program.add_segments();
  validate.add_steps()->set_kernel(NORM_TOTAL);
  Segment& again = *program.add_segments();
  again.add_steps()->set_kernel(SCALE);
  SetFlops(again, 1'000'000);
  for (Template& t : *program.mutable_templates()) {
    for (const auto& [kind, segment] : {std::pair(VALIDATE, 2), std::pair(SCALE_GRADIENTS, 1)}) {
      Action& action = *t.add_body();
      action.set_id(1000 + kind);
      action.set_kind(kind);
      action.set_segment(program.segments_size() - segment);
      action.set_if_exceeded(kind == SCALE_GRADIENTS);
    }
  }
  for (const bool exceeded : {false, true}) {
    const SimulationReport report =
        Report(program, TestCluster(), {.cost = "roofline", .network = "none", .exceeded = exceeded});
    EXPECT_DOUBLE_EQ(report.hfu(), (4e6 + (exceeded ? 2 * 1e6 : 0)) / (2 * 1e12 * report.iteration_seconds()));
  }
}

TEST(Simulate, Memory) {
  const Program program = TestProgram(2, 4);
  const SimulationReport report = Report(program, TestCluster(), {.cost = "unit", .network = "none"});
  // Rank 0: parameters of 1000 bytes; 4 saved, 4 sent (persistent here) and 4 received buffers of 100 bytes.
  EXPECT_EQ(report.planned_bytes(), 1000 + 12 * 100);
  EXPECT_EQ(report.device_bytes(), report.planned_bytes() + 500);
  EXPECT_EQ(report.capacity_bytes(), 10000);
  EXPECT_TRUE(report.fits());
  EXPECT_LE(report.live_peak_bytes(), report.planned_bytes());
  int64_t at_peak = 0;
  for (const ClassBytes& row : report.memory()) {
    at_peak += row.bytes_at_peak();
    EXPECT_LE(row.bytes_at_peak(), row.planned_bytes());
    if (row.class_() == "saved_activation") {
      EXPECT_EQ(row.planned_bytes(), 400);
      EXPECT_EQ(row.bytes_at_peak(), 400);
    }
  }
  EXPECT_EQ(at_peak, report.live_peak_bytes());

  Cluster small = TestCluster();
  small.mutable_device()->set_memory_bytes(2699);
  EXPECT_FALSE(Report(program, small, {.cost = "unit", .network = "none"}).fits());
  small.mutable_device()->set_memory_bytes(2700);
  EXPECT_TRUE(Report(program, small, {.cost = "unit", .network = "none"}).fits());
}

TEST(Simulate, HostMemoryCountsPerNode) {
  Program program = TestProgram(4, 1);
  for (Template& t : *program.mutable_templates()) t.set_host_arena_bytes(1000);
  Cluster cluster = TestCluster();
  cluster.set_host_memory_bytes(4000);
  const SimulationReport report = Report(program, cluster, {.cost = "unit", .network = "none"});
  EXPECT_TRUE(report.fits());
  EXPECT_EQ(report.planned_host_bytes(), 4000);
  EXPECT_EQ(report.host_capacity_bytes(), 4000);
  cluster.set_host_memory_bytes(3999);
  EXPECT_FALSE(Report(program, cluster, {.cost = "unit", .network = "none"}).fits());
}

TEST(Simulate, RefusesToDivideByNothing) {
  Program program = TestProgram(2, 2);
  Cluster cluster = TestCluster();
  const SimulateOptions options = {.cost = "roofline", .network = "none"};
  const absl::Status no_time = CheckRatios(program, Report(program, cluster, options));
  EXPECT_EQ(no_time.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(no_time.message()),
      HasSubstr("no step of program 'gpipe' takes any time on cluster 'test' with cost roofline and network none"));
  cluster.mutable_device()->set_launch_seconds(1e-6);
  EXPECT_TRUE(CheckRatios(program, Report(program, cluster, options)).ok());
  program.mutable_precision()->set_compute(FP16);
  const absl::Status no_peak = CheckRatios(program, Report(program, cluster, options));
  EXPECT_EQ(no_peak.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(no_peak.message()), HasSubstr("'test' has no peak for FP16"));
  // The times of the cost "unit" are not the devices' times, so there is no MFU, whatever the peak.
  program.mutable_precision()->set_compute(BF16);
  EXPECT_GT(Report(program, cluster, options).mfu(), 0);
  const SimulationReport unit = Report(program, cluster, {.cost = "unit", .network = "none"});
  EXPECT_TRUE(CheckRatios(program, unit).ok());
  EXPECT_EQ(unit.mfu(), 0);
  EXPECT_EQ(unit.mfu_causal(), 0);
  EXPECT_EQ(unit.hfu(), 0);
  EXPECT_THAT(ReportToText(unit), HasSubstr("MFU (attention in full)        -\n"));
}

TEST(Simulate, ExplainsTheIsolatedRepetition) {
  const Program program = TestProgram(3, 4);
  const SimulationReport plain = Report(program, TestCluster(), {.cost = "unit"});
  EXPECT_EQ(plain.critical_kinds_size() + plain.critical_actions_size(), 0);
  const SimulationReport explained = Report(program, TestCluster(), {.cost = "unit", .explain = true});
  double sum = 0;
  for (const CriticalKind& row : explained.critical_kinds()) sum += row.seconds();
  EXPECT_NEAR(sum, explained.makespan_seconds(), 1e-15);
  EXPECT_GT(explained.critical_actions_size(), 0);
  EXPECT_THAT(ReportToText(explained), HasSubstr("critical path of the step alone"));
  SimulationReport without = explained;
  without.clear_critical_kinds();
  without.clear_critical_actions();
  EXPECT_EQ(without.SerializeAsString(), plain.SerializeAsString());
}

TEST(Simulate, RefusesToExplainWhatNobodyCouldKeep) {
  Program program = TestProgram(4, 250);
  MeshAxis* data = program.mutable_mesh()->add_axes();
  data->set_name("data");
  data->set_size(1 << 14);
  Cluster cluster = TestCluster();
  cluster.set_nodes(1 << 14);
  const auto simulation = Simulate(program, cluster, {.cost = "unit", .explain = true});
  EXPECT_EQ(simulation.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(simulation.status().message()),
              AllOf(HasSubstr("to explain a run, weft must trace it"), HasSubstr("more than 16777216 steps")));
}

TEST(Simulate, TraceOfSeveralRepetitions) {
  const Program program = TestProgram(2, 3);
  const auto simulation =
      Simulate(program, TestCluster(), {.cost = "unit", .network = "analytic", .trace = true, .trace_repetitions = 3});
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  ASSERT_TRUE(simulation->trace.has_value());
  const Trace& trace = *simulation->trace;
  EXPECT_EQ(trace.origin(), "simulated");
  EXPECT_EQ(trace.program_crc(), ProgramCrc(program));
  EXPECT_EQ(trace.repetitions(), 3);
  ASSERT_EQ(trace.ranks_size(), 2);
  // Rank 1 receives before it computes.
  EXPECT_THAT(trace.ranks(1).streams(),
              testing::ElementsAre("recv pipe=0 towards_loss lane 0", "compute", "send pipe=0 from_loss lane 0"));
  EXPECT_EQ(trace.ranks(1).events_size(), 3 * 12);
  for (const RankTrace& rank : trace.ranks()) {
    int64_t last = 0;
    for (const TraceEvent& event : rank.events()) {
      EXPECT_LE(last, event.start_ps());
      EXPECT_LE(event.ready_ps(), event.start_ps());
      EXPECT_LE(event.start_ps(), event.end_ps());
      EXPECT_LE(event.end_ps(), event.finish_ps());
      last = event.start_ps();
    }
  }
}

TEST(Simulate, Refusals) {
  const Program program = TestProgram(2, 1);
  Cluster small = TestCluster();
  small.set_nodes(1);
  small.set_devices_per_node(1);
  const auto devices = Simulate(program, small, {});
  EXPECT_EQ(devices.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(devices.status().message()), HasSubstr("cluster.nodes must be at least 2"));
  EXPECT_EQ(Simulate(program, TestCluster(), {.cost = "rofline"}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Simulate(program, TestCluster(), {.network = "flaw"}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Simulate(program, TestCluster(), {.trace = true, .trace_repetitions = 0}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Simulate, RefusesWhatDoesNotFitInMemory) {
  // The simulation would hold the state of 2^20 ranks with 1,000 actions each, although the program's file has only a
  // few kilobytes.
  Program program = TestProgram(4, 250);
  MeshAxis* data = program.mutable_mesh()->add_axes();
  data->set_name("data");
  data->set_size(1 << 18);
  Cluster cluster = TestCluster();
  cluster.set_nodes(1 << 18);
  const auto simulation = Simulate(program, cluster, {.fold = false});
  EXPECT_EQ(simulation.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(simulation.status().message()),
              AllOf(HasSubstr("over 1048576 ranks"), HasSubstr("MiB of memory; allowed: 4096 MiB")));
}

TEST(Simulate, RefusesTracesThatNobodyCouldKeep) {
  SimulateOptions options;
  options.trace = true;
  options.trace_repetitions = 1'000'000;
  const auto simulation = Simulate(TestProgram(2, 4), TestCluster(), options);
  EXPECT_EQ(simulation.status().code(), absl::StatusCode::kResourceExhausted);
  // Each of the two ranks has 4 forwards, 4 backwards and 8 transfers.
  EXPECT_THAT(std::string(simulation.status().message()),
              AllOf(HasSubstr("a trace of 1000000 repetitions over 2 ranks has more than 16777216 steps"),
                    HasSubstr("nearest valid: 524288")));
}

TEST(Simulate, SameBytesTwice) {
  const Program program = TestProgram(3, 4);
  const SimulateOptions options = {.cost = "unit", .network = "analytic", .trace = true};
  const auto first = Simulate(program, TestCluster(), options);
  const auto second = Simulate(program, TestCluster(), options);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->report.SerializeAsString(), second->report.SerializeAsString());
  EXPECT_EQ(first->trace->SerializeAsString(), second->trace->SerializeAsString());
}

TEST(SteadyPeriod, EqualDifferencesOrTheSecondHalf) {
  EXPECT_EQ(SteadyPeriodSeconds({}), 0);
  EXPECT_DOUBLE_EQ(SteadyPeriodSeconds({{10}, {15}, {20}}), 5e-12);
  std::vector<Time> t;
  for (int64_t k = 0; k < kSteadyRepetitions; ++k) t.push_back({100 * k + k * k});
  EXPECT_DOUBLE_EQ(SteadyPeriodSeconds(t), (800 + 15 * 15 - 7 * 7) / 8.0 * 1e-12);
}

TEST(ReportText, NamesTheRuntimeFirstAndHasTheFigures) {
  Cluster small = TestCluster();
  small.mutable_device()->set_memory_bytes(2000);
  const std::string text = ReportToText(Report(TestProgram(2, 4), small, {.cost = "unit", .network = "none"}));
  EXPECT_THAT(text, StartsWith("runtime weft: gpipe on test, 2 ranks (cost unit, network none)\n"));
  EXPECT_THAT(text, HasSubstr("15.00 us"));
  EXPECT_THAT(text, HasSubstr("DOES NOT FIT"));
  EXPECT_THAT(text, HasSubstr("exceeds the capacity by 700 B"));
  EXPECT_THAT(text, HasSubstr("waiting for gradient input"));
  EXPECT_THAT(text, HasSubstr("saved_activation"));
}

TEST(ReportText, VerboseHasTheIdleTimeOfEachRankByCause) {
  const SimulationReport report = Report(TestProgram(2, 2), TestCluster(), {.cost = "unit", .network = "none"});
  EXPECT_EQ(ReportToText(report, true).find(ReportToText(report)), 0u);
  EXPECT_THAT(ReportToText(report), Not(HasSubstr("idle compute, by rank")));
  EXPECT_THAT(ReportToText(report, true), HasSubstr("  idle compute, by rank        rank 0   rank 1\n"
                                                    "  waiting for gradient input  3.00 us        0\n"
                                                    "  waiting for forward input         0  1.00 us\n"
                                                    "  end of step                       0  2.00 us\n"));
}

TEST(Simulate, UnitTimesAndPeakActivations) {
  SimulateOptions options = {.cost = "unit", .network = "none"};
  options.cost_options = {.unit_forward = {2'000'000}, .unit_backward = {3'000'000}};
  const SimulationReport report = Report(TestProgram(2, 4), TestCluster(), options);
  // With GPipe, the repetition takes (4 + 2 - 1) * (2 + 3) us, and each rank holds all microbatches.
  EXPECT_DOUBLE_EQ(report.makespan_seconds(), 25e-6);
  for (const RankReport& rank : report.per_rank()) EXPECT_EQ(rank.peak_activations(), 4);
}

TEST(Simulate, UnitTimesAreOfAWholeRank) {
  // Two stages on each of two ranks: an action is half of a rank's work and holds half of a rank's activations.
  Program program = TestProgram(2, 4);
  program.set_stages(4);
  SimulateOptions options = {.cost = "unit", .network = "none"};
  const SimulationReport report = Report(program, TestCluster(), options);
  EXPECT_DOUBLE_EQ(report.makespan_seconds(), 7.5e-6);
  for (const RankReport& rank : report.per_rank()) EXPECT_EQ(rank.peak_activations(), 2);
  // A forward of two microbatches takes twice as long.
  for (Template& t : *program.mutable_templates()) {
    for (Action& action : *t.mutable_body()) {
      if (action.kind() == FORWARD) action.set_width(2);
    }
  }
  EXPECT_DOUBLE_EQ(Report(program, TestCluster(), options).makespan_seconds(), 10e-6);
}

// In every forward the weights are gathered over z, and the output is summed over x.
Program TensorProgram() {
  Program program = TestProgram(2, 4);
  for (const char* axis : {"x", "z"}) {
    program.mutable_mesh()->add_axes()->set_name(axis);
    program.mutable_mesh()->mutable_axes(program.mesh().axes_size() - 1)->set_size(2);
  }
  Segment& forward = *program.mutable_segments(0);
  const Step compute = forward.steps(0);
  forward.clear_steps();
  for (const int64_t extent : {50, 100}) {
    forward.add_values()->set_dtype(FP32);
    forward.mutable_values(forward.values_size() - 1)->add_shape(extent);
  }
  const auto collective = [&](Kernel kernel, const char* axis, Purpose purpose, int input) {
    Step* step = forward.add_steps();
    step->set_stream(COLLECTIVE);
    step->set_kernel(kernel);
    step->add_inputs(input);
    step->add_outputs(1);
    step->mutable_collective()->mutable_group()->add_axes()->set_axis(axis);
    step->mutable_collective()->set_purpose(purpose);
    step->mutable_collective()->set_algorithm("ring");
    return step;
  };
  collective(GROUP_ALL_GATHER, "z", GATHER_WEIGHTS, 0);
  *forward.add_steps() = compute;
  forward.mutable_steps(1)->add_deps(0);
  collective(GROUP_ALL_REDUCE, "x", TENSOR, 1)->add_deps(1);
  return program;
}

TEST(Simulate, CollectivesOfSegments) {
  Cluster cluster = TestCluster();
  cluster.set_devices_per_node(8);
  const SimulationReport free = Report(TensorProgram(), cluster, {.cost = "unit", .network = "none"});
  // The first compute step has the unit cost, whatever steps come before it.
  EXPECT_DOUBLE_EQ(free.makespan_seconds(), 15e-6);
  const SimulationReport report = Report(TensorProgram(), cluster, {.cost = "unit"});
  EXPECT_EQ(report.ranks(), 8);
  // Rank 0 begins with a gather of 200 bytes at 1 GB/s. Each of its sums, 2 messages of 200 bytes, follows a forward
  // and runs beside the next gather.
  double gathered = 0, tensor = 0;
  for (const IdleCause& cause : report.per_rank(0).idle_causes()) {
    if (cause.cause() == "waiting for gathered weights") gathered += cause.seconds();
    if (cause.cause() == "waiting for a tensor collective") tensor += cause.seconds();
  }
  EXPECT_GT(gathered, 0.2e-6 - 1e-12);
  EXPECT_LT(tensor, 4 * 0.4e-6);
  // Bytes that rank 0 sends in one repetition, by purpose. The program has four microbatches: half of the 400 bytes of
  // each gather, all 400 bytes of each sum, and the messages between stages.
  ASSERT_EQ(report.per_rank(0).sent_size(), 3);
  EXPECT_EQ(report.per_rank(0).sent(0).purpose(), "gather_weights");
  EXPECT_EQ(report.per_rank(0).sent(0).bytes(), 4 * 200);
  EXPECT_EQ(report.per_rank(0).sent(1).purpose(), "tensor");
  EXPECT_EQ(report.per_rank(0).sent(1).bytes(), 4 * 400);
  EXPECT_EQ(report.per_rank(0).sent(2).purpose(), "transfer");
  EXPECT_EQ(report.per_rank(0).sent(2).bytes(), 4 * 100);
  ASSERT_EQ(report.sent_size(), 3);
  EXPECT_EQ(report.sent(1).bytes(), 8 * 4 * 400);
  EXPECT_THAT(ReportToText(report), HasSubstr("gather_weights         800 B\n"));
  // More than three repetitions are simulated. Each has 8 ranks with 4 x (3 + 1) steps of segments and 4 x 2 transfers.
  EXPECT_GT(report.simulated_steps(), 3 * 8 * (4 * 4 + 4 * 2));
}

TEST(ReportText, LongReportsAreCut) {
  SimulationReport report;
  for (int rank = 0; rank < 40; ++rank) report.add_per_rank()->set_rank(rank);
  EXPECT_THAT(ReportToText(report), HasSubstr("and 8 more ranks"));
}

}  // namespace
}  // namespace weft::sim
