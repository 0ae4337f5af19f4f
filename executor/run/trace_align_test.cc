#include "executor/run/trace_align.h"

#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft::exec {
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
  // Even if the clocks differ, a start is never after the end.
  EXPECT_EQ(trace.ranks(0).events(3).start_ps(), 550);
  EXPECT_EQ(trace.ranks(1).events(2).start_ps(), 9000);
}

// A skip edge is an edge of its own, and messages of a group may end in any order.
TEST(TraceAlignTest, PartnersAreOfOneEdgeInListOrder) {
  Program program;
  program.mutable_mesh()->add_axes()->set_name("pipe");
  program.mutable_mesh()->mutable_axes(0)->set_size(2);
  for (int rank = 0; rank < 2; ++rank) {
    Template* t = program.add_templates();
    t->add_pins()->set_axis("pipe");
    t->mutable_pins(0)->set_index(rank);
    // The skip edge, then two messages of the plain edge; the receiver has the skip edge last.
    for (const int skip : rank == 0 ? std::vector<int>{1, 0, 0} : std::vector<int>{0, 0, 1}) {
      Action* action = t->add_body();
      action->set_id(t->body_size() - 1);
      action->set_kind(rank == 0 ? SEND : RECV);
      action->set_direction(TOWARDS_LOSS);
      action->set_skip(skip);
      action->mutable_peer()->add_at()->set_axis("pipe");
      action->mutable_peer()->mutable_at(0)->set_index(1 - rank);
    }
  }
  Trace trace;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        ranks {
          rank: 0
          events { action: 0 ready_ps: 1 start_ps: 1 end_ps: 99 finish_ps: 99 }
          events { action: 2 ready_ps: 3 start_ps: 3 end_ps: 99 finish_ps: 99 }
          events { action: 1 ready_ps: 2 start_ps: 2 end_ps: 99 finish_ps: 99 }
        }
        ranks {
          rank: 1
          events { action: 0 ready_ps: 20 start_ps: 20 end_ps: 99 finish_ps: 99 }
          events { action: 1 ready_ps: 30 start_ps: 30 end_ps: 99 finish_ps: 99 }
          events { action: 2 ready_ps: 10 start_ps: 10 end_ps: 99 finish_ps: 99 }
        }
      )pb",
      &trace));
  AlignStarts(program, &trace);
  EXPECT_EQ(trace.ranks(0).events(0).start_ps(), 10);
  EXPECT_EQ(trace.ranks(0).events(1).start_ps(), 30);
  EXPECT_EQ(trace.ranks(0).events(2).start_ps(), 20);
}

}  // namespace
}  // namespace weft::exec
