#include "cli/schedule/schedule_load.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "catalog/catalog.h"
#include "cli/common/terminal.h"
#include "proto/io/io.h"
#include "proto/util/printable.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "schedules/pipeline/activation_cap.h"
#include "schedules/pipeline/closed_form.h"
#include "schedules/pipeline/lowering.h"
#include "schedules/pipeline/schedule_text.h"
#include "schedules/pipeline/timing.h"

namespace weft {
namespace {

// The largest schedule file. It is enough for a thousand ranks with thousands of microbatches.
constexpr int64_t kMaxScheduleBytes = int64_t{1} << 28;
constexpr int kDefaultRanks = 4, kDefaultMicrobatches = 8;

// The optional parameters, as flags of the command line.
struct OptionalFlag {
  const char* flag;
  uint32_t bit;
  bool given;
};

std::vector<OptionalFlag> OptionalFlags(const ScheduleParams& params) {
  return {{"--virtual", kTakesVirtualStages, params.virtual_stages != 0},
          {"--waves", kTakesWaves, params.waves != 0},
          {"--lanes", kTakesLanes, params.lanes != 0},
          {"--limit", kTakesLimit, params.limit != 0},
          {"--group", kTakesGroup, params.group != 0},
          {"--scaling", kTakesScaling, params.scaling != Scaling::kConcatenation}};
}

std::string TakersOf(uint32_t bit) {
  std::vector<std::string> takers;
  for (const ScheduleEntry& entry : Schedules()) {
    if ((entry.takes & bit) != 0) takers.emplace_back(entry.name);
  }
  return absl::StrCat("; those that do: ", absl::StrJoin(takers, ", "));
}

// Refuses flags that the schedule does not take.
absl::Status CheckTakes(absl::string_view name, uint32_t takes, const ScheduleParams& params) {
  for (const OptionalFlag& optional : OptionalFlags(params)) {
    if (!optional.given || (takes & optional.bit) != 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("schedule ", Quoted(name), " does not take ", optional.flag, TakersOf(optional.bit)));
  }
  return absl::OkStatus();
}

absl::Status RefuseFreeze(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("--freeze: ", what, " static already; only message-driven schedules can be frozen: ",
                   absl::StrJoin(MessageDrivenSchedules(), ", "), ", and files with 'message-driven:'"));
}

// Returns "FILE: what is wrong", on one line.
absl::Status AtFile(const std::string& path, const absl::Status& status) {
  absl::string_view message = status.message();
  if (absl::ConsumePrefix(&message, path)) absl::ConsumePrefix(&message, ": ");
  return absl::Status(status.code(), absl::StrCat(Printable(path), ": ", message));
}

absl::Status LoadFile(const ScheduleRequest& request, LoadedSchedule* loaded) {
  absl::StatusOr<std::string> text = ReadFile(request.name, kMaxScheduleBytes);
  if (!text.ok()) return AtFile(request.name, text.status());
  absl::StatusOr<NamedSchedule> named = ParseSchedule(*text, request.csv);
  if (!named.ok()) return AtFile(request.name, named.status());
  ScheduleParams params = request.params;
  if (params.ranks == 0) params.ranks = static_cast<int>(named->schedule.order.size());
  if (params.microbatches == 0) params.microbatches = named->microbatches;
  if (request.ignore_foreign) params = {.ranks = params.ranks, .microbatches = params.microbatches};
  for (const OptionalFlag& optional : OptionalFlags(params)) {
    if (!optional.given) continue;
    return AtFile(request.name,
                  absl::InvalidArgumentError(absl::StrCat("a schedule file lists its actions and takes no ",
                                                          optional.flag, "; leave it out")));
  }
  // A plan with this file gets the same check.
  if (absl::Status status = CheckDefinition(*named, params); !status.ok()) return AtFile(request.name, status);
  loaded->timed.name = named->name.empty() ? Printable(request.name) : named->name;
  loaded->own_name = std::move(named->name);
  loaded->timed.schedule = std::move(named->schedule);
  loaded->timed.microbatches = named->microbatches;
  loaded->lists = std::move(named->lists);
  return absl::OkStatus();
}

absl::Status BuildRegistered(const ScheduleRequest& request, const ScheduleEntry& entry, ScheduleParams params,
                             LoadedSchedule* loaded) {
  if (params.ranks == 0) params.ranks = kDefaultRanks;
  if (params.microbatches == 0) params.microbatches = kDefaultMicrobatches;
  const int stages = request.stage_times ? request.stage_times->stages() : 0;
  if ((entry.takes & kTakesVirtualStages) != 0 && params.virtual_stages == 0 && stages % params.ranks == 0) {
    params.virtual_stages = stages / params.ranks;
  }
  loaded->entry = &entry;
  loaded->timed.name = loaded->own_name = std::string(entry.name);
  loaded->timed.microbatches = params.microbatches;
  WEFT_ASSIGN_OR_RETURN(loaded->timed.schedule, BuildSchedule(entry, params));
  const std::optional<ClosedForm> form = entry.closed_form ? entry.closed_form(params) : std::nullopt;
  if (form && form->makespan && !request.stage_times) {
    loaded->report.set_closed_form_makespan(static_cast<double>(form->makespan->numerator) /
                                            (static_cast<double>(form->makespan->denominator) * request.scale));
    loaded->report.set_closed_form_is_bound(form->makespan_is_bound);
  }
  return absl::OkStatus();
}

}  // namespace

int StageTimes::stages() const {
  size_t stages = 0;
  for (const std::vector<int64_t>* list : {&forward, &backward, &input, &weight}) {
    if (list->size() > 1) stages = std::max(stages, list->size());
  }
  return static_cast<int>(stages);
}

absl::StatusOr<ScaledCosts> ScaleCosts(const StageTimes& times, int64_t p2p, int ranks, int stages) {
  const int divisor = std::gcd(ranks, stages);
  ScaledCosts scaled = {.unit = stages / divisor, .activations = ranks / divisor, .stages = {}, .p2p = 0};
  scaled.p2p = p2p * scaled.unit;
  for (const auto& [flag, list] : {std::pair<const char*, const std::vector<int64_t>*>{"forward", &times.forward},
                                   {"backward", &times.backward},
                                   {"input", &times.input},
                                   {"weight", &times.weight}}) {
    if (list->size() < 2 || static_cast<int>(list->size()) == stages) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", flag, " has ", list->size(), " times, but there are ", stages,
                                                   " stages; allowed: ", stages,
                                                   " times, or one for all stages of a rank together"));
  }
  const auto time = [&](const std::vector<int64_t>& list, int stage) {
    return list.size() > 1 ? list[stage] * scaled.unit : list[0] * scaled.activations;
  };
  for (int stage = 0; stage < stages; ++stage) {
    StageCosts costs = {.forward = time(times.forward, stage), .backward = time(times.backward, stage)};
    costs.backward_weight = time(times.weight, stage);
    costs.backward_input = times.input.empty() ? costs.backward - costs.backward_weight : time(times.input, stage);
    if (costs.backward_input < 0) {
      return absl::InvalidArgumentError(absl::StrCat("--weight of stage ", stage,
                                                     " is larger than its --backward; allowed: at most that, or give "
                                                     "--input too"));
    }
    scaled.stages.push_back(costs);
  }
  return scaled;
}

namespace {

// Times a schedule by stage.
absl::Status TimeByStage(const ScheduleRequest& request, TimedSchedule* timed) {
  PipelineSchedule& schedule = timed->schedule;
  const int ranks = static_cast<int>(schedule.order.size());
  WEFT_ASSIGN_OR_RETURN(const ScaledCosts costs,
                        ScaleCosts(*request.stage_times, request.params.costs.p2p, ranks, schedule.stages));
  for (std::vector<Slot>& order : schedule.order) {
    for (Slot& slot : order) slot.paired = false;
  }
  if (schedule.message_driven) {
    WEFT_ASSIGN_OR_RETURN(schedule, FreezeSchedule(schedule, timed->microbatches, costs.stages, costs.p2p));
  }
  WEFT_ASSIGN_OR_RETURN(timed->timing, TimeSchedule(schedule, timed->microbatches, costs.stages, costs.p2p));
  timed->timing.unit = costs.unit;
  for (RankTiming& rank : timed->timing.ranks) rank.peak_activations *= costs.activations;
  return absl::OkStatus();
}

}  // namespace

ScheduleParams OnlyTaken(const ScheduleEntry& entry, ScheduleParams params) {
  if ((entry.takes & kTakesVirtualStages) == 0) params.virtual_stages = 0;
  if ((entry.takes & kTakesWaves) == 0) params.waves = 0;
  if ((entry.takes & kTakesLanes) == 0) params.lanes = 0;
  if ((entry.takes & kTakesLimit) == 0) params.limit = 0;
  if ((entry.takes & kTakesGroup) == 0) params.group = 0;
  if ((entry.takes & kTakesScaling) == 0) params.scaling = Scaling::kConcatenation;
  return params;
}

absl::StatusOr<LoadedSchedule> LoadSchedule(const ScheduleRequest& request) {
  LoadedSchedule loaded;
  const absl::StatusOr<const ScheduleEntry*> entry = FindSchedule(request.name);
  if (entry.ok()) {
    if (request.csv.dialect != CsvDialect::kAuto || request.csv.form != CsvForm::kAuto) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(request.name),
                       " is a schedule's name; --file-form and --file-dialect describe a file; leave them out"));
    }
    const ScheduleParams params = request.ignore_foreign ? OnlyTaken(**entry, request.params) : request.params;
    WEFT_RETURN_IF_ERROR(CheckTakes((*entry)->name, (*entry)->takes, params));
    WEFT_RETURN_IF_ERROR(BuildRegistered(request, **entry, params, &loaded));
  } else {
    // A file name cannot be this long.
    if (request.name.size() >= PATH_MAX) return entry.status();
    const absl::Status status = LoadFile(request, &loaded);
    if (absl::IsNotFound(status) && !LooksLikeFile(request.name)) {
      return absl::NotFoundError(absl::StrCat(entry.status().message(), "; and there is no such file"));
    }
    WEFT_RETURN_IF_ERROR(status);
  }
  TimedSchedule& timed = loaded.timed;
  timed.scale = request.scale;
  if (request.freeze) {
    if (!timed.schedule.message_driven && !request.ignore_foreign) {
      return RefuseFreeze(absl::StrCat("schedule ", Quoted(timed.name), " is"));
    }
    loaded.frozen = timed.schedule.message_driven.has_value();
    if (!request.stage_times) {
      WEFT_ASSIGN_OR_RETURN(timed.schedule, FreezeSchedule(timed.schedule, timed.microbatches, request.params.costs));
    }
  }
  if (request.activation_cap) {
    const absl::Status status = CheckActivations(timed.schedule, timed.microbatches, *request.activation_cap);
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat("schedule ", Quoted(timed.name), ": ", status.message()));
    }
  }
  if (request.stage_times) {
    WEFT_RETURN_IF_ERROR(TimeByStage(request, &timed));
  } else {
    WEFT_ASSIGN_OR_RETURN(timed.timing, TimeSchedule(timed.schedule, timed.microbatches, request.params.costs));
  }
  loaded.report.MergeFrom(MakeScheduleReport(timed));
  return loaded;
}

absl::StatusOr<ScheduleComparisonReport> CompareSchedules(const ScheduleRequest& request,
                                                          const std::vector<std::string>& names) {
  ScheduleComparisonReport report;
  report.set_schema_version(1);
  ScheduleRequest each = request;
  each.ignore_foreign = true;
  each.activation_cap.reset();
  // The request's own schedule comes first: it decides the numbers of ranks and microbatches.
  std::vector<std::string> wanted = {request.name};
  const bool all = std::find(names.begin(), names.end(), "all") != names.end();
  for (const std::string& name : names) {
    if (name != "all") wanted.push_back(name);
  }
  const size_t named = wanted.size();
  if (all) {
    for (const ScheduleEntry& entry : Schedules()) wanted.emplace_back(entry.name);
  }
  // A parameter that no compared schedule takes is a mistake.
  uint32_t taken = 0;
  for (const std::string& name : wanted) {
    if (const absl::StatusOr<const ScheduleEntry*> entry = FindSchedule(name); entry.ok()) taken |= (*entry)->takes;
  }
  for (const OptionalFlag& optional : OptionalFlags(request.params)) {
    if (!optional.given || (taken & optional.bit) != 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("none of the compared schedules takes ", optional.flag, TakersOf(optional.bit)));
  }
  const auto skip = [&report](const std::string& name, const absl::Status& status) {
    SkippedSchedule* skipped = report.add_skipped();
    skipped->set_schedule(name);
    skipped->set_reason(std::string(status.message()));
  };
  bool any_frozen = false;
  std::vector<ScheduleReport> rows;
  std::vector<std::string> seen;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (std::find(seen.begin(), seen.end(), wanted[i]) != seen.end()) continue;
    seen.push_back(wanted[i]);
    each.name = wanted[i];
    if (FindSchedule(each.name).ok()) each.csv = {};
    absl::StatusOr<LoadedSchedule> loaded = LoadSchedule(each);
    each.csv = request.csv;
    if (!loaded.ok()) {
      // A schedule that was asked for by name must exist, even if it is one of "all" too.
      if (i < named) return loaded.status();
      skip(wanted[i], loaded.status());
      continue;
    }
    any_frozen |= loaded->frozen;
    if (i == 0) {
      each.params.ranks = loaded->report.ranks();
      each.params.microbatches = loaded->report.microbatches();
    }
    if (request.activation_cap) {
      const TimedSchedule& timed = loaded->timed;
      const absl::Status status = CheckActivations(timed.schedule, timed.microbatches, *request.activation_cap);
      if (!status.ok()) {
        skip(loaded->timed.name, status);
        continue;
      }
    }
    rows.push_back(std::move(loaded->report));
  }
  if (request.freeze && !any_frozen) return RefuseFreeze("all of the compared schedules are");
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ScheduleReport& a, const ScheduleReport& b) { return a.makespan() < b.makespan(); });
  for (ScheduleReport& row : rows) *report.add_schedules() = std::move(row);
  return report;
}

absl::StatusOr<ActionLists> ActionsOf(const LoadedSchedule& loaded, CsvForm form) {
  if (form == CsvForm::kComputeComms && loaded.lists) return *loaded.lists;
  absl::StatusOr<ActionLists> lists = ToActionLists(loaded.timed.schedule, loaded.timed.microbatches);
  if (!lists.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("PyTorch's CSV cannot express what ", loaded.timed.name, " does: ", lists.status().message()));
  }
  return form == CsvForm::kComputeComms ? Lower(*lists) : lists;
}

}  // namespace weft
