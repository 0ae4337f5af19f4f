// The text form of a FitReport.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "planner/fit/fit.h"
#include "proto/util/units_text.h"

namespace weft::planner {
namespace {

std::string Signed(int64_t bytes) { return bytes < 0 ? absl::StrCat("-", BytesText(-bytes)) : BytesText(bytes); }

// "stage 3", "stages 0, 8", "stages 0, 16, … 112"
std::string StagesText(const FitStage& row) {
  if (row.stages_size() == 1) return absl::StrCat("stage ", row.stages(0));
  std::string text = absl::StrCat("stages ", row.stages(0));
  if (row.stages_size() > 1) absl::StrAppend(&text, ", ", row.stages(1));
  if (row.stages_size() > 2) {
    absl::StrAppend(&text, row.stages_size() > 3 ? ", … " : ", ", row.stages(row.stages_size() - 1));
  }
  return text;
}

bool AreAlike(const FitStage& a, const FitStage& b) {
  return a.classes().SerializeAsString() == b.classes().SerializeAsString() && a.planned_bytes() == b.planned_bytes() &&
         a.reserve_bytes() == b.reserve_bytes() && a.capacity_bytes() == b.capacity_bytes();
}

void AppendChanges(const google::protobuf::RepeatedPtrField<FitChange>& changes, std::string* text) {
  size_t width = 0;
  for (const FitChange& change : changes) width = std::max(width, change.settings().size());
  for (const FitChange& change : changes) {
    absl::StrAppendFormat(text, "  %-*s  %10s, %s left%s\n", static_cast<int>(width), change.settings(),
                          BytesText(change.bytes()), Signed(change.headroom_bytes()),
                          change.basis() == COMPILED ? " (compiled)" : "");
  }
}

// The unit of all figures of a table, and its number of bytes.
struct Unit {
  const char* name;
  double bytes;
};

Unit UnitOf(const FitReport& report) {
  int64_t most = 0;
  for (const FitStage& row : report.stages()) most = std::max(most, row.planned_bytes());
  return most >= 1 << 30 ? Unit{"GiB", 0x1p30} : most >= 1 << 20 ? Unit{"MiB", 0x1p20} : Unit{"KiB", 0x1p10};
}

// A line of the table: consecutive rows that differ only in their ranks and stages.
struct Line {
  std::string ranks, stages;
  std::vector<int64_t> bytes;
};

std::vector<Line> LinesOf(const FitReport& report) {
  std::vector<Line> lines;
  for (int i = 0; i < report.stages_size(); ++i) {
    const FitStage& row = report.stages(i);
    int last = i;
    while (last + 1 < report.stages_size() && AreAlike(row, report.stages(last + 1))) ++last;
    const FitClasses& of = row.classes();
    Line line{absl::StrCat("ranks ", row.ranks()),
              StagesText(row),
              {of.parameters_bytes(), of.gradients_bytes(), of.optimizer_bytes(), of.saved_activations_bytes(),
               of.in_flight_bytes(), of.workspace_bytes(), of.gaps_bytes(), row.reserve_bytes(), row.headroom_bytes()}};
    if (last > i) {
      absl::StrAppend(&line.ranks, " to ", report.stages(last).ranks());
      absl::StrAppend(&line.stages, " to ", StagesText(report.stages(last)));
    }
    i = last;
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string TableOf(const FitReport& report) {
  const Unit unit = UnitOf(report);
  const std::vector<Line> lines = LinesOf(report);
  int ranks = 0, stages = 0;
  for (const Line& line : lines) {
    ranks = std::max(ranks, static_cast<int>(line.ranks.size()));
    stages = std::max(stages, static_cast<int>(line.stages.size()));
  }
  std::string text = absl::StrFormat("  %-*s", ranks + 2 + stages, unit.name);
  for (const char* name : {"params", "grads", "optim", "activ", "flight", "work", "gaps", "reserve", "left"}) {
    absl::StrAppendFormat(&text, " %7s", name);
  }
  text += "\n";
  for (const Line& line : lines) {
    absl::StrAppendFormat(&text, "  %-*s  %-*s", ranks, line.ranks, stages, line.stages);
    for (const int64_t bytes : line.bytes)
      absl::StrAppendFormat(&text, " %7.2f", static_cast<double>(bytes) / unit.bytes);
    text += "\n";
  }
  return text;
}

}  // namespace

std::string FitReportText(const FitReport& report) {
  std::string text = absl::StrFormat("runtime %s: %s on %s, %d ranks\n%s", report.runtime(), report.model(),
                                     report.cluster(), report.devices(), TableOf(report));
  const bool known = report.stages_size() > 0 && report.stages(0).capacity_bytes() > 0;
  const std::string how =
      report.basis() == COMPILED ? "compiled" : absl::StrFormat("estimated, within %.0f %%", 100 * report.error());
  if (!known) {
    absl::StrAppend(&text, "the cluster does not state its devices' memory (", how, ")\n");
  } else if (report.headroom_bytes() < 0) {
    absl::StrAppend(&text, "DOES NOT FIT: ", BytesText(-report.headroom_bytes()), " too much for a device with ",
                    BytesText(report.stages(0).capacity_bytes()), " (", how, ")\n");
  } else if (!report.fits()) {
    absl::StrAppend(&text, "DOES NOT FIT: a node needs ", BytesText(report.planned_host_bytes()),
                    " of host memory and has ", BytesText(report.host_capacity_bytes()), " (", how, ")\n");
  } else {
    absl::StrAppend(&text, "fits: ", BytesText(report.headroom_bytes()), " left on the fullest device, which has ",
                    BytesText(report.stages(0).capacity_bytes()), " (", how, ")\n");
  }
  if (report.remedies_size() > 0) {
    absl::StrAppend(&text, "it fits with one of these changes, gentler ones first:\n");
    AppendChanges(report.remedies(), &text);
  } else if (known && !report.fits()) {
    absl::StrAppend(&text,
                    "no change of recompute, microbatches, ZeRO, offload or mesh that weft tried makes it fit; "
                    "--gpus=? looks for more devices\n");
  }
  if (report.relaxations_size() > 0) {
    absl::StrAppend(&text, "it would still fit with one of these:\n");
    AppendChanges(report.relaxations(), &text);
  }
  if (report.has_fewest()) {
    const FewestDevices& fewest = report.fewest();
    absl::StrAppendFormat(&text, "fewest devices: %d, with %s: %s of %s\n", fewest.devices(), fewest.settings(),
                          BytesText(fewest.bytes()), BytesText(fewest.capacity_bytes()));
  }
  return text;
}

}  // namespace weft::planner
