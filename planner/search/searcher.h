// The steps of one search: bounds all plans of a space, and simulates plans until no other can be faster by more than
// the gap. Search (search.h) checks the inputs and runs it.
#ifndef WEFT_PLANNER_SEARCH_SEARCHER_H_
#define WEFT_PLANNER_SEARCH_SEARCHER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/search/candidate_bounds.h"
#include "planner/search/plan_bound.h"
#include "planner/search/popular_choices.h"
#include "planner/search/search.h"
#include "planner/search/search_context.h"
#include "planner/search/space.h"
#include "planner/search/try_candidate.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace weft::planner {

class Searcher {
 public:
  // Everything is borrowed. `recipe` has its defaults.
  Searcher(const SearchContext& context, const SearchOptions& options, const Recipe& recipe, const Space& space)
      : context_(context), options_(options), recipe_(recipe), space_(space), bounds_(context, space) {}

  absl::StatusOr<SearchResult> Run();

 private:
  // A plan of the space that may be simulated.
  struct Open {
    ChoiceIndices candidate;
    PlanBound bound;
    // True once Tighten was called.
    bool is_tight = false;
    // Its own profile is refused.
    absl::Status refusal = absl::OkStatus();
  };

  // The plans of a popular kind.
  struct Kind {
    int64_t plans = 0;
    // The plans with the shortest estimates, shortest first.
    std::vector<Open> best = {};
    // Bytes of the smallest plan that does not fit; 0 = there is none.
    int64_t unfit_bytes = 0;
  };

  static bool BoundIsLower(const Open& a, const Open& b);
  static bool EstimateIsLower(const Open& a, const Open& b);
  void BoundAll();
  void AddToKind(const Open& open, const Plan& plan);
  bool MakeExact(const std::vector<Open*>& loose);
  bool IsImpossible(const Open& open) const;
  void DropImpossible();
  void Tighten(Open& open) const;
  TriedPlan Try(const Open& open, const SearchContext& context, bool gives_up) const;
  std::vector<TriedPlan> TryAll(const std::vector<Open>& round, bool gives_up) const;
  void TryPopularKinds();
  bool Improve(const std::vector<Open*>& plans);
  void TightenFront();
  std::vector<Open*> ShortestEstimates();
  std::vector<Open> TakeRound();
  void SimulateInOrder();
  bool FinishPlans();
  bool Stops();
  void Add(TriedPlan tried, const Open& open);
  void Refuse(const absl::Status& status);
  void CountUnfit(int64_t bytes, const Open& open);
  void FindLarger();
  bool IsDone(double least) const;
  void Report() const;

  const SearchContext& context_;
  const SearchOptions& options_;
  // Its defaults are filled in.
  const Recipe& recipe_;
  const Space& space_;
  CandidateBounds bounds_;
  std::vector<Open> open_;
  // Plans that do not fit, smallest first. Each has a shorter estimate than all plans before it; other plans are
  // dropped.
  std::vector<std::pair<int64_t, Open>> unfit_;
  std::vector<Kind> kinds_ = std::vector<Kind>(PopularChoices().size());
  SearchResult result_;
};

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_SEARCHER_H_
