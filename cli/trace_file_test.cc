#include "cli/trace_file.h"

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

Trace TestTrace() {
  Trace trace;
  trace.set_origin("simulated");
  trace.set_repetitions(1);
  RankTrace* rank = trace.add_ranks();
  rank->add_streams("compute");
  rank->add_events()->set_finish_ps(5);
  return trace;
}

std::string Write(absl::string_view content) {
  const std::string path = testing::TempDir() + "/trace";
  EXPECT_TRUE(WriteFileAtomic(path, content).ok());
  return path;
}

TEST(TraceFile, ComesBackFromViewersFormat) {
  const Trace trace = TestTrace();
  const std::string text = WithTrace("{\"traceEvents\":[{\"name\":\"\\\"weft_trace\\\":\\\"\"}]}\n", trace);
  EXPECT_THAT(text, HasSubstr("\"traceEvents\":[{\"name\""));
  const absl::StatusOr<Trace> back = ReadTrace(Write(text));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->SerializeAsString(), trace.SerializeAsString());
}

TEST(TraceFile, ComesBackFromMessages) {
  EXPECT_TRUE(ReadTrace(Write(TestTrace().SerializeAsString())).ok());
  EXPECT_TRUE(ReadTrace(Write(MessageToText(TestTrace()))).ok());
}

TEST(TraceFile, RefusesOthers) {
  const auto message = [](absl::string_view content) {
    return std::string(ReadTrace(Write(content)).status().message());
  };
  EXPECT_THAT(message("{\"traceEvents\":[]}"), HasSubstr("trace: a trace for viewers that weft did not write"));
  EXPECT_THAT(message("{\"weft_trace\":\"!!!\"}"), HasSubstr("damaged"));
  EXPECT_THAT(message("{\"weft_trace\":\"AAAA"), HasSubstr("trace: "));
  EXPECT_THAT(message("origin: \"simulated\""), HasSubstr("no events"));
  EXPECT_FALSE(ReadTrace(testing::TempDir() + "/none").ok());
}

}  // namespace
}  // namespace weft
