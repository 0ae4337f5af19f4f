// Forwards and backwards in the symbolic run. They must read results of their microbatch, and the symbols of their own
// results carry the stage and microbatch.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "proto/util/units.h"
#include "verifier/dataflow.h"

namespace weft::verify {
namespace {

std::string ExplainActivation(const Symbol& symbol) {
  if (symbol.kind != Symbol::kActivation) return "no activation, or several";
  return absl::StrCat("what the ", symbol.backward ? "backward" : "forward", " of stage ", symbol.stage,
                      ", microbatch ", symbol.microbatch,
                      symbol.width > 1 ? absl::StrCat(" to ", symbol.microbatch + symbol.width - 1) : "", " made");
}

std::string ExplainWork(const StageWork& work) {
  return absl::StrCat("the ", work.kind == FORWARD ? "forward" : "backward", " of stage ", work.stage, ", microbatch ",
                      work.microbatch, work.width > 1 ? absl::StrCat(" to ", work.microbatch + work.width - 1) : "");
}

const std::vector<int>& At(const std::map<int, std::vector<int>>& stages, int stage) {
  static const std::vector<int> kNone;
  const auto it = stages.find(stage);
  return it == stages.end() ? kNone : it->second;
}

}  // namespace

std::vector<Dataflow::Need> Dataflow::Needs(const std::vector<StageWork>& works) const {
  std::vector<Need> needs;
  for (int i = 0; i < static_cast<int>(works.size()); ++i) {
    const StageWork& work = works[i];
    for (int m = work.microbatch; m < work.microbatch + work.width; ++m) {
      if (work.kind == FORWARD) {
        if (work.stage > 0) needs.push_back({i, false, work.stage - 1, m});
        for (int stage : At(skips_to_, work.stage)) needs.push_back({i, false, stage, m});
      } else if (work.kind == BACKWARD_WEIGHT) {
        needs.push_back({i, true, work.stage, m});
      } else {
        if (work.stage + 1 < index_.program->stages()) needs.push_back({i, true, work.stage + 1, m});
        for (int stage : At(skips_from_, work.stage)) needs.push_back({i, true, stage, m});
      }
    }
  }
  return needs;
}

int Dataflow::Reader(const Symbol& symbol, const std::vector<StageWork>& works, std::vector<Need>* needs) const {
  if (symbol.kind != Symbol::kActivation) return -1;
  int reader = -1;
  for (Need& need : *needs) {
    if (symbol.backward == need.backward && symbol.stage == need.stage && symbol.IsOf(need.microbatch)) {
      need.met = true;
      reader = need.work;
    }
  }
  if (reader >= 0) return reader;
  for (int i = 0; i < static_cast<int>(works.size()); ++i) {
    const StageWork& work = works[i];
    const bool own = symbol.IsOf(work.microbatch);
    if (work.kind == FORWARD) {
      if (own && !symbol.backward && symbol.stage == work.stage) return i;
      continue;
    }
    // The backward may read everything that the forward of the same stage and microbatch made or read, if it was kept.
    const std::vector<int>& skips = At(skips_to_, work.stage);
    const bool of_forward = symbol.stage == work.stage || symbol.stage == work.stage - 1 ||
                            std::find(skips.begin(), skips.end(), symbol.stage) != skips.end();
    if (own && !symbol.backward && of_forward) return i;
    // The weight half may read what the input half read.
    const std::vector<int>& back = At(skips_from_, work.stage);
    const bool of_input =
        symbol.stage == work.stage + 1 || std::find(back.begin(), back.end(), symbol.stage) != back.end();
    if (own && work.kind == BACKWARD_WEIGHT && symbol.backward && of_input) return i;
  }
  return -1;
}

void Dataflow::ReadInputs(const RoleAction& at, const Action& action, const std::vector<StageWork>& works,
                          std::vector<RangeMap<Share>>* shares) {
  const Segment& segment = index_.program->segments(action.segment());
  const SegmentUse& use = index_.segments[action.segment()];
  std::vector<Need> needs = Needs(works);
  const int width = works[0].width;
  const auto bad = [&](int o, const Symbol& symbol) {
    std::vector<std::string> names;
    for (const StageWork& work : works) names.push_back(ExplainWork(work));
    Bad("P13.input", at, "operand '", segment.operands(o).name(), "' reads ",
        DescribeBuffer(*TemplateOf(at.role).t, action.operands(o)), ", which holds ", ExplainActivation(symbol),
        "; it may read only what belongs to ", absl::StrJoin(names, " and "));
    return false;
  };
  for (int o = 0; o < action.operands_size(); ++o) {
    const int b = action.operands(o);
    if (BufferOf(at.role, b).role() != NO_ROLE) continue;
    // A buffer that a wide forward reads holds its microbatches one after the other.
    const int64_t part = std::max<int64_t>(1, BufferOf(at.role, b).bytes() / width);
    for (const auto& [first, last] : use.operands[o].first_reads.ranges()) {
      bool ok = true;
      state_[at.role][b].content.ForEach(first, last, [&](int64_t begin, int64_t end, const Symbol& symbol) {
        const int reader = Reader(symbol, works, &needs);
        if (reader < 0) return ok = bad(o, symbol);
        if (works.size() > 1) (*shares)[o].Set(begin, end, {reader});
        if (width == 1) return true;
        for (int64_t j = begin / part; j * part < end; ++j) {
          if (!symbol.IsOf(works[0].microbatch + static_cast<int>(j))) return ok = bad(o, symbol);
          (*shares)[o].Set(std::max(begin, j * part), std::min(end, (j + 1) * part), {static_cast<int>(j)});
        }
        return true;
      });
      if (!ok) break;
    }
  }
  for (const Need& need : needs) {
    if (need.met) continue;
    Bad("P13.input", at, "reads no buffer that holds what the ", need.backward ? "backward" : "forward", " of stage ",
        need.stage, ", microbatch ", need.microbatch, " made");
    break;
  }
}

const SegmentFlow& Dataflow::Flow(const Action& action, int width, const std::vector<RangeMap<Share>>& shares) {
  std::vector<int64_t> key;
  for (const RangeMap<Share>& operand : shares) {
    for (const auto& [begin, value] : operand.ranges) {
      key.insert(key.end(), {begin, value.first, value.second.index});
    }
    key.push_back(-1);
  }
  const auto [it, fresh] = flows_.try_emplace(std::pair(action.segment(), std::move(key)));
  if (fresh) {
    it->second = FollowSegment(*index_.program, index_.program->segments(action.segment()), width, shares);
  }
  return it->second;
}

void Dataflow::Microbatch(const RoleAction& at, const Action& action) {
  std::vector<StageWork> works = WorkOf(action);
  for (StageWork& work : works) {
    work.microbatch += repetition_ * index_.program->microbatches() + MicrobatchesAhead(*index_.program, action);
  }
  std::vector<RangeMap<Share>> shares(action.operands_size());
  ReadInputs(at, action, works, &shares);
  const SegmentFlow* flow = nullptr;
  if (works.size() > 1 || works[0].width > 1) {
    flow = &Flow(action, works.size() > 1 ? 0 : works[0].width, shares);
    if (!flow->fault.empty()) Bad("P5.pair", at, flow->fault);
  }
  if (IsAsynchronous(*index_.program)) CheckVersions(at, action, works[0]);
  WriteOutputs(at, action, works, flow);
  if (works[0].kind == FORWARD) CheckLosses(at, action, works[0]);
}

void Dataflow::WriteOutputs(const RoleAction& at, const Action& action, const std::vector<StageWork>& works,
                            const SegmentFlow* flow) {
  const SegmentUse& use = index_.segments[action.segment()];
  const PartFlow& parts = FlowOfParts(at, action);
  if (!parts.fault.empty()) Bad("P8.gather", at, parts.fault);
  for (int o = 0; o < action.operands_size(); ++o) {
    const int b = action.operands(o);
    const Buffer& buffer = BufferOf(at.role, b);
    const bool reads = !use.operands[o].first_reads.empty();
    if (IsGrad(buffer.role())) Touch(at.role, b, reads);
    if (use.operands[o].writes.empty()) continue;
    if (IsGrad(buffer.role())) {
      const StageWork& work = works.back();
      if (work.kind == FORWARD || work.kind == BACKWARD_INPUT) {
        Bad("P9.half", at, "writes ", DescribeBuffer(*TemplateOf(at.role).t, b),
            "; only BACKWARD and BACKWARD_WEIGHT may add to gradients of weights");
        SetWhole(at.role, b, {});
      } else {
        CheckOnce(at, action, o);
        Contribute(at, work, b, reads, parts.written[o]);
        for (const auto& [begin, end] : use.operands[o].writes.ranges()) {
          if (flow == nullptr || works.size() < 2) break;
          flow->operands[o].ForEach(begin, end, [&](int64_t, int64_t, Share share) {
            if (share.index != 0) return true;
            Bad("P5.pair", at, "adds a result of its forward to ", DescribeBuffer(*TemplateOf(at.role).t, b));
            return false;
          });
        }
      }
    } else if (buffer.role() == NO_ROLE) {
      const auto set = [&](int64_t begin, int64_t end, Share share) {
        const bool pair = works.size() > 1;
        const StageWork& work = works[pair && share.index > 0 ? 1 : 0];
        Symbol symbol;
        // No other action may read a result of the weight half, so its symbol stays unknown.
        if (work.kind != BACKWARD_WEIGHT) symbol.kind = Symbol::kActivation;
        symbol.backward = work.kind != FORWARD;
        symbol.stage = work.stage;
        symbol.microbatch = work.microbatch + (pair ? 0 : std::max(0, share.index));
        symbol.width = share.index >= 0 ? 1 : work.width;
        state_[at.role][b].content.Set(begin, end, std::move(symbol));
        return true;
      };
      for (const auto& [begin, end] : use.operands[o].writes.ranges()) {
        if (flow != nullptr) {
          flow->operands[o].ForEach(begin, end, set);
        } else {
          set(begin, end, {});
        }
      }
    } else if (buffer.role() != LOCAL_LOSSES) {
      Bad("P11.update", at, "writes ", DescribeBuffer(*TemplateOf(at.role).t, b), ", whose role is ",
          BufferRole_Name(buffer.role()));
    }
  }
}

void Dataflow::CheckVersions(const RoleAction& at, const Action& action, const StageWork& work) {
  const std::tuple key = {at.role, work.lane, work.stage, work.microbatch};
  for (const int b : action.operands()) {
    if (BufferOf(at.role, b).role() != PARAM) continue;
    const int version = state_[at.role][b].version;
    const std::string what = DescribeBuffer(*TemplateOf(at.role).t, b);
    // For a backward, the entry holds the version that its forward used.
    const auto [it, fresh] = version_of_.emplace(key, version);
    if (it->second == version) continue;
    Bad("P14.version", at, "reads ", what, " after ", version, " updates; ",
        work.kind == FORWARD ? "other weights that it reads have had "
                             : "the forward of its microbatch has used weights after ",
        it->second);
    return;
  }
}

// Checks that the last stage's forward makes one loss for each of its microbatches.
void Dataflow::CheckLosses(const RoleAction& at, const Action& action, const StageWork& forward) {
  const Segment& segment = index_.program->segments(action.segment());
  const SegmentUse& use = index_.segments[action.segment()];
  int losses = 0, buffer = -1;
  for (int o = 0; o < action.operands_size(); ++o) {
    if (BufferOf(at.role, action.operands(o)).role() != LOCAL_LOSSES || use.operands[o].writes.empty()) continue;
    ++losses;
    buffer = action.operands(o);
  }
  std::set<int> microbatches;
  int kernels = 0;
  for (const int i : use.losses) {
    const Step& step = segment.steps(i);
    if (step.attributes().of_backward()) continue;
    ++kernels;
    microbatches.insert(forward.microbatch + static_cast<int>(step.attributes().microbatch_offset()));
  }
  const bool each_once = kernels == forward.width && static_cast<int>(microbatches.size()) == forward.width;
  if (forward.stage == index_.program->stages() - 1) {
    if (losses != 1 || !each_once) {
      Bad("P11.loss", at,
          "belongs to the last stage, so it must write LOCAL_LOSSES by one CROSS_ENTROPY or SQUARED_ERROR for each "
          "microbatch");
    }
  } else if (losses > 0 && (kernels > 0 || action.kind() == FORWARD)) {
    Bad("P11.loss", at, "computes a loss, but does not belong to the last stage");
  }
  if (losses == 0 || kernels == 0) return;
  Symbol* const there = state_[at.role][buffer].content.Find(0, state_[at.role][buffer].extent);
  Symbol symbol = there == nullptr ? Whole(at.role, buffer) : std::exchange(*there, Symbol());
  // Usually each microbatch belongs at the end of the list.
  std::vector<int>& all = symbol.elements;
  for (const int m : microbatches) all.insert(std::upper_bound(all.begin(), all.end(), m), m);
  SetWhole(at.role, buffer, std::move(symbol));
}

// Checks that a microbatch adds to each byte of a gradient once: it adds to all bytes that it writes, or to none.
void Dataflow::CheckOnce(const RoleAction& at, const Action& action, int o) {
  const Segment& segment = index_.program->segments(action.segment());
  const OperandUse& use = index_.segments[action.segment()].operands[o];
  const auto what = [&] { return DescribeBuffer(*TemplateOf(at.role).t, action.operands(o)); };
  if (use.rewritten_by >= 0) {
    Bad("P9.once", at, "step ", use.rewritten_by, " '", segment.steps(use.rewritten_by).name(), "' writes bytes of ",
        what(),
        " that an earlier step of the segment has written; a microbatch must add to each byte of a gradient once");
  } else if (!use.first_reads.empty() && !use.first_reads.Covers(use.writes)) {
    Bad("P9.once", at, "adds to some bytes of ", what(), " and overwrites others");
  }
}

const PartFlow& Dataflow::FlowOfParts(const RoleAction& at, const Action& action) {
  const auto cut = [&](int b) {
    const Buffer& buffer = BufferOf(at.role, b);
    return buffer.role() == PARAM && buffer.shard().ranges_size() > 0;
  };
  std::vector<RangesOfBlock> ranges;
  if (std::any_of(action.operands().begin(), action.operands().end(), cut)) {
    ranges.resize(action.operands_size());
    for (int o = 0; o < action.operands_size(); ++o) {
      const int b = action.operands(o);
      if (!cut(b)) continue;
      const Buffer& buffer = BufferOf(at.role, b);
      ranges[o].ranges = RangeCuts(*index_.program, buffer.shard());
      ranges[o].block = PartElements(*index_.program, buffer.tensor(), dimensions_[buffer.tensor()], {});
    }
  }
  const auto [it, fresh] = part_flows_.try_emplace(std::pair(action.segment(), std::move(ranges)));
  if (fresh) {
    std::vector<RangesOfBlock> of_operands = it->first.second;
    of_operands.resize(action.operands_size());
    it->second = FollowParts(*index_.program, index_.program->segments(action.segment()), of_operands);
  }
  return it->second;
}

void Dataflow::CheckScattered(const RoleAction& at, int b, const Held& held) {
  const Buffer& buffer = BufferOf(at.role, b);
  for (const Scattered& scattered : held.scattered) {
    const auto upto = [&](size_t cuts) {
      return Cuts(held.ranges.begin(), held.ranges.begin() + static_cast<int64_t>(std::min(cuts, held.ranges.size())));
    };
    const int64_t block = PartElements(*index_.program, buffer.tensor(), dimensions_[buffer.tensor()], {});
    const int64_t all = RangeElements(*index_.program, block, upto(scattered.cuts));
    const auto what = [&] {
      return absl::StrCat(DescribeBuffer(*TemplateOf(at.role).t, b), " and others; their range of ",
                          TensorName(buffer.tensor()), " has ", all, " elements");
    };
    if (scattered.most > all) {
      return Bad("P8.room", at, "scatters ", scattered.most, " elements to ", what(),
                 ", and the elements after them must be zero");
    }
    if (scattered.least < all) {
      return Bad("P8.room", at, "scatters ", scattered.least, " elements to ", what(),
                 ": zeros were written over the last ones");
    }
    if (!PaddedAtEnd(*index_.program, block, upto(scattered.cuts + scattered.more), scattered.more)) {
      return Bad("P8.gather", at, "scatters at once to ", what(),
                 "; the elements do not divide evenly before the last cut");
    }
  }
}

void Dataflow::Contribute(const RoleAction& at, const StageWork& work, int b, bool accumulates, const Held& held) {
  const Buffer& buffer = BufferOf(at.role, b);
  const auto what = [&] { return DescribeBuffer(*TemplateOf(at.role).t, b); };
  const int item = static_cast<int>(DTypeBytes(buffer.dtype()));
  // Usually the buffer holds one symbol, which is changed in place.
  Symbol* const there = accumulates ? state_[at.role][b].content.Find(0, state_[at.role][b].extent) : nullptr;
  std::optional<Symbol> made;
  if (there == nullptr) made = accumulates ? Whole(at.role, b) : SymbolOf(Symbol::kZero);
  if ((made ? *made : *there).kind == Symbol::kZero) {
    made = SymbolOf(Symbol::kGradient).InBuffer(0, item);
    made->parts = {{buffer.tensor(), buffer.use(), work.stage, 0, -1, {}, held.sums, held.ranges, 0}};
  }
  Symbol& symbol = made ? *made : *there;
  CheckScattered(at, b, held);
  const Cuts ranges = RangeCuts(*index_.program, buffer.shard());
  if (held.ranges != ranges) {
    Bad("P9.scatter", at, "writes to ", what(), ", which holds a range cut over ",
        DescribeCuts(*index_.program, ranges), ", content that is cut over ",
        held.mixed ? "different axes" : DescribeCuts(*index_.program, held.ranges));
    return;
  }
  if (held.mixed) {
    Bad("P9.sync", at, "writes to ", what(), " parts that must all be summed over the same ranks, and over whole axes");
    return;
  }
  if (symbol.kind != Symbol::kGradient || symbol.parts.size() != 1 || symbol.parts[0].sums != held.sums ||
      !symbol.parts[0].pipes.empty() || symbol.scaled || symbol.shift != 0 || symbol.item != item ||
      symbol.parts[0].tensor != buffer.tensor() || symbol.parts[0].use != buffer.use()) {
    Bad("P9.sync", at, "adds to ", what(), " after it was synchronized or changed");
    return;
  }
  GradientPart& part = symbol.parts[0];
  if (part.stage != work.stage) {
    Bad("P9.uses", at, "adds to ", what(), ", to which stage ", part.stage,
        " adds too: each use must have its own gradient");
  }
  if (index_.program->accumulation() != EXACT && work.microbatch <= part.last) {
    Bad("P9.order", at, "adds microbatch ", work.microbatch, " to ", what(), " after microbatch ", part.last,
        "; IN_ORDER needs ascending microbatches");
  }
  const int step = IsAsynchronous(*index_.program) ? work.microbatch / MicrobatchesPerStep(*index_.program) : 0;
  if (part.microbatches > 0 && part.step != step) {
    Bad("P14.step", at, "adds a microbatch of optimizer step ", step, " to ", what(), ", which sums those of step ",
        part.step);
  }
  part.step = step;
  ++part.microbatches;
  if (index_.program->accumulation() != EXACT) part.last = work.microbatch;
  if (made) SetWhole(at.role, b, *std::move(made));
}

}  // namespace weft::verify
