// The symbolic run of one repetition of all roles (see dataflow.cc).
#ifndef WEFT_VERIFIER_DATAFLOW_H_
#define WEFT_VERIFIER_DATAFLOW_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "verifier/cuts.h"
#include "verifier/index.h"
#include "verifier/loss_scale.h"
#include "verifier/matching.h"
#include "verifier/part_flow.h"
#include "verifier/room.h"
#include "verifier/segment_flow.h"
#include "verifier/symbols.h"

namespace weft::verify {

struct BufferState {
  Content content;
  int64_t extent = 0;  // Bytes, without the spare bytes behind a tensor.
  // For GRAD and GRAD_ACCUMULATOR. `touched`: the repetition has accessed the buffer. `needs_zero`: the first access
  // relies on zeros.
  bool touched = false, needs_zero = false;
  int updates = 0;   // PARAM, MASTER: updates of the whole buffer, in this repetition.
  RangeSet updated;  // Bytes updated since the last update of the whole buffer.
  // For MASTER and moments in host memory: bytes that this repetition has fetched, and bytes that it has offloaded
  // again.
  RangeSet fetched, returned;
  int version = 0;  // PARAM and MASTER of an asynchronous program: number of updates they contain.
  // MASTER of an asynchronous program: true if no PARAM has received its last update yet.
  bool unpublished = false;
};

class Dataflow {
 public:
  Dataflow(const Index& index, const Matching& matching, bool training, Findings* findings)
      : index_(index), matching_(matching), training_(training), findings_(findings) {
    const Recipe& recipe = index.program->recipe();
    clip_ = recipe.has_clip_norm() ? recipe.clip_norm() : 1.0;
    scaled_ = IsScaled(*index.program);
    for (int i = 0; i < index.program->mesh().axes_size(); ++i) {
      const MeshAxis& axis = index.program->mesh().axes(i);
      if (axis.size() > 1 && (axis.name() == "data" || axis.name() == "z")) sample_axes_.push_back(i);
    }
    const int pipe = index.AxisIndex("pipe");
    pipe_position_ = pipe < 0 ? -1 : index.PinnedPosition(pipe);
    for (const SkipEdge& skip : index.program->skips()) {
      skips_from_[skip.from_stage()].push_back(skip.to_stage());
      skips_to_[skip.to_stage()].push_back(skip.from_stage());
    }
    for (auto* ends : {&skips_from_, &skips_to_}) {
      for (auto& [stage, others] : *ends) {
        std::sort(others.begin(), others.end());
        others.erase(std::unique(others.begin(), others.end()), others.end());
      }
    }
    dimensions_.resize(index.program->tensors_size());
    for (const TemplateIndex& t : index.templates) {
      for (const Buffer& buffer : t.t->buffers()) {
        if (buffer.role() == PARAM) dimensions_[buffer.tensor()] = DimensionCuts(*index.program, buffer.shard());
      }
    }
    for (int t : index.role_template) {
      std::vector<BufferState>& buffers = state_.emplace_back(index.templates[t].t->buffers_size());
      for (int b = 0; b < static_cast<int>(buffers.size()); ++b) {
        const Buffer& buffer = index.templates[t].t->buffers(b);
        buffers[b].extent = BytesWithoutRoom(buffer);
        Symbol symbol;
        switch (buffer.role()) {
          case GRAD:
          case GRAD_ACCUMULATOR:
            symbol.kind = Symbol::kZero;
            break;
          case LOCAL_LOSSES:
            symbol.kind = Symbol::kLosses;
            break;
          case LOCAL_NORMS:
            symbol.kind = Symbol::kNorms;
            break;
          default:
            continue;
        }
        buffers[b].content.Set(0, buffers[b].extent, symbol);
      }
    }
    losses_synced_.resize(state_.size(), false);
    losses_part_.resize(state_.size());
  }

  void Run(const ListOrders& orders) {
    if (IsAsynchronous(*index_.program)) {
      repetition_ = -1;
      RunList(orders.prologue);
      for (repetition_ = 0; repetition_ < 2 && !findings_->full(); ++repetition_) {
        BeginRepetition();
        RunList(orders.body);
        CheckEnds();
      }
    } else {
      RunList(orders.body);
      CheckEnds();
    }
    if (training_) CheckHolders();
  }

 private:
  void RunList(const std::vector<RoleAction>& order) {
    for (const RoleAction& at : order) {
      if (findings_->full()) return;
      const Action& action = *Ref(at);
      switch (action.kind()) {
        case FORWARD:
        case BACKWARD:
        case BACKWARD_INPUT:
        case BACKWARD_WEIGHT:
        case FORWARD_BACKWARD:
          Microbatch(at, action);
          break;
        case SEND:
        case RECV:
          Transfer(at);
          break;
        case ALL_REDUCE:
        case ALL_GATHER:
        case REDUCE_SCATTER:
          Reduce(matching_.rendezvous[matching_.of[at.role][at.action]]);
          break;
        case FETCH:
          Fetch(at, action);
          break;
        case OFFLOAD:
          TakeBack(at, action);
          break;
        default:
          EndOfStep(at, action);
      }
    }
  }
  void CheckEnds() {
    for (int role = 0; role < static_cast<int>(state_.size()) && !findings_->full(); ++role) CheckEnd(role);
  }
  // Resets everything that is counted per repetition.
  void BeginRepetition() {
    for (int role = 0; role < static_cast<int>(state_.size()); ++role) {
      losses_synced_[role] = false;
      losses_part_[role].reset();
      for (int b = 0; b < static_cast<int>(state_[role].size()); ++b) {
        BufferState& state = state_[role][b];
        state.touched = state.needs_zero = false;
        state.updates = 0;
        for (RangeSet* bytes : {&state.updated, &state.fetched, &state.returned}) bytes->clear();
        if (BufferOf(role, b).role() == LOCAL_LOSSES) SetWhole(role, b, SymbolOf(Symbol::kLosses));
      }
    }
  }

  const TemplateIndex& TemplateOf(int role) const { return index_.templates[index_.role_template[role]]; }
  const Action* Ref(const RoleAction& at) const { return TemplateOf(at.role).actions[at.action].action; }
  const Buffer& BufferOf(int role, int b) const { return TemplateOf(role).t->buffers(b); }
  std::string Name(const RoleAction& at) const { return Describe(*TemplateOf(at.role).t, *Ref(at)); }
  std::string TensorName(int i) const { return absl::StrCat("'", index_.program->tensors(i).name(), "'"); }

  template <typename... Parts>
  void Bad(const char* rule, const RoleAction& at, const Parts&... parts) {
    // All roles of a template would repeat the message.
    const std::string text = absl::StrCat(Name(at), ": ", parts...);
    if (text != last_message_) findings_->Add(rule, text);
    last_message_ = text;
  }

  // The symbol of the whole buffer, without the spare bytes behind a tensor, which only collective actions touch.
  Symbol Whole(int role, int b) const { return state_[role][b].content.Get(0, state_[role][b].extent); }
  void SetWhole(int role, int b, Symbol symbol) {
    state_[role][b].content.Set(0, state_[role][b].extent, std::move(symbol));
  }
  static bool IsGrad(BufferRole role) { return role == GRAD || role == GRAD_ACCUMULATOR; }

  // Notes whether the first access of the repetition relies on the buffer being zero.
  void Touch(int role, int b, bool reads) {
    BufferState& state = state_[role][b];
    if (!state.touched) state.needs_zero = reads;
    state.touched = true;
  }
  // dataflow_microbatch.cc: forwards and backwards.
  void Microbatch(const RoleAction& at, const Action& action);
  // A result that an action must read.
  struct Need {
    int work = 0;  // Index in `works` of the work that needs it.
    bool backward = false;
    int stage = 0, microbatch = 0;
    bool met = false;
  };
  std::vector<Need> Needs(const std::vector<StageWork>& works) const;
  // Index of the one of `works` that may read the symbol, -1 = none. Marks the needs that the symbol meets.
  int Reader(const Symbol& symbol, const std::vector<StageWork>& works, std::vector<Need>* needs) const;
  // Checks that the action reads the results that it needs, and no others. If the action is for several microbatches,
  // `shares` receives the microbatch that each range of its operands belongs to.
  void ReadInputs(const RoleAction& at, const Action& action, const std::vector<StageWork>& works,
                  std::vector<RangeMap<Share>>* shares);
  void WriteOutputs(const RoleAction& at, const Action& action, const std::vector<StageWork>& works,
                    const SegmentFlow* flow);
  const SegmentFlow& Flow(const Action& action, int width, const std::vector<RangeMap<Share>>& shares);
  void CheckLosses(const RoleAction& at, const Action& action, const StageWork& forward);
  // Rule P14: all weights that a forward reads have seen the same updates, and its backward reads the same weights.
  void CheckVersions(const RoleAction& at, const Action& action, const StageWork& work);
  // Checks that a microbatch writes each byte of the gradient in operand `o` once, and adds to all these bytes or to
  // none.
  void CheckOnce(const RoleAction& at, const Action& action, int o);
  void Contribute(const RoleAction& at, const StageWork& work, int b, bool accumulates, const Held& held);
  // Which parts of cut parameters the segment reads, and over which ranks its results are summed.
  const PartFlow& FlowOfParts(const RoleAction& at, const Action& action);
  // Checks that scattered elements beyond the end of the buffer's tensor are zero.
  void CheckScattered(const RoleAction& at, int b, const Held& held);

  // dataflow_reduce.cc: collective actions.
  std::optional<Symbol> ReduceMembers(const Rendezvous& members, int source);
  // For a buffer of weights: the new weights, or an unknown symbol if they are not updated. nullopt for other buffers.
  std::optional<Symbol> WeightsIn(int role, int b) const;
  void Reduce(const Rendezvous& members);
  // Notes that a PARAM of an asynchronous program received new weights.
  void Publish(const RoleAction& member, int b, const Symbol& weights);
  void Deliver(const RoleAction& member, int i, const Symbol& result);
  // Checks a gather or scatter over the last `cuts` cuts of `ranges`: each rank contributes, or receives, all elements
  // of its part of the tensor in order.
  void CheckWholePart(const RoleAction& at, int b, int tensor, const Cuts& ranges, size_t cuts, const Symbol& symbol);
  // Results for the i-th source and destination of a collective.
  Symbol Gathered(const RoleAction& at, int i, const GroupCuts& group, Symbol symbol);
  void SumGradient(const RoleAction& at, int i, const GroupCuts& group, ActionKind kind, Symbol* symbol);
  void SumNorms(const RoleAction& at, const GroupCuts& group, Symbol* symbol);
  // Notes the axes that a sum of losses covers. Several sums may together cover the axes; each axis must be covered
  // once and as a whole.
  void AddAxes(const RoleAction& at, const GroupCuts& group, Symbol& sum);
  void ReduceLosses(const RoleAction& at, BufferRole to, const Symbol& sum);

  // dataflow.cc: transfers and sums.
  void Transfer(const RoleAction& at);
  int Coordinate(int role, int position) const;
  Symbol Sum(const RoleAction& at, Symbol a, const Symbol& b);
  Symbol SumGradients(const RoleAction& at, Symbol a, const Symbol& b);

  // dataflow_copy.cc: copies between host and device.
  void Fetch(const RoleAction& at, const Action& action);
  void TakeBack(const RoleAction& at, const Action& action);
  void CopyContent(const RoleAction& at, int from, const Value& source, int to, const Value& destination);

  // dataflow_step.cc: the end of the optimizer step. Runs GRAD_NORM, SCALE_GRADIENTS, OPTIMIZER_STEP step by step.
  void EndOfStep(const RoleAction& at, const Action& action);
  // A parameter that compute reads may be a cast of its master copy, or of weights gathered from it.
  void CopyParam(const RoleAction& at, const Action& action, const Segment& segment, const Step& step,
                 const Symbol& content);
  // Notes that bytes of a parameter have their new values.
  void Updated(const RoleAction& at, int b, int64_t begin, int64_t end);
  std::string Explain(const Symbol& symbol) const;
  // Returns true if the symbol is the whole gradient of the tensor; else reports a finding.
  bool WholeGradient(const RoleAction& at, int tensor, const Symbol& symbol);
  Symbol Scale(const RoleAction& at, const Symbol& norm, Symbol gradient);
  // The norm of `elements` elements of the gradient.
  Symbol Norm(const RoleAction& at, const Step& step, const Symbol& gradient, Symbol norms, int64_t elements);
  // Says what is missing in the norms, "" if they are the global norms.
  std::string NormsFault(const Symbol& norms) const;
  Symbol Total(const RoleAction& at, const Step& step, const Symbol& norms);
  // The bytes of a weight or moment that a step updates, either in place or fetched from the host.
  struct Target {
    int buffer = 0;
    int64_t begin = 0;
    bool fetched = false, updated = false;
  };
  Target TargetOf(int role, const Action& action, const Value& value) const;
  // Returns the symbol of the new weights.
  Symbol Update(const RoleAction& at, const Action& action, const Segment& segment, const Step& step,
                const Symbol& gradient);
  // The part of an update that concerns asynchronous programs only (rule P14).
  void UpdateVersion(const RoleAction& at, const Action& action, const Step& step, const Target& weight,
                     const Symbol& gradient);
  void CheckEnd(int role);
  // Checks that every tensor has a copy in every pipeline.
  void CheckHolders();

  const Index& index_;
  const Matching& matching_;
  const bool training_;
  Findings* findings_;
  double clip_ = 1;
  // True if gradients belong to the loss multiplied by a loss scale.
  bool scaled_ = false;
  std::vector<int> sample_axes_;  // Axes whose ranks have different samples, if longer than 1.
  int pipe_position_ = -1;
  // Skip edges: skips_from_ has the end stages by start stage, skips_to_ has the start stages by end stage.
  std::map<int, std::vector<int>> skips_from_, skips_to_;
  // Flows by (segment, content of its operands).
  std::map<std::pair<int, std::vector<int64_t>>, SegmentFlow> flows_;
  // Part flows by (segment, ranges of its parameter operands; empty if nothing is cut).
  std::map<std::pair<int, std::vector<RangesOfBlock>>, PartFlow> part_flows_;
  // For each tensor, the axes that cut its dimensions.
  std::vector<Cuts> dimensions_;
  std::vector<std::vector<BufferState>> state_;  // [role][buffer]
  int repetition_ = 0;
  // (role, lane, stage, microbatch) in flight -> the version of the weights that the forward used.
  std::map<std::tuple<int, int, int, int>, int> version_of_;
  std::vector<bool> losses_synced_;
  // The last sum of losses, unless it covers the whole mesh.
  std::vector<std::optional<RoleAction>> losses_part_;
  std::string last_message_;
};

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_DATAFLOW_H_
