#include "schedules/pipeline/transfer_check.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schedules/pipeline/lowering.h"
#include "schedules/pipeline/pytorch_csv.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Makes lists from PyTorch's words, without the checks of ParsePytorchCsv.
ActionLists Lists(std::vector<int> rank_of, int microbatches, const std::vector<std::string>& rows) {
  ActionLists lists = {.microbatches = microbatches, .rank_of = std::move(rank_of), .order = {}};
  for (const std::string& row : rows) {
    std::vector<ListAction>& list = lists.order.emplace_back();
    for (absl::string_view cell : absl::StrSplit(row, ' ')) {
      for (int k = 0; k < kListActionKinds; ++k) {
        for (int s = 0; s < 8; ++s) {
          for (int m = -1; m < 8; ++m) {
            const ListAction action = {static_cast<ListActionKind>(k), false, s, m};
            if (ListActionName(action) == cell) list.push_back(action);
          }
        }
      }
    }
  }
  return lists;
}

std::string Error(const ActionLists& lists, Communicators communicators = Communicators::kPerEdge,
                  bool grouped = false) {
  return std::string(CheckTransfers(lists, {.communicators = communicators, .grouped = grouped}).message());
}

// Each rank sends before it receives what the other rank sends.
ActionLists BothSendFirst() {
  return Lists(
      {0, 1}, 2,
      {"0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1", "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1"});
}

TEST(CheckTransfers, BothSendFirst) {
  EXPECT_EQ(Error(BothSendFirst(), Communicators::kOne),
            "deadlock: 0SEND_F1 (rank 0) with 1RECV_F1 (rank 1) waits for 1SEND_B0 (rank 1); "
            "1SEND_B0 (rank 1) with 0RECV_B0 (rank 0) waits for 0SEND_F1 (rank 0)");
  EXPECT_EQ(Error(BothSendFirst(), Communicators::kOne, /*grouped=*/true), "");
  EXPECT_EQ(Error(BothSendFirst(), Communicators::kPerDirection), "");
  EXPECT_EQ(Error(BothSendFirst(), Communicators::kPerEdge), "");
}

TEST(CheckTransfers, SwappedReceives) {
  const ActionLists lists = Lists(
      {0, 1}, 2,
      {"0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1", "1RECV_F1 1RECV_F0 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1"});
  for (Communicators communicators : {Communicators::kPerEdge, Communicators::kPerDirection, Communicators::kOne}) {
    EXPECT_EQ(
        Error(lists, communicators),
        "mismatch: transfer 1 from rank 0 to rank 1 is rank 0, action 2 (0SEND_F0) at one end and rank 1, action 1 "
        "(1RECV_F1) at the other; one communicator matches them in order");
  }
}

TEST(CheckTransfers, MissingEnds) {
  ActionLists lists = BothSendFirst();
  lists.order[0].erase(lists.order[0].begin() + 4);
  EXPECT_EQ(Error(lists), "rank 0, action 5 (0B0): the RECV of its output's gradient is missing");
  lists = BothSendFirst();
  lists.order[1].pop_back();
  EXPECT_EQ(Error(lists), "rank 0, action 7 (0RECV_B1): has no 1SEND_B1 on rank 1");
}

TEST(CheckTransfers, MisplacedActions) {
  auto changed = [](int rank, int i, int j) {
    ActionLists lists = BothSendFirst();
    std::swap(lists.order[rank][i], lists.order[rank][j]);
    return Error(lists);
  };
  EXPECT_EQ(changed(0, 0, 1), "rank 0, action 1 (0SEND_F0): comes before 0F0, which it sends");
  EXPECT_EQ(changed(1, 0, 1), "rank 1, action 1 (1F0): comes before 1RECV_F0, the RECV of its input");
  EXPECT_EQ(changed(1, 2, 3), "rank 1, action 3 (1SEND_B0): comes before 1B0, whose input gradient it sends");
  EXPECT_EQ(changed(0, 4, 5), "rank 0, action 5 (0B0): comes before 0RECV_B0, the RECV of its output's gradient");
  EXPECT_EQ(changed(1, 5, 6), "rank 1, action 6 (1B1): comes before 1F1, its forward");

  ActionLists twice = BothSendFirst();
  twice.order[0].push_back(twice.order[0][0]);
  EXPECT_EQ(Error(twice), "rank 0, action 9 (0F0): is also action 1");
  ActionLists astray = BothSendFirst();
  astray.order[0].push_back({ListActionKind::kForward, false, 1, 0});
  EXPECT_EQ(Error(astray), "rank 0, action 9 (1F0): stage 1 is on rank 1");
  astray.order[0].back() = {ListActionKind::kForward, false, 0, 2};
  EXPECT_EQ(Error(astray), "rank 0, action 9 (0F2): microbatches are 0 to 1");
  astray.order[0].back() = {ListActionKind::kForward, false, 2, 0};
  EXPECT_EQ(Error(astray), "rank 0, action 9 (2F0): stages are 0 to 1");
  astray.order[0].back() = {ListActionKind::kReceiveForward, false, 0, 0};
  EXPECT_EQ(Error(astray), "rank 0, action 9 (0RECV_F0): there is no stage -1");
}

// Stages 0 1 1 0 of a V. Rank 0 posts the gradient's RECV before it sends the second microbatch's output, and rank 1
// does the opposite. On one communicator they wait for each other.
TEST(CheckTransfers, SkewedV) {
  const ActionLists lists = Lists({0, 1, 1, 0}, 2,
                                  {"0F0 0SEND_F0 3RECV_F0 3F0 3B0 3SEND_B0 0F1 0RECV_B0 0SEND_F1 0B0 3RECV_F1 3F1 3B1 "
                                   "3SEND_B1 0RECV_B1 0B1",
                                   "1RECV_F0 1F0 2F0 2SEND_F0 2RECV_B0 2B0 1B0 1RECV_F1 1SEND_B0 1F1 2F1 2SEND_F1 "
                                   "2RECV_B1 2B1 1B1 1SEND_B1"});
  EXPECT_EQ(Error(lists, Communicators::kOne),
            "deadlock: 0RECV_B0 (rank 0) with 1SEND_B0 (rank 1) waits for 1RECV_F1 (rank 1); "
            "1RECV_F1 (rank 1) with 0SEND_F1 (rank 0) waits for 0RECV_B0 (rank 0)");
  EXPECT_EQ(Error(lists, Communicators::kPerDirection), "");
  EXPECT_EQ(Error(lists, Communicators::kPerEdge), "");
}

// Stages 0 1 0 1 of a loop. Both ranks send towards the loss before they receive. So even one communicator per
// direction blocks, and only one per edge does not.
TEST(CheckTransfers, SkewedLoop) {
  const ActionLists lists =
      Lists({0, 1, 0, 1}, 2,
            {"0F0 0SEND_F0 0F1 0SEND_F1 2RECV_F0 2F0 2SEND_F0 2RECV_F1 2F1 2SEND_F1 2RECV_B0 2B0 2SEND_B0 2RECV_B1 2B1 "
             "2SEND_B1 0RECV_B0 0B0 0RECV_B1 0B1",
             "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 3RECV_F0 3F0 3RECV_F1 3F1 3B0 3SEND_B0 3B1 3SEND_B1 1RECV_B0 "
             "1B0 1SEND_B0 1RECV_B1 1B1 1SEND_B1"});
  EXPECT_THAT(Error(lists, Communicators::kPerDirection), StartsWith("deadlock: "));
  EXPECT_THAT(Error(lists, Communicators::kOne), StartsWith("deadlock: "));
  EXPECT_EQ(Error(lists, Communicators::kPerEdge), "");
}

// A group waits for all its members, so grouping can cause a deadlock: rank 0's group sends an output, and receives the
// gradient that rank 1 computes from that output.
TEST(CheckTransfers, GroupsCanBlock) {
  const ActionLists lists = Lists({0, 1}, 1, {"0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"});
  EXPECT_EQ(Error(lists, Communicators::kPerEdge, /*grouped=*/false), "");
  // In the message, each action that waits is the action that the one before it waits for, or starts together with that
  // action.
  EXPECT_EQ(Error(lists, Communicators::kPerEdge, /*grouped=*/true),
            "deadlock: 0RECV_B0 (rank 0) with 1SEND_B0 (rank 1), which starts together with 1RECV_F0 (rank 1), waits "
            "for 1B0 (rank 1); 1B0 (rank 1) waits for 1F0 (rank 1); 1F0 (rank 1) waits for 1RECV_F0 (rank 1)");
}

// Lowered lists run on any communicators if the ranks form a line.
TEST(CheckTransfers, LoweredOneFOneB) {
  for (int n : {1, 3, 8}) {
    const PipelineSchedule schedule = *(*FindSchedule("1f1b"))->build({.ranks = 4, .microbatches = n});
    const absl::StatusOr<ActionLists> lowered = Lower(*ToActionLists(schedule, n));
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_EQ(Error(*lowered, Communicators::kPerEdge), "");
    EXPECT_EQ(Error(*lowered, Communicators::kPerDirection), "");
    EXPECT_EQ(Error(*lowered, Communicators::kOne), "");
  }
}

// Runs the lists step by step, exactly by the rules of transfer_check.h. Returns true if everything ends. The lists
// must pass the check's other rules: transfers match, and every action comes after those whose results it reads.
bool RunsToItsEnd(const ActionLists& lists, Communicators communicators, bool grouped) {
  struct Item {
    int rank;
    size_t index;
    ListAction action;
    bool done = false;
    // For a transfer: the number of its partner, and the group of consecutive transfers that starts with it.
    int partner = -1;
    int group = -1;
  };
  std::vector<Item> items;
  int groups = 0;
  for (int rank = 0; rank < static_cast<int>(lists.order.size()); ++rank) {
    for (size_t i = 0; i < lists.order[rank].size(); ++i) {
      Item item = {rank, i, lists.order[rank][i]};
      if (IsTransfer(item.action.kind)) {
        const bool joins = grouped && i > 0 && IsTransfer(lists.order[rank][i - 1].kind);
        item.group = joins ? items.back().group : groups++;
      }
      items.push_back(item);
    }
  }
  auto forward = [](const ListAction& a) {
    return a.kind == ListActionKind::kSendForward || a.kind == ListActionKind::kReceiveForward;
  };
  auto peer = [&](const Item& item) {
    const bool up = forward(item.action) == IsSend(item.action.kind);
    return lists.rank_of[item.action.stage + (up ? 1 : -1)];
  };
  for (Item& a : items) {
    for (size_t k = 0; k < items.size() && IsSend(a.action.kind); ++k) {
      Item& b = items[k];
      if (IsReceive(b.action.kind) && forward(a.action) == forward(b.action) &&
          a.action.microbatch == b.action.microbatch &&
          b.action.stage == a.action.stage + (forward(a.action) ? 1 : -1)) {
        a.partner = static_cast<int>(k);
        b.partner = static_cast<int>(&a - items.data());
      }
    }
  }
  auto same_queue = [&](const Item& a, const Item& b) {
    if (communicators == Communicators::kOne) return true;
    if (forward(a.action) != forward(b.action)) return false;
    return communicators == Communicators::kPerDirection ||
           (peer(a) == peer(b) && IsSend(a.action.kind) == IsSend(b.action.kind));
  };
  // True if the item waits for nothing except its partners.
  auto ready = [&](const Item& item) {
    for (const Item& before : items) {
      if (before.rank != item.rank || before.index >= item.index || before.done) continue;
      if (IsCompute(before.action.kind)) return false;
      if (IsTransfer(item.action.kind) && before.group != item.group && same_queue(before, item)) return false;
      if (IsCompute(item.action.kind) && IsReceive(before.action.kind) && before.action.stage == item.action.stage &&
          before.action.microbatch == item.action.microbatch && item.action.kind != ListActionKind::kBackwardWeight &&
          forward(before.action) == (item.action.kind == ListActionKind::kForward)) {
        return false;
      }
    }
    return true;
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (Item& item : items) {
      if (item.done) continue;
      // The item and all items that must start together with it.
      std::vector<Item*> together = {&item};
      for (size_t i = 0; i < together.size(); ++i) {
        for (Item& other : items) {
          const Item& one = *together[i];
          const bool linked = one.group >= 0 && (other.group == one.group || &other == &items[one.partner]);
          if (linked && std::find(together.begin(), together.end(), &other) == together.end())
            together.push_back(&other);
        }
      }
      if (!std::all_of(together.begin(), together.end(), [&](const Item* one) { return ready(*one); })) continue;
      for (Item* one : together) one->done = true;
      progress = true;
    }
  }
  return std::all_of(items.begin(), items.end(), [](const Item& item) { return item.done; });
}

// Moves random actions in the lists of several schedules. The check must find a deadlock if and only if a run of the
// lists blocks.
TEST(CheckTransfers, AgreesWithRunningThem) {
  std::mt19937 random(20231);
  SCOPED_TRACE("seed 20231");
  int blocked = 0, fine = 0;
  for (int round = 0; round < 400; ++round) {
    const char* const name = std::vector<const char*>{"1f1b", "interleaved", "zb-v", "hanayo"}[random() % 4];
    const int p = 2 + random() % 2, n = 1 + random() % 3;
    ActionLists lists = *Lower(*ToActionLists(*(*FindSchedule(name))->build({.ranks = p, .microbatches = n}), n),
                               {.merge_backwards = false, .unsharded_stages = 0, .reduce_gradients = false});
    for (int move = random() % 4; move >= 0; --move) {
      std::vector<ListAction>& list = lists.order[random() % p];
      const size_t from = random() % list.size(), to = random() % list.size();
      const ListAction action = list[from];
      list.erase(list.begin() + from);
      list.insert(list.begin() + to, action);
    }
    for (Communicators communicators : {Communicators::kPerEdge, Communicators::kPerDirection, Communicators::kOne}) {
      for (bool grouped : {false, true}) {
        const std::string error = Error(lists, communicators, grouped);
        if (!error.empty() && error.rfind("deadlock: ", 0) != 0) continue;
        ++(error.empty() ? fine : blocked);
        EXPECT_EQ(RunsToItsEnd(lists, communicators, grouped), error.empty())
            << name << " round " << round << " " << error;
      }
    }
  }
  EXPECT_GT(blocked, 50);
  EXPECT_GT(fine, 50);
}

}  // namespace
}  // namespace weft
