#include "planner/choose_reshard.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/overlap/knapsack.h"
#include "proto/util/status.h"

namespace weft::planner {
namespace {

constexpr int32_t kMaxAhead = 64;

int64_t Highest(const ReshardTrial& trial) {
  return trial.bytes.empty() ? 0 : *std::max_element(trial.bytes.begin(), trial.bytes.end());
}

class Choice {
 public:
  Choice(const Zero& asked, int64_t capacity, const TryReshard& attempt)
      : asked_(asked), capacity_(capacity), attempt_(attempt) {}

  absl::StatusOr<ReshardDecision> Run() {
    const int32_t first = asked_.has_prefetch() ? asked_.prefetch() : 1;
    WEFT_ASSIGN_OR_RETURN(never_, Try(Zero::NEVER, first, {}));
    double before = 0;
    for (int32_t ahead = first; ahead <= std::max(first, kMaxAhead); ahead *= 2) {
      WEFT_ASSIGN_OR_RETURN(const ReshardTrial none, Try(Zero::AFTER_FORWARD, ahead, {}));
      if (ahead == first) {
        none_ = none;
      } else if (none.seconds >= before) {
        break;
      }
      before = none.seconds;
      WEFT_RETURN_IF_ERROR(Try(Zero::AFTER_BACKWARD, ahead, {}).status());
      if (none.layers.size() <= kMaxExhaustive) {
        WEFT_RETURN_IF_ERROR(TryAll(ahead, none));
      } else {
        WEFT_RETURN_IF_ERROR(Grow(ahead, none));
      }
      if (asked_.has_prefetch()) break;
    }
    return Decision();
  }

 private:
  struct Best {
    Zero zero;
    bool fits = false;
    double seconds = 0;
    int64_t bytes = 0;
  };

  absl::StatusOr<ReshardTrial> Try(Zero::Reshard reshard, int32_t ahead, const std::set<int32_t>& kept) {
    Zero zero = asked_;
    zero.clear_kept_layers();
    zero.set_prefetch(ahead);
    zero.set_reshard(reshard == Zero::LAYERS && kept.empty() ? Zero::AFTER_FORWARD : reshard);
    for (const int32_t layer : kept) zero.add_kept_layers(layer);
    WEFT_ASSIGN_OR_RETURN(ReshardTrial trial, attempt_(zero));
    ++tried_;
    const Best candidate{std::move(zero), trial.fits, trial.seconds, Highest(trial)};
    if (!best_ || Better(candidate, *best_)) best_ = candidate;
    return trial;
  }

  bool Better(const Best& a, const Best& b) const {
    if (a.fits != b.fits) return a.fits;
    if (a.fits && a.seconds != b.seconds) return a.seconds < b.seconds;
    return a.bytes < b.bytes;
  }

  absl::Status TryAll(int32_t ahead, const ReshardTrial& none) {
    for (uint32_t bits = 1; bits < 1u << none.layers.size(); ++bits) {
      std::set<int32_t> kept;
      for (size_t i = 0; i < none.layers.size(); ++i) {
        if (bits >> i & 1) kept.insert(none.layers[i].layer);
      }
      WEFT_RETURN_IF_ERROR(Try(Zero::LAYERS, ahead, kept).status());
    }
    return absl::OkStatus();
  }

  // Picks more layers to keep, from the layers that `trial` gathers. A layer on several ranks is kept only if all of
  // them pick it.
  std::set<int32_t> Pick(const ReshardTrial& trial, const std::vector<int64_t>& room) const {
    std::map<int32_t, size_t> chosen;
    for (size_t rank = 0; rank < trial.bytes.size(); ++rank) {
      std::vector<KnapsackItem> items;
      std::vector<int32_t> layers;
      for (const GatheredLayer& layer : trial.layers) {
        if (std::count(layer.ranks.begin(), layer.ranks.end(), static_cast<int>(rank)) == 0) continue;
        items.push_back({layer.bytes, layer.exposed});
        layers.push_back(layer.layer);
      }
      for (const int item : ChooseItems(items, std::max<int64_t>(0, room[rank]))) ++chosen[layers[item]];
    }
    std::set<int32_t> kept;
    for (const GatheredLayer& layer : trial.layers) {
      const auto found = chosen.find(layer.layer);
      if (found != chosen.end() && found->second == layer.ranks.size()) kept.insert(layer.layer);
    }
    return kept;
  }

  absl::Status Grow(int32_t ahead, const ReshardTrial& none) {
    ReshardTrial trial = none;
    std::set<int32_t> kept;
    // For each rank: the bytes by which sets that did not fit exceeded the capacity. Later sets get less memory by this
    // amount.
    std::vector<int64_t> margin(none.bytes.size(), 0);
    for (int round = 0; round < kMaxRounds; ++round) {
      std::vector<int64_t> room;
      for (size_t rank = 0; rank < trial.bytes.size(); ++rank) {
        room.push_back(capacity_ - trial.bytes[rank] - margin[rank]);
      }
      std::set<int32_t> more = Pick(trial, room);
      if (more.empty()) return absl::OkStatus();
      more.insert(kept.begin(), kept.end());
      WEFT_ASSIGN_OR_RETURN(ReshardTrial next, Try(Zero::LAYERS, ahead, more));
      if (!next.fits) {
        for (size_t rank = 0; rank < next.bytes.size(); ++rank) {
          margin[rank] += std::max<int64_t>(1, next.bytes[rank] - capacity_);
        }
        continue;
      }
      kept = std::move(more);
      trial = std::move(next);
    }
    return absl::OkStatus();
  }

  ReshardDecision Decision() const {
    const Zero& zero = best_->zero;
    std::string what;
    if (zero.reshard() == Zero::LAYERS) {
      what = absl::StrCat("parameters of ", zero.kept_layers_size(), " of ", none_.layers.size(), " layers are kept");
    } else {
      what = absl::StrCat("parameters are ", zero.reshard() == Zero::NEVER           ? "kept"
                                             : zero.reshard() == Zero::AFTER_FORWARD ? "freed after each forward"
                                                                                     : "freed after each backward");
    }
    const auto time = [&](const char* name, const ReshardTrial& trial) {
      return absl::StrFormat("%s %.6g s%s", name, trial.seconds, trial.fits ? "" : " (does not fit)");
    };
    ReshardDecision decision;
    decision.zero = zero;
    decision.note = absl::StrFormat(
        "plan.zero.reshard = BY_BENEFIT: %s, prefetch = %d: a simulated step takes %.6g s, the best of %d tried "
        "plans (%s, %s)",
        what, zero.prefetch(), best_->seconds, tried_, time("none kept", none_), time("all kept", never_));
    return decision;
  }

  const Zero& asked_;
  const int64_t capacity_;
  const TryReshard& attempt_;
  ReshardTrial none_, never_;
  std::optional<Best> best_;
  int tried_ = 0;
};

}  // namespace

absl::StatusOr<ReshardDecision> ChooseReshard(const Zero& asked, int64_t capacity, const TryReshard& attempt) {
  return Choice(asked, capacity, attempt).Run();
}

}  // namespace weft::planner
