#include "cli/inputs/inputs.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "catalog/catalog.h"
#include "catalog/load.h"
#include "compiler/compile.h"
#include "compiler/models/load_model.h"
#include "google/protobuf/descriptor.h"
#include "proto/io/cluster_digest.h"
#include "proto/io/io.h"
#include "proto/io/program_file.h"
#include "proto/io/set_field.h"
#include "proto/util/printable.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/validate/validate.h"
#include "schedules/collective/plan.h"
#include "schedules/pipeline/schedule_text.h"
#include "verifier/verify.h"

namespace weft {

namespace {

absl::string_view NameOf(const std::string& setting) {
  return absl::StripAsciiWhitespace(absl::string_view(setting).substr(0, setting.find('=')));
}

// True for FIELD=default.
bool IsDefault(const std::string& setting) {
  return absl::StripAsciiWhitespace(absl::string_view(setting).substr(setting.find('=') + 1)) == kFieldDefault;
}

// The fields of `message` that are set.
std::vector<const google::protobuf::FieldDescriptor*> FieldsOf(const google::protobuf::Message& message) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  return fields;
}

// True if `name` is a setting for the size of a mesh axis.
bool IsAxis(absl::string_view name) {
  return name == "tp" || name == "x" || name == "y" || name == "z" || name == "dp" || name == "pp";
}

// Refuses two settings for the same thing: the last one would silently win.
absl::Status CheckTogether(const std::vector<std::string>& settings) {
  std::map<std::string, const std::string*> seen;
  const auto both = [](const std::string& a, const std::string& b, absl::string_view why) {
    return UsageError(absl::StrCat("--set ", Quoted(a), " and --set ", Quoted(b), " are both given", why));
  };
  // The setting found for tp; for x, y or z; for any axis; for the mesh's own fields.
  const std::string *tp = nullptr, *tensor = nullptr, *axis = nullptr, *mesh = nullptr;
  for (const std::string& setting : settings) {
    if (setting.find('=') == std::string::npos || setting.front() == '=') {
      return UsageError(absl::StrCat("--set ", Quoted(setting), ": expected FIELD=VALUE, e.g. pp=4"));
    }
    const absl::string_view name = NameOf(setting);
    const auto [first, is_new] = seen.emplace(FullSettingName(name), &setting);
    if (!is_new) return both(*first->second, setting, "; give one");
    if (name == "tp") tp = &setting;
    if (name == "x" || name == "y" || name == "z") tensor = &setting;
    if (IsAxis(name)) axis = &setting;
    if (absl::StartsWith(first->first, "plan.mesh")) mesh = &setting;
  }
  // tp sets axis x, and y and z to 1.
  if (tp != nullptr && tensor != nullptr) {
    return both(*tp, *tensor, ", but tp = N means x = N, y = 1 and z = 1; give tp, or x, y and z");
  }
  if (axis != nullptr && mesh != nullptr) {
    return both(*axis, *mesh,
                ", but both set axes of the mesh; use either short names such as tp, or fields of plan.mesh");
  }
  const auto of = [&](absl::string_view optimizer) {
    return std::find_if(settings.begin(), settings.end(), [&](const std::string& setting) {
      const std::string name = FullSettingName(NameOf(setting));
      return name == optimizer || absl::StartsWith(name, absl::StrCat(optimizer, "."));
    });
  };
  const auto sgd = of("recipe.sgd"), adamw = of("recipe.adamw");
  if (sgd != settings.end() && adamw != settings.end()) {
    return both(*sgd, *adamw, ", but a recipe has one optimizer; set fields of one optimizer only");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Annotate(const absl::Status& status, absl::string_view source) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(source, ": ", status.message()));
}

void AddInputFlags(Flags* flags, InputFlags* input) {
  flags->String("model", "NAME|FILE", "the model: from the catalog, a Hugging Face config.json or a model graph",
                &input->model);
  flags->String("recipe", "FILE", "how to train: batch, optimizer, ...; --set overrides single fields", &input->recipe);
  flags->String("plan", "FILE", "how to spread the model over ranks; --set overrides single fields", &input->plan);
  flags->String("cluster", "NAME|FILE", "the machine, from the catalog or a file", &input->cluster);
  flags->String("schedule", "NAME|FILE",
                "the schedule: a name from `weft list schedules`, or a file in weft's text form or PyTorch's CSV",
                &input->schedule);
  flags->Repeated("set", "FIELD=VALUE",
                  "overrides a field: pp=4 dp=2 gbs=64 mbs=1 seq=1024 schedule=gpipe vpp=2 recipe.lr.peak=1e-3 ...; "
                  "FIELD=default drops the file's value",
                  &input->settings);
}

std::vector<NamedFile> InputFiles(const InputFlags& input) {
  return {{"--model", input.model},
          {"--recipe", input.recipe},
          {"--plan", input.plan},
          {"--cluster", input.cluster},
          {"--schedule", input.schedule}};
}

// Sets the schedule by name, or from the content of a file, whose form docs/schedule_files.md describes.
absl::Status SetSchedule(const std::string& name_or_path, PlanSchedule* schedule) {
  const std::string shown = Printable(name_or_path);
  schedule->set_name(shown);
  schedule->clear_definition();
  struct stat info;
  const bool file =
      LooksLikeFile(name_or_path) || (!FindSchedule(name_or_path).ok() && stat(name_or_path.c_str(), &info) == 0);
  if (!file) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(*schedule->mutable_definition(), ReadFile(name_or_path));
  const absl::StatusOr<NamedSchedule> named = ParseSchedule(schedule->definition());
  if (!named.ok()) return Annotate(named.status(), shown);
  if (!named->name.empty()) schedule->set_name(named->name);
  return absl::OkStatus();
}

// If settings added axes, validates the file's mesh alone. The added axes would come first and shift the axis numbers
// in errors, so that the author of the file would look in the wrong place.
absl::Status CheckAxes(const Mesh& of_file, const Inputs& inputs, const std::string& path) {
  if (of_file.axes_size() == 0 || of_file.axes_size() == inputs.plan.mesh().axes_size()) return absl::OkStatus();
  Plan plan;
  *plan.mutable_mesh() = of_file;
  return Annotate(ValidateAndResolve(&plan, inputs.cluster.device()), path);
}

// Checks the names in the file that a registry looks up later. The registry's error could not state that the name comes
// from the file.
absl::Status CheckNames(const Plan& of_file, const Plan& plan, const std::string& path) {
  const std::string& collective = of_file.collective();
  if (!collective.empty() && collective == plan.collective()) {
    WEFT_RETURN_IF_ERROR(Annotate(FindCollective(collective).status(), path));
  }
  const std::string& schedule = of_file.schedule().name();
  // A schedule with a definition takes its name from the definition and is not looked up.
  if (schedule.empty() || schedule != plan.schedule().name() || !plan.schedule().definition().empty()) {
    return absl::OkStatus();
  }
  return Annotate(FindSchedule(schedule).status(), path);
}

absl::StatusOr<Inputs> LoadInputs(const InputFlags& input, Progress* progress) {
  if (input.model.empty()) return UsageError("--model=NAME|FILE is needed; `weft list models` lists names");
  if (input.cluster.empty()) return UsageError("--cluster=NAME|FILE is needed; `weft list clusters` lists names");
  progress->Step("reading the inputs");
  Inputs inputs;
  if (!input.recipe.empty()) {
    WEFT_RETURN_IF_ERROR(ReadMessageInto(input.recipe, &inputs.recipe));
  }
  if (!input.plan.empty()) {
    WEFT_RETURN_IF_ERROR(ReadMessageInto(input.plan, &inputs.plan));
  }
  const Plan of_file = inputs.plan;
  for (const auto* field : FieldsOf(of_file)) inputs.plan_file_fields.insert(absl::StrCat("plan.", field->name()));
  // Refuse two schedules: it is not clear which one is meant.
  for (const std::string& setting : input.settings) {
    const absl::string_view name = absl::StripAsciiWhitespace(absl::string_view(setting).substr(0, setting.find('=')));
    if (input.schedule.empty() || (name != "schedule" && !absl::EndsWith(name, "schedule.name") &&
                                   !absl::EndsWith(name, "schedule.definition"))) {
      continue;
    }
    return UsageError(absl::StrCat("--schedule=", Quoted(input.schedule), " and --set ", Quoted(setting),
                                   " are both given; give one"));
  }
  WEFT_RETURN_IF_ERROR(CheckTogether(input.settings));
  for (const std::string& setting : input.settings) {
    const Recipe::OptimizerCase before = inputs.recipe.optimizer_case();
    WEFT_RETURN_IF_ERROR(
        Annotate(ApplySetting(setting, &inputs.recipe, &inputs.plan), absl::StrCat("--set ", setting)));
    const Recipe::OptimizerCase after = inputs.recipe.optimizer_case();
    if (before == after || before == Recipe::OPTIMIZER_NOT_SET || after == Recipe::OPTIMIZER_NOT_SET) continue;
    const bool sgd = after == Recipe::kSgd;
    inputs.notes.push_back(absl::StrCat("--set ", Printable(setting), " selects ", sgd ? "SGD" : "AdamW",
                                        " as the optimizer; weft ignores the field ", sgd ? "adamw" : "sgd", " of ",
                                        input.recipe));
  }
  if (!input.schedule.empty()) {
    WEFT_RETURN_IF_ERROR(SetSchedule(input.schedule, inputs.plan.mutable_schedule()));
  }
  WEFT_ASSIGN_OR_RETURN(inputs.cluster, LoadCluster(input.cluster));
  WEFT_RETURN_IF_ERROR(CheckAxes(of_file.mesh(), inputs, input.plan));
  WEFT_RETURN_IF_ERROR(CheckNames(of_file, inputs.plan, input.plan));
  WEFT_ASSIGN_OR_RETURN(inputs.model, LoadModel(input.model));
  return inputs;
}

std::string NoteOnMesh(const Inputs& inputs) {
  const int64_t devices = inputs.cluster.nodes() * inputs.cluster.devices_per_node();
  if (inputs.plan.mesh().axes_size() > 0 || devices <= 1) return "";
  const int64_t microbatch = std::max<int64_t>(1, inputs.recipe.microbatch_sequences());
  // The most data replicas that divide the batch and the cluster.
  const int64_t replicas = std::gcd(inputs.recipe.global_batch_sequences() / microbatch, devices);
  return absl::StrCat("plan.mesh is not set, so one of the ", devices, " devices of cluster ",
                      Quoted(inputs.cluster.name()), " is used; ",
                      replicas > 1 ? absl::StrCat("to use ", replicas, ", add --set dp=", replicas, "; ") : "",
                      "weft plan --gpus ", devices, " looks for the fastest mesh");
}

absl::Status WithFile(const absl::Status& status, const InputFlags& input, const Inputs& inputs) {
  const absl::string_view message = status.message();
  const absl::string_view field =
      message.substr(0, message.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_."));
  const std::string* file = absl::StartsWith(field, "recipe.") ? &input.recipe
                            : absl::StartsWith(field, "plan.") ? &input.plan
                                                               : nullptr;
  if (status.ok() || file == nullptr || file->empty()) return status;
  // If the plan's file does not set the field, the value may come from the runtime's plan.
  const std::string top(field.substr(0, field.find('.', field.find('.') + 1)));
  if (file == &input.plan && inputs.plan_file_fields.count(top) == 0) return status;
  for (const std::string& setting : input.settings) {
    const absl::string_view name = NameOf(setting);
    const std::string set = IsAxis(name) ? "plan.mesh" : FullSettingName(name);
    // The setting gives the field, a message that contains it, or a part of it.
    if (absl::StartsWith(field, set) || absl::StartsWith(set, field)) return status;
  }
  return Annotate(status, *file);
}

bool IsSet(const InputFlags& input, absl::string_view field) {
  return std::any_of(input.settings.begin(), input.settings.end(), [&](const std::string& setting) {
    return FullSettingName(NameOf(setting)) == field && !IsDefault(setting);
  });
}

absl::Status ApplySettingsOver(const InputFlags& input, Plan* plan) {
  Recipe recipe;
  for (const std::string& setting : input.settings) {
    // Skip recipe settings: a runtime has no recipe. Besides, a setting for a list element may need the list in the
    // recipe's file.
    if (absl::StartsWith(FullSettingName(NameOf(setting)), "recipe.")) continue;
    // FIELD=default counts as not given, so the runtime's value stays.
    if (IsDefault(setting)) continue;
    WEFT_RETURN_IF_ERROR(Annotate(ApplySetting(setting, &recipe, plan), absl::StrCat("--set ", setting)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Cluster> ClusterFor(const Program& program, const std::string& name_or_path) {
  if (!name_or_path.empty()) return LoadCluster(name_or_path);
  if (FindInCatalog("clusters", program.cluster_name()).ok()) return LoadCluster(program.cluster_name());
  return absl::NotFoundError(absl::StrCat("the program was compiled for cluster ", Quoted(program.cluster_name()),
                                          ", which is not in the catalog; give its file with --cluster"));
}

std::string NoteOnCluster(const Program& program, const Cluster& cluster, const std::string& name_or_path,
                          absl::string_view done) {
  if (ClusterDigest(cluster) == program.cluster_digest()) return "";
  if (cluster.name() == program.cluster_name() && !name_or_path.empty()) {
    return absl::StrCat("the program was compiled for another cluster that is also named ", Quoted(cluster.name()),
                        "; it is ", done, " with the figures of ", name_or_path, "; rename one of the two clusters");
  }
  return absl::StrCat(
      "the program was compiled for cluster ", Quoted(program.cluster_name()), "; it is ", done, " on ",
      Quoted(cluster.name()),
      cluster.name() == program.cluster_name()
          ? ", whose figures differ from the compiled ones; to use your own cluster file, give it with --cluster"
          : "");
}

absl::StatusOr<Program> LoadProgram(const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(Program program, ReadProgram(path));
  WEFT_RETURN_IF_ERROR(Annotate(VerifyProgram(program, {.allow_unfit = true, .algorithms = KnownCollectives()}), path));
  return program;
}

}  // namespace weft
