// What compile and simulate read: model, recipe, plan, cluster, and settings that override single fields.
#ifndef WEFT_CLI_INPUTS_INPUTS_H_
#define WEFT_CLI_INPUTS_INPUTS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/common/file_clash.h"
#include "cli/common/flags.h"
#include "cli/common/terminal.h"
#include "proto/cluster.pb.h"
#include "proto/model_graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "proto/recipe.pb.h"

namespace weft {

// Values of --model, --recipe, --plan, --cluster, --schedule and --set.
struct InputFlags {
  std::string model, recipe, plan, cluster, schedule;
  std::vector<std::string> settings;
};

void AddInputFlags(Flags* flags, InputFlags* input);

// What of it may be files, for CheckFileClashes.
std::vector<NamedFile> InputFiles(const InputFlags& input);

struct Inputs {
  ModelGraph model;
  Recipe recipe;
  Plan plan;
  Cluster cluster;
  // What the plan's file gives: "plan.zero".
  std::set<std::string> plan_file_fields;
  // What a file says and a setting sets aside.
  std::vector<std::string> notes;
};

// Reads all of them; a recipe or plan that is not given is empty but for the settings. UsageError if --model or
// --cluster is missing, or settings are not FIELD=VALUE or contradict each other; a field or a value that there is not
// is refused as it is in a file.
absl::StatusOr<Inputs> LoadInputs(const InputFlags& input, Progress* progress);

// Applies --set again to a plan that has got what a runtime does by default: zeros and falses that were asked for too,
// which a plan cannot tell from what is left out.
absl::Status ApplySettingsOver(const InputFlags& input, Plan* plan);

// Whether a --set gives this field, e.g. "plan.recompute.mode", a value.
bool IsSet(const InputFlags& input, absl::string_view field);

// A refusal that begins with a field of the recipe or plan (Compile's), with the file before it that the field is from.
// What a --set gives is left as it is.
absl::Status WithFile(const absl::Status& status, const InputFlags& input, const Inputs& inputs);

// The cluster to cost `program` on: `name_or_path`, or if that is empty the catalog's one that it was compiled for.
absl::StatusOr<Cluster> ClusterFor(const Program& program, const std::string& name_or_path);

// What there is to say of a prediction on another cluster than the program was compiled for; empty if it is that one.
// `done` is what is done there, like "simulated".
// `name_or_path` is where it is from, if that was given.
std::string NoteOnCluster(const Program& program, const Cluster& cluster, const std::string& name_or_path,
                          absl::string_view done);

// The file's program after VerifyProgram; errors begin with the path. One that does not fit is accepted.
absl::StatusOr<Program> LoadProgram(const std::string& path);

// `status` with "SOURCE: " in front.
absl::Status Annotate(const absl::Status& status, absl::string_view source);

}  // namespace weft

#endif  // WEFT_CLI_INPUTS_INPUTS_H_
