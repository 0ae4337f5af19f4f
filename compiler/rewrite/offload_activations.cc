// Splits a saved buffer into up to four: the part that stays, a copy on the device that the forward writes, a copy in
// host memory, and a copy on the device that the backward reads.
//
//   compute:  F ........ x ......... y B' ... B
//   d2h:        offload
//   h2d:                               fetch
//
// x, the second forward after F, waits for the offload. B' is the backward before B. The fetch waits for y, the action
// before B', so the fetch runs beside B'. At most two microbatches are being offloaded at a time, and at most two are
// being fetched. A backward that is split into halves holds its copy until its second half.
#include "compiler/rewrite/offload_activations.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/rewrite/replan_memory.h"
#include "compiler/rewrite/saved_split.h"
#include "compiler/rewrite/segment_part.h"
#include "proto/edit/program_edit.h"
#include "proto/util/status.h"
#include "proto/util/units.h"

namespace weft {
namespace {

// First word of the names of operands and buffers with values that only the input half of a backward reads.
constexpr absl::string_view kForInput = "saved_for_input";

template <typename... Parts>
absl::Status Refuse(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("plan.offload.activation_layers: ", parts...));
}

bool IsMicrobatch(ActionKind kind) {
  return kind == FORWARD || kind == BACKWARD || kind == BACKWARD_INPUT || kind == BACKWARD_WEIGHT ||
         kind == FORWARD_BACKWARD;
}

class Rewriter {
 public:
  Rewriter(const ModelGraph& model, int layers, Program* program)
      : names_(model), layers_(layers), program_(*program) {}

  absl::Status Run() {
    WEFT_RETURN_IF_ERROR(Check());
    FindSplits();
    for (Template& t : *program_.mutable_templates()) {
      WEFT_RETURN_IF_ERROR(RewriteTemplate(&t));
      WEFT_RETURN_IF_ERROR(ReplanTransients(program_, &t));
    }
    return absl::OkStatus();
  }

  // Call after Run. Returns the reason why nothing is offloaded to host memory; empty if something is.
  std::string WhyNothingLeft() const {
    if (!copies_.empty()) return "";
    if (std::all_of(splits_.begin(), splits_.end(), [](const auto& entry) { return entry.second.gone.empty(); })) {
      return "these layers save no floating-point values for their backward (plan.recompute recomputes them)";
    }
    return absl::StrCat("schedule '", program_.schedule(),
                        "' runs every backward so soon after its forward that there is no time to copy activations out "
                        "and back; use more pipe ranks, or a schedule that holds more microbatches, such as gpipe");
  }

 private:
  // The operands that replace a segment's operand `saved`: the index of the operand with the part that stays, and the
  // index of the operand with the part that is offloaded. -1 = the segment uses nothing of that part.
  struct Operands {
    int kept = -1, gone = -1;
  };
  // A stage, how many microbatches a forward of it runs at once, and which of the operands that it saves to.
  using SavedKind = std::tuple<int, int, int>;
  static SavedKind KindOf(const Action& forward, int which) {
    return {forward.stage(), std::max(1, forward.width()), which};
  }
  SavedKind KindOf(const Template& t, const Action& forward, int buffer) const {
    const std::vector<int> operands = WrittenOperands(t, forward);
    const auto is_bound = [&](int operand) { return forward.operands(operand) == buffer; };
    return KindOf(forward,
                  static_cast<int>(std::find_if(operands.begin(), operands.end(), is_bound) - operands.begin()));
  }

  absl::Status Check() const {
    if (program_.steps_per_repetition() > 0 || program_.compute_order() != STATIC_ORDER) {
      return Refuse(
          "schedule '", program_.schedule(),
          "' has no fixed order of forwards and backwards; use one that flushes and is not message-driven, or set "
          "plan.schedule.freeze");
    }
    return absl::OkStatus();
  }

  // Finds how each kind of forward splits the values that it saves. A forward that runs in a pair with a backward is
  // examined only if no other forward of its kind exists.
  void FindSplits() {
    for (const ActionKind kind : {FORWARD, FORWARD_BACKWARD}) {
      for (const Template& t : program_.templates()) {
        for (const Action& action : t.body()) {
          if (action.kind() != kind) continue;
          const Segment& segment = program_.segments(action.segment());
          const std::vector<int> operands = WrittenOperands(t, action);
          for (int which = 0; which < static_cast<int>(operands.size()); ++which) {
            if (splits_.contains(KindOf(action, which))) continue;
            splits_[KindOf(action, which)] =
                SplitOfSaved(LeavingValues(segment, operands[which], names_, layers_, kind == FORWARD_BACKWARD));
          }
        }
      }
    }
  }

  // The operands that hold the values that a stage saved. A pair of a forward and a backward has one operand for each.
  static std::vector<int> SavedOperands(const Template& t, const Action& action) {
    std::vector<int> operands;
    for (int o = 0; IsMicrobatch(action.kind()) && o < action.operands_size(); ++o) {
      if (t.buffers(action.operands(o)).class_() == SAVED_ACTIVATION) operands.push_back(o);
    }
    return operands;
  }

  // The saved operands that the forward writes: those of values that the whole backward reads, and of values that only
  // the input half reads.
  std::vector<int> WrittenOperands(const Template& t, const Action& forward) const {
    std::vector<int> operands = SavedOperands(t, forward);
    const Segment& segment = program_.segments(forward.segment());
    std::erase_if(operands, [&](int operand) { return segment.operands(operand).access() == READ; });
    return operands;
  }

  // Splits the saved operands of a segment; a second call for the same segment changes nothing. Returns the new
  // operands, by the index of the operand that they replace. If all of an operand is offloaded, the operand itself
  // becomes the offloaded part. Otherwise it becomes the part that stays, and the offloaded part gets a new operand
  // after all others.
  const std::map<int, Operands>& SplitSegment(int index, const std::map<int, const SavedSplit*>& splits) {
    const auto [it, fresh] = segments_.try_emplace(index);
    if (!fresh) return it->second;
    Segment& segment = *program_.mutable_segments(index);
    for (const auto& [operand, split] : splits) {
      Operands& now = it->second[operand];
      bool keeps = false, goes = false;
      for (const Value& value : segment.values()) {
        if (value.operand() == operand) (split->Goes(value.offset()) ? goes : keeps) = true;
      }
      // An operand that no value uses stays on the device as it is.
      keeps = keeps || !goes;
      Operand& whole = *segment.mutable_operands(operand);
      const int64_t kept_bytes = split->KeptOffset(whole.bytes());
      now.kept = keeps ? operand : -1;
      if (goes) {
        now.gone = keeps ? segment.operands_size() : operand;
        Operand& added = keeps ? *segment.add_operands() : whole;
        const bool for_input = absl::StrContains(whole.name(), kForInput);
        added.set_name(
            for_input ? absl::StrCat(whole.name(), "_offloaded")
                      : absl::StrCat("saved_offloaded", operand == splits.begin()->first ? "" : " of the backward"));
        added.set_bytes(split->gone_bytes);
        added.set_access(segment.operands(operand).access());
      }
      if (keeps) segment.mutable_operands(operand)->set_bytes(kept_bytes);
      for (Value& value : *segment.mutable_values()) {
        if (value.operand() != operand) continue;
        int64_t begin = 0;
        const SavedSplit::Range* gone = split->Find(value.offset(), &begin);
        value.set_operand(gone == nullptr ? now.kept : now.gone);
        value.set_offset(gone == nullptr ? split->KeptOffset(value.offset()) : gone->to + value.offset() - begin);
      }
    }
    return it->second;
  }

  absl::Status RewriteTemplate(Template* t) {
    std::vector<int> computes;
    // The users of each saved buffer, in order: the forward first.
    std::map<int, std::vector<int>> users;
    for (int a = 0; a < t->body_size(); ++a) {
      if (IsMessage(t->body(a).kind())) continue;
      place_[a] = static_cast<int>(computes.size());
      computes.push_back(a);
      for (const int operand : SavedOperands(*t, t->body(a))) users[t->body(a).operands(operand)].push_back(a);
    }
    std::erase_if(
        users, [&](const auto& user) { return splits_[KindOf(*t, t->body(user.second[0]), user.first)].gone.empty(); });
    SplitActions(users, t);
    next_ = NextActionId(*t);
    behind_.clear();
    forwards_.clear();
    backwards_.clear();
    for (const auto& [buffer, actions] : users) {
      forwards_.insert(place_.at(actions[0]));
      if (actions.size() > 1) backwards_.insert(place_.at(actions[1]));
    }
    for (const auto& [buffer, actions] : users) WEFT_RETURN_IF_ERROR(SplitBuffer(buffer, actions, computes, t));
    google::protobuf::RepeatedPtrField<Action> body;
    for (int a = 0; a < t->body_size(); ++a) {
      *body.Add() = std::move(*t->mutable_body(a));
      for (Action& action : behind_[a]) *body.Add() = std::move(action);
    }
    t->mutable_body()->Swap(&body);
    NumberActions(t);
    place_.clear();
    return absl::OkStatus();
  }

  int AddBuffer(const char* name, int like, int64_t bytes, weft::Place place, Template* t) {
    Buffer& buffer = *t->add_buffers();
    std::string of = t->buffers(like).name();
    const bool for_input = absl::StartsWith(of, kForInput);
    of.erase(0, std::min(of.find(' '), of.size()));
    buffer.set_name(absl::StrCat(for_input ? kForInput : "saved", name, of));
    buffer.set_class_(SAVED_ACTIVATION);
    buffer.set_bytes(bytes);
    buffer.set_place(place);
    return t->buffers_size() - 1;
  }

  // Splits the segments of all users of the buffers, and records the new operands of each user.
  void SplitActions(const std::map<int, std::vector<int>>& users, const Template* t) {
    std::map<int, std::map<int, const SavedSplit*>> by_action;
    kinds_.clear();
    for (const auto& [buffer, actions] : users) {
      kinds_[buffer] = KindOf(*t, t->body(actions[0]), buffer);
      const SavedSplit& split = splits_[kinds_[buffer]];
      for (const int a : actions) {
        for (int o = 0; o < t->body(a).operands_size(); ++o) {
          if (t->body(a).operands(o) == buffer) by_action[a][o] = &split;
        }
      }
    }
    operands_.clear();
    for (const auto& [a, splits] : by_action) {
      const std::map<int, Operands>& now = SplitSegment(t->body(a).segment(), splits);
      for (const auto& [o, operands] : now) operands_[{a, t->body(a).operands(o)}] = operands;
    }
  }

  absl::Status SplitBuffer(int buffer, const std::vector<int>& actions, const std::vector<int>& computes, Template* t) {
    const Action forward = t->body(actions[0]);
    if ((forward.kind() != FORWARD && forward.kind() != FORWARD_BACKWARD) || actions.size() < 2) {
      return Refuse("template '", t->name(), "': buffer '", t->buffers(buffer).name(),
                    "' is not saved by a forward for a backward");
    }
    const SavedKind saved = kinds_.at(buffer);
    const SavedSplit& split = splits_[saved];
    const int64_t bytes = t->buffers(buffer).bytes();
    // The actions that read the offloaded part after the forward has written it.
    std::vector<int> readers;
    std::vector<std::pair<int, Operands>> rebind;
    for (int a : actions) {
      const Operands& now = operands_.at({a, buffer});
      if (now.gone >= 0 && a != actions[0]) readers.push_back(a);
      rebind.emplace_back(a, now);
    }
    int release = -1;
    for (int a = 0; a < t->body_size(); ++a) {
      for (int b : t->body(a).releases()) release = b == buffer ? a : release;
    }
    const bool keeps = std::any_of(rebind.begin(), rebind.end(), [](const auto& one) { return one.second.kept >= 0; });
    // If no part stays, the buffer itself becomes the copy that is offloaded.
    const int out = keeps ? AddBuffer("_offloaded", buffer, split.gone_bytes, DEVICE, t) : buffer;
    const int place = place_.at(actions[0]);
    int in = out;
    const bool leaves = !readers.empty() && Gains(place, place_.at(readers[0]));
    if (leaves) in = AddBuffer("_fetched", buffer, split.gone_bytes, DEVICE, t);
    for (const auto& [a, now] : rebind) {
      if (now.gone < 0) continue;
      Action& action = *t->mutable_body(a);
      // An action may get several new operands. The gaps (-1) are filled when its other buffers are split.
      while (action.operands_size() <= now.gone) action.add_operands(-1);
      action.set_operands(now.gone, a == actions[0] ? out : in);
    }
    Action& last = *t->mutable_body(release);
    t->mutable_buffers(buffer)->set_bytes(keeps ? split.KeptOffset(bytes) : split.gone_bytes);
    if (in != buffer) last.add_releases(in);
    if (leaves && !keeps) {
      auto& releases = *last.mutable_releases();
      releases.erase(std::remove(releases.begin(), releases.end(), buffer), releases.end());
    }
    if (!leaves) return absl::OkStatus();
    const int host = AddBuffer("_host", buffer, split.gone_bytes, HOST, t);
    Action& goes = Copy(OFFLOAD, "offload", forward, saved, out, host, t);
    const int goes_id = goes.id();
    AddDependency(forward.id(), 0, false, &goes);
    goes.add_releases(out);
    behind_[actions[0]].push_back(goes);
    AddDependency(goes_id, 0, false, t->mutable_body(computes[WaitsForOffload(place, place_.at(readers[0]))]));
    Action& comes = Copy(FETCH, "fetch", forward, saved, host, in, t);
    const int anchor = computes[BeforeFetch(place, place_.at(readers[0]))];
    AddDependency(t->body(anchor).id(), 0, false, &comes);
    AddDependency(goes_id, 0, false, &comes);
    comes.add_releases(host);
    for (int a : readers) AddDependency(comes.id(), 0, false, t->mutable_body(a));
    behind_[anchor].push_back(comes);
    return absl::OkStatus();
  }

  // For a forward and its backward, given by their positions among compute actions: WaitsForOffload returns the
  // position of the action that waits for the offload, BeforeFetch the position of the action that the fetch waits for.
  int WaitsForOffload(int forward, int backward) const {
    auto next = forwards_.upper_bound(forward);
    if (next != forwards_.end()) ++next;
    return std::min(next == forwards_.end() ? forward + 2 : *next, backward - 1);
  }
  int BeforeFetch(int forward, int backward) const {
    const auto at = backwards_.lower_bound(backward);
    const int previous = at == backwards_.begin() ? backward - 1 : *std::prev(at);
    return std::max(forward, std::min(previous - 1, backward - 2));
  }

  // True if offloading shortens the time on the device: some compute action runs while neither the offload's nor the
  // fetch's copy is there, because it begins after the offload and ends before the fetch. Otherwise the two copies
  // would occupy the device at least as long as a buffer that stays.
  bool Gains(int forward, int backward) const {
    return backward - forward > 2 && WaitsForOffload(forward, backward) <= BeforeFetch(forward, backward);
  }

  Action& Copy(ActionKind kind, const char* verb, const Action& forward, const SavedKind& saved, int from, int to,
               Template* t) {
    const SavedSplit& split = splits_[saved];
    const int stage = forward.stage();
    const auto [segment, fresh] = copies_.try_emplace({kind, saved}, program_.segments_size());
    if (fresh) {
      BoundSegment bound;
      bound.segment.set_name(absl::StrCat("stage", stage, ".", verb, forward.width() > 1 ? ".wide" : ""));
      for (const Value& value : split.copies) {
        Step step;
        step.set_name(value.name());
        step.set_kernel(CAST);
        step.set_stream(kind == FETCH ? H2D : D2H);
        step.add_inputs(AddValue(*t, from, value, &bound));
        step.add_outputs(AddValue(*t, to, value, &bound));
        step.mutable_work()->set_bytes(value.shape(0) * DTypeBytes(value.dtype()));
        step.mutable_work()->set_dtype(value.dtype());
        *bound.segment.add_steps() = std::move(step);
      }
      SetAccess(*t, &bound);
      *program_.add_segments() = std::move(bound.segment);
    }
    copy_.Clear();
    copy_.set_id(next_++);
    copy_.set_kind(kind);
    copy_.set_stage(stage);
    copy_.set_microbatch(forward.microbatch());
    copy_.set_lane(forward.lane());
    copy_.set_name(absl::StrCat(verb, " s", stage, " m", forward.microbatch()));
    copy_.set_segment(segment->second);
    copy_.add_operands(from);
    copy_.add_operands(to);
    return copy_;
  }

  const LayerNames names_;
  const int layers_;
  Program& program_;
  std::map<SavedKind, SavedSplit> splits_;
  // The kind of each buffer of the current template that is split.
  std::map<int, SavedKind> kinds_;
  // The new operands of each segment: segment -> original operand -> new operands.
  std::map<int, std::map<int, Operands>> segments_;
  // The new operands of the template that is being rewritten, by action and original buffer.
  std::map<std::pair<int, int>, Operands> operands_;
  // Segments of the copies, by kind of copy and kind of forward.
  std::map<std::pair<ActionKind, SavedKind>, int> copies_;
  // For the template that is rewritten: index of a compute action -> its position among the compute actions.
  std::map<int, int> place_;
  // Positions of the forwards that save something, and positions of the first reader of each saved buffer, among the
  // compute actions.
  std::set<int> forwards_, backwards_;
  // Actions to insert after each action, by its index.
  std::map<int, std::vector<Action>> behind_;
  Action copy_;
  int next_ = 0;
};

}  // namespace

absl::Status OffloadActivations(const ModelGraph& model, int layers, Program* program,
                                std::vector<std::string>* notes) {
  Rewriter rewriter(model, layers, program);
  WEFT_RETURN_IF_ERROR(rewriter.Run());
  const std::string why = rewriter.WhyNothingLeft();
  if (!why.empty() && notes != nullptr) {
    notes->push_back(absl::StrCat("plan.offload.activation_layers = ", layers, " moves nothing to host memory: ", why));
  }
  return absl::OkStatus();
}

}  // namespace weft
