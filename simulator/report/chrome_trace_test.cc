#include "simulator/report/chrome_trace.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "simulator/simulate.h"
#include "simulator/testing/test_programs.h"

namespace weft::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Cluster TestCluster() {
  Cluster cluster;
  cluster.set_nodes(1);
  cluster.set_devices_per_node(8);
  cluster.mutable_intra_node()->set_bytes_per_second(1e9);
  cluster.mutable_intra_node()->set_latency_seconds(3e-12);
  return cluster;
}

std::string ChromeJson(const Program& program, int repetitions) {
  const auto simulation = Simulate(
      program, TestCluster(), {.cost = "unit", .network = "analytic", .trace = true, .trace_repetitions = repetitions});
  EXPECT_TRUE(simulation.ok()) << simulation.status();
  const auto json = TraceToChromeJson(*simulation->trace, program);
  EXPECT_TRUE(json.ok()) << json.status();
  return json.value_or("");
}

// Parses with an independent JSON parser.
google::protobuf::Struct Parse(const std::string& json) {
  google::protobuf::Struct parsed;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &parsed);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return parsed;
}

TEST(ChromeTrace, SlicesCountersAndArrows) {
  const google::protobuf::Struct parsed = Parse(ChromeJson(GPipeProgram(2, 3, 100), 2));
  std::map<std::string, int> phases;
  std::map<double, std::pair<double, double>> flows;
  int negative_memory = 0;
  for (const auto& value : parsed.fields().at("traceEvents").list_value().values()) {
    const auto& fields = value.struct_value().fields();
    const std::string& phase = fields.at("ph").string_value();
    ++phases[phase];
    if (phase == "s") flows[fields.at("id").number_value()].first = fields.at("pid").number_value();
    if (phase == "f") flows[fields.at("id").number_value()].second = fields.at("pid").number_value();
    if (phase != "C") continue;
    for (const auto& [name, bytes] : fields.at("args").struct_value().fields()) {
      negative_memory += bytes.number_value() < 0;
    }
  }
  // Two repetitions of 2 ranks x 3 microbatches x 2 computes, and of 3 x 2 transfers with two ends each.
  EXPECT_EQ(phases["X"], 2 * (12 + 12));
  EXPECT_EQ(phases["s"], 12);
  EXPECT_EQ(phases["f"], 12);
  int up = 0;
  for (const auto& [id, ends] : flows) up += ends.first == 0 && ends.second == 1;
  EXPECT_EQ(up, 6);
  EXPECT_EQ(flows.size(), 12);
  EXPECT_GT(phases["C"], 0);
  EXPECT_EQ(negative_memory, 0);
  // Two processes with two name entries each, and two entries for each of their compute, send and recv streams.
  EXPECT_EQ(phases["M"], 2 * (2 + 2 * 3));
}

TEST(ChromeTrace, TimesAreExact) {
  // 100 bytes at 1 GB/s take 100 ns: the forward of rank 1 starts after 1 us + 100 ns + 3 ps.
  const std::string json = ChromeJson(GPipeProgram(2, 1, 100), 1);
  EXPECT_THAT(json, HasSubstr("\"ts\":1.100003,\"dur\":1.000000,\"name\":\"F s1 m0\",\"cat\":\"forward\""));
  EXPECT_THAT(json, HasSubstr("\"ts\":1.000000,\"dur\":0.100000,\"name\":\"send s0 m0\""));
  EXPECT_THAT(json, HasSubstr("\"finish_us\":1.100003"));
}

TEST(ChromeTrace, SameBytesAndHostileNames) {
  Program program = GPipeProgram(2, 1, 100);
  program.mutable_templates(0)->mutable_body(0)->set_name("a\"b\\c\n\x01</script>\xC3\xA9");
  const std::string json = ChromeJson(program, 1);
  EXPECT_EQ(json, ChromeJson(program, 1));
  const google::protobuf::Struct parsed = Parse(json);
  bool found = false;
  for (const auto& value : parsed.fields().at("traceEvents").list_value().values()) {
    found |= value.struct_value().fields().at("name").string_value() == program.templates(0).body(0).name();
  }
  EXPECT_TRUE(found);
}

TEST(ChromeTrace, StepsOfASegmentAreNested) {
  Program program = GPipeProgram(1, 1, 100);
  program.mutable_segments(0)->add_steps()->set_name("second");
  const std::string json = ChromeJson(program, 1);
  EXPECT_THAT(json, HasSubstr("\"name\":\"F s0 m0\",\"cat\":\"forward\""));
  EXPECT_THAT(json, HasSubstr("\"name\":\"forward step\""));
  EXPECT_THAT(json, HasSubstr("\"name\":\"second\""));
  // The backward's segment has only one step, so its action has no slices inside.
  EXPECT_THAT(json, Not(HasSubstr("backward step")));
}

TEST(ChromeTrace, CollectivesOfASegmentStandForThemselves) {
  Program program = GPipeProgram(1, 1, 100);
  MeshAxis* axis = program.mutable_mesh()->add_axes();
  axis->set_name("x");
  axis->set_size(2);
  Segment& forward = *program.mutable_segments(0);
  Value* value = forward.add_values();
  value->set_dtype(FP32);
  value->add_shape(500);
  for (int i = 0; i < 2; ++i) {
    Step* sum = forward.add_steps();
    sum->set_name(i == 0 ? "first sum" : "second sum");
    sum->set_stream(COLLECTIVE);
    sum->set_kernel(GROUP_ALL_REDUCE);
    sum->add_deps(0);
    sum->add_inputs(0);
    sum->add_outputs(0);
    sum->mutable_collective()->mutable_group()->add_axes()->set_axis("x");
    sum->mutable_collective()->set_purpose(TENSOR);
    sum->mutable_collective()->set_algorithm("ring");
  }
  const std::string json = ChromeJson(program, 1);
  EXPECT_THAT(json, HasSubstr("\"collective x tensor\""));
  // The sum follows 1 us of forward. It sends two messages of 1000 bytes at 1 GB/s, with a latency of 3 ps after each.
  EXPECT_THAT(json, HasSubstr("\"ts\":1.000000,\"dur\":2.000003,\"name\":\"first sum\",\"cat\":\"group_all_reduce\""));
  EXPECT_THAT(json, HasSubstr("\"of\":\"F s0 m0\",\"finish_us\":3.000006"));
  EXPECT_THAT(json, HasSubstr("\"ts\":3.000003,\"dur\":2.000003,\"name\":\"second sum\""));
  // The action's own slice is on the compute stream only, on two ranks.
  size_t count = 0;
  for (size_t at = json.find("\"name\":\"F s0 m0\""); at != std::string::npos;
       at = json.find("\"name\":\"F s0 m0\"", at + 1)) {
    ++count;
  }
  EXPECT_EQ(count, 2u);
}

TEST(ChromeTrace, RefusesATraceOfSomethingElse) {
  const Program program = GPipeProgram(1, 1, 100);
  Trace trace;
  trace.add_ranks()->set_rank(7);
  EXPECT_THAT(std::string(TraceToChromeJson(trace, program).status().message()), HasSubstr("rank 7"));
  trace.mutable_ranks(0)->set_rank(0);
  trace.mutable_ranks(0)->add_streams("compute");
  TraceEvent* event = trace.mutable_ranks(0)->add_events();
  event->set_action(99);
  EXPECT_THAT(std::string(TraceToChromeJson(trace, program).status().message()), HasSubstr("action 99"));
  event->set_action(0);
  EXPECT_TRUE(TraceToChromeJson(trace, program).ok());
  event->set_stream(1);
  EXPECT_FALSE(TraceToChromeJson(trace, program).ok());
  event->set_stream(0);
  event->set_step(1);
  EXPECT_FALSE(TraceToChromeJson(trace, program).ok());
}

}  // namespace
}  // namespace weft::sim
