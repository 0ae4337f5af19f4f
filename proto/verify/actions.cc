// Fields of actions one by one: ids, segments, operands, peers, groups and dependencies are in range (P1, P2, P8).
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "proto/sample_rows.h"
#include "proto/suggest.h"
#include "proto/units.h"
#include "proto/verify/index.h"
#include "proto/verify/room.h"

namespace weft::verify {
namespace {

class TemplateCheck {
 public:
  TemplateCheck(const Program& program, const VerifyOptions& options, const Template& t, Findings* findings)
      : program_(program), options_(options), t_(t), findings_(findings), room_(t) {}

  void Run() {
    CheckPins();
    CheckIds();
    if (!findings_->empty()) return;
    for (const auto& [list, actions] : Lists()) {
      for (const Action& action : *actions) {
        if (findings_->full()) return;
        CheckFields(action);
        CheckDeps(action, list);
        if (IsCompute(action.kind())) {
          CheckCompute(action);
        } else if (IsTransfer(action.kind())) {
          CheckTransfer(action);
        } else {
          CheckCollective(action);
        }
        if (!IsCopy(action.kind())) CheckPlaces(action);
        absl::flat_hash_set<int> released;
        for (int b : action.releases()) {
          if (!BufferOk(action, "releases", b)) continue;
          if (t_.buffers(b).persistent()) Bad("P7.release", action, "releases persistent ", DescribeBuffer(t_, b));
          if (!released.insert(b).second) Bad("P7.release", action, "releases ", DescribeBuffer(t_, b), " twice");
        }
      }
    }
  }

 private:
  using Actions = google::protobuf::RepeatedPtrField<Action>;
  std::vector<std::pair<List, const Actions*>> Lists() const {
    return {{kPrologue, &t_.prologue()}, {kBody, &t_.body()}, {kEpilogue, &t_.epilogue()}};
  }

  template <typename... Parts>
  void Bad(const char* rule, const Action& action, const Parts&... parts) {
    findings_->Add(rule, Describe(t_, action), ": ", parts...);
  }

  int Axis(const std::string& name) const {
    for (int i = 0; i < program_.mesh().axes_size(); ++i) {
      if (program_.mesh().axes(i).name() == name) return i;
    }
    return -1;
  }

  bool Pinned(const std::string& axis) const {
    return std::any_of(t_.pins().begin(), t_.pins().end(), [&](const Coordinate& pin) { return pin.axis() == axis; });
  }

  void CheckPins() {
    absl::flat_hash_set<std::string> seen;
    for (const Coordinate& pin : t_.pins()) {
      const int axis = Axis(pin.axis());
      if (axis < 0 || pin.index() < 0 || pin.index() >= program_.mesh().axes(axis).size()) {
        findings_->Add("P8.pins", "template '", t_.name(), "' pins ", pin.axis(), "=", pin.index(),
                       axis < 0 ? ", the mesh has no such axis" : ", which is beyond the axis");
      }
      if (!seen.insert(pin.axis()).second) {
        findings_->Add("P8.pins", "template '", t_.name(), "' pins ", pin.axis(), " twice");
      }
    }
  }

  void CheckIds() {
    int64_t last = -1;
    for (const auto& [list, actions] : Lists()) {
      for (const Action& action : *actions) {
        if (action.id() <= last) {
          Bad("P1.ids", action, "ids must be at least 0 and ascending in list order; the one before is ", last);
          return;
        }
        last = action.id();
        list_of_[action.id()] = list;
        by_id_[action.id()] = &action;
        if (action.kind() == ACTION_UNSPECIFIED) Bad("P2.kind", action, "has no kind");
      }
    }
  }

  bool BufferOk(const Action& action, const char* field, int b) {
    if (b >= 0 && b < t_.buffers_size()) return true;
    Bad("P2.buffer", action, field, " names buffer ", b, ", the template has ", t_.buffers_size());
    return false;
  }

  void CheckFields(const Action& action) {
    const ActionKind kind = action.kind();
    const auto unused = [&](bool set, const char* field) {
      if (set) Bad("P2.fields", action, "a ", ActionKind_Name(kind), " has no ", field);
    };
    unused(!IsCompute(kind) && action.segment() != 0, "segment");
    unused(!IsCompute(kind) && action.operands_size() > 0, "operands");
    unused(!IsTransfer(kind) && action.has_peer(), "peer");
    unused(!IsTransfer(kind) && action.direction() != DIRECTION_UNSPECIFIED, "direction");
    unused(!IsTransfer(kind) && action.skip() != 0, "skip");
    unused(!IsTransfer(kind) && action.transfer_group() != 0, "transfer_group");
    unused(kind != FORWARD_BACKWARD && action.has_backward(), "backward");
    // Only forwards are wide, and what they send.
    unused(kind != FORWARD && !IsTransfer(kind) && action.width() != 0, "width");
    unused(IsTransfer(kind) && action.direction() == FROM_LOSS && action.width() > 1, "width from the loss");
    const bool collective = IsCollective(kind);
    unused(!collective && action.has_group(), "group");
    unused(!collective && action.purpose() != PURPOSE_UNSPECIFIED, "purpose");
    unused(!collective && !action.algorithm().empty(), "algorithm");
    unused(!collective && kind != SEND && action.sources_size() > 0, "sources");
    unused(!collective && kind != RECV && action.destinations_size() > 0, "destinations");
    const bool per_microbatch = IsMicrobatch(kind) || IsTransfer(kind) || IsCopy(kind);
    CheckRange(action, "", action.stage(), action.microbatch(), action.lane(),
               per_microbatch ? program_.microbatches() : 1);
    CheckStepOf(action);
    const int left = program_.microbatches() - action.microbatch();
    if (action.width() < 0 || action.width() > Limits::kWidth || Width(action) > std::max(1, left)) {
      Bad("P13.range", action, "width ", action.width(), " is not in [0, ", std::min(Limits::kWidth, left),
          "]: microbatches ", action.microbatch(), " to ", program_.microbatches() - 1, ", at most ", Limits::kWidth);
    }
    if (kind == FORWARD_BACKWARD) CheckPair(action);
    if (IsTransfer(kind)) CheckSkip(action);
    if (action.transfer_group() < 0) {
      Bad("P13.range", action, "transfer_group ", action.transfer_group(), " is negative");
    }
  }

  // Rule P14.
  void CheckStepOf(const Action& action) {
    const ActionKind kind = action.kind();
    const int steps = program_.steps_per_repetition();
    if (steps == 0 || (!IsMicrobatch(kind) && kind != OPTIMIZER_STEP)) {
      if (action.step() != 0) {
        Bad("P14.step", action, "step is ", action.step(), "; only forwards, backwards and OPTIMIZER_STEP of an ",
            "asynchronous program have one");
      }
      if (steps > 0 && (kind == GRAD_NORM || kind == SCALE_GRADIENTS)) {
        Bad("P14.program", action, "an asynchronous program takes no norms");
      }
      return;
    }
    if (kind == FORWARD_BACKWARD || Width(action) > 1) {
      Bad("P14.program", action, "an asynchronous program has single forwards and backwards");
    }
    if (kind == OPTIMIZER_STEP) {
      if (action.step() < 0 || action.step() >= steps) {
        Bad("P14.step", action, "step ", action.step(), " is not in [0, ", steps, ")");
      }
      return;
    }
    const int own = action.microbatch() / MicrobatchesPerStep(program_);
    if (action.step() == own || (kind == FORWARD && action.step() == own + steps)) return;
    Bad("P14.step", action, "step is ", action.step(), ", but microbatch ", action.microbatch(), " is of step ", own,
        kind == FORWARD ? absl::StrCat(", or ", own + steps, " if it is ahead") : "");
  }

  void CheckRange(const Action& action, const char* of, int stage, int microbatch, int lane, int microbatches) {
    if (stage < 0 || stage >= program_.stages()) {
      Bad("P13.range", action, of, "stage ", stage, " is not in [0, ", program_.stages(), ")");
    }
    if (microbatch < 0 || microbatch >= microbatches) {
      Bad("P13.range", action, of, "microbatch ", microbatch, " is not in [0, ", microbatches, ")");
    }
    if (lane < 0 || lane >= Limits::kLanes) {
      Bad("P13.range", action, of, "lane ", lane, " is not in [0, ", Limits::kLanes, ")");
    }
  }

  void CheckPair(const Action& action) {
    if (!action.has_backward()) return Bad("P5.pair", action, "a FORWARD_BACKWARD says what its backward is of");
    const StageMicrobatch& b = action.backward();
    CheckRange(action, "backward.", b.stage(), b.microbatch(), b.lane(), program_.microbatches());
    if (b.stage() == action.stage() && b.microbatch() == action.microbatch()) {
      Bad("P5.pair", action, "forward and backward are both of stage ", b.stage(), ", microbatch ", b.microbatch(),
          "; the halves of a pair cannot wait for each other");
    }
    if (IsMessageDriven(program_)) {
      Bad("P6.pair", action, "a message-driven program has no FORWARD_BACKWARD: the order of its halves is not known");
    }
  }

  void CheckSkip(const Action& action) {
    const int skip = action.skip();
    if (skip == 0) return;
    if (skip < 0 || skip > program_.skips_size()) {
      return Bad("P4.skip", action, "skip ", skip, " is not in [0, ", program_.skips_size(), "], the program's skips");
    }
    const SkipEdge& edge = program_.skips(skip - 1);
    const bool makes = (action.kind() == SEND) == (action.direction() == TOWARDS_LOSS);
    const int stage = makes ? edge.from_stage() : edge.to_stage();
    if (action.stage() != stage) {
      Bad("P4.skip", action, "stage is ", action.stage(), ", but this end of skip '", edge.name(), "' is stage ",
          stage);
    }
  }

  void CheckDeps(const Action& action, List list) {
    static constexpr const char* kNames[] = {"prologue", "body", "epilogue"};
    for (const Dependency& dep : action.deps()) {
      const auto it = list_of_.find(dep.action());
      if (it == list_of_.end()) {
        Bad("P1.deps", action, "depends on action ", dep.action(), ", which the template does not have");
        continue;
      }
      const List from = it->second;
      if (dep.distance() < 0 || dep.distance() > Limits::kDistance) {
        Bad("P1.deps", action, "distance ", dep.distance(), " is not in [0, ", Limits::kDistance, "]");
      } else if (dep.distance() > 0 && (from != kBody || list != kBody)) {
        Bad("P1.deps", action, "distance ", dep.distance(), " needs both ends in the body; action ", dep.action(),
            " is in the ", kNames[from]);
      } else if (from != list && from + 1 != list) {
        Bad("P1.deps", action, "an action of the ", kNames[list], " cannot depend on action ", dep.action(), " of the ",
            kNames[from]);
      }
      if (dep.action() == action.id() && dep.distance() == 0) Bad("P1.deps", action, "depends on itself");
      if (dep.detached() && !HasDetached(*by_id_.at(dep.action()))) {
        Bad("P2.detached", action, "waits for the detached steps of ", Describe(*by_id_.at(dep.action())),
            ", which has none");
      }
    }
  }

  bool HasDetached(const Action& action) const {
    if (!IsCompute(action.kind()) || action.segment() < 0 || action.segment() >= program_.segments_size()) return false;
    const Segment& segment = program_.segments(action.segment());
    return std::any_of(segment.steps().begin(), segment.steps().end(), [](const Step& s) { return s.detached(); });
  }

  void CheckCompute(const Action& action) {
    if (action.segment() < 0 || action.segment() >= program_.segments_size()) {
      Bad("P2.segment", action, "names segment ", action.segment(), ", the program has ", program_.segments_size());
      return;
    }
    const Segment& segment = program_.segments(action.segment());
    if (action.operands_size() != segment.operands_size()) {
      Bad("P2.operand", action, "binds ", action.operands_size(), " operands, segment '", segment.name(), "' has ",
          segment.operands_size());
      return;
    }
    operand_of_.resize(t_.buffers_size(), -1);
    for (int i = 0; i < action.operands_size(); ++i) {
      const int b = action.operands(i);
      if (!BufferOk(action, "operands", b)) continue;
      if (t_.buffers(b).bytes() != segment.operands(i).bytes()) {
        Bad("P2.operand", action, "binds ", DescribeBuffer(t_, b), " of ", t_.buffers(b).bytes(), " bytes to operand '",
            segment.operands(i).name(), "' of ", segment.operands(i).bytes());
      }
      const int first = operand_of_[b];
      if (first < 0) {
        operand_of_[b] = i;
      } else if (segment.operands(i).access() != READ || segment.operands(first).access() != READ) {
        Bad("P2.operand", action, "binds ", DescribeBuffer(t_, b), " to operands '", segment.operands(first).name(),
            "' and '", segment.operands(i).name(), "', one of which it writes");
      }
    }
    for (const int b : action.operands()) {
      if (b >= 0 && b < t_.buffers_size()) operand_of_[b] = -1;
    }
    if (const std::string fault = room_.Fault(action, segment); !fault.empty()) Bad("P8.room", action, fault);
    for (const Step& step : segment.steps()) {
      if (!CheckMicrobatches(action, segment, step)) break;
    }
    if (findings_->empty() && IsCopy(action.kind())) CheckCopies(action, segment);
    if (segments_.insert(action.segment()).second) {
      for (const Step& step : segment.steps()) {
        if (step.has_collective())
          CheckGroup(action, absl::StrCat("step '", step.name(), "': "), step.collective().group());
      }
    }
    if (IsMessageDriven(program_) && IsMicrobatch(action.kind())) {
      for (const Step& step : segment.steps()) {
        if (step.stream() == COMPUTE) continue;
        Bad("P6.streams", action, "step '", step.name(), "' is on stream ", StreamKind_Name(step.stream()),
            "; in a message-driven program those of forwards and backwards are on COMPUTE");
        break;
      }
    }
  }

  // Rule P2: each step of a FETCH brings something from the host, each of an OFFLOAD takes something there.
  void CheckCopies(const Action& action, const Segment& segment) {
    const bool fetch = action.kind() == FETCH;
    const StreamKind stream = fetch ? H2D : D2H;
    for (const Step& step : segment.steps()) {
      const auto bad = [&](const auto&... parts) { Bad("P2.copy", action, "step '", step.name(), "' ", parts...); };
      if (step.kernel() != CAST || step.stream() != stream) {
        return bad("is ", Kernel_Name(step.kernel()), " on stream ", StreamKind_Name(step.stream()), "; those of a ",
                   ActionKind_Name(action.kind()), " are CAST on ", StreamKind_Name(stream));
      }
      const Value &from = segment.values(step.inputs(0)), &to = segment.values(step.outputs(0));
      if (from.dtype() != to.dtype()) {
        return bad("makes ", DTypeName(to.dtype()), " of ", DTypeName(from.dtype()), "; it copies one dtype");
      }
      const Buffer &source = t_.buffers(action.operands(from.operand())),
                   &destination = t_.buffers(action.operands(to.operand()));
      if (source.place() == (fetch ? HOST : DEVICE) && destination.place() == (fetch ? DEVICE : HOST)) continue;
      return bad("copies ", DescribeBuffer(t_, action.operands(from.operand())), " in ", Place_Name(source.place()),
                 " memory to ", DescribeBuffer(t_, action.operands(to.operand())), " in ",
                 Place_Name(destination.place()), " memory; a ", ActionKind_Name(action.kind()), " copies from ",
                 fetch ? "HOST to DEVICE" : "DEVICE to HOST");
    }
  }

  // Rule P7: nothing else reaches host memory.
  void CheckPlaces(const Action& action) {
    for (const auto* list : {&action.operands(), &action.sources(), &action.destinations()}) {
      for (const int b : *list) {
        if (b < 0 || b >= t_.buffers_size() || t_.buffers(b).place() != HOST) continue;
        return Bad("P7.host", action, "touches ", DescribeBuffer(t_, b), ", which is in host memory; only FETCH and ",
                   "OFFLOAD do");
      }
    }
  }

  // The microbatches that the step is for are the action's.
  bool CheckMicrobatches(const Action& action, const Segment& segment, const Step& step) {
    const Kernel k = step.kernel();
    if (!ReadsMicrobatch(step)) return true;
    const auto bad = [&](const auto&... parts) {
      Bad("P2.kernel", action, "step '", step.name(), "' (", Kernel_Name(k), ") ", parts...);
      return false;
    };
    if (!IsMicrobatch(action.kind())) {
      return bad("reads the microbatch; only forwards and backwards have one");
    }
    if (step.attributes().of_backward() && action.kind() != FORWARD_BACKWARD) {
      return bad("has of_backward, which only a step of a FORWARD_BACKWARD may have");
    }
    const int64_t one = std::max<int64_t>(1, RowsOfMicrobatch(program_, step));
    const int64_t count = std::max<int64_t>(1, RowsValue(segment, step)->shape(0) / one);
    const int64_t offset = step.attributes().microbatch_offset();
    const int width = Width(action);
    if ((k == CROSS_ENTROPY || k == CROSS_ENTROPY_COMBINE || k == SQUARED_ERROR) && count > 1)
      return bad("has the rows of ", count, " microbatches, is for one");
    if (offset < 0 || offset > width - count) {
      return bad("is for ", count, " microbatches from the action's + ", offset, ", but the action has ", width);
    }
    return true;
  }

  // Buffers of messages are tensors.
  bool MessageOk(const Action& action, const char* field, int b) {
    if (!BufferOk(action, field, b)) return false;
    if (t_.buffers(b).dtype() != DTYPE_UNSPECIFIED) return true;
    Bad("P4.dtype", action, field, " names ", DescribeBuffer(t_, b), ", which has no dtype");
    return false;
  }

  static bool IsMessage(DType dtype) { return dtype != INT32 && dtype != UINT8; }

  void CheckTransfer(const Action& action) {
    const bool send = action.kind() == SEND;
    const auto& buffers = send ? action.sources() : action.destinations();
    if (buffers.size() != 1) {
      Bad("P4.buffers", action, "must name one buffer, names ", buffers.size());
    } else if (MessageOk(action, send ? "sources" : "destinations", buffers.Get(0)) &&
               !IsMessage(t_.buffers(buffers.Get(0)).dtype())) {
      Bad("P4.dtype", action, "moves ", DescribeBuffer(t_, buffers.Get(0)), " of ",
          DTypeName(t_.buffers(buffers.Get(0)).dtype()), "; messages are floating point");
    }
    if (action.direction() == DIRECTION_UNSPECIFIED) Bad("P4.direction", action, "has no direction");
    absl::flat_hash_set<std::string> seen;
    bool differs = false;
    for (const Coordinate& at : action.peer().at()) {
      const int axis = Axis(at.axis());
      if (axis < 0 || at.index() < 0 || at.index() >= program_.mesh().axes(axis).size()) {
        Bad("P8.peer", action, "peer ", at.axis(), "=", at.index(), axis < 0 ? ": no such axis" : ": beyond the axis");
        return;
      }
      if (!seen.insert(at.axis()).second) Bad("P8.peer", action, "peer names axis ", at.axis(), " twice");
      if (!Pinned(at.axis())) {
        Bad("P8.peer", action, "peer names axis ", at.axis(), ", which the template does not pin");
      }
      for (const Coordinate& pin : t_.pins())
        differs = differs || (pin.axis() == at.axis() && pin.index() != at.index());
    }
    if (!differs) Bad("P8.peer", action, "the peer is the rank itself");
  }

  void CheckCollective(const Action& action) {
    if (action.sources_size() == 0 || action.sources_size() != action.destinations_size()) {
      Bad("P4.buffers", action, "has ", action.sources_size(), " sources and ", action.destinations_size(),
          " destinations; needs as many of both, at least one");
      return;
    }
    if (action.purpose() == PURPOSE_UNSPECIFIED) Bad("P4.collective", action, "has no purpose");
    const std::vector<std::string>& known = options_.algorithms;
    if (action.algorithm().empty()) {
      Bad("P10.algorithm", action, "names no algorithm");
    } else if (!known.empty() && std::find(known.begin(), known.end(), action.algorithm()) == known.end()) {
      Bad("P10.algorithm", action, "algorithm ", Quoted(action.algorithm()), " is unknown",
          NameHelp(action.algorithm(), known));
    }
    absl::flat_hash_map<int, int> role;  // Buffer -> index of the pair that uses it.
    for (int i = 0; i < action.sources_size(); ++i) {
      const int s = action.sources(i), d = action.destinations(i);
      if (!MessageOk(action, "sources", s) || !MessageOk(action, "destinations", d)) continue;
      const Buffer &a = t_.buffers(s), &b = t_.buffers(d);
      const bool sums = action.kind() != ALL_GATHER;
      if (!IsMessage(a.dtype())) {
        Bad("P4.dtype", action, sums ? "sums " : "gathers ", DescribeBuffer(t_, s), " of ", DTypeName(a.dtype()),
            sums ? "; sums are of fp64, fp32, bf16, fp16 or exact192" : "; messages are floating point");
      }
      const int64_t size = GroupFault(program_, action.group()).empty() ? GroupSize(program_, action.group()) : 1;
      const int64_t gathers = action.kind() == ALL_GATHER ? size : 1,
                    scatters = action.kind() == REDUCE_SCATTER ? size : 1;
      // Arenas have at most 2^50 bytes, meshes 2^20 ranks.
      const bool fits =
          b.bytes() / gathers == a.bytes() / scatters && b.bytes() % gathers == 0 && a.bytes() % scatters == 0;
      if (a.dtype() != b.dtype() || !fits) {
        Bad("P4.shape", action, DescribeBuffer(t_, s), " of ", a.bytes(), " bytes is ",
            gathers > 1 ? "gathered" : "summed", " into ", DescribeBuffer(t_, d), " of ", b.bytes(),
            action.kind() == ALL_REDUCE ? " bytes, of another dtype or size"
                                        : absl::StrCat(" bytes by ", size, " members, of another dtype or size"));
      }
      if (s == d && action.kind() != ALL_REDUCE) {
        Bad("P4.buffers", action, DescribeBuffer(t_, s), " is source and destination; only an ALL_REDUCE is in place");
      }
      for (int x : {s, d}) {
        const auto [it, fresh] = role.emplace(x, i);
        if (!fresh && it->second != i) Bad("P4.buffers", action, DescribeBuffer(t_, x), " appears twice");
      }
    }
    CheckGroup(action, "", action.group());
  }

  void CheckGroup(const Action& action, const std::string& where, const Group& group) {
    std::string fault = GroupFault(program_, group);
    if (fault.empty()) fault = GroupFaultIn(program_, t_, group);
    if (!fault.empty()) Bad("P8.group", action, where, fault);
  }

  const Program& program_;
  const VerifyOptions& options_;
  const Template& t_;
  Findings* findings_;
  absl::flat_hash_map<int, List> list_of_;
  absl::flat_hash_map<int, const Action*> by_id_;
  absl::flat_hash_set<int> segments_;  // Whose groups were checked.
  RoomOfSteps room_;
  std::vector<int> operand_of_;  // Of the action that is looked at, by buffer: its first operand, or -1.
};

}  // namespace

std::string Describe(const Action& action) { return absl::StrCat("action ", action.id(), " '", action.name(), "'"); }

std::string Describe(const Template& t, const Action& action) {
  return absl::StrCat("template '", t.name(), "', ", Describe(action));
}

void CheckActions(const Program& program, const VerifyOptions& options, Findings* findings) {
  for (const Template& t : program.templates()) {
    if (findings->full()) return;
    TemplateCheck(program, options, t, findings).Run();
  }
}

}  // namespace weft::verify
