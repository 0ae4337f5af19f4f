// Folded and unfolded runs are the same in every field and every step, on random programs and machines.
#include "simulator/fold.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "simulator/engine.h"
#include "simulator/test_programs.h"

namespace weft {
namespace {

int64_t Mix(uint64_t seed, std::initializer_list<int64_t> values, int64_t bound) {
  uint64_t hash = seed + 1;
  for (const int64_t value : values) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return static_cast<int64_t>(hash % static_cast<uint64_t>(bound));
}

// What is not like the rest.
enum class Machine { kAlike, kOneSlowRank, kOneSlowLink, kTwoKinds, kNoTwoAlike };

// By rank, a number: alike where links and devices are.
std::vector<int32_t> RankKinds(Machine machine, int64_t ranks, uint64_t seed) {
  std::vector<int32_t> kinds(ranks, 0);
  const int64_t chosen = Mix(seed, {7}, ranks);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    switch (machine) {
      case Machine::kAlike:
        break;
      case Machine::kOneSlowRank:
      case Machine::kOneSlowLink:
        kinds[rank] = rank == chosen;
        break;
      case Machine::kTwoKinds:
        kinds[rank] = rank * 2 >= ranks;
        break;
      case Machine::kNoTwoAlike:
        kinds[rank] = static_cast<int32_t>(rank);
        break;
    }
  }
  return kinds;
}

class KindNetwork : public NetworkModel {
 public:
  KindNetwork(uint64_t seed, std::vector<int32_t> kinds) : seed_(seed), kinds_(std::move(kinds)) {}

  absl::StatusOr<TransferTime> Transfer(int64_t source, int64_t destination, int64_t bytes) const override {
    const int64_t a = kinds_[source], b = kinds_[destination];
    return TransferTime{{Mix(seed_, {a, b, bytes}, 5)}, {Mix(seed_, {2, a, b}, 3)}};
  }
  absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm& form,
                                          absl::Span<const int64_t> members) const override {
    int64_t slowest = 0;
    for (const int64_t member : members) slowest = std::max<int64_t>(slowest, kinds_[member]);
    const int64_t size = static_cast<int64_t>(members.size());
    return TransferTime{{Mix(seed_, {3, slowest, size, call.parts[0].elements}, 9)}, {Mix(seed_, {slowest, size}, 3)}};
  }

 private:
  uint64_t seed_;
  std::vector<int32_t> kinds_;
};

// All that a result says, events in a fixed order.
auto Everything(const RankResult& rank) {
  using EventTuple = std::tuple<int, int, int, int, Time, Time, Time, Time>;
  std::vector<EventTuple> events;
  for (const EngineEvent& e : rank.events) {
    events.push_back({e.repetition, e.action, e.step, e.stream, e.ready, e.start, e.end, e.finish});
  }
  std::sort(events.begin(), events.end());
  return std::make_tuple(rank.busy, rank.slowed, rank.exposed_communication, rank.idle, rank.live_peak,
                         rank.peak_forwards, rank.live_at_peak, events);
}

void ExpectSame(const EngineResult& a, const EngineResult& b) {
  EXPECT_EQ(a.makespan, b.makespan);
  EXPECT_EQ(a.repetition_finish, b.repetition_finish);
  EXPECT_EQ(a.steps, b.steps);
  ASSERT_EQ(a.ranks.size(), b.ranks.size());
  for (size_t rank = 0; rank < a.ranks.size(); ++rank) {
    EXPECT_TRUE(Everything(a.ranks[rank]) == Everything(b.ranks[rank])) << "rank " << rank;
  }
}

void SetAxis(Program& program, const std::string& name, int64_t size) {
  for (MeshAxis& axis : *program.mutable_mesh()->mutable_axes()) {
    if (axis.name() == name) axis.set_size(size);
  }
}

// `speeds`: kinds differ in speed, not in what they are.
ProgramView MakeView(const Program& program, uint64_t seed, const std::vector<int32_t>& devices, bool speeds = false) {
  const auto costs = [&](const StepUse& use) -> absl::StatusOr<LoadTimes> {
    const bool copy = program.segments(use.segment).steps(use.step).stream() != COMPUTE;
    const int64_t cost = Mix(seed, {use.segment, use.step, use.kind}, 6) * (1 + use.device);
    const int64_t more = copy || cost == 0 ? 0 : Mix(seed, {use.segment, use.step}, 4);
    return LoadTimes{Time{cost}, Time{cost + more}, Time{cost + 2 * more}};
  };
  ProgramViewOptions options;
  if (!speeds) options.device_of_rank = devices;
  for (const int32_t device : devices) {
    if (speeds) options.speed_of_rank.push_back(1'000'000 - 300'000 * std::min(device, 2) - device);
  }
  auto view = BuildProgramView(program, costs, options);
  EXPECT_TRUE(view.ok()) << view.status();
  return *std::move(view);
}

TEST(Fold, RandomProgramsOnRandomMachines) {
  // By machine: programs that were folded, and ranks that this left out.
  std::map<Machine, int> folded;
  int64_t left_out = 0, all_ranks = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Program program = RandomEngineProgram(seed);
    constexpr int64_t kSizes[] = {1, 2, 4, 8};
    SetAxis(program, "x", kSizes[Mix(seed, {1}, 4)]);
    int64_t ranks = 1;
    for (const MeshAxis& axis : program.mesh().axes()) ranks *= axis.size();
    const Machine machine = static_cast<Machine>(seed % 5);
    const std::vector<int32_t> kinds = RankKinds(machine, ranks, seed);
    const ProgramView view =
        MakeView(program, seed, machine == Machine::kOneSlowLink ? std::vector<int32_t>(ranks, 0) : kinds, seed % 2);
    const KindNetwork network(seed, machine == Machine::kOneSlowRank ? std::vector<int32_t>(ranks, 0) : kinds);
    const auto all = LinkRanks(view);
    ASSERT_TRUE(all.ok()) << all.status();
    const std::optional<RankLinks> fold = FoldRanks(view, network, *all);
    all_ranks += ranks;
    if (!fold) continue;
    ++folded[machine];
    left_out += ranks - static_cast<int64_t>(fold->ranks.size());
    EngineOptions options = {.repetitions = 1 + static_cast<int>(seed % 3), .trace = true};
    for (const bool steady : {false, true}) {
      if (steady) options = {.repetitions = 16, .trace = false, .stop_when_steady = true};
      const auto one = RunEngine(view, *all, network, options);
      const auto other = RunEngine(view, *fold, network, options);
      ASSERT_TRUE(one.ok()) << one.status();
      ASSERT_TRUE(other.ok()) << other.status();
      ExpectSame(*one, *other);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(folded[Machine::kAlike], 40);
  EXPECT_GT(folded[Machine::kOneSlowRank], 20);
  EXPECT_GT(folded[Machine::kOneSlowLink], 20);
  EXPECT_GT(folded[Machine::kTwoKinds], 20);
  EXPECT_EQ(folded[Machine::kNoTwoAlike], 0);
  EXPECT_GT(left_out * 4, all_ranks);
}

// 3 stages x 4 replicas x 2, each stage's gradients summed over its replicas.
Program ReplicatedProgram() {
  Program program = GPipeProgram(/*ranks=*/3, /*microbatches=*/4, /*bytes=*/100);
  for (const auto& [name, size] : {std::pair<const char*, int64_t>{"data", 4}, {"x", 2}}) {
    MeshAxis* axis = program.mutable_mesh()->add_axes();
    axis->set_name(name);
    axis->set_size(size);
  }
  for (Template& t : *program.mutable_templates()) {
    Action& action = *t.add_body();
    action.set_id(1000);
    action.set_kind(ALL_REDUCE);
    action.add_deps()->set_action(t.body(t.body_size() - 2).id());
    action.add_sources(0);
    action.add_destinations(0);
    action.mutable_group()->add_axes()->set_axis("data");
    action.set_purpose(GRADIENT_SYNC);
    action.set_algorithm("ring");
  }
  return program;
}

size_t ClassesOf(const Program& program, const std::vector<int32_t>& devices, const std::vector<int32_t>& kinds) {
  const ProgramView view = MakeView(program, 3, devices);
  const KindNetwork network(3, kinds);
  const auto all = LinkRanks(view);
  EXPECT_TRUE(all.ok()) << all.status();
  const std::optional<RankLinks> fold = FoldRanks(view, network, *all);
  return fold ? fold->ranks.size() : all->ranks.size();
}

TEST(Fold, ClassesAreTheCoarsest) {
  const Program program = ReplicatedProgram();
  const std::vector<int32_t> alike(24, 0);
  EXPECT_EQ(ClassesOf(program, {}, alike), 3u);
  // Rank 4 is stage 1 of replica 1 on x = 0. Its own pipeline is one class for each stage, the other replicas on x = 0
  // wait for it at the end of the step, those on x = 1 never.
  std::vector<int32_t> one = alike;
  one[4] = 1;
  EXPECT_EQ(ClassesOf(program, one, alike), 9u);
  EXPECT_EQ(ClassesOf(program, {}, one), 9u);
  // All of x = 1 are slower.
  std::vector<int32_t> half = alike;
  for (int rank = 12; rank < 24; ++rank) half[rank] = 1;
  EXPECT_EQ(ClassesOf(program, half, alike), 6u);
}

TEST(Fold, RanksStandForTheirClass) {
  const Program program = ReplicatedProgram();
  const ProgramView view = MakeView(program, 3, {});
  const KindNetwork network(3, std::vector<int32_t>(24, 0));
  const auto all = LinkRanks(view);
  ASSERT_TRUE(all.ok());
  const std::optional<RankLinks> fold = FoldRanks(view, network, *all);
  ASSERT_TRUE(fold.has_value());
  int64_t sum = 0;
  for (const LinkedRank& rank : fold->ranks) sum += rank.stands_for;
  EXPECT_EQ(sum, 24);
  for (int32_t rank = 0; rank < 24; ++rank) EXPECT_EQ(fold->ranks[fold->simulated_as[rank]].rank, rank % 3);
}

// Transfers and collectives as flows over links that all share: each rank has one out and one in, of its kind's
// capacity, and all of a parity share a core. Messages of a collective first cross the cores, then go from each member
// to the next.
class SharedNetwork : public KindNetwork {
 public:
  SharedNetwork(uint64_t seed, const std::vector<int32_t>& kinds)
      : KindNetwork(seed, kinds), ranks_(static_cast<int32_t>(kinds.size())) {
    for (const int32_t kind : kinds) {
      const int64_t capacity = 100'000'000'000 + Mix(seed, {5, kind}, 4) * 77'777'777'777;
      capacities_.insert(capacities_.end(), 2, capacity);
    }
    for (int core = 0; core < 2; ++core) capacities_.push_back(200'000'000'000 + Mix(seed, {6}, 3) * 333'333'333'333);
  }
  absl::Span<const int64_t> LinkCapacities() const override { return capacities_; }

  absl::StatusOr<Flow> TransferFlow(int64_t source, int64_t destination, int64_t bytes) const override {
    const auto time = Transfer(source, destination, bytes);
    std::map<int32_t, int32_t> loads;
    Send(source, destination, loads);
    return Flow{.phases = {{time->occupancy.ps, bytes, {loads.begin(), loads.end()}}}, .latency = time->latency};
  }
  absl::StatusOr<Flow> CollectiveFlow(const CollectiveCall& call, const GroupForm& form,
                                      absl::Span<const int64_t> members) const override {
    if (members.size() < 2) return Flow{};
    const auto time = Collective(call, form, members);
    std::map<int32_t, int32_t> cores, ring;
    for (size_t i = 0; i < members.size(); ++i) {
      ++cores[Core(members[i])];
      Send(members[i], members[(i + 1) % members.size()], ring);
    }
    return Flow{.phases = {{0, 2, {cores.begin(), cores.end()}},
                           {time->occupancy.ps, 1 + call.parts[0].elements % 7, {ring.begin(), ring.end()}}},
                .latency = time->latency};
  }

 private:
  int32_t Core(int64_t rank) const { return 2 * ranks_ + static_cast<int32_t>(rank % 2); }
  void Send(int64_t source, int64_t destination, std::map<int32_t, int32_t>& loads) const {
    ++loads[static_cast<int32_t>(2 * source)];
    ++loads[static_cast<int32_t>(2 * destination + 1)];
    ++loads[Core(source)];
  }

  int32_t ranks_;
  std::vector<int64_t> capacities_;
};

// The same to the picosecond: one flow stands for all that are alike, on links of their own and on those that they
// share.
TEST(Fold, RandomProgramsOnSharedLinks) {
  std::map<Machine, int> folded;
  int64_t left_out = 0, all_ranks = 0, shared = 0, matters = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Program program = RandomEngineProgram(seed);
    constexpr int64_t kSizes[] = {1, 2, 4, 8};
    SetAxis(program, "x", kSizes[Mix(seed, {1}, 4)]);
    int64_t ranks = 1;
    for (const MeshAxis& axis : program.mesh().axes()) ranks *= axis.size();
    const Machine machine = static_cast<Machine>(seed % 5);
    const std::vector<int32_t> kinds = RankKinds(machine, ranks, seed);
    const std::vector<int32_t> alike(ranks, 0);
    const ProgramView view = MakeView(program, seed, machine == Machine::kOneSlowLink ? alike : kinds, seed % 2);
    const SharedNetwork network(seed, machine == Machine::kOneSlowRank ? alike : kinds);
    const auto all = LinkRanks(view);
    ASSERT_TRUE(all.ok()) << all.status();
    const std::optional<RankLinks> fold = FoldRanks(view, network, *all);
    all_ranks += ranks;
    if (!fold) continue;
    ++folded[machine];
    left_out += ranks - static_cast<int64_t>(fold->ranks.size());
    for (const auto& flows : fold->flows.of_channel) {
      for (const auto& [bytes, flow] : flows) {
        for (const auto& [link, load] : flow.phases[0].loads) shared += load > 2;
      }
    }
    EngineOptions options = {.repetitions = 1 + static_cast<int>(seed % 3), .trace = true};
    for (const bool steady : {false, true}) {
      if (steady) options = {.repetitions = 16, .trace = false, .stop_when_steady = true};
      const auto one = RunEngine(view, *all, network, options);
      const auto other = RunEngine(view, *fold, network, options);
      ASSERT_TRUE(one.ok()) << one.status();
      ASSERT_TRUE(other.ok()) << other.status();
      ExpectSame(*one, *other);
      const auto alone = RunEngine(view, *all, KindNetwork(seed, kinds), options);
      ASSERT_TRUE(alone.ok()) << alone.status();
      matters += alone->makespan != one->makespan;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(folded[Machine::kAlike], 40);
  EXPECT_GT(folded[Machine::kOneSlowRank], 15);
  EXPECT_GT(folded[Machine::kOneSlowLink], 15);
  EXPECT_GT(folded[Machine::kTwoKinds], 15);
  EXPECT_EQ(folded[Machine::kNoTwoAlike], 0);
  EXPECT_GT(left_out * 5, all_ranks);
  EXPECT_GT(shared, 100);
  EXPECT_GT(matters, 100);
}

// A link that one replica shares with somebody else makes it a class of its own, and those that wait for it.
TEST(Fold, OneSlowLinkParts) {
  const Program program = ReplicatedProgram();
  const ProgramView view = MakeView(program, 3, {});
  const auto all = LinkRanks(view);
  ASSERT_TRUE(all.ok());
  const auto classes = [&](std::vector<int32_t> kinds) {
    const std::optional<RankLinks> fold = FoldRanks(view, SharedNetwork(3, kinds), *all);
    return fold ? fold->ranks.size() : all->ranks.size();
  };
  std::vector<int32_t> kinds(24, 0);
  // Ranks of both parities are in all stages and alike.
  EXPECT_EQ(classes(kinds), 3u);
  kinds[4] = 1;
  EXPECT_GT(classes(kinds), 3u);
  EXPECT_LT(classes(kinds), 24u);
}

class NoFigures : public SharedNetwork {
 public:
  explicit NoFigures(bool flows) : SharedNetwork(3, std::vector<int32_t>(24, 0)), flows_(flows) {}
  absl::Span<const int64_t> LinkCapacities() const override {
    return flows_ ? SharedNetwork::LinkCapacities() : absl::Span<const int64_t>();
  }
  absl::StatusOr<TransferTime> Transfer(int64_t, int64_t, int64_t) const override {
    return absl::FailedPreconditionError("cluster.intra_node");
  }
  absl::StatusOr<Flow> TransferFlow(int64_t, int64_t, int64_t) const override {
    return absl::FailedPreconditionError("cluster.intra_node");
  }

 private:
  bool flows_;
};

TEST(Fold, NotWhereFiguresAreMissing) {
  const Program program = ReplicatedProgram();
  const ProgramView view = MakeView(program, 3, {});
  const auto all = LinkRanks(view);
  ASSERT_TRUE(all.ok());
  for (const bool flows : {false, true}) EXPECT_FALSE(FoldRanks(view, NoFigures(flows), *all).has_value());
}

}  // namespace
}  // namespace weft
