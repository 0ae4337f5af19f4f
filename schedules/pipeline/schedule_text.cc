#include "schedules/pipeline/schedule_text.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "proto/util/suggest.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/schedule_text_reader.h"

namespace weft {
namespace {

// The first line that is neither empty nor a comment, without surrounding spaces.
absl::string_view FirstLine(absl::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const absl::string_view line = absl::StripAsciiWhitespace(text.substr(0, end));
    if (!line.empty() && line[0] != '#') return line;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return "";
}

bool IsTextForm(absl::string_view text) { return absl::StartsWithIgnoreCase(FirstLine(text), "weft"); }

// True if the line was probably meant as weft's text form: it has a colon, as in "ranks: 4", which no CSV has, or it is
// nearly the header.
bool LooksLikeText(absl::string_view line) {
  return line.find(':') != absl::string_view::npos ||
         !Nearest(line.substr(0, 2 * kScheduleTextHeader.size()), {std::string(kScheduleTextHeader)}).empty();
}

}  // namespace

absl::StatusOr<NamedSchedule> ParseSchedule(absl::string_view text, const CsvOptions& csv) {
  if (text.find_first_not_of(" \t\r\n") == absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(text.empty() ? "the file is empty" : "the file has only blank lines",
                                                   "; expected '", kScheduleTextHeader,
                                                   "' and lists, or PyTorch's CSV with one line per pipe rank"));
  }
  if (IsTextForm(text)) {
    if (csv.dialect != CsvDialect::kAuto || csv.form != CsvForm::kAuto) {
      return absl::InvalidArgumentError("the file is in weft's text form, which has no dialects or forms");
    }
    return ReadTextForm(text);
  }
  absl::StatusOr<CsvSchedule> read = ParsePytorchCsv(text, csv);
  if (!read.ok()) {
    const absl::string_view first = FirstLine(text);
    if (!LooksLikeText(first)) return read.status();
    return absl::InvalidArgumentError(absl::StrCat(read.status().message(),
                                                   " (read as PyTorch's CSV; a file in weft's text form begins with a "
                                                   "line '",
                                                   kScheduleTextHeader, "', not with ", Quoted(first), ")"));
  }
  NamedSchedule named = {.name = "", .schedule = std::move(read->schedule), .microbatches = read->microbatches};
  if (read->options.form == CsvForm::kComputeComms) named.lists = std::move(read->lists);
  return named;
}

std::string FormatSchedule(const NamedSchedule& named) {
  const PipelineSchedule& schedule = named.schedule;
  std::string text = absl::StrCat(kScheduleTextHeader, "\n");
  if (!named.name.empty()) absl::StrAppend(&text, "name: ", named.name, "\n");
  absl::StrAppend(&text, "ranks: ", schedule.order.size(), "\nmicrobatches: ", named.microbatches, "\n");
  for (int lane = 0; lane < schedule.lanes; ++lane) {
    absl::StrAppend(&text, "lane ", lane, ": ", absl::StrJoin(schedule.placement[lane], " "), "\n");
  }
  if (schedule.message_driven) {
    const bool arrival = schedule.message_driven->rule == MessageDriven::Rule::kArrival;
    absl::StrAppend(&text, "message-driven: ", arrival ? "arrival" : "backward-first",
                    "\nlimit: ", schedule.message_driven->limit, "\n");
  }
  if (schedule.asynchrony) {
    const bool newest = schedule.asynchrony->uses == Asynchrony::Uses::kNewest;
    absl::StrAppend(&text, "update-every: ", schedule.asynchrony->microbatches_per_update,
                    "\nversions: ", absl::StrJoin(schedule.asynchrony->versions, " "),
                    "\nuses: ", newest ? "newest" : "previous", "\n");
  }
  constexpr size_t kWidth = 100;
  for (size_t rank = 0; rank < schedule.order.size(); ++rank) {
    std::string line = absl::StrCat("rank ", rank, ":");
    std::string pair;
    for (const Slot& slot : schedule.order[rank]) {
      std::string word = SlotWord(slot);
      if (slot.paired) {
        pair = absl::StrCat("(", word, " ");
        continue;
      }
      if (!pair.empty()) word = absl::StrCat(std::exchange(pair, ""), word, ")");
      if (line.size() + 1 + word.size() > kWidth) {
        absl::StrAppend(&text, line, "\n");
        line = " ";
      }
      absl::StrAppend(&line, " ", word);
    }
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

absl::Status CheckDefinition(const NamedSchedule& named, const ScheduleParams& params) {
  auto refuse = [](absl::string_view what, int64_t given, int64_t wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("the schedule is for ", given, " ", what, ", but ", wanted, " are asked for"));
  };
  const int64_t ranks = static_cast<int64_t>(named.schedule.order.size());
  if (ranks != params.ranks) return refuse("ranks", ranks, params.ranks);
  if (named.microbatches != params.microbatches) return refuse("microbatches", named.microbatches, params.microbatches);
  for (const auto& [name, set] : {std::pair<absl::string_view, bool>{"virtual_stages", params.virtual_stages != 0},
                                  {"waves", params.waves != 0},
                                  {"lanes", params.lanes != 0},
                                  {"limit", params.limit != 0},
                                  {"group", params.group != 0},
                                  {"scaling", params.scaling != Scaling::kConcatenation}}) {
    if (!set) continue;
    return absl::InvalidArgumentError(absl::StrCat("a schedule that is given by its lists takes no ", name));
  }
  return absl::OkStatus();
}

absl::Status CheckDefinitionName(absl::string_view name, absl::string_view definition) {
  if (definition.empty() || !FindSchedule(name).ok()) return absl::OkStatus();
  const absl::StatusOr<NamedSchedule> named = ParseSchedule(definition);
  // An error in the definition is reported where the definition is used.
  if (!named.ok() || named->name == name) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the name ", Quoted(name), " belongs to a known schedule, but a definition is given too, whose name is ",
      named->name.empty() ? "empty" : Quoted(named->name), "; give one of the two, or another name"));
}

std::vector<std::string> MessageDrivenSchedules() {
  std::vector<std::string> names;
  for (const ScheduleEntry& entry : Schedules()) {
    // Every registered schedule can be built for these sizes.
    const absl::StatusOr<PipelineSchedule> built = BuildSchedule(entry, {.ranks = 4, .microbatches = 8});
    if (built.ok() && built->message_driven) names.emplace_back(entry.name);
  }
  return names;
}

absl::StatusOr<PipelineSchedule> ScheduleFromDefinition(absl::string_view text, const ScheduleParams& params) {
  absl::StatusOr<NamedSchedule> named = ParseSchedule(text);
  if (!named.ok()) return named.status();
  if (absl::Status status = CheckDefinition(*named, params); !status.ok()) return status;
  return std::move(named->schedule);
}

}  // namespace weft
