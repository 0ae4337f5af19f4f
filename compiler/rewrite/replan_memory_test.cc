// Checks the offsets of random templates against a slow implementation of rule P7: the transitive closure of "happens
// before" over three repetitions, event by event.
#include "compiler/rewrite/replan_memory.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

constexpr int kRepetitions = 3;

// Makes a template whose compute actions read messages from one neighbor, send to the other, and save values. If an
// action has collectives in its segment, it waits for the action before it, and the action after it waits for it.
class RandomTemplate {
 public:
  explicit RandomTemplate(uint32_t seed, bool collectives = false)
      : collectives_(collectives), random_(seed), random_collectives_(seed) {
    t_ = program_.add_templates();
    t_->set_name("t");
    Buffer* weights = t_->add_buffers();
    weights->set_bytes(1000);
    weights->set_persistent(true);
    weights->set_place(DEVICE);
    const int computes = 3 + static_cast<int>(random_() % 8);
    for (int c = 0; c < computes; ++c) AddCompute(c, c + 1 == computes);
  }

  Program& program() { return program_; }
  Template* t() { return t_; }

 private:
  int NewBuffer() {
    Buffer* buffer = t_->add_buffers();
    buffer->set_bytes(1 + static_cast<int64_t>(random_() % 5) * 700);
    buffer->set_place(DEVICE);
    buffer->set_name(absl::StrCat("b", t_->buffers_size() - 1));
    return t_->buffers_size() - 1;
  }

  Action* NewAction(ActionKind kind) {
    Action* action = t_->add_body();
    action->set_id(t_->body_size() - 1);
    action->set_kind(kind);
    return action;
  }

  void Wait(Action* action, int on, int distance = 0) {
    Dependency* dep = action->add_deps();
    dep->set_action(on);
    dep->set_distance(distance);
  }

  void AddCompute(int c, bool last) {
    const bool receives = random_() % 2 == 0;
    int received = -1, recv = -1;
    if (receives) {
      Action* action = NewAction(RECV);
      recv = action->id();
      action->mutable_peer()->add_at()->set_axis("pipe");
      action->set_direction(TOWARDS_LOSS);
      received = NewBuffer();
      action->add_destinations(received);
      if (last_compute_ >= 0) Wait(action, last_compute_);
      if (first_recv_ < 0) first_recv_ = recv;
    }
    Action* action = NewAction(FORWARD);
    action->set_segment(program_.segments_size());
    Segment* segment = program_.add_segments();
    segment->add_steps()->set_stream(COMPUTE);
    const bool collective = collectives_ && random_collectives_() % 2 == 0;
    if (collective) segment->add_steps()->set_stream(COLLECTIVE);
    if (last_compute_ >= 0 && (collective || last_collective_)) Wait(action, last_compute_);
    last_collective_ = collective;
    if (first_compute_ < 0) {
      first_compute_ = action->id();
      first_collective_ = collective;
    }
    const auto use = [&](int buffer, Access access) {
      action->add_operands(buffer);
      segment->add_operands()->set_access(access);
    };
    use(0, READ);
    if (receives) {
      Wait(action, recv);
      use(received, READ);
      kept_.push_back(received);
    }
    // Some compute actions wait for sends.
    for (const int send : sends_) {
      if (random_() % 3 == 0 || last) Wait(action, send);
    }
    for (size_t k = 0; k < kept_.size();) {
      if (!last && random_() % 3 != 0) {
        ++k;
        continue;
      }
      if (std::count(action->operands().begin(), action->operands().end(), kept_[k]) == 0) use(kept_[k], READ);
      action->add_releases(kept_[k]);
      kept_.erase(kept_.begin() + static_cast<int64_t>(k));
    }
    const int work = NewBuffer();
    use(work, WRITE);
    action->add_releases(work);
    last_compute_ = action->id();
    if (last) {
      // The first RECV of the next repetition waits for the last compute action.
      if (first_recv_ >= 0) Wait(t_->mutable_body(first_recv_), last_compute_, 1);
      if (first_collective_ || collective) Wait(t_->mutable_body(first_compute_), last_compute_, 1);
      return;
    }
    const int kept = NewBuffer();
    use(kept, WRITE);
    kept_.push_back(kept);
    if (random_() % 2 == 0) return;
    const int sent = NewBuffer();
    use(sent, WRITE);
    Action* send = NewAction(SEND);
    send->mutable_peer()->add_at()->set_axis("pipe");
    send->mutable_peer()->mutable_at(0)->set_index(2 + c % 2);
    send->set_direction(TOWARDS_LOSS);
    send->add_sources(sent);
    send->add_releases(sent);
    Wait(send, last_compute_);
    sends_.push_back(send->id());
  }

  const bool collectives_;
  std::mt19937 random_, random_collectives_;
  Program program_;
  Template* t_ = nullptr;
  int last_compute_ = -1;
  int first_recv_ = -1;
  int first_compute_ = -1;
  bool first_collective_ = false, last_collective_ = false;
  std::vector<int> sends_;
  std::vector<int> kept_;
};

// Decides which event happens before which. Each action of each repetition has three events: start, end, finish. An
// action ends when its steps on the compute stream are done. Collectives in its segment may begin with it and finish
// after its end.
class HappensBefore {
 public:
  HappensBefore(const Program& program, const Template& t)
      : actions_(t.body_size()), next_(kRepetitions * actions_ * 3) {
    std::map<std::string, int> last_on;
    const auto has_collectives = [&](const Action& action) {
      return action.kind() == FORWARD && program.segments(action.segment()).steps_size() > 1;
    };
    for (int r = 0; r < kRepetitions; ++r) {
      for (int a = 0; a < actions_; ++a) {
        const Action& action = t.body(a);
        next_[Start(r, a)].push_back(Start(r, a) + 1);
        next_[Start(r, a) + 1].push_back(Finish(r, a));
        const std::string stream = absl::StrCat(
            action.kind(), action.peer().at_size() > 0 ? absl::StrCat(action.peer().at(0).index()) : std::string());
        if (const auto before = last_on.find(stream); before != last_on.end()) {
          // Sends, and actions that only compute, finish when they end. Receives, and actions with collectives, may
          // finish later.
          const bool later = action.kind() == RECV || has_collectives(t.body(before->second / 3 % actions_));
          next_[before->second + (later ? 1 : 2)].push_back(Start(r, a) + (has_collectives(action) ? 1 : 0));
        }
        last_on[stream] = Start(r, a);
        for (const Dependency& dep : action.deps()) {
          if (r >= dep.distance()) next_[Finish(r - dep.distance(), dep.action())].push_back(Start(r, a));
        }
      }
    }
  }

  // True if `a` finishes before `b` starts.
  bool Ordered(int ra, int a, int rb, int b) const {
    std::vector<bool> seen(next_.size(), false);
    std::vector<int> open = {Finish(ra, a)};
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      if (at == Start(rb, b)) return true;
      if (seen[at]) continue;
      seen[at] = true;
      open.insert(open.end(), next_[at].begin(), next_[at].end());
    }
    return false;
  }

 private:
  int Start(int r, int a) const { return (r * actions_ + a) * 3; }
  int Finish(int r, int a) const { return Start(r, a) + 2; }

  int actions_;
  std::vector<std::vector<int>> next_;
};

struct Life {
  int writer = -1, release = -1;
};

std::vector<Life> LivesOf(const Program& program, const Template& t) {
  std::vector<Life> lives(t.buffers_size());
  for (int a = 0; a < t.body_size(); ++a) {
    const Action& action = t.body(a);
    for (int o = 0; o < action.operands_size(); ++o) {
      Life& life = lives[action.operands(o)];
      if (program.segments(action.segment()).operands(o).access() == WRITE && life.writer < 0) life.writer = a;
    }
    for (const int b : action.destinations()) lives[b].writer = a;
    for (const int b : action.releases()) lives[b].release = a;
  }
  return lives;
}

TEST(ReplanMemory, BuffersThatShareBytesAreOrderedForAnyTiming) {
  int shared = 0;
  for (uint32_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomTemplate random(seed, seed > 60);
    Template& t = *random.t();
    ASSERT_TRUE(ReplanTransients(random.program(), &t).ok());
    const HappensBefore order(random.program(), t);
    const std::vector<Life> lives = LivesOf(random.program(), t);
    EXPECT_EQ(t.buffers(0).offset(), 0);
    int64_t height = 1024;
    for (int b = 1; b < t.buffers_size(); ++b) {
      EXPECT_EQ(t.buffers(b).offset() % 256, 0);
      EXPECT_GE(t.buffers(b).offset(), 1024);
      height = std::max(height, t.buffers(b).offset() + (t.buffers(b).bytes() + 255) / 256 * 256);
      // The buffer is free again before the next repetition writes it.
      EXPECT_TRUE(order.Ordered(1, lives[b].release, 2, lives[b].writer)) << t.buffers(b).name();
      for (int c = 1; c < b; ++c) {
        if (t.buffers(b).offset() >= t.buffers(c).offset() + t.buffers(c).bytes() ||
            t.buffers(c).offset() >= t.buffers(b).offset() + t.buffers(b).bytes()) {
          continue;
        }
        ++shared;
        EXPECT_TRUE(order.Ordered(1, lives[b].release, 1, lives[c].writer) ||
                    order.Ordered(1, lives[c].release, 1, lives[b].writer))
            << t.buffers(b).name() << " and " << t.buffers(c).name();
        EXPECT_TRUE(order.Ordered(1, lives[b].release, 2, lives[c].writer)) << t.buffers(b).name();
        EXPECT_TRUE(order.Ordered(1, lives[c].release, 2, lives[b].writer)) << t.buffers(c).name();
      }
    }
    EXPECT_EQ(t.device_arena_bytes(), height);
    EXPECT_EQ(t.host_arena_bytes(), 0);
    // The actions may run in the order of the list, so the arena must hold all buffers that are live together in it.
    for (int a = 0; a < t.body_size(); ++a) {
      int64_t live = 1024;
      for (int b = 1; b < t.buffers_size(); ++b) {
        if (lives[b].writer <= a && a <= lives[b].release) live += (t.buffers(b).bytes() + 255) / 256 * 256;
      }
      EXPECT_LE(live, t.device_arena_bytes()) << "action " << a;
    }
    Template again = t;
    ASSERT_TRUE(ReplanTransients(random.program(), &again).ok());
    EXPECT_EQ(again.SerializeAsString(), t.SerializeAsString());
  }
  // Without this check, arenas without any reuse would pass.
  EXPECT_GT(shared, 600);
}

// Waits around collectives order actions as the compute stream does without collectives, so no more bytes are needed.
TEST(ReplanMemory, CollectivesInSegmentsTakeNoMoreBytes) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    RandomTemplate with(seed, true), without(seed);
    ASSERT_TRUE(ReplanTransients(with.program(), with.t()).ok());
    ASSERT_TRUE(ReplanTransients(without.program(), without.t()).ok());
    EXPECT_EQ(with.t()->device_arena_bytes(), without.t()->device_arena_bytes()) << "seed " << seed;
  }
}

TEST(ReplanMemory, ABufferWithoutLifeIsAnError) {
  RandomTemplate random(1);
  Buffer* buffer = random.t()->add_buffers();
  buffer->set_name("nobody's");
  buffer->set_bytes(1);
  buffer->set_place(DEVICE);
  const absl::Status status = ReplanTransients(random.program(), random.t());
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("template t: buffer nobody's has no life"));
}

TEST(ReplanMemory, HostileSizesAreRefused) {
  RandomTemplate random(2);
  for (int b = 1; b < random.t()->buffers_size(); ++b) {
    random.t()->mutable_buffers(b)->set_bytes(std::numeric_limits<int64_t>::max());
  }
  EXPECT_EQ(ReplanTransients(random.program(), random.t()).code(), absl::StatusCode::kResourceExhausted);
}

TEST(ReplanMemory, HostBuffersHaveAnArenaOfTheirOwn) {
  RandomTemplate random(3);
  Template& t = *random.t();
  for (int b = 1; b < t.buffers_size(); b += 2) t.mutable_buffers(b)->set_place(HOST);
  ASSERT_TRUE(ReplanTransients(random.program(), &t).ok());
  int64_t height = 0, lowest = std::numeric_limits<int64_t>::max();
  for (int b = 1; b < t.buffers_size(); b += 2) {
    height = std::max(height, t.buffers(b).offset() + (t.buffers(b).bytes() + 255) / 256 * 256);
    lowest = std::min(lowest, t.buffers(b).offset());
  }
  EXPECT_EQ(lowest, 0);
  EXPECT_EQ(t.host_arena_bytes(), height);
}

}  // namespace
}  // namespace weft
