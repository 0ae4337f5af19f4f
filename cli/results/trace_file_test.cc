#include "cli/results/trace_file.h"

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"
#include "proto/io/json.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

Trace TestTrace() {
  Trace trace;
  trace.set_origin("simulated");
  trace.set_repetitions(1);
  trace.set_tuning_digest(0xfedcba9876543210);
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
  EXPECT_NE(back->crc(), 0u);
  Trace without = *back;
  without.clear_crc();
  EXPECT_EQ(without.SerializeAsString(), trace.SerializeAsString());
}

TEST(TraceFile, ComesBackFromMessages) {
  const std::string path = testing::TempDir() + "/binary";
  ASSERT_TRUE(WriteTrace(TestTrace(), Program(), path).ok());
  const absl::StatusOr<Trace> back = ReadTrace(path);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->tuning_digest(), 0xfedcba9876543210u);
  // A text that people write may lack a checksum; if it has one, it is checked.
  EXPECT_TRUE(ReadTrace(Write(MessageToText(TestTrace()))).ok());
  EXPECT_TRUE(ReadTrace(Write(*MessageToJson(TestTrace()))).ok());
  EXPECT_TRUE(ReadTrace(Write(MessageToText(*back))).ok());
  Trace changed = *back;
  changed.mutable_ranks(0)->mutable_events(0)->set_finish_ps(6);
  EXPECT_THAT(std::string(ReadTrace(Write(MessageToText(changed))).status().message()),
              HasSubstr("damaged: trace.crc"));
}

// A file in which any one bit is wrong is refused; it is never read as a different trace.
TEST(TraceFile, DamagedFilesAreRefused) {
  const std::string path = testing::TempDir() + "/whole";
  ASSERT_TRUE(WriteTrace(TestTrace(), Program(), path).ok());
  const std::string whole = *ReadFile(path);
  for (size_t i = 0; i < 8 * whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i / 8] = static_cast<char>(damaged[i / 8] ^ (1 << i % 8));
    const absl::Status status = ParseTrace(damaged, "t").status();
    EXPECT_FALSE(status.ok()) << "bit " << i;
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos) << status;
  }
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ParseTrace(whole.substr(0, size), "t").ok()) << size;
  }
  EXPECT_THAT(std::string(ParseTrace(TestTrace().SerializeAsString(), "t").status().message()),
              HasSubstr("t: the trace has no checksum"));
}

TEST(TraceFile, ATraceForViewersThatIsCutOff) {
  const std::string chrome = WithTrace("{\"traceEvents\": []}", TestTrace());
  EXPECT_TRUE(IsForViewers(chrome));
  EXPECT_FALSE(IsForViewers(MessageToText(TestTrace())));
  EXPECT_TRUE(ParseTrace(chrome, "t").ok()) << ParseTrace(chrome, "t").status();
  EXPECT_THAT(std::string(ParseTrace(chrome.substr(0, 20), "t").status().message()),
              HasSubstr("t: this trace for viewers is cut off"));
  EXPECT_THAT(std::string(ParseTrace("{\"traceEvents\": []}\n", "t").status().message()),
              HasSubstr("weft did not write this trace"));
}

// Files whose events for viewers differ from the trace that weft would read.
TEST(TraceFile, ChangedEventsAreRefused) {
  const std::string chrome = WithTrace("{\"traceEvents\": [{\"ts\": 1}]}", TestTrace());
  ASSERT_TRUE(ParseTrace(chrome, "t").ok()) << ParseTrace(chrome, "t").status();
  const auto message = [](const std::string& text) { return std::string(ParseTrace(text, "t").status().message()); };
  const char* changed = "t: the events for viewers were changed after weft wrote the file";
  std::string other = chrome;
  other[other.find("\"ts\": 1") + 6] = '2';
  EXPECT_THAT(message(other), HasSubstr(changed));
  other = chrome;
  other[other.find("weft_events_crc") + 19] ^= 1;
  EXPECT_THAT(message(other), HasSubstr(changed));
  EXPECT_THAT(message(chrome.substr(0, chrome.rfind('}')) + ", \"traceEvents\": []}"), HasSubstr(changed));
  EXPECT_THAT(message(chrome.substr(0, chrome.rfind('"'))), HasSubstr("t: weft_trace is damaged"));
  // The form that early versions wrote, without a checksum of the events.
  const size_t crc = chrome.find("\"weft_events_crc");
  EXPECT_EQ(message(chrome.substr(0, crc) + chrome.substr(chrome.find("\"weft_trace"))), "");
}

TEST(TraceFile, RefusesOthers) {
  const auto message = [](absl::string_view content) {
    return std::string(ReadTrace(Write(content)).status().message());
  };
  EXPECT_THAT(message("{\"traceEvents\":[]}"), HasSubstr("trace: weft did not write this trace for viewers"));
  EXPECT_THAT(message("{\"weft_trace\":\"!!!\"}"), HasSubstr("damaged"));
  EXPECT_THAT(message("{\"weft_trace\":\"AAAA"), HasSubstr("trace: "));
  EXPECT_THAT(message("{\"weft_trace\":\"AAAA\"}"), HasSubstr("trace: "));
  EXPECT_THAT(message("origin: \"simulated\""), HasSubstr("no events"));
  EXPECT_FALSE(ReadTrace(testing::TempDir() + "/none").ok());
}

}  // namespace
}  // namespace weft
