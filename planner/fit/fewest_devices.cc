#include "planner/fit/fewest_devices.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/inputs/plan_inputs.h"
#include "planner/least_state_bytes.h"
#include "proto/io/set_field.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/util/units_text.h"

namespace weft::planner {
namespace {

bool HasAxis(const Mesh& mesh, absl::string_view name) {
  return std::any_of(mesh.axes().begin(), mesh.axes().end(), [&](const MeshAxis& axis) { return axis.name() == name; });
}

struct Tried {
  std::vector<std::string> settings = {};
  Recipe recipe = {};
  Plan plan = {};
  int64_t bytes = std::numeric_limits<int64_t>::max();
};

class Search {
 public:
  explicit Search(const FitOptions& options)
      : in_(options), estimator_(options.model, options.cluster, options.cost, options.runtime) {
    double parameters = 0;
    for (const GraphParameter& parameter : options.model.parameters()) {
      parameters += std::accumulate(parameter.shape().begin(), parameter.shape().end(), 1.0, std::multiplies<>());
    }
    parameters_ = static_cast<int64_t>(std::min(parameters, 0x1p60));
  }

  absl::StatusOr<FewestDevices> Run() {
    const std::vector<int64_t> ladder = Ladder();
    std::optional<Tried> best;
    size_t step = 0;
    for (; step < ladder.size() && !best; ++step) best = BestOf(ladder[step]);
    if (!best) return NothingFits();
    int64_t devices = ladder[step - 1];
    // Try the numbers of whole nodes between this power of two and the one before.
    const int64_t node = std::max<int64_t>(1, in_.cluster.devices_per_node());
    for (int64_t fewer = step > 1 ? ladder[step - 2] + node : devices; devices > node && fewer < devices;
         fewer += node) {
      if (std::optional<Tried> found = BestOf(fewer)) {
        best = std::move(found);
        devices = fewer;
        break;
      }
    }
    Relax(&*best);
    FewestDevices fewest;
    fewest.set_devices(devices);
    for (const std::string& setting : best->settings) {
      fewest.set_settings(absl::StrCat(fewest.settings(), fewest.settings().empty() ? "" : " ", "--set ", setting));
    }
    *fewest.mutable_plan() = best->plan;
    fewest.set_microbatch_sequences(std::max<int64_t>(1, best->recipe.microbatch_sequences()));
    fewest.set_bytes(best->bytes);
    fewest.set_capacity_bytes(estimator_.capacity());
    return fewest;
  }

 private:
  // Returns the numbers to try: 1, 2, 4, … devices of a node, the node, 2, 4, … nodes, the cluster.
  std::vector<int64_t> Ladder() const {
    const int64_t node = std::max<int64_t>(1, in_.cluster.devices_per_node());
    const int64_t all = node * std::max<int64_t>(1, in_.cluster.nodes());
    std::vector<int64_t> ladder;
    for (int64_t devices = 1; devices < node; devices *= 2) ladder.push_back(devices);
    for (int64_t devices = node; devices < all; devices *= 2) ladder.push_back(devices);
    ladder.push_back(all);
    return ladder;
  }

  // Returns the plan with these axes and the settings that save most memory.
  Tried Strongest(int64_t x, int64_t pipe, int64_t data) const {
    Tried tried{.recipe = in_.recipe, .plan = in_.plan};
    const auto set = [&](const std::string& setting) {
      if (ApplySetting(setting, &tried.recipe, &tried.plan).ok()) tried.settings.push_back(setting);
    };
    const Mesh& mesh = in_.plan.mesh();
    if (!HasAxis(mesh, "x") && x > 1) set(absl::StrCat("tp=", x));
    if (!HasAxis(mesh, "pipe") && pipe > 1) set(absl::StrCat("pp=", pipe));
    if (!HasAxis(mesh, "data") && data > 1) set(absl::StrCat("dp=", data));
    if (!in_.plan.has_zero() && data > 1) set("zero.stage=3");
    if (!in_.plan.has_recompute()) set("recompute.mode=FULL");
    if (!in_.plan.sequence_parallel() && x > 1 && AxisSize(mesh, "y") == 1) set("sequence_parallel=true");
    if (in_.recipe.microbatch_sequences() == 0) set("mbs=1");
    return tried;
  }

  // Fills in the bytes of a plan. Returns true if it surely fits.
  bool Try(Tried* tried) {
    const auto inputs = ResolveInputs(estimator_.short_model(), tried->recipe, tried->plan, in_.cluster, nullptr);
    if (inputs.ok() && in_.runtime == nullptr) {
      const int64_t least = LeastStateBytes(inputs->recipe, inputs->plan, parameters_);
      if (least > estimator_.capacity()) {
        NoteNearest(*tried, least);
        return false;
      }
    }
    absl::StatusOr<PlanMemory> memory = estimator_.Estimate(tried->recipe, tried->plan, /*fullest_only=*/true);
    if (absl::IsUnimplemented(memory.status())) memory = estimator_.Compile(tried->recipe, tried->plan);
    if (!memory.ok()) return Refuse(memory.status());
    tried->bytes = memory->MostDeviceBytes();
    NoteNearest(*tried, tried->bytes);
    return memory->SurelyEnough() <= estimator_.capacity();
  }

  bool Refuse(const absl::Status& status) {
    if (refusal_.ok()) refusal_ = status;
    return false;
  }

  void NoteNearest(const Tried& tried, int64_t bytes) {
    if (bytes >= nearest_) return;
    nearest_ = bytes;
    nearest_ranks_ = MeshRanks(tried.plan.mesh());
  }

  // Returns the plan on `devices` devices that needs the least memory, if one fits.
  std::optional<Tried> BestOf(int64_t devices) {
    const Mesh& mesh = in_.plan.mesh();
    const int64_t node = std::max<int64_t>(1, in_.cluster.devices_per_node());
    const auto allowed = [&](absl::string_view axis, int64_t size) {
      return !HasAxis(mesh, axis) || AxisSize(mesh, axis) == size;
    };
    const int64_t other = AxisSize(mesh, "y") * AxisSize(mesh, "z");
    if (devices % other != 0) return std::nullopt;
    std::optional<Tried> best;
    for (int64_t x = 1; x * other <= std::max(node, AxisSize(mesh, "x") * other); ++x) {
      if ((devices / other) % x != 0 || !allowed("x", x)) continue;
      const int64_t rest = devices / other / x;
      for (int64_t pipe = 1; pipe <= rest; ++pipe) {
        if (rest % pipe != 0 || !allowed("pipe", pipe) || !allowed("data", rest / pipe)) continue;
        Tried tried = Strongest(x, pipe, rest / pipe);
        if (Try(&tried) && (!best || tried.bytes < best->bytes)) best = std::move(tried);
      }
    }
    return best;
  }

  // Replaces settings that save memory by gentler ones, as far as the plan still fits.
  void Relax(Tried* best) {
    const auto replace = [&](const std::string& from, const std::string& to) {
      const auto at = std::find(best->settings.begin(), best->settings.end(), from);
      if (at == best->settings.end()) return false;
      Tried gentler = *best;
      if (!ApplySetting(to, &gentler.recipe, &gentler.plan).ok()) return false;
      gentler.settings[at - best->settings.begin()] = to;
      if (!Try(&gentler)) return false;
      *best = std::move(gentler);
      return true;
    };
    for (const char* gentler : {"zero.stage=0", "zero.stage=1", "zero.stage=2"}) {
      if (replace("zero.stage=3", gentler)) break;
    }
    if (!replace("recompute.mode=FULL", "recompute.mode=NONE")) {
      replace("recompute.mode=FULL", "recompute.mode=SELECTIVE");
    }
  }

  absl::Status NothingFits() const {
    if (nearest_ == std::numeric_limits<int64_t>::max()) {
      return refusal_.ok() ? absl::InvalidArgumentError("no mesh has the axes that the plan fixes") : refusal_;
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        "no number of devices of ", Quoted(in_.cluster.name()), " is enough; the nearest plan is on ", nearest_ranks_,
        " devices and takes ", BytesText(nearest_), " of ", BytesText(estimator_.capacity()),
        " on each; use shorter sequences (--set seq=N), or fix fewer settings of the plan"));
  }

  const FitOptions& in_;
  MemoryEstimator estimator_;
  int64_t parameters_ = 0;
  absl::Status refusal_;
  int64_t nearest_ = std::numeric_limits<int64_t>::max();
  int64_t nearest_ranks_ = 0;
};

}  // namespace

absl::StatusOr<FewestDevices> FewestThatFit(const FitOptions& options) { return Search(options).Run(); }

absl::StatusOr<Cluster> PartOfCluster(const Cluster& cluster, int64_t devices) {
  const int64_t node = std::max<int64_t>(1, cluster.devices_per_node());
  const int64_t all = node * std::max<int64_t>(1, cluster.nodes());
  if (devices > all) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster ", Quoted(cluster.name()), " has ", all, " devices, not ", devices, "; nearest: ", all));
  }
  if (devices > node && devices % node != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "nodes of ", Quoted(cluster.name()), " have ", node, " devices, so ", devices,
        " devices are not whole nodes; nearest: ", devices / node * node, ", ", (devices / node + 1) * node));
  }
  Cluster part = cluster;
  part.set_nodes(std::max<int64_t>(1, devices / node));
  return part;
}

}  // namespace weft::planner
