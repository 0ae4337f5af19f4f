// Folded and unfolded runs agree in every field and every step, on random programs and machines.
#include "simulator/engine/fold.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "simulator/engine/engine.h"
#include "simulator/engine/hash_below_testing.h"
#include "simulator/engine/same_result_testing.h"
#include "simulator/testing/test_programs.h"

namespace weft::sim {
namespace {

// Which part of the machine differs from the rest.
enum class Machine { kAlike, kOneSlowRank, kOneSlowLink, kTwoKinds, kNoTwoAlike };

// Returns a number for each rank. Ranks with equal numbers have like links and devices.
std::vector<int32_t> RankKinds(Machine machine, int64_t ranks, uint64_t seed) {
  std::vector<int32_t> kinds(ranks, 0);
  const int64_t chosen = HashBelow(seed, {7}, ranks);
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
    return TransferTime{{HashBelow(seed_, {a, b, bytes}, 5)}, {HashBelow(seed_, {2, a, b}, 3)}};
  }
  absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm& form,
                                          absl::Span<const int64_t> members) const override {
    int64_t slowest = 0;
    for (const int64_t member : members) slowest = std::max<int64_t>(slowest, kinds_[member]);
    const int64_t size = static_cast<int64_t>(members.size());
    return TransferTime{{HashBelow(seed_, {3, slowest, size, call.parts[0].elements}, 9)},
                        {HashBelow(seed_, {slowest, size}, 3)}};
  }

 private:
  uint64_t seed_;
  std::vector<int32_t> kinds_;
};

void SetAxis(Program& program, const std::string& name, int64_t size) {
  for (MeshAxis& axis : *program.mutable_mesh()->mutable_axes()) {
    if (axis.name() == name) axis.set_size(size);
  }
}

// If `speeds` is true, kinds of devices differ in speed only.
ProgramView MakeView(const Program& program, uint64_t seed, const std::vector<int32_t>& devices, bool speeds = false) {
  const auto costs = [&](const StepUse& use) -> absl::StatusOr<LoadTimes> {
    const bool copy = program.segments(use.segment).steps(use.step).stream() != COMPUTE;
    const int64_t cost = HashBelow(seed, {use.segment, use.step, use.kind}, 6) * (1 + use.device);
    const int64_t more = copy || cost == 0 ? 0 : HashBelow(seed, {use.segment, use.step}, 4);
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

// A program on a machine; the seed determines both.
struct Sample {
  explicit Sample(uint64_t seed) : machine(static_cast<Machine>(seed % 5)) {
    program = RandomEngineProgram(seed);
    constexpr int64_t kSizes[] = {1, 2, 4, 8};
    SetAxis(program, "x", kSizes[HashBelow(seed, {1}, 4)]);
    kinds = RankKinds(machine, MeshRanks(program.mesh()), seed);
    const std::vector<int32_t> alike(kinds.size(), 0);
    links = machine == Machine::kOneSlowRank ? alike : kinds;
    view = MakeView(program, seed, machine == Machine::kOneSlowLink ? alike : kinds, /*speeds=*/seed % 2 == 1);
  }

  Machine machine;
  Program program;
  // The kind of each rank's device, and the kind of its links.
  std::vector<int32_t> kinds, links;
  ProgramView view;
};

// Totals over all samples.
struct Counts {
  // Number of programs that were folded, by machine.
  std::map<Machine, int> folded;
  // Number of ranks that folding left out, and number of all ranks.
  int64_t left_out = 0, ranks = 0;
};

// Expects each sample to give the same result with all ranks and with folded ranks, both in complete runs and in runs
// that stop when steady. If a sample is folded, calls `also` for each of its runs, with the result of all ranks.
template <typename Network>
Counts CompareSamples(
    absl::FunctionRef<void(uint64_t seed, const Sample& sample, const RankLinks& all, const RankLinks& fold,
                           const EngineOptions& options, const EngineResult& whole)>
        also) {
  Counts counts;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Sample sample(seed);
    const Network network(seed, sample.links);
    const auto all = LinkRanks(sample.view);
    EXPECT_TRUE(all.ok()) << all.status();
    if (!all.ok()) break;
    const std::optional<RankLinks> fold = FoldRanks(sample.view, network, *all);
    counts.ranks += static_cast<int64_t>(all->ranks.size());
    if (!fold) continue;
    ++counts.folded[sample.machine];
    counts.left_out += static_cast<int64_t>(all->ranks.size() - fold->ranks.size());
    for (const EngineOptions& options : {EngineOptions{.repetitions = 1 + static_cast<int>(seed % 3), .trace = true},
                                         EngineOptions{.repetitions = 16, .trace = false, .stop_when_steady = true}}) {
      const auto whole = RunEngine(sample.view, *all, network, options);
      const auto folded = RunEngine(sample.view, *fold, network, options);
      EXPECT_TRUE(whole.ok()) << whole.status();
      EXPECT_TRUE(folded.ok()) << folded.status();
      if (!whole.ok() || !folded.ok()) return counts;
      ExpectSame(*whole, *folded);
      also(seed, sample, *all, *fold, options, *whole);
    }
    if (testing::Test::HasFailure()) break;
  }
  return counts;
}

TEST(Fold, RandomProgramsOnRandomMachines) {
  Counts counts = CompareSamples<KindNetwork>([](auto&&...) {});
  EXPECT_GT(counts.folded[Machine::kAlike], 40);
  EXPECT_GT(counts.folded[Machine::kOneSlowRank], 20);
  EXPECT_GT(counts.folded[Machine::kOneSlowLink], 20);
  EXPECT_GT(counts.folded[Machine::kTwoKinds], 20);
  EXPECT_EQ(counts.folded[Machine::kNoTwoAlike], 0);
  EXPECT_GT(counts.left_out * 4, counts.ranks);
}

// 3 stages x 4 replicas x 2 ranks on x; each stage's gradients are summed over its replicas.
Program ReplicatedProgram() {
  Program program = GPipeProgram(/*ranks=*/3, /*microbatches=*/4, /*bytes=*/100);
  for (const auto& [name, size] : {std::pair<const char*, int64_t>{"data", 4}, {"x", 2}}) {
    MeshAxis* axis = program.mutable_mesh()->add_axes();
    axis->set_name(name);
    axis->set_size(size);
  }
  AddGradientSync(program);
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
  // Rank 4 is stage 1 of replica 1 on x = 0. Each stage of its own pipeline is a class by itself. The other replicas on
  // x = 0 wait for it at the end of the step; those on x = 1 never do.
  std::vector<int32_t> one = alike;
  one[4] = 1;
  EXPECT_EQ(ClassesOf(program, one, alike), 9u);
  EXPECT_EQ(ClassesOf(program, {}, one), 9u);
  // All ranks with x = 1 are slower.
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

// Transfers and collectives are flows over shared links. Each rank has one link out and one link in, with the capacity
// of its kind. Even ranks share one core, and odd ranks share another. Messages of a collective first cross the cores,
// then pass from each member to the next.
class SharedNetwork : public KindNetwork {
 public:
  SharedNetwork(uint64_t seed, const std::vector<int32_t>& kinds)
      : KindNetwork(seed, kinds), ranks_(static_cast<int32_t>(kinds.size())) {
    for (const int32_t kind : kinds) {
      const int64_t capacity = 100'000'000'000 + HashBelow(seed, {5, kind}, 4) * 77'777'777'777;
      capacities_.insert(capacities_.end(), 2, capacity);
    }
    for (int core = 0; core < 2; ++core)
      capacities_.push_back(200'000'000'000 + HashBelow(seed, {6}, 3) * 333'333'333'333);
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

// Folding changes no time, to the picosecond: one flow stands for all flows that are alike, on links of their own and
// on shared links.
TEST(Fold, RandomProgramsOnSharedLinks) {
  int64_t shared = 0, matters = 0;
  Counts counts = CompareSamples<SharedNetwork>([&](uint64_t seed, const Sample& sample, const RankLinks& all,
                                                    const RankLinks& fold, const EngineOptions& options,
                                                    const EngineResult& whole) {
    for (const auto& flows : fold.flows.of_channel) {
      for (const auto& [bytes, flow] : flows) {
        for (const auto& [link, load] : flow.phases[0].loads) shared += load > 2;
      }
    }
    const auto alone = RunEngine(sample.view, all, KindNetwork(seed, sample.kinds), options);
    ASSERT_TRUE(alone.ok()) << alone.status();
    matters += alone->makespan != whole.makespan;
  });
  EXPECT_GT(counts.folded[Machine::kAlike], 40);
  EXPECT_GT(counts.folded[Machine::kOneSlowRank], 15);
  EXPECT_GT(counts.folded[Machine::kOneSlowLink], 15);
  EXPECT_GT(counts.folded[Machine::kTwoKinds], 15);
  EXPECT_EQ(counts.folded[Machine::kNoTwoAlike], 0);
  EXPECT_GT(counts.left_out * 5, counts.ranks);
  EXPECT_GT(shared, 200);
  EXPECT_GT(matters, 100);
}

// If the links of one rank differ from the rest, its replica and the ranks that wait for it become classes of their
// own.
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
  // Every stage has even and odd ranks, and these are alike.
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
}  // namespace weft::sim
