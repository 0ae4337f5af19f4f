// Reads the inputs of compile and simulate: model, recipe, plan, cluster, and settings that override single fields.
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

// The inputs that may be files, for CheckFileClashes.
std::vector<NamedFile> InputFiles(const InputFlags& input);

struct Inputs {
  ModelGraph model;
  Recipe recipe;
  Plan plan;
  Cluster cluster;
  // The plan fields that the plan's file sets: "plan.zero".
  std::set<std::string> plan_file_fields;
  // Notes on parts of a file that a setting discards.
  std::vector<std::string> notes;
};

// Reads all inputs. A recipe or plan that is not given holds only the settings. Returns a UsageError if --model or
// --cluster is missing, or if settings are not FIELD=VALUE or contradict each other. An unknown field or value in a
// setting is refused as it is in a file.
absl::StatusOr<Inputs> LoadInputs(const InputFlags& input, Progress* progress);

// Applies --set again to a plan into which a runtime's defaults were merged. This restores zeros and falses that the
// user asked for: in a plan they look like fields that are not set.
absl::Status ApplySettingsOver(const InputFlags& input, Plan* plan);

// True if a --set gives this field, e.g. "plan.recompute.mode", a value.
bool IsSet(const InputFlags& input, absl::string_view field);

// If `status` begins with a recipe or plan field, as Compile's errors do, puts the file that sets the field in front.
// An error about a field that a --set gives stays as it is.
absl::Status WithFile(const absl::Status& status, const InputFlags& input, const Inputs& inputs);

// Returns a note if the plan names no axis, so that it takes one device of a cluster with several; else empty.
std::string NoteOnMesh(const Inputs& inputs);

// The cluster to cost `program` on: `name_or_path`, or, if that is empty, the catalog's cluster that the program was
// compiled for.
absl::StatusOr<Cluster> ClusterFor(const Program& program, const std::string& name_or_path);

// Returns a note if the program was compiled for another cluster than `cluster`; empty if it is the same one. `done`
// says what is done on `cluster`, like "simulated". `name_or_path` is the --cluster that was given, if any.
std::string NoteOnCluster(const Program& program, const Cluster& cluster, const std::string& name_or_path,
                          absl::string_view done);

// Reads a program and checks it with VerifyProgram. Accepts a program that does not fit. Errors begin with the path.
absl::StatusOr<Program> LoadProgram(const std::string& path);

// Returns `status` with "SOURCE: " in front.
absl::Status Annotate(const absl::Status& status, absl::string_view source);

}  // namespace weft

#endif  // WEFT_CLI_INPUTS_INPUTS_H_
