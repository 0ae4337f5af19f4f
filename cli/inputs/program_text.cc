#include "cli/inputs/program_text.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/common/timeline.h"
#include "proto/util/mesh.h"
#include "proto/util/units.h"
#include "proto/util/units_text.h"

namespace weft {
namespace {

// Device bytes of each class of buffers, in the order of the enum.
std::map<BufferClass, int64_t> BytesByClass(const Template& t) {
  std::map<BufferClass, int64_t> bytes;
  for (const Buffer& buffer : t.buffers()) {
    if (buffer.place() == DEVICE) bytes[buffer.class_()] += buffer.bytes();
  }
  return bytes;
}

std::string Lower(const std::string& name) {
  std::string text = name;
  for (char& c : text) c = c == '_' ? ' ' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string MeshText(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh.axes()) axes.push_back(absl::StrCat(axis.name(), "=", axis.size()));
  return axes.empty() ? "one rank" : absl::StrCat(absl::StrJoin(axes, " x "), ", ", MeshRanks(mesh), " ranks");
}

std::string PrecisionText(const Precision& p) {
  return absl::StrCat("compute ", DTypeName(p.compute()), ", params ", DTypeName(p.params()), ", grads ",
                      DTypeName(p.grads()), ", reduce ", DTypeName(p.reduce()), ", master ", DTypeName(p.master()),
                      ", moments ", DTypeName(p.moments()));
}

int64_t RanksOf(const Program& program, const Template& t) {
  int64_t ranks = MeshRanks(program.mesh());
  for (const Coordinate& pin : t.pins()) ranks /= AxisSize(program.mesh(), pin.axis());
  return ranks;
}

void AppendTemplates(const Program& program, std::string* text) {
  absl::StrAppendFormat(text, "\ntemplates\n  %-16s %6s %8s %12s   sum of device buffers by class (bytes are reused)\n",
                        "name", "ranks", "actions", "arena");
  for (const Template& t : program.templates()) {
    std::vector<std::string> classes;
    for (const auto& [kind, bytes] : BytesByClass(t)) {
      classes.push_back(absl::StrCat(Lower(BufferClass_Name(kind)), " ", BytesText(bytes)));
    }
    absl::StrAppendFormat(text, "  %-16s %6d %8d %12s   %s\n", t.name(), RanksOf(program, t),
                          t.prologue_size() + t.body_size() + t.epilogue_size(), BytesText(t.device_arena_bytes()),
                          absl::StrJoin(classes, ", "));
  }
}

void AppendSegments(const Program& program, std::string* text) {
  absl::StrAppendFormat(text, "\nsegments\n  %-24s %6s %10s %12s\n", "name", "steps", "flops", "bytes moved");
  for (const Segment& segment : program.segments()) {
    double flops = 0, bytes = 0;
    for (const Step& step : segment.steps()) {
      flops += static_cast<double>(step.work().flops());
      bytes += static_cast<double>(step.work().bytes());
    }
    absl::StrAppendFormat(text, "  %-24s %6d %10s %12s\n", segment.name(), segment.steps_size(), CountText(flops),
                          CountText(bytes));
  }
}

std::string Coordinates(const google::protobuf::RepeatedPtrField<Coordinate>& coordinates) {
  return absl::StrJoin(coordinates, " ",
                       [](std::string* out, const Coordinate& c) { absl::StrAppend(out, c.axis(), "=", c.index()); });
}

std::string Names(const Template& t, const google::protobuf::RepeatedField<int32_t>& buffers) {
  return absl::StrJoin(buffers, " ", [&](std::string* out, int b) { absl::StrAppend(out, t.buffers(b).name()); });
}

// Describes how a transfer differs from a plain one between neighboring stages.
std::string TransferDetails(const Program& program, const Action& action) {
  std::string text;
  if (action.skip() > 0 && action.skip() <= program.skips_size()) {
    absl::StrAppend(&text, ", skip edge ", program.skips(action.skip() - 1).name());
  }
  if (action.transfer_group() > 0) absl::StrAppend(&text, ", group ", action.transfer_group());
  return text;
}

// Describes what an action works with: its segment, or its partners and buffers.
std::string Doing(const Program& program, const Template& t, const Action& action, int64_t rank) {
  switch (action.kind()) {
    case SEND:
      return absl::StrCat("to rank ", PeerRank(program.mesh(), rank, action.peer()), TransferDetails(program, action),
                          ": ", Names(t, action.sources()));
    case RECV:
      return absl::StrCat("from rank ", PeerRank(program.mesh(), rank, action.peer()), TransferDetails(program, action),
                          ": ", Names(t, action.destinations()));
    case ALL_REDUCE:
    case ALL_GATHER:
    case REDUCE_SCATTER:
      return absl::StrCat(action.algorithm(), " over ranks ",
                          absl::StrJoin(GroupMembers(program.mesh(), rank, action.group()), " "), " (",
                          Lower(Purpose_Name(action.purpose())), "): ", Names(t, action.sources()));
    default:
      return program.segments(action.segment()).name();
  }
}

void AppendList(const Program& program, const Template& t, int64_t rank, absl::string_view title,
                const google::protobuf::RepeatedPtrField<Action>& actions, std::string* text) {
  if (actions.empty()) return;
  absl::StrAppend(text, "\n", title, "\n");
  for (const Action& action : actions) {
    absl::StrAppendFormat(text, "  %5d  %-18s %-20s %s", action.id(), Lower(ActionKind_Name(action.kind())),
                          action.name(), Doing(program, t, action, rank));
    if (action.deps_size() > 0) {
      absl::StrAppend(text, "; after ", absl::StrJoin(action.deps(), " ", [](std::string* out, const Dependency& d) {
                        absl::StrAppend(out, d.action(), d.distance() == 0 ? "" : absl::StrCat("^-", d.distance()),
                                        d.detached() ? " (and its detached steps)" : "");
                      }));
    }
    if (action.releases_size() > 0) absl::StrAppend(text, "; releases ", Names(t, action.releases()));
    absl::StrAppend(text, "\n");
  }
}

}  // namespace

std::string ProgramSummary(const Program& program) {
  double parameters = 0;
  for (const LogicalTensor& tensor : program.tensors()) {
    parameters +=
        static_cast<double>(ElementCount(absl::MakeConstSpan(tensor.shape().data(), tensor.shape_size())).value_or(0));
  }
  const Recipe& recipe = program.recipe();
  std::string text = absl::StrCat(
      "program ", program.name(), ", by weft ", program.compiler_version(), ", checked against cluster ",
      program.cluster_name(), program.does_not_fit() ? ", WHICH IT DOES NOT FIT" : "", "\n", "mesh ",
      MeshText(program.mesh()), "; schedule ", program.schedule(), ", ", program.stages(), " stages, ",
      program.microbatches(), " microbatches of ", std::max<int64_t>(recipe.microbatch_sequences(), 1), " x ",
      recipe.sequence_length(), program.image_size() > 0 ? " pixels" : " tokens", " per replica\n", "model ",
      program.tensors_size(), " tensors, ", CountText(parameters), " parameters, ", CountText(program.model_flops()),
      " flops per step\n", "precision ", PrecisionText(program.precision()), "; accumulation ",
      Lower(AccumulationMode_Name(program.accumulation())), "\n",
      program.compute_order() == STATIC_ORDER
          ? ""
          : absl::StrCat("message-driven: ", Lower(ComputeOrder_Name(program.compute_order())), "\n"),
      program.has_evaluation() ? "with an evaluation program\n" : "without an evaluation program\n");
  AppendTemplates(program, &text);
  AppendSegments(program, &text);
  return text;
}

std::string RankListing(const Program& program, int64_t rank) {
  const Template& t = program.templates(TemplateOfRank(program, rank));
  std::vector<std::string> at;
  const std::vector<int64_t> coordinates = RankCoordinates(program.mesh(), rank);
  for (size_t i = 0; i < coordinates.size(); ++i) {
    at.push_back(absl::StrCat(program.mesh().axes(static_cast<int>(i)).name(), "=", coordinates[i]));
  }
  std::string text = absl::StrCat("rank ", rank, " (", absl::StrJoin(at, " "), ") runs template ", t.name());
  if (t.pins_size() > 0) absl::StrAppend(&text, ", pinned to ", Coordinates(t.pins()));
  absl::StrAppend(&text, "\n");
  AppendList(program, t, rank, "prologue", t.prologue(), &text);
  AppendList(program, t, rank, "body, once per optimizer step", t.body(), &text);
  AppendList(program, t, rank, "epilogue", t.epilogue(), &text);
  return text;
}

namespace {

char LetterOf(ActionKind kind) {
  switch (kind) {
    case FORWARD:
      return 'f';
    case BACKWARD:
      return 'B';
    case BACKWARD_INPUT:
      return 'I';
    case BACKWARD_WEIGHT:
      return 'W';
    case FORWARD_BACKWARD:
      return 'P';
    default:
      return 'o';
  }
}

}  // namespace

std::string TraceTimeline(const Program& program, const Trace& trace, int width, bool color) {
  std::vector<TimelineRow> rows;
  std::set<char> letters;
  const int digits = static_cast<int>(absl::StrCat(MeshRanks(program.mesh()) - 1).size());
  for (const RankTrace& rank : trace.ranks()) {
    const Template& t = program.templates(TemplateOfRank(program, rank.rank()));
    std::map<int32_t, const Action*> actions;
    for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
      for (const Action& action : *list) actions[action.id()] = &action;
    }
    TimelineRow row;
    row.name = absl::StrFormat("rank %*d", digits, rank.rank());
    std::vector<const TraceEvent*> events;
    for (const TraceEvent& event : rank.events()) {
      if (rank.streams(event.stream()) == "compute" && event.end_ps() > event.start_ps()) events.push_back(&event);
    }
    std::stable_sort(events.begin(), events.end(),
                     [](const TraceEvent* a, const TraceEvent* b) { return a->start_ps() < b->start_ps(); });
    int32_t last_action = -1, last_repetition = -1;
    for (const TraceEvent* event : events) {
      const Action& action = *actions.at(event->action());
      // Draw consecutive steps of one action as one bar. A compute stream runs one step at a time.
      if (!row.bars.empty() && event->action() == last_action && event->repetition() == last_repetition &&
          row.bars.back().end == event->start_ps()) {
        row.bars.back().end = event->end_ps();
        continue;
      }
      last_action = event->action();
      last_repetition = event->repetition();
      const char letter = LetterOf(action.kind());
      letters.insert(letter);
      row.bars.push_back({.start = event->start_ps(),
                          .end = event->end_ps(),
                          .letter = letter,
                          .number = letter == 'o' ? -1 : action.microbatch()});
    }
    rows.push_back(std::move(row));
  }
  const Timeline timeline = DrawTimeline(rows, width, color);
  std::vector<std::string> legend = {"f forward"};
  if (letters.count('B') > 0) legend.push_back("B backward");
  if (letters.count('I') > 0 || letters.count('W') > 0) legend.push_back("I input gradient, W weight gradient");
  if (letters.count('P') > 0) legend.push_back("P forward and backward in one");
  legend.push_back("o end of step");
  return absl::StrCat(timeline.text, "  one column = ", SecondsText(ToSeconds(Time{timeline.column})),
                      timeline.exact ? "" : "; a column shows what runs at its middle", "; ",
                      absl::StrJoin(legend, ", "), "\n");
}

}  // namespace weft
