#include "executor/trace_align.h"

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

TEST(TraceAlignTest, PartnersStartTogetherWhenTheLastIsReady) {
  Program program;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"pb(
                                                              mesh { axes { name: "pipe" size: 2 } }
                                                              templates {
                                                                pins { axis: "pipe" index: 0 }
                                                                body { id: 0 kind: FORWARD }
                                                                body {
                                                                  id: 1
                                                                  kind: SEND
                                                                  peer { at { axis: "pipe" index: 1 } }
                                                                  direction: TOWARDS_LOSS
                                                                }
                                                                body {
                                                                  id: 2
                                                                  kind: ALL_REDUCE
                                                                  group { axes { axis: "pipe" } }
                                                                  purpose: LOSS_SYNC
                                                                }
                                                              }
                                                              templates {
                                                                pins { axis: "pipe" index: 1 }
                                                                body {
                                                                  id: 0
                                                                  kind: RECV
                                                                  peer { at { axis: "pipe" index: 0 } }
                                                                  direction: TOWARDS_LOSS
                                                                }
                                                                body {
                                                                  id: 1
                                                                  kind: ALL_REDUCE
                                                                  group { axes { axis: "pipe" } }
                                                                  purpose: LOSS_SYNC
                                                                }
                                                              }
                                                            )pb",
                                                            &program));
  Trace trace;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        ranks {
          rank: 0
          events { action: 0 ready_ps: 1 start_ps: 2 end_ps: 3 finish_ps: 3 }
          events { action: 1 ready_ps: 10 start_ps: 10 end_ps: 90 finish_ps: 90 }
          events { action: 2 ready_ps: 100 start_ps: 101 end_ps: 400 finish_ps: 400 }
          events { action: 1 repetition: 1 ready_ps: 500 start_ps: 500 end_ps: 550 finish_ps: 550 }
        }
        ranks {
          rank: 1
          events { action: 0 ready_ps: 70 start_ps: 70 end_ps: 91 finish_ps: 91 }
          events { action: 1 ready_ps: 390 start_ps: 390 end_ps: 395 finish_ps: 395 }
          events { action: 0 repetition: 1 ready_ps: 9000 start_ps: 9000 end_ps: 9100 finish_ps: 9100 }
        }
      )pb",
      &trace));
  AlignStarts(program, &trace);
  EXPECT_EQ(trace.ranks(0).events(0).start_ps(), 2);
  EXPECT_EQ(trace.ranks(0).events(1).start_ps(), 70);
  EXPECT_EQ(trace.ranks(1).events(0).start_ps(), 70);
  EXPECT_EQ(trace.ranks(0).events(2).start_ps(), 390);
  EXPECT_EQ(trace.ranks(1).events(1).start_ps(), 390);
  // Clocks that do not agree: never after the end.
  EXPECT_EQ(trace.ranks(0).events(3).start_ps(), 550);
  EXPECT_EQ(trace.ranks(1).events(2).start_ps(), 9000);
}

}  // namespace
}  // namespace weft
