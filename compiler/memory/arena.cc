#include "compiler/memory/arena.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/memory/arena_search.h"
#include "proto/util/status.h"
#include "proto/util/units.h"

namespace weft {
namespace {

constexpr int64_t kExactItems = 3000;
// A search stops when the height is within 1 / kCloseEnough of the lower bound, after kSearchedPairs comparisons of two
// items, or after kSearchRounds rounds.
constexpr int64_t kCloseEnough = 100;
constexpr int64_t kSearchedPairs = 4'000'000;
constexpr int64_t kSearchRounds = 80;
// The longer search (FitArena) runs only if the height exceeds the lower bound by more than kMinLoss bytes. It tries to
// reduce this excess to 1/32 of all bytes, then to 1/64, and so on to 1/1024. It tries each of these goals with kSeeds
// seeds, and stops when it has missed kMaxFailed goals.
constexpr int64_t kMinLoss = int64_t{1} << 20;
constexpr int64_t kFirstLostPart = 32;
constexpr int64_t kLastLostPart = 1024;
constexpr int kMaxFailed = 2;
constexpr uint32_t kSeeds = 24;
constexpr int64_t kMaxBytes = int64_t{1} << 62;

Arena Measure(std::vector<int64_t> offsets, absl::Span<const ArenaItem> items) {
  Arena arena;
  arena.offsets = std::move(offsets);
  for (size_t i = 0; i < items.size(); ++i) {
    arena.height = std::max(arena.height, arena.offsets[i] + RoundUp(items[i].bytes, kArenaAlignment));
  }
  return arena;
}

struct Placed {
  int64_t begin, end;   // The bytes that it occupies.
  int64_t first, last;  // The moments at which it lives.
};

// Places items one after another, each at the lowest offset that is free during all its life.
Arena PlaceInOrder(absl::Span<const ArenaItem> items, absl::Span<const int> order) {
  std::vector<int64_t> offsets(items.size(), 0);
  std::vector<Placed> placed;  // Sorted by begin.
  placed.reserve(items.size());
  for (const int i : order) {
    const ArenaItem& item = items[i];
    const int64_t bytes = RoundUp(item.bytes, kArenaAlignment);
    if (bytes == 0) continue;
    int64_t offset = 0;
    for (const Placed& other : placed) {
      if (other.first > item.last || item.first > other.last) continue;
      if (other.begin - offset >= bytes) break;
      offset = std::max(offset, other.end);
    }
    offsets[i] = offset;
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [](int64_t at, const Placed& other) { return at < other.begin; }),
                  {offset, offset + bytes, item.first, item.last});
  }
  return Measure(std::move(offsets), items);
}

// Places items at the lowest free offset, in the order in which their lives begin. For speed with very many buffers,
// keeps only the items that are live at the current moment.
Arena PlaceByStart(absl::Span<const ArenaItem> items, absl::Span<const int> order) {
  std::vector<int64_t> offsets(items.size(), 0);
  std::set<std::tuple<int64_t, int64_t, int>> live;  // begin, end, item
  std::set<std::pair<int64_t, int>> ends;
  for (int i : order) {
    const ArenaItem& item = items[i];
    const int64_t bytes = RoundUp(item.bytes, kArenaAlignment);
    if (bytes == 0) continue;
    while (!ends.empty() && ends.begin()->first < item.first) {
      int ended = ends.begin()->second;
      live.erase({offsets[ended], offsets[ended] + RoundUp(items[ended].bytes, kArenaAlignment), ended});
      ends.erase(ends.begin());
    }
    for (const auto& [begin, end, other] : live) {
      if (begin - offsets[i] >= bytes) break;
      offsets[i] = std::max(offsets[i], end);
    }
    live.insert({offsets[i], offsets[i] + bytes, i});
    ends.insert({item.last, i});
  }
  return Measure(std::move(offsets), items);
}

int64_t LowerBound(absl::Span<const ArenaItem> items) {
  // At the same moment, count beginnings before ends, because intervals are inclusive.
  std::vector<std::tuple<int64_t, int, int64_t>> changes;
  for (const ArenaItem& item : items) {
    int64_t bytes = RoundUp(item.bytes, kArenaAlignment);
    changes.emplace_back(item.first, 0, bytes);
    changes.emplace_back(item.last, 1, -bytes);
  }
  std::sort(changes.begin(), changes.end());
  int64_t live = 0, most = 0;
  for (const auto& [position, kind, bytes] : changes) most = std::max(most, live += bytes);
  return most;
}

absl::Status Check(absl::Span<const ArenaItem> items) {
  int64_t sum = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].bytes < 0 || items[i].last < items[i].first) {
      return absl::InvalidArgumentError(absl::StrCat("arena item ", i, " has ", items[i].bytes,
                                                     " bytes and lives from ", items[i].first, " to ", items[i].last));
    }
    if (items[i].bytes > kMaxBytes - kArenaAlignment || (sum += RoundUp(items[i].bytes, kArenaAlignment)) > kMaxBytes) {
      return absl::ResourceExhaustedError("buffers of one rank exceed 2^62 bytes");
    }
  }
  return absl::OkStatus();
}

bool CloseEnough(const Arena& arena, int64_t lower_bound) {
  return arena.height - lower_bound <= lower_bound / kCloseEnough;
}

// Places the items in order. Then moves one item that ends highest half way to the front of the order, and places all
// items again, until the search stops.
void Search(absl::Span<const ArenaItem> items, std::vector<int> order, int64_t lower_bound, Arena* best) {
  const int64_t n = static_cast<int64_t>(items.size());
  const int64_t rounds = std::min(kSearchRounds, kSearchedPairs / std::max<int64_t>(1, n * n));
  for (int64_t round = 0; round < rounds && !CloseEnough(*best, lower_bound); ++round) {
    Arena arena = PlaceInOrder(items, order);
    const auto top = std::find_if(order.begin(), order.end(), [&](int i) {
      return arena.offsets[i] + RoundUp(items[i].bytes, kArenaAlignment) == arena.height;
    });
    if (arena.height < best->height) *best = std::move(arena);
    if (top == order.begin()) return;
    std::rotate(order.begin() + (top - order.begin()) / 2, top, top + 1);
  }
}

}  // namespace

absl::StatusOr<Arena> PlanArena(absl::Span<const ArenaItem> items) {
  if (absl::Status status = Check(items); !status.ok()) return status;
  const int64_t lower_bound = LowerBound(items);
  std::vector<int> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  auto sort_by = [&](auto key) {
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return std::make_pair(key(items[a]), a) < std::make_pair(key(items[b]), b); });
  };

  sort_by([](const ArenaItem& item) { return std::make_tuple(item.first, -item.bytes, -item.last); });
  Arena best = PlaceByStart(items, order);
  std::vector<std::vector<int>> tried = {order};
  const auto try_order = [&] {
    tried.push_back(order);
    Arena arena = PlaceInOrder(items, order);
    if (arena.height < best.height) best = std::move(arena);
  };
  if (best.height > lower_bound && items.size() <= kExactItems) {
    sort_by([](const ArenaItem& item) { return std::make_tuple(-item.bytes, item.first, item.last); });
    try_order();
  }
  if (best.height > lower_bound && items.size() <= kExactItems) {
    sort_by([](const ArenaItem& item) { return std::make_tuple(item.first - item.last, -item.bytes, item.first); });
    try_order();
  }
  if (items.size() <= kExactItems) {
    for (const std::vector<int>& start : tried) Search(items, start, lower_bound, &best);
  }
  best.lower_bound = lower_bound;
  return best;
}

absl::StatusOr<Arena> PlanArenaOfRank(absl::Span<const ArenaItem> items, int64_t beside) {
  WEFT_ASSIGN_OR_RETURN(Arena best, PlanArena(items));
  const int64_t all = best.lower_bound > kMaxBytes - beside ? kMaxBytes : best.lower_bound + beside;
  const std::vector<int64_t> greedy = best.offsets, nowhere(items.size(), kMaxBytes);
  int failed = 0;
  for (int64_t part = kFirstLostPart; part <= kLastLostPart; part *= 2) {
    const int64_t enough = best.lower_bound + std::max(kMinLoss, all / part);
    std::optional<std::vector<int64_t>> offsets;
    for (uint32_t seed = 1; seed <= kSeeds && best.height > enough && !offsets; ++seed) {
      offsets = FitArena(items, enough, seed % 3 == 0 ? best.offsets : seed % 3 == 1 ? greedy : nowhere, seed);
    }
    if (offsets) {
      const int64_t lower_bound = best.lower_bound;
      best = Measure(*std::move(offsets), items);
      best.lower_bound = lower_bound;
    } else if (best.height > enough && ++failed == kMaxFailed) {
      break;
    }
  }
  return best;
}

}  // namespace weft
