#include "executor/faults/fault_report.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "proto/io/json_value.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

Program Tiny() {
  Program program;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(name: "tiny"
           mesh { axes { name: "pipe" size: 2 } }
           templates {
             name: "all"
             prologue { id: 9 kind: FORWARD name: "P" }
             body { id: 0 kind: FORWARD name: "F s0 \"m0\"" }
             body {
               id: 3
               kind: SEND
               name: "S"
               direction: TOWARDS_LOSS
               peer { at { axis: "pipe" index: 0 } }
             }
             body {
               id: 4
               kind: ALL_REDUCE
               name: "AR"
               purpose: GRADIENT_SYNC
               group { axes { axis: "pipe" } }
             }
           })pb",
      &program));
  return program;
}

TEST(FaultReportTest, HoldsTheReasonAndTheLastActions) {
  const Program program = Tiny();
  FlightRecorder flight(ActionCount(program, 1));
  for (const int action : {0, 1, 2, 3}) flight.Begin(action, 6);
  for (const int action : {0, 1}) flight.End(action);
  const absl::Status reason = absl::DeadlineExceededError("rank 1: \"x\" \n\xff");
  const auto json = ParseJson(FaultReportJson(program, 1, reason, true, flight), "report");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->Find("schema_version")->Int64(), 1);
  EXPECT_EQ(json->Find("program")->text, "tiny");
  EXPECT_EQ(json->Find("rank")->Int64(), 1);
  EXPECT_EQ(json->Find("ranks")->Int64(), 2);
  EXPECT_TRUE(json->Find("first_to_fail")->boolean);
  EXPECT_EQ(json->Find("reason")->text, "rank 1: \"x\" ??");
  EXPECT_EQ(json->Find("code")->text, "DEADLINE_EXCEEDED");
  EXPECT_EQ(json->Find("actions_begun")->Int64(), 4);
  const auto& actions = json->Find("actions")->elements;
  ASSERT_EQ(actions.size(), 4u);
  EXPECT_EQ(actions[1].Find("name")->text, "F s0 \"m0\"");
  EXPECT_EQ(actions[1].Find("kind")->text, "FORWARD");
  EXPECT_EQ(actions[1].Find("step")->Int64(), 6);
  EXPECT_TRUE(actions[1].Find("end_ns")->Int64().has_value());
  EXPECT_EQ(actions[2].Find("action")->Int64(), 3);
  EXPECT_EQ(actions[2].Find("peer")->Int64(), 0);
  EXPECT_THAT(actions[2].Find("communicator")->text, HasSubstr("send"));
  EXPECT_EQ(actions[2].Find("end_ns")->kind, JsonValue::Kind::kNull);
  EXPECT_EQ(actions[3].Find("peer")->kind, JsonValue::Kind::kNull);
  EXPECT_THAT(actions[3].Find("communicator")->text, HasSubstr("pipe"));
}

TEST(FaultReportTest, AFilePerRank) {
  EXPECT_EQ(FaultFileOfRank("weft-fault.json", 3), "weft-fault-3.json");
  EXPECT_EQ(FaultFileOfRank("a.b/c", 0), "a.b/c-0");
  EXPECT_EQ(FaultFileOfRank("weft-fault.json", -1), "weft-fault-*.json");
  EXPECT_EQ(DefaultFaultFile("ckpt", "t/trace.json"), "ckpt/weft-fault.json");
  EXPECT_EQ(DefaultFaultFile("", "t/trace.json"), "t/weft-fault.json");
  EXPECT_EQ(DefaultFaultFile("", "trace.json"), "weft-fault.json");
  EXPECT_EQ(DefaultFaultFile("", ""), "weft-fault.json");
  const Program program = Tiny();
  const FlightRecorder flight(4);
  const std::string path = std::filesystem::path(testing::TempDir()) / "fault.json";
  ASSERT_TRUE(WriteFaultReport(path, program, 1, absl::InternalError("why"), false, flight).ok());
  EXPECT_THAT(*ReadFile(FaultFileOfRank(path, 1)), HasSubstr("\"reason\": \"why\""));
  EXPECT_FALSE(WriteFaultReport("/nowhere/fault.json", program, 1, absl::InternalError("why"), false, flight).ok());
}

TEST(FaultReportTest, ActionsOfAllListsHaveNumbers) {
  const Program program = Tiny();
  EXPECT_EQ(ActionCount(program, 0), 4);
  EXPECT_EQ(ActionAt(program, 0, 0)->id(), 9);
  EXPECT_EQ(ActionAt(program, 0, 3)->id(), 4);
  EXPECT_EQ(ActionAt(program, 0, 4), nullptr);
  EXPECT_EQ(ActionAt(program, 0, -1), nullptr);
  FlightRecorder::Entry entry;
  entry.action = 2;
  entry.step = 5;
  EXPECT_EQ(DescribeEntry(program, 0, entry), "step 5, action 3 'S'");
  entry.action = 77;
  EXPECT_EQ(DescribeEntry(program, 0, entry), "step 5");
}

}  // namespace
}  // namespace weft::exec
