#include "simulator/compare/sources.h"

#include <random>
#include <string>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "simulator/compare/compare.h"

namespace weft::sim {
namespace {

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

int64_t TimeOf(const TimeBySource& time, Source source) {
  return static_cast<int64_t>(time.ps[static_cast<int>(source)]);
}

TEST(Sources, EveryInstantIsOneOfThem) {
  // Compute runs at 10-20 and 35-40, a copy at 15-24, a send at 22-30. Then nothing runs for 5 before a step that was
  // ready at 32. At the end this rank waits 10 for the other rank, which is busy throughout.
  const Trace trace = Parse<Trace>(R"pb(
    repetitions: 1
    ranks {
      streams: "compute"
      streams: "d2h"
      streams: "send"
      events { start_ps: 10 ready_ps: 10 end_ps: 20 finish_ps: 20 }
      events { stream: 1 start_ps: 15 ready_ps: 15 end_ps: 24 finish_ps: 24 }
      events { stream: 2 start_ps: 22 ready_ps: 22 end_ps: 28 finish_ps: 30 }
      events { start_ps: 35 ready_ps: 32 end_ps: 40 finish_ps: 40 }
    }
    ranks {
      rank: 1
      streams: "compute"
      events { start_ps: 10 ready_ps: 10 end_ps: 50 finish_ps: 50 }
    }
  )pb");
  const TimeBySource time = SourcesOf(trace, nullptr);
  EXPECT_EQ(time.window_ps, 40);
  EXPECT_EQ(time.ranks, 2);
  EXPECT_EQ(TimeOf(time, Source::kCompute), 10 + 5 + 40);
  EXPECT_EQ(TimeOf(time, Source::kCopies), 4);
  EXPECT_EQ(TimeOf(time, Source::kCommunication), 6);
  EXPECT_EQ(TimeOf(time, Source::kHost), 2);
  EXPECT_EQ(TimeOf(time, Source::kWaiting), 3 + 10);
}

TEST(Sources, TheNextEventDecidesTheSourceOfAGap) {
  const auto of = [](const std::string& next) {
    return SourcesOf(Parse<Trace>(R"pb(
                                    repetitions: 1
                                    ranks { streams: "compute" streams: "recv"
                                            events { end_ps: 10 finish_ps: 10 }
                                  )pb" +
                                  next + "}"),
                     nullptr);
  };
  EXPECT_EQ(TimeOf(of("events { start_ps: 15 ready_ps: 15 end_ps: 20 finish_ps: 20 }"), Source::kHost), 5);
  // If the work that follows is a message, the rank waited for it, even if the message takes no time.
  EXPECT_EQ(TimeOf(of("events { stream: 1 start_ps: 15 ready_ps: 12 end_ps: 20 finish_ps: 20 }"), Source::kWaiting), 5);
  EXPECT_EQ(TimeOf(of("events { start_ps: 15 ready_ps: 15 end_ps: 20 finish_ps: 20 }"
                      "events { stream: 1 start_ps: 15 ready_ps: 15 end_ps: 15 finish_ps: 15 }"),
                   Source::kWaiting),
            5);
}

TEST(Sources, TakesTheRepetitionInTheMiddle) {
  // Periods are 10 (left out), 8, 12 and 9. The window is the period of 9, which begins where the one of 12 ends.
  const Trace trace = Parse<Trace>(R"pb(
    repetitions: 5
    ranks {
      streams: "compute"
      events { end_ps: 5 finish_ps: 5 }
      events { repetition: 1 ready_ps: 6 start_ps: 6 end_ps: 15 finish_ps: 15 }
      events { repetition: 2 ready_ps: 16 start_ps: 16 end_ps: 23 finish_ps: 23 }
      events { repetition: 3 ready_ps: 24 start_ps: 24 end_ps: 35 finish_ps: 35 }
      events { repetition: 4 ready_ps: 36 start_ps: 36 end_ps: 44 finish_ps: 44 }
    }
  )pb");
  EXPECT_EQ(WindowOf(trace).begin_ps, 35);
  EXPECT_EQ(WindowOf(trace).end_ps, 44);
  EXPECT_DOUBLE_EQ(SummarizeTrace(trace).iteration_seconds(), 9e-12);
  EXPECT_EQ(TimeOf(SourcesOf(trace, nullptr), Source::kCompute), 8);
  EXPECT_EQ(TimeOf(SourcesOf(trace, nullptr), Source::kHost), 1);
}

// Whatever a trace holds, its times add up to ranks x window to the picosecond.
TEST(Sources, AddUpExactly) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto draw = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1)); };
    Trace trace;
    trace.set_repetitions(static_cast<int32_t>(1 + draw(3)));
    for (int r = 0; r < 1 + draw(2); ++r) {
      RankTrace* rank = trace.add_ranks();
      rank->set_rank(r);
      for (const char* stream : {"compute", "h2d", "send"}) rank->add_streams(stream);
      for (int i = 0; i < 1 + draw(20); ++i) {
        TraceEvent* event = rank->add_events();
        event->set_repetition(static_cast<int32_t>(draw(trace.repetitions() - 1)));
        event->set_stream(static_cast<int32_t>(draw(2)));
        event->set_ready_ps(draw(30));
        event->set_start_ps(event->ready_ps() + draw(5));
        event->set_end_ps(event->start_ps() + draw(8));
        event->set_finish_ps(event->end_ps() + draw(3));
      }
    }
    const TimeBySource time = SourcesOf(trace, nullptr);
    absl::int128 sum = 0;
    for (const absl::int128 ps : time.ps) {
      EXPECT_GE(ps, 0);
      sum += ps;
    }
    EXPECT_EQ(sum, absl::int128(time.window_ps) * time.ranks);
    // Both sides of a report add up too, and so does the difference.
    ComparisonReport report = *CompareTraces(trace, trace, nullptr);
    double seconds = 0;
    for (const SourceComparison& row : report.sources()) seconds += row.first_seconds();
    EXPECT_NEAR(seconds, report.first().iteration_seconds(), 1e-24 + 1e-12 * seconds);
  }
}

TEST(Sources, KernelsOfAProgramAndTheirShares) {
  const Program program = Parse<Program>(R"pb(
    mesh { axes { name: "data" size: 1 } }
    segments {
      name: "forward"
      steps { name: "qkv" kernel: MATMUL stream: COMPUTE }
      steps { name: "act" kernel: GELU stream: COMPUTE }
      steps { name: "out" kernel: MATMUL stream: COMPUTE }
    }
    templates {
      name: "t"
      body { id: 1 kind: FORWARD name: "F" }
    }
  )pb");
  const auto trace = [](int64_t first, int64_t second, int64_t third) {
    Trace result;
    result.set_repetitions(1);
    RankTrace* rank = result.add_ranks();
    rank->add_streams("compute");
    int64_t at = 0;
    for (const int64_t length : {first, second, third}) {
      TraceEvent* event = rank->add_events();
      event->set_action(1);
      event->set_step(rank->events_size() - 1);
      event->set_ready_ps(at);
      event->set_start_ps(at);
      at += length * 1'000'000'000'000;
      event->set_end_ps(at);
      event->set_finish_ps(at);
    }
    return result;
  };
  const ComparisonReport report = *CompareTraces(trace(4, 2, 5), trace(5, 2, 8), &program);
  ASSERT_EQ(report.kernels_size(), 2);
  EXPECT_EQ(report.kernels(0).kernel(), "MATMUL");
  EXPECT_EQ(report.kernels(0).steps(), 2);
  EXPECT_EQ(report.kernels(0).first_seconds(), 9);
  EXPECT_EQ(report.kernels(0).second_seconds(), 13);
  EXPECT_DOUBLE_EQ(report.kernels(0).error(), -4.0 / 13);
  EXPECT_EQ(report.kernels(0).share(), 1);
  EXPECT_EQ(report.kernels(1).share(), 0);
  ASSERT_EQ(report.steps_size(), 3);
  EXPECT_EQ(report.steps(0).step(), "out");
  EXPECT_EQ(report.steps(0).share(), 0.75);
  EXPECT_EQ(report.steps(1).step(), "qkv");
  EXPECT_EQ(report.sources(0).source(), "compute");
  EXPECT_EQ(report.sources(0).share(), 1);
  // A step that one of the traces lacks is an error.
  Trace shorter = trace(1, 1, 1);
  shorter.mutable_ranks(0)->mutable_events()->RemoveLast();
  EXPECT_NE(CompareTraces(shorter, trace(1, 1, 1), &program).status().message().find("step 2 of action 1 of rank 0"),
            absl::string_view::npos);
}

}  // namespace
}  // namespace weft::sim
