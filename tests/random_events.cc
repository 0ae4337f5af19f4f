// Compute actions and transfers of random programs.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/random_generator.h"

namespace weft {
namespace random_program {

Draft& Generator::NewDraft(TemplateDraft& t, ActionKind kind, std::string stream) {
  Draft& draft = t.drafts.emplace_back();
  draft.event = event_;
  draft.list = list_;
  draft.stream = std::move(stream);
  draft.action.set_kind(kind);
  draft.action.set_stage(random_.Below(program_.stages()));
  if (kind != ALL_REDUCE && kind != ALL_GATHER && kind != REDUCE_SCATTER)
    draft.action.set_microbatch(random_.Below(program_.microbatches()));
  return draft;
}

void Generator::Compute(TemplateDraft& t, const std::string& name,
                        const std::vector<std::pair<int, ::weft::Access>>& operands,
                        const std::function<void(Segment&)>& steps, ActionKind kind) {
  Segment segment;
  segment.set_name(name);
  for (const auto& [b, access] : operands) {
    const Buffer& buffer = t.t.buffers(b);
    Operand& operand = *segment.add_operands();
    operand.set_name(absl::StrCat("o", segment.operands_size() - 1));
    operand.set_bytes(buffer.bytes());
    operand.set_access(access);
    Value& value = *segment.add_values();
    value.set_name(absl::StrCat("v", segment.values_size() - 1));
    value.set_operand(segment.operands_size() - 1);
    value.set_dtype(buffer.dtype());
    *value.mutable_shape() = buffer.shape();
  }
  Action like;
  if (options_.schedules) like = RandomKind();
  steps(segment);
  bool one_part = true, streams = false, reads_microbatch = false, detached = false;
  for (Step& step : *segment.mutable_steps()) {
    one_part = one_part && step.stream() == COMPUTE && !step.detached();
    streams = streams || step.stream() != COMPUTE;
    detached = detached || step.detached();
    if (step.kernel() != LOAD_TOKENS || !options_.schedules) continue;
    reads_microbatch = true;
    const int64_t offset = random_.Below(std::max(1, like.width()));
    if (offset > 0) step.mutable_attributes()->set_microbatch_offset(offset);
    if (like.kind() == FORWARD_BACKWARD && random_.Chance(0.5)) step.mutable_attributes()->set_of_backward(true);
  }
  // In a message-driven program, only the compute stream has queues. So an action with steps on other streams gets a
  // kind that belongs to no microbatch.
  const bool other = streams && program_.compute_order() != STATIC_ORDER;
  if (options_.schedules && !reads_microbatch && (other || random_.Chance(0.1))) {
    like.Clear();
    like.set_kind(static_cast<ActionKind>(GRAD_NORM + random_.Below(3)));
  }
  if (kind != ACTION_UNSPECIFIED) {
    like.Clear();
    like.set_kind(kind);
    like.set_microbatch(random_.Below(program_.microbatches()));
  }
  std::string text = segment.SerializeAsString();
  const auto [it, fresh] = segments_.emplace(std::move(text), program_.segments_size());
  if (fresh) *program_.add_segments() = segment;
  Draft& draft = NewDraft(t, random_.Chance(0.5) ? FORWARD : BACKWARD, "");
  if (options_.schedules || kind != ACTION_UNSPECIFIED) {
    const int stage = draft.action.stage();
    draft.action = like;
    if (!like.has_backward()) draft.action.set_stage(stage);
  }
  draft.one_part = one_part;
  draft.has_detached = detached;
  draft.action.set_segment(it->second);
  const int id = static_cast<int>(t.drafts.size()) - 1;
  for (const auto& [b, access] : operands) {
    t.drafts[id].action.add_operands(b);
    Access(t, id, b, access != READ, DetachedUse(segment, t.drafts[id].action.operands_size() - 1));
  }
}

// True if the operand is touched by a detached step that no other step of the segment waits for.
bool Generator::DetachedUse(const Segment& segment, int operand) {
  for (int s = 0; s < segment.steps_size(); ++s) {
    const Step& step = segment.steps(s);
    const auto named = [&](const Step& other) {
      return !other.detached() && std::find(other.deps().begin(), other.deps().end(), s) != other.deps().end();
    };
    if (!step.detached() || std::any_of(segment.steps().begin(), segment.steps().end(), named)) continue;
    for (const auto* values : {&step.inputs(), &step.outputs()}) {
      if (std::find(values->begin(), values->end(), operand) != values->end()) return true;
    }
  }
  return false;
}

Action Generator::RandomKind() {
  Action action;
  const int n = program_.microbatches();
  action.set_microbatch(random_.Below(n));
  action.set_lane(random_.Chance(0.3) ? 1 : 0);
  switch (random_.Below(program_.compute_order() == STATIC_ORDER ? 6 : 5)) {
    case 0:
      action.set_kind(FORWARD);
      break;
    case 1:
      action.set_kind(FORWARD);
      if (n - action.microbatch() > 1) action.set_width(2);
      break;
    case 2:
      action.set_kind(BACKWARD);
      break;
    case 3:
      action.set_kind(BACKWARD_INPUT);
      break;
    case 4:
      action.set_kind(BACKWARD_WEIGHT);
      break;
    default: {
      action.set_kind(FORWARD_BACKWARD);
      action.set_stage(random_.Below(program_.stages()));
      StageMicrobatch& backward = *action.mutable_backward();
      backward.set_stage((action.stage() + 1 + random_.Below(program_.stages() - 1)) % program_.stages());
      backward.set_microbatch(random_.Below(n));
      backward.set_lane(random_.Chance(0.3) ? 1 : 0);
    }
  }
  return action;
}

Step* Generator::AddStep(Segment& segment, Kernel kernel, std::vector<int> inputs, std::vector<int> outputs) {
  Step& step = *segment.add_steps();
  step.set_name(absl::StrCat("s", segment.steps_size() - 1));
  step.set_kernel(kernel);
  step.mutable_inputs()->Assign(inputs.begin(), inputs.end());
  step.mutable_outputs()->Assign(outputs.begin(), outputs.end());
  // Use few distinct costs, including zero, so that ties occur.
  if (random_.Chance(0.6)) step.mutable_work()->set_flops(options_.max_flops / 4 * random_.Below(5));
  if (random_.Chance(0.6)) step.mutable_work()->set_bytes(options_.max_bytes / 4 * random_.Below(5));
  step.mutable_work()->set_dtype(FP32);
  return &step;
}

void Generator::HostCopy(TemplateDraft& t) {
  const int there = InHost(t);
  if (there >= 0 && random_.Chance(0.5)) {
    const int y = Writable(t, Elements(t, there), {});
    Compute(
        t, "fetch", {{there, READ}, {y, WRITE}}, [&](Segment& s) { AddStep(s, CAST, {0}, {1})->set_stream(H2D); },
        FETCH);
    return;
  }
  const int64_t n = random_.Pick(sizes_);
  const int a = Readable(t, n, {}), y = Writable(t, n, {}, FP32, HOST);
  if (random_.Chance(0.5)) {
    Compute(
        t, "offload", {{a, READ}, {y, WRITE}}, [&](Segment& s) { AddStep(s, CAST, {0}, {1})->set_stream(D2H); },
        OFFLOAD);
    return;
  }
  const int z = Writable(t, n, {y}, FP32, HOST);
  Compute(
      t, "offload twice", {{a, READ}, {y, WRITE}, {z, WRITE}},
      [&](Segment& s) {
        AddStep(s, CAST, {0}, {1})->set_stream(D2H);
        AddStep(s, CAST, {0}, {2})->set_stream(D2H);
      },
      OFFLOAD);
}

void Generator::RandomCompute(TemplateDraft& t) {
  if (options_.step_streams && random_.Chance(0.15)) return HostCopy(t);
  const int64_t n = random_.Pick(sizes_);
  const int kind = static_cast<int>(random_.Below(options_.step_streams ? 7 : 4));
  const int a = Readable(t, n, {});
  const auto named = [&](const char* name) { return absl::StrCat(name, " ", random_.Below(3)); };
  if (kind == 0) {
    const int y = Writable(t, n, {a});
    Compute(t, named("gelu"), {{a, READ}, {y, WRITE}}, [&](Segment& s) { AddStep(s, GELU, {0}, {1}); });
  } else if (kind == 1) {
    const int b = Readable(t, n, {a}), c = Readable(t, n, {a, b});
    if (!Live(t, {a, b, c})) return;
    Compute(t, named("accumulate"), {{a, READ}, {b, READ}, {c, READ_WRITE}},
            [&](Segment& s) { AddStep(s, ADD, {0, 1}, {2})->set_accumulate(true); });
  } else if (kind == 2) {
    const int w = Writable(t, n, {a}), y = Writable(t, n, {a, w});
    Compute(t, named("chain"), {{a, READ}, {w, WRITE}, {y, WRITE}}, [&](Segment& s) {
      AddStep(s, GELU, {0}, {1});
      AddStep(s, ADD, {0, 1}, {2});
      if (random_.Chance(0.5)) AddStep(s, CAST, {0}, {1});
    });
  } else if (kind == 3) {
    if (options_.data && n == sizes_[0]) {
      const int tokens = Writable(t, rows_, {a}, INT32), y = Writable(t, n, {a, tokens});
      Buffer& tensor = *t.t.mutable_buffers(y);
      if (tensor.persistent()) return Abandon(t, tokens);
      tensor.clear_shape();
      tensor.add_shape(rows_);
      tensor.add_shape(kColumns);
      Compute(t, named("embed"), {{tokens, WRITE}, {t.table, READ}, {y, WRITE}}, [&](Segment& s) {
        AddStep(s, LOAD_TOKENS, {}, {0});
        AddStep(s, EMBEDDING, {0, 1}, {2});
      });
      tensor.clear_shape();
      t.t.mutable_buffers(y)->add_shape(n);
    } else {
      const int y = Writable(t, n, {a});
      Compute(t, named("fill"), {{y, WRITE}}, [&](Segment& s) {
        AddStep(s, FILL, {}, {0})->mutable_attributes()->set_value(static_cast<double>(1 + random_.Below(3)));
      });
    }
  } else if (kind == 4) {
    // Two branches on two streams, which may join.
    const int w = Writable(t, n, {a}), v = Writable(t, n, {a, w}), y = Writable(t, n, {a, w, v});
    Compute(t, named("branches"), {{a, READ}, {w, WRITE}, {v, WRITE}, {y, WRITE}}, [&](Segment& s) {
      AddStep(s, GELU, {0}, {1});
      AddStep(s, CAST, {0}, {2})->set_stream(random_.Chance(0.5) ? D2H : H2D);
      Step* join = AddStep(s, ADD, {1, 2}, {3});
      join->add_deps(1);
      if (random_.Chance(0.3)) join->set_stream(H2D), join->add_deps(0);
    });
  } else if (kind == 5) {
    // No step waits for this detached step; only its stream orders it.
    if (t.detached < 0) t.detached = MakeSlot(t, true, 64, false);
    const int y = Writable(t, n, {a});
    Compute(t, named("detached"), {{a, READ}, {y, WRITE}, {t.detached, WRITE}}, [&](Segment& s) {
      Step* copy = AddStep(s, FILL, {}, {2});
      copy->set_stream(D2H);
      copy->set_detached(true);
      AddStep(s, CAST, {0}, {1});
    });
  } else {
    // A later step lists this detached step in its dependencies.
    const int w = Writable(t, n, {a}), y = Writable(t, n, {a, w});
    Compute(t, named("prefetch"), {{a, READ}, {w, WRITE}, {y, WRITE}}, [&](Segment& s) {
      Step* copy = AddStep(s, CAST, {0}, {1});
      copy->set_stream(H2D);
      copy->set_detached(true);
      AddStep(s, GELU, {1}, {2})->add_deps(0);
    });
  }
}

bool Generator::Live(const TemplateDraft& t, const std::vector<int>& buffers) const {
  return std::all_of(buffers.begin(), buffers.end(),
                     [&](int b) { return t.t.buffers(b).persistent() || t.slots[t.history[b].slot].live == b; });
}

void Generator::Abandon(TemplateDraft& t, int buffer) { t.slots[t.history[buffer].slot].live = -1; }

std::vector<TemplateDraft*> Generator::OnPipe(int pipe, int data) {
  std::vector<TemplateDraft*> found;
  for (TemplateDraft& t : templates_) {
    if (t.pipe == pipe && (data < 0 || t.data == data)) found.push_back(&t);
  }
  return found;
}

void Generator::TransferGroup() {
  const int group = ++last_group_;
  const int64_t transfers = 2 + random_.Below(3);
  for (int64_t i = 0; i < transfers; ++i) Transfer(group);
  busy_.clear();
}

void Generator::Transfer(int group) {
  struct End {
    TemplateDraft* t;
    const char* axis;
    int64_t peer;
  };
  std::vector<End> senders, receivers;
  const int p = static_cast<int>(random_.Below(pipe_));
  const bool pinned = OnPipe(p)[0]->data >= 0;
  if (pinned && data_ > 1 && random_.Chance(0.3)) {
    const int a = static_cast<int>(random_.Below(data_));
    const int b = static_cast<int>((a + 1 + random_.Below(data_ - 1)) % data_);
    senders.push_back({OnPipe(p, a)[0], "data", b});
    receivers.push_back({OnPipe(p, b)[0], "data", a});
  } else if (pipe_ > 1) {
    const int q = static_cast<int>((p + 1 + random_.Below(pipe_ - 1)) % pipe_);
    for (TemplateDraft* t : OnPipe(p)) senders.push_back({t, "pipe", q});
    for (TemplateDraft* t : OnPipe(q)) receivers.push_back({t, "pipe", p});
  } else {
    return;
  }
  const int64_t n = random_.Pick(sizes_);
  const bool up = random_.Chance(0.5);
  const int lane = random_.Chance(0.3) ? 1 : 0;
  int stage = static_cast<int>(random_.Below(program_.stages() - 1)) + (up ? 0 : 1);
  int other = stage + (up ? 1 : -1);
  const int microbatch = static_cast<int>(random_.Below(program_.microbatches()));
  int skip = 0;
  if (program_.skips_size() > 0 && random_.Chance(0.3)) {
    skip = 1 + static_cast<int>(random_.Below(program_.skips_size()));
    const SkipEdge& edge = program_.skips(skip - 1);
    stage = up ? edge.from_stage() : edge.to_stage();
    other = up ? edge.to_stage() : edge.from_stage();
  }
  const bool wide = options_.schedules && up && microbatch + 1 < program_.microbatches() && random_.Chance(0.2);
  for (const bool send : {true, false}) {
    for (const End& end : send ? senders : receivers) {
      TemplateDraft& t = *end.t;
      const int buffer = send ? Readable(t, n, busy_[&t]) : Writable(t, n, busy_[&t]);
      if (group > 0) busy_[&t].push_back(buffer);
      std::string stream = absl::StrCat(send ? "s" : "r", end.axis, end.peer, up, lane, " ", skip);
      if (program_.transfer_streams() == PER_DIRECTION) stream = absl::StrCat("t", up);
      if (program_.transfer_streams() == SHARED) stream = absl::StrCat("t");
      Draft& draft = NewDraft(t, send ? SEND : RECV, std::move(stream));
      draft.action.set_stage(send ? stage : other);
      draft.action.set_microbatch(microbatch);
      draft.action.set_lane(lane);
      draft.action.set_skip(skip);
      draft.action.set_transfer_group(group);
      if (wide) draft.action.set_width(2);
      draft.action.set_direction(up ? TOWARDS_LOSS : FROM_LOSS);
      AddCoordinate(draft.action.mutable_peer()->add_at(), end.axis, end.peer);
      if (send) {
        draft.action.add_sources(buffer);
      } else {
        draft.action.add_destinations(buffer);
      }
      Access(t, static_cast<int>(t.drafts.size()) - 1, buffer, !send);
    }
  }
}

}  // namespace random_program
}  // namespace weft
