// weft list: lists the names that flags and plans accept.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "catalog/catalog.h"
#include "catalog/load.h"
#include "cli/command.h"
#include "cli/common/flags.h"
#include "cli/common/terminal.h"
#include "cli/schedule/schedule_notes.h"
#include "proto/cluster.pb.h"
#include "proto/io/io.h"
#include "proto/io/json.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "schedules/collective/plan.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule.h"
#include "simulator/cost/cost_model.h"
#include "simulator/network/network_model.h"

namespace weft {
namespace {

struct Row {
  std::string name;
  // `about` is the source or a description. `details` is shown below it, if there is more to say.
  std::string about = {};
  std::string details = {};
};
using Rows = std::vector<Row>;

Rows FromCatalog(absl::string_view kind) {
  Rows rows;
  for (const std::string& name : CatalogNames(kind)) rows.push_back({.name = name});
  return rows;
}

Rows Models() { return FromCatalog("models"); }

// Returns a description such as "128 nodes of 8 x H100-SXM5-80GB, rail-optimized".
std::string AboutCluster(const Cluster& cluster) {
  std::string about = cluster.nodes() == 1 ? "one node of " : absl::StrCat(cluster.nodes(), " nodes of ");
  absl::StrAppend(&about, cluster.devices_per_node(), " x ", cluster.device().name());
  const std::string kind = absl::AsciiStrToLower(FabricKind_Name(cluster.fabric().kind()));
  if (cluster.nodes() > 1) absl::StrAppend(&about, ", ", absl::StrReplaceAll(kind, {{"_", "-"}}));
  return about;
}

Rows Clusters() {
  Rows rows = FromCatalog("clusters");
  for (Row& row : rows) {
    const absl::StatusOr<CatalogFile> file = FindInCatalog("clusters", row.name);
    Cluster cluster;
    if (file.ok() && ParseMessage(file->content, file->path, &cluster).ok()) row.about = AboutCluster(cluster);
  }
  return rows;
}

// Returns TakenFlags of `entry`, with limits added to --virtual and --waves, whose limits do not depend on the
// schedule.
std::string TakenFlagsAndLimits(const ScheduleEntry& entry) {
  // True if the user can choose the value of --virtual. Some schedules accept only the value that they have anyway.
  const bool chooses = BuildSchedule(entry, {.ranks = 4, .microbatches = 8, .virtual_stages = 3}).ok();
  return absl::StrReplaceAll(
      TakenFlags(entry),
      {{"--virtual", chooses ? absl::StrCat("--virtual (up to ", kMaxStagesPerRank, ")") : "--virtual"},
       {"--waves", absl::StrCat("--waves (up to ", kMaxStagesPerRank / 2, ")")}});
}

Rows PipelineSchedules() {
  Rows rows;
  for (const ScheduleEntry& entry : Schedules()) {
    std::vector<std::string> details;
    if (const ScheduleNotes* notes = FindScheduleNotes(entry.name)) details.emplace_back(notes->constraints);
    if (entry.takes != kTakesNothing) details.push_back(absl::StrCat("takes ", TakenFlagsAndLimits(entry)));
    rows.push_back({std::string(entry.name), std::string(entry.source), absl::StrJoin(details, "; ")});
  }
  return rows;
}

Rows CollectiveAlgorithms() {
  Rows rows;
  for (const CollectiveEntry& entry : Collectives())
    rows.push_back({std::string(entry.name), std::string(entry.source)});
  return rows;
}

Rows Networks() {
  Rows rows;
  for (const sim::NetworkModelEntry& entry : sim::NetworkModels())
    rows.push_back({std::string(entry.name), std::string(entry.description)});
  return rows;
}

Rows Costs() {
  Rows rows;
  for (const sim::CostModelEntry& entry : sim::CostModels())
    rows.push_back({std::string(entry.name), std::string(entry.description)});
  return rows;
}

Rows Runtimes() {
  Rows rows;
  for (const std::string& name : CatalogNames("runtimes")) {
    const absl::StatusOr<Runtime> runtime = LoadRuntime(name);
    rows.push_back({.name = name, .about = runtime.ok() ? runtime->source() : ""});
  }
  return rows;
}

struct Kind {
  absl::string_view name;
  Rows (*rows)();
};

constexpr Kind kKinds[] = {
    {"models", Models},
    {"clusters", Clusters},
    {"schedules", PipelineSchedules},
    {"collectives", CollectiveAlgorithms},
    {"networks", Networks},
    {"costs", Costs},
    {"runtimes", Runtimes},
};

std::string Text(const Rows& rows) {
  size_t width = 0;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  std::string text;
  for (const Row& row : rows) {
    if (row.about.empty()) {
      absl::StrAppend(&text, row.name, "\n");
    } else {
      absl::StrAppendFormat(&text, "%-*s  %s\n", static_cast<int>(width), row.name, row.about);
    }
    if (!row.details.empty()) absl::StrAppend(&text, std::string(width + 4, ' '), row.details, "\n");
  }
  return text;
}

std::string Json(const Rows& rows) {
  std::string text = "[";
  for (const Row& row : rows) {
    absl::StrAppend(&text, text.size() > 1 ? "," : "", "\n  {\"name\": ", JsonQuoted(row.name),
                    ", \"about\": ", JsonQuoted(row.about));
    if (!row.details.empty()) absl::StrAppend(&text, ", \"details\": ", JsonQuoted(row.details));
    absl::StrAppend(&text, "}");
  }
  return absl::StrCat(text, rows.empty() ? "]\n" : "\n]\n");
}

// Returns the catalog's entry in a form that the flags accept as a file: with its comments, or as JSON.
absl::StatusOr<std::string> Show(absl::string_view kind, const std::string& name, bool json) {
  WEFT_ASSIGN_OR_RETURN(const CatalogFile file, FindInCatalog(kind, name));
  if (kind == "models" || !json) return std::string(file.content);
  if (kind == "runtimes") {
    WEFT_ASSIGN_OR_RETURN(const Runtime runtime, LoadRuntime(name));
    return MessageToJson(runtime);
  }
  Cluster cluster;
  WEFT_RETURN_IF_ERROR(ParseMessage(file.content, file.path, &cluster));
  return MessageToJson(cluster);
}

}  // namespace

absl::Status ListCommand(absl::Span<const std::string> args) {
  std::vector<std::string> known;
  for (const Kind& kind : kKinds) known.emplace_back(kind.name);
  std::string format = "text", show;
  Flags flags("weft list", "models|clusters|schedules|collectives|networks|costs|runtimes",
              "Lists the names that --model, --cluster, --network, --cost, --runtime and the plan's fields\n"
              "schedule.name and collective take, with their sources.");
  flags.Choice("format", {"text", "json"}, "output format", &format);
  flags.String("show", "NAME", "print one model, cluster or runtime as a file, to copy and edit", &show);
  flags.Example("weft list schedules");
  flags.Example("weft list clusters --show dgx-h100 > mine.textproto");
  WEFT_RETURN_IF_ERROR(flags.Parse(args, 1, 1));
  if (flags.help_wanted()) return Print(flags.Help());
  for (const Kind& kind : kKinds) {
    if (kind.name != flags.positional()[0]) continue;
    if (flags.Given("show")) {
      if (kind.name != "models" && kind.name != "clusters" && kind.name != "runtimes") {
        return UsageError(
            absl::StrCat("--show prints a model, cluster or runtime of the catalog; the catalog has no files for ",
                         Quoted(kind.name)));
      }
      WEFT_ASSIGN_OR_RETURN(const std::string file, Show(kind.name, show, format == "json"));
      return Print(file);
    }
    return Print(format == "json" ? Json(kind.rows()) : Text(kind.rows()));
  }
  return UsageError(absl::StrCat("cannot list ", Quoted(flags.positional()[0]), NameHelp(flags.positional()[0], known),
                                 "; see weft list --help"));
}

}  // namespace weft
