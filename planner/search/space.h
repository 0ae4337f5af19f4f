// The set of plans that a search considers: a list of dimensions, each a list of choices. A choice is a list of
// settings; it has them as text, and as the fields that they set.
#ifndef WEFT_PLANNER_SEARCH_SPACE_H_
#define WEFT_PLANNER_SEARCH_SPACE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace weft::planner {

struct Choice {
  // The settings as --set takes them, separated by spaces: "x=8 pp=4 dp=2". Empty = the fields keep their defaults.
  // Axes are named innermost first; --set itself always places dp inside pp.
  std::string settings;
  // The fields that the settings set.
  Recipe recipe;
  Plan plan;
};

// A dimension of the space. Plans differ in it only where it matters: for plans where it changes nothing, only its
// first choice is in the space.
struct Dimension {
  std::string name;
  std::vector<Choice> choices;
  // Whether the dimension matters for a plan with choices in all dimensions before this one; null = always.
  std::function<bool(const Recipe& recipe, const Plan& plan)> matters = nullptr;
  // Whether a plan with the choices up to this dimension may be in the space; null = always.
  std::function<bool(const Recipe& recipe, const Plan& plan)> allowed = nullptr;
  // Copies the fields of this dimension from one plan to another, and clears fields that were derived from the old
  // ones.
  void (*copy)(const Recipe& from_recipe, const Plan& from, Recipe* recipe, Plan* plan) = nullptr;
};

// The index of the choice in each dimension.
using ChoiceIndices = absl::InlinedVector<uint16_t, 12>;

struct SpaceOptions {
  // The fields that the user fixes. A field that is set here is in every plan of the space.
  Recipe recipe;
  Plan plan;
  // Number of devices that every plan uses; 0 = all of the cluster.
  int64_t devices = 0;
  // Schedules to search, each with several values of its own parameters. Empty = 1f1b and interleaved, and without
  // `under_runtime` some more of weft's own.
  std::vector<std::string> schedules;
  // Names of dimensions whose fields keep their defaults.
  std::vector<std::string> excluded;
  // True if a framework runs the plans. They then have no tensor axis but x, and by default the schedules 1f1b and
  // interleaved.
  bool under_runtime = false;
};

// Checks a recipe and a plan that leave fields open and fills in what searches need: the recipe's defaults, and the
// types of weights and gradients. The recipe's microbatch stays 0 if the user leaves it open.
absl::Status ResolveGiven(const Device& device, Recipe* recipe, Plan* plan);

class Space {
 public:
  // Returns InvalidArgument if no plan has the fields that the user fixes, and NotFound for an unknown schedule or
  // dimension.
  static absl::StatusOr<Space> Make(const SpaceOptions& options, const Cluster& cluster);

  const std::vector<Dimension>& dimensions() const { return dimensions_; }

  // Calls `visit` for each plan of the space, in lexicographic order of the candidates. Schedules are not checked.
  void ForEach(absl::FunctionRef<void(const ChoiceIndices&, const Recipe&, const Plan&)> visit) const;

  // Makes the recipe and the plan of a candidate.
  void Apply(const ChoiceIndices& candidate, Recipe* recipe, Plan* plan) const;
  // Returns the settings of a candidate's choices, separated by spaces.
  std::string SettingsOf(const ChoiceIndices& candidate) const;

 private:
  void Visit(ChoiceIndices& candidate, const Recipe& recipe, const Plan& plan,
             absl::FunctionRef<void(const ChoiceIndices&, const Recipe&, const Plan&)> visit) const;

  SpaceOptions options_;
  std::vector<Dimension> dimensions_;
};

// Microbatches that each replica runs in an iteration.
int64_t MicrobatchesOf(const Recipe& recipe, const Plan& plan);

// The names of the dimensions, for error messages and help.
std::vector<std::string> DimensionNames();

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_SPACE_H_
