// How: events are drawn in one global order and appended to the lists of all who take part, so waiting only ever goes
// back in that order and no deadlock is possible. Every conflict on bytes gets a dependency. At the end the lists are
// shuffled in ways that keep the order on each stream, which changes nothing but the text (and what depends on it).
#include "tests/random_program.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace weft {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  // In [0, n); n >= 1. std distributions differ between libraries.
  int64_t Below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  bool Chance(double p) { return static_cast<double>(engine_() >> 11) * 0x1.0p-53 < p; }
  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[Below(static_cast<int64_t>(from.size()))];
  }

 private:
  std::mt19937_64 engine_;
};

enum ListKind { kPrologue = 0, kBody = 1, kEpilogue = 2 };

// An action of a template before its place and id are known.
struct Draft {
  Action action;
  ListKind list = kBody;
  std::string stream;  // Actions of the same text keep their order; "" = compute.
  bool one_part = true;
  int event = 0;
  // (draft, distance)
  std::set<std::pair<int, int>> deps;
};

// Bytes of an arena that one persistent buffer or one transient buffer at a time occupies.
struct Slot {
  Place place = DEVICE;
  int64_t offset = 0;
  int64_t elements = 0;
  int persistent = -1;  // Buffer, or -1.
  // Nothing in the epilogue may depend on the prologue, so no slot serves both.
  bool epilogue = false;
  // Transient: the buffer that lives here, and who released the one before.
  int live = -1;
  int last_release = -1;
  // Of the body's lifetimes here: the first repeats after the last.
  int first_writer_in_body = -1;
  int last_release_in_body = -1;
};

// What happened to one buffer so far.
struct History {
  int slot = -1;
  std::vector<std::pair<int, bool>> accesses;  // (draft, writes) in global order.
};

struct TemplateDraft {
  Template t;
  int pipe = 0;
  int data = -1;
  std::vector<Slot> slots;
  std::vector<History> history;  // Per buffer.
  std::vector<Draft> drafts;
  int64_t arena[2] = {0, 0};
  int detached = -1;
  int table = -1;
};

class Generator {
 public:
  Generator(uint64_t seed, const RandomProgramOptions& options) : random_(seed), options_(options) {
    program_.set_name(absl::StrCat("random ", seed));
  }

  Program Run() {
    MakeMesh();
    if (options_.schedules) MakeSchedule();
    MakeTemplates();
    const int edge = options_.edges ? static_cast<int>(random_.Below(4)) : 0;
    Fill(kPrologue, random_.Chance(0.5) ? edge : 0);
    Fill(kBody, std::max(1, options_.events));
    Fill(kEpilogue, random_.Chance(0.5) ? edge : 0);
    for (TemplateDraft& t : templates_) {
      OrderPersistent(t);
      OrderRepetitions(t);
      ExtraDeps(t);
      Emit(t);
    }
    return std::move(program_);
  }

 private:
  void MakeMesh() {
    pipe_ = 1 + static_cast<int>(random_.Below(options_.max_pipe));
    data_ = 1 + static_cast<int>(random_.Below(options_.max_data));
    const bool pipe_first = random_.Chance(0.5);
    for (const bool is_pipe : {pipe_first, !pipe_first}) {
      MeshAxis& axis = *program_.mutable_mesh()->add_axes();
      axis.set_name(is_pipe ? "pipe" : "data");
      axis.set_size(is_pipe ? pipe_ : data_);
    }
    program_.set_stages(std::max(2, pipe_));
    program_.set_microbatches(1 + static_cast<int>(random_.Below(4)));
    program_.set_vocabulary(32);
    program_.set_step_barrier(random_.Chance(0.2));
    program_.set_accumulation(IN_ORDER);
    program_.set_schedule("random");
    Recipe& recipe = *program_.mutable_recipe();
    recipe.set_sequence_length(8);
    recipe.set_microbatch_sequences(1 + random_.Below(2));
    recipe.set_global_batch_sequences(recipe.microbatch_sequences() * program_.microbatches() * data_);
    recipe.mutable_adamw();
    rows_ = recipe.sequence_length() * recipe.microbatch_sequences();
    sizes_ = {rows_ * kColumns, 16 + random_.Below(std::max<int64_t>(1, options_.max_elements))};
  }

  void MakeSchedule() {
    program_.set_stages(std::max(2, pipe_ * (1 + static_cast<int>(random_.Below(3)))));
    const int stages = program_.stages();
    for (int i = 0; stages > 2 && i < 2 && random_.Chance(0.5); ++i) {
      SkipEdge& skip = *program_.add_skips();
      skip.set_name(absl::StrCat("skip", i));
      skip.set_from_stage(static_cast<int>(random_.Below(stages - 2)));
      skip.set_to_stage(skip.from_stage() + 2 + static_cast<int>(random_.Below(stages - skip.from_stage() - 2)));
    }
    if (random_.Chance(0.4)) program_.set_compute_order(random_.Chance(0.6) ? ARRIVAL : BACKWARD_FIRST);
    program_.set_transfer_streams(static_cast<TransferStreams>(random_.Below(3)));
    groups_ = random_.Chance(0.6);
  }

  void MakeTemplates() {
    // Which pipe coordinates have a template per data coordinate.
    const int mode = static_cast<int>(random_.Below(3));
    for (int p = 0; p < pipe_; ++p) {
      const bool pin_data = mode == 1 || (mode == 2 && random_.Chance(0.5));
      for (int d = pin_data ? 0 : -1; d < (pin_data ? data_ : 0); ++d) {
        TemplateDraft& t = templates_.emplace_back();
        t.pipe = p;
        t.data = d;
        t.t.set_name(absl::StrCat("pipe", p, d >= 0 ? absl::StrCat(" data", d) : ""));
        AddCoordinate(t.t.add_pins(), "pipe", p);
        if (d >= 0) AddCoordinate(t.t.add_pins(), "data", d);
        const int slots = 3 + static_cast<int>(random_.Below(5));
        for (int s = 0; s < slots; ++s) MakeSlot(t, random_.Chance(0.35), random_.Pick(sizes_), random_.Chance(0.3));
        if (options_.data) {
          t.table = MakeSlot(t, true, program_.vocabulary() * kColumns, false);
          Buffer& table = *t.t.mutable_buffers(t.table);
          table.clear_shape();
          table.add_shape(program_.vocabulary());
          table.add_shape(kColumns);
        }
      }
    }
  }

  static void AddCoordinate(Coordinate* c, const char* axis, int64_t index) {
    c->set_axis(axis);
    c->set_index(index);
  }

  // Returns the buffer if persistent, else the slot.
  int MakeSlot(TemplateDraft& t, bool persistent, int64_t elements, bool epilogue) {
    Slot slot;
    slot.place = random_.Chance(0.15) ? HOST : DEVICE;
    slot.elements = elements;
    slot.offset = t.arena[slot.place];
    slot.epilogue = epilogue;
    t.arena[slot.place] += (elements * 4 + 255) / 256 * 256 + 256 * random_.Below(3);
    const int id = static_cast<int>(t.slots.size());
    if (persistent) {
      slot.persistent = MakeBuffer(t, slot, elements, id, FP32);
      t.t.mutable_buffers(slot.persistent)->set_persistent(true);
    }
    t.slots.push_back(slot);
    return persistent ? slot.persistent : id;
  }

  int MakeBuffer(TemplateDraft& t, const Slot& slot, int64_t elements, int slot_id, DType dtype) {
    const int id = t.t.buffers_size();
    Buffer& buffer = *t.t.add_buffers();
    buffer.set_name(absl::StrCat("b", id));
    buffer.set_class_(static_cast<BufferClass>(1 + random_.Below(7)));
    buffer.set_dtype(dtype);
    buffer.add_shape(elements);
    buffer.set_bytes(elements * 4);
    buffer.set_place(slot.place);
    buffer.set_offset(slot.offset);
    t.history.push_back({slot_id, {}});
    return id;
  }

  static int64_t Elements(const TemplateDraft& t, int buffer) { return t.t.buffers(buffer).bytes() / 4; }

  bool Usable(const Slot& slot) const { return slot.epilogue ? list_ != kPrologue : list_ != kEpilogue; }

  // A buffer of so many elements whose content is defined; made by a FILL if there is none.
  int Readable(TemplateDraft& t, int64_t elements, const std::vector<int>& avoid) {
    std::vector<int> found;
    for (const Slot& slot : t.slots) {
      const int b = slot.persistent >= 0 ? slot.persistent : slot.live;
      if (b < 0 || !Usable(slot) || b == t.table || b == t.detached) continue;
      if (Elements(t, b) != elements || t.t.buffers(b).dtype() != FP32) continue;
      if (std::find(avoid.begin(), avoid.end(), b) == avoid.end()) found.push_back(b);
    }
    if (!found.empty()) return random_.Pick(found);
    const int y = Writable(t, elements, avoid);
    Compute(t, "fill", {{y, WRITE}},
            [&](Segment& s) { AddStep(s, FILL, {}, {0})->mutable_attributes()->set_value(1); });
    return y;
  }

  // A buffer of so many elements to be overwritten: persistent, or a transient one that starts its life.
  int Writable(TemplateDraft& t, int64_t elements, const std::vector<int>& avoid, DType dtype = FP32) {
    std::vector<int> slots;
    for (int s = 0; s < static_cast<int>(t.slots.size()); ++s) {
      const Slot& slot = t.slots[s];
      if (!Usable(slot) || slot.elements < elements) continue;
      if (slot.persistent >= 0) {
        if (slot.persistent == t.table || slot.persistent == t.detached || slot.elements != elements || dtype != FP32)
          continue;
        if (std::find(avoid.begin(), avoid.end(), slot.persistent) != avoid.end()) continue;
      } else if (slot.live >= 0 && (t.history[slot.live].accesses.empty() ||
                                    std::find(avoid.begin(), avoid.end(), slot.live) != avoid.end())) {
        continue;  // Promised to the event that is being made.
      }
      slots.push_back(s);
    }
    if (slots.empty()) {
      slots.push_back(MakeSlot(t, false, elements, list_ == kEpilogue));
    }
    const int s = random_.Pick(slots);
    if (t.slots[s].persistent >= 0) return t.slots[s].persistent;
    if (t.slots[s].live >= 0) Close(t, s);
    Slot shifted = t.slots[s];
    // Somewhere within the slot.
    const int64_t room = (shifted.elements - elements) * 4 / 256;
    shifted.offset += 256 * random_.Below(room + 1);
    const int b = MakeBuffer(t, shifted, elements, s, dtype);
    t.slots[s].live = b;
    return b;
  }

  // The last user so far releases it, after all others.
  void Close(TemplateDraft& t, int s) {
    Slot& slot = t.slots[s];
    const auto& accesses = t.history[slot.live].accesses;
    const int release = accesses.back().first;
    for (const auto& [draft, writes] : accesses) {
      if (draft != release) t.drafts[release].deps.insert({draft, 0});
    }
    t.drafts[release].action.add_releases(slot.live);
    slot.last_release = release;
    if (t.drafts[release].list == kBody) slot.last_release_in_body = release;
    slot.live = -1;
  }

  void Access(TemplateDraft& t, int draft, int buffer, bool writes) {
    auto& accesses = t.history[buffer].accesses;
    if (!t.t.buffers(buffer).persistent()) {
      Slot& slot = t.slots[t.history[buffer].slot];
      if (accesses.empty()) {
        if (slot.last_release >= 0) t.drafts[draft].deps.insert({slot.last_release, 0});
        if (list_ == kBody && slot.first_writer_in_body < 0) slot.first_writer_in_body = draft;
      }
      // Readers after the writers before them, writers after everything.
      for (const auto& [other, other_writes] : accesses) {
        if (writes || other_writes) t.drafts[draft].deps.insert({other, 0});
      }
    }
    accesses.emplace_back(draft, writes);
  }

  Draft& NewDraft(TemplateDraft& t, ActionKind kind, std::string stream) {
    Draft& draft = t.drafts.emplace_back();
    draft.event = event_;
    draft.list = list_;
    draft.stream = std::move(stream);
    draft.action.set_kind(kind);
    draft.action.set_stage(random_.Below(program_.stages()));
    if (kind != ALL_REDUCE) draft.action.set_microbatch(random_.Below(program_.microbatches()));
    return draft;
  }

  // Values 0, 1, ... cover the operands; `steps` names them.
  template <typename F>
  void Compute(TemplateDraft& t, const std::string& name, const std::vector<std::pair<int, ::weft::Access>>& operands,
               F steps) {
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
    bool one_part = true, streams = false, reads_microbatch = false;
    for (Step& step : *segment.mutable_steps()) {
      one_part = one_part && step.stream() == COMPUTE && !step.detached();
      streams = streams || step.stream() != COMPUTE;
      if (step.kernel() != LOAD_TOKENS || !options_.schedules) continue;
      reads_microbatch = true;
      const int64_t offset = random_.Below(std::max(1, like.width()));
      if (offset > 0) step.mutable_attributes()->set_microbatch_offset(offset);
      if (like.kind() == FORWARD_BACKWARD && random_.Chance(0.5)) step.mutable_attributes()->set_of_backward(true);
    }
    // The queues of a message-driven program are of the compute stream.
    const bool other = streams && program_.compute_order() != STATIC_ORDER;
    if (options_.schedules && !reads_microbatch && (other || random_.Chance(0.1))) {
      like.Clear();
      like.set_kind(static_cast<ActionKind>(GRAD_NORM + random_.Below(3)));
    }
    std::string text = segment.SerializeAsString();
    const auto [it, fresh] = segments_.emplace(std::move(text), program_.segments_size());
    if (fresh) *program_.add_segments() = segment;
    Draft& draft = NewDraft(t, random_.Chance(0.5) ? FORWARD : BACKWARD, "");
    if (options_.schedules) {
      const int stage = draft.action.stage();
      draft.action = like;
      if (!like.has_backward()) draft.action.set_stage(stage);
    }
    draft.one_part = one_part;
    draft.action.set_segment(it->second);
    const int id = static_cast<int>(t.drafts.size()) - 1;
    for (const auto& [b, access] : operands) {
      t.drafts[id].action.add_operands(b);
      Access(t, id, b, access != READ);
    }
  }

  Action RandomKind() {
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

  Step* AddStep(Segment& segment, Kernel kernel, std::vector<int> inputs, std::vector<int> outputs) {
    Step& step = *segment.add_steps();
    step.set_name(absl::StrCat("s", segment.steps_size() - 1));
    step.set_kernel(kernel);
    step.mutable_inputs()->Assign(inputs.begin(), inputs.end());
    step.mutable_outputs()->Assign(outputs.begin(), outputs.end());
    // Few distinct costs, zero among them, so that ties happen.
    if (random_.Chance(0.6)) step.mutable_work()->set_flops(options_.max_flops / 4 * random_.Below(5));
    if (random_.Chance(0.6)) step.mutable_work()->set_bytes(options_.max_bytes / 4 * random_.Below(5));
    step.mutable_work()->set_dtype(FP32);
    return &step;
  }

  void RandomCompute(TemplateDraft& t) {
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
      // Two branches on two streams that join, or not.
      const int w = Writable(t, n, {a}), v = Writable(t, n, {a, w}), y = Writable(t, n, {a, w, v});
      Compute(t, named("branches"), {{a, READ}, {w, WRITE}, {v, WRITE}, {y, WRITE}}, [&](Segment& s) {
        AddStep(s, GELU, {0}, {1});
        AddStep(s, CAST, {0}, {2})->set_stream(random_.Chance(0.5) ? D2H : H2D);
        Step* join = AddStep(s, ADD, {1, 2}, {3});
        join->add_deps(1);
        if (random_.Chance(0.3)) join->set_stream(H2D), join->add_deps(0);
      });
    } else if (kind == 5) {
      // A detached step that only its own stream waits for.
      if (t.detached < 0) t.detached = MakeSlot(t, true, 64, false);
      const int y = Writable(t, n, {a});
      Compute(t, named("detached"), {{a, READ}, {y, WRITE}, {t.detached, WRITE}}, [&](Segment& s) {
        Step* copy = AddStep(s, FILL, {}, {2});
        copy->set_stream(D2H);
        copy->set_detached(true);
        AddStep(s, CAST, {0}, {1});
      });
    } else {
      // A detached step that is waited for by name.
      const int w = Writable(t, n, {a}), y = Writable(t, n, {a, w});
      Compute(t, named("prefetch"), {{a, READ}, {w, WRITE}, {y, WRITE}}, [&](Segment& s) {
        Step* copy = AddStep(s, CAST, {0}, {1});
        copy->set_stream(H2D);
        copy->set_detached(true);
        AddStep(s, GELU, {1}, {2})->add_deps(0);
      });
    }
  }

  // Readable may have closed what an earlier call returned.
  bool Live(const TemplateDraft& t, const std::vector<int>& buffers) const {
    return std::all_of(buffers.begin(), buffers.end(),
                       [&](int b) { return t.t.buffers(b).persistent() || t.slots[t.history[b].slot].live == b; });
  }

  // A transient buffer was promised and is not used after all.
  void Abandon(TemplateDraft& t, int buffer) { t.slots[t.history[buffer].slot].live = -1; }

  std::vector<TemplateDraft*> OnPipe(int pipe, int data = -1) {
    std::vector<TemplateDraft*> found;
    for (TemplateDraft& t : templates_) {
      if (t.pipe == pipe && (data < 0 || t.data == data)) found.push_back(&t);
    }
    return found;
  }

  // Transfers that start together. No member may wait for another, so they share no buffer.
  void TransferGroup() {
    const int group = ++last_group_;
    const int64_t transfers = 2 + random_.Below(3);
    for (int64_t i = 0; i < transfers; ++i) Transfer(group);
    busy_.clear();
  }

  void Transfer(int group = 0) {
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

  void Collective() {
    Group group;
    std::vector<TemplateDraft*> members;
    const int p = static_cast<int>(random_.Below(pipe_));
    const int kind = static_cast<int>(random_.Below(4));
    if (kind == 0) {
      group.add_axes()->set_axis("data");
      members = OnPipe(p);
    } else if (kind == 1 && OnPipe(p)[0]->data >= 0 && data_ > 2) {
      AxisSubset& subset = *group.add_axes();
      subset.set_axis("data");
      const int without = static_cast<int>(random_.Below(data_));
      for (int d = 0; d < data_; ++d) {
        if (d == without) continue;
        subset.add_indices(d);
        members.push_back(OnPipe(p, d)[0]);
      }
    } else if (kind == 2) {
      AxisSubset& subset = *group.add_axes();
      subset.set_axis("pipe");
      for (int q = 0; q < pipe_; ++q) {
        if (q != p && random_.Chance(0.5)) continue;
        subset.add_indices(q);
        for (TemplateDraft* t : OnPipe(q)) members.push_back(t);
      }
      // As the replicas of a stage.
      if (options_.schedules && random_.Chance(0.5)) group.add_axes()->set_axis("data");
    } else {
      group.add_axes()->set_axis("pipe");
      if (random_.Chance(0.5)) group.add_axes()->set_axis("data");
      for (TemplateDraft& t : templates_) members.push_back(&t);
    }
    const Purpose purpose = static_cast<Purpose>(1 + random_.Below(4));
    // The same set of members may be named in several ways.
    std::string stream = absl::StrCat("c", purpose);
    for (const AxisSubset& subset : group.axes()) {
      const int size = subset.axis() == "pipe" ? pipe_ : data_;
      if (size == 1 || subset.indices_size() == 1) continue;
      absl::StrAppend(&stream, " ", subset.axis());
      if (subset.indices_size() < size) {
        for (int64_t i : subset.indices()) absl::StrAppend(&stream, ",", i);
      }
    }
    const int pairs = 1 + static_cast<int>(random_.Below(2));
    const int64_t n = random_.Pick(sizes_);
    for (TemplateDraft* member : members) {
      TemplateDraft& t = *member;
      std::vector<int> sources, destinations, used;
      for (int i = 0; i < pairs; ++i) {
        const int source = Readable(t, n, used);
        sources.push_back(source);
        used.push_back(source);
      }
      for (int source : sources) {
        destinations.push_back(random_.Chance(0.5) ? source : Writable(t, n, used));
        used.push_back(destinations.back());
      }
      Draft& draft = NewDraft(t, ALL_REDUCE, stream);
      *draft.action.mutable_group() = group;
      draft.action.set_purpose(purpose);
      draft.action.set_algorithm("ring");
      draft.action.mutable_sources()->Assign(sources.begin(), sources.end());
      draft.action.mutable_destinations()->Assign(destinations.begin(), destinations.end());
      const int id = static_cast<int>(t.drafts.size()) - 1;
      for (int b : sources) {
        if (std::find(destinations.begin(), destinations.end(), b) == destinations.end()) Access(t, id, b, false);
      }
      for (int b : destinations) Access(t, id, b, true);
    }
  }

  void Fill(ListKind list, int events) {
    list_ = list;
    for (int i = 0; i < events; ++i) {
      ++event_;
      const int64_t kind = random_.Below(10);
      if (groups_ && random_.Chance(0.2)) {
        TransferGroup();
      } else if (kind < 5) {
        RandomCompute(templates_[random_.Below(static_cast<int64_t>(templates_.size()))]);
      } else if (kind < 9) {
        Transfer();
      } else {
        Collective();
      }
      for (TemplateDraft& t : templates_) {
        for (int s = 0; s < static_cast<int>(t.slots.size()); ++s) {
          if (t.slots[s].live >= 0 && random_.Chance(0.15)) Close(t, s);
        }
      }
    }
    for (TemplateDraft& t : templates_) {
      for (int s = 0; s < static_cast<int>(t.slots.size()); ++s) {
        if (t.slots[s].live >= 0) Close(t, s);
      }
    }
  }

  // Waits for what is written and read later or earlier in persistent buffers, also around the repetition.
  void OrderPersistent(TemplateDraft& t) {
    for (int b = 0; b < t.t.buffers_size(); ++b) {
      if (!t.t.buffers(b).persistent() || b == t.detached) continue;
      std::pair<int, int> writer = {-1, 0};  // (draft, pass)
      std::vector<std::pair<int, int>> readers;
      const auto visit = [&](int draft, bool writes, int pass) {
        const auto after = [&](const std::pair<int, int>& other) {
          const bool repeated = t.drafts[other.first].list == kBody && t.drafts[draft].list == kBody;
          const int distance = repeated ? pass - other.second : 0;
          // A wait of the second pass within its own repetition is known from the first.
          if (other.first != draft || distance > 0) t.drafts[draft].deps.insert({other.first, distance});
        };
        if (writer.first >= 0) after(writer);
        if (!writes) return readers.push_back({draft, pass});
        for (const auto& reader : readers) after(reader);
        readers.clear();
        writer = {draft, pass};
      };
      const auto& accesses = t.history[b].accesses;
      const auto pass_over = [&](ListKind list, int pass) {
        for (const auto& [draft, writes] : accesses) {
          if (t.drafts[draft].list == list) visit(draft, writes, pass);
        }
      };
      pass_over(kPrologue, 0);
      pass_over(kBody, 0);
      pass_over(kBody, 1);
      pass_over(kEpilogue, 1);
    }
  }

  void OrderRepetitions(TemplateDraft& t) {
    for (const Slot& slot : t.slots) {
      if (slot.first_writer_in_body >= 0) {
        t.drafts[slot.first_writer_in_body].deps.insert({slot.last_release_in_body, 1});
      }
    }
  }

  // Whether the queues of a message-driven program order the two.
  static bool OneQueue(const Action& a, const Action& b) {
    const auto forward = [](const Action& x) { return x.kind() == FORWARD; };
    const auto backward = [](const Action& x) {
      return x.kind() == BACKWARD || x.kind() == BACKWARD_INPUT || x.kind() == BACKWARD_WEIGHT;
    };
    return !(forward(a) && backward(b)) && !(backward(a) && forward(b));
  }

  void ExtraDeps(TemplateDraft& t) {
    const int n = static_cast<int>(t.drafts.size());
    for (int d = 0; d < n; ++d) {
      Draft& draft = t.drafts[d];
      // What the compute stream orders needs no wait.
      for (auto it = draft.deps.begin(); it != draft.deps.end();) {
        const Draft& other = t.drafts[it->first];
        const bool implied = draft.stream.empty() && other.stream.empty() && draft.one_part && other.one_part &&
                             (program_.compute_order() == STATIC_ORDER || OneQueue(draft.action, other.action));
        it = implied && random_.Chance(0.7) ? draft.deps.erase(it) : std::next(it);
      }
      if (d > 0 && random_.Chance(0.15)) {
        const int on = static_cast<int>(random_.Below(d));
        const Draft& other = t.drafts[on];
        if (other.list == draft.list && (!options_.schedules || other.event < draft.event)) draft.deps.insert({on, 0});
      }
      if (draft.list == kBody && random_.Chance(0.1)) {
        const int on = static_cast<int>(random_.Below(n));
        if (t.drafts[on].list == kBody) draft.deps.insert({on, 1 + static_cast<int>(random_.Below(3))});
      }
    }
  }

  // The members of the group in the order in which they were drawn, empty if something stands before one of them.
  static std::vector<int> NextOfGroup(const TemplateDraft& t, const std::map<std::string, std::vector<int>>& streams,
                                      int group) {
    std::vector<int> members;
    for (const auto& [name, drafts] : streams) {
      size_t here = 0;
      for (size_t i = 0; i < drafts.size(); ++i) {
        if (t.drafts[drafts[i]].action.transfer_group() != group) continue;
        members.push_back(drafts[i]);
        ++here;
      }
      for (size_t i = 0; i < here; ++i) {
        if (t.drafts[drafts[drafts.size() - 1 - i]].action.transfer_group() != group) return {};
      }
    }
    std::sort(members.begin(), members.end());
    return members;
  }

  // Writes the lists: a random merge of the streams, each in its order. Compute is one stream here, even where a
  // segment's steps use others.
  void Emit(TemplateDraft& t) {
    t.t.set_device_arena_bytes(t.arena[DEVICE]);
    t.t.set_host_arena_bytes(t.arena[HOST]);
    std::vector<int> id_of(t.drafts.size(), -1);
    int next_id = static_cast<int>(random_.Below(5));
    std::vector<std::pair<ListKind, int>> order;
    for (const ListKind list : {kPrologue, kBody, kEpilogue}) {
      std::map<std::string, std::vector<int>> streams;
      std::vector<std::string> open;
      for (int d = static_cast<int>(t.drafts.size()) - 1; d >= 0; --d) {
        if (t.drafts[d].list == list) streams[t.drafts[d].stream].push_back(d);
      }
      const bool shuffle = random_.Chance(0.7);
      while (!streams.empty()) {
        auto it = streams.begin();
        if (shuffle) {
          it = std::next(it, random_.Below(static_cast<int64_t>(streams.size())));
        } else {
          it = std::min_element(streams.begin(), streams.end(),
                                [](const auto& a, const auto& b) { return a.second.back() < b.second.back(); });
        }
        // A transfer group comes as a whole, when it is next on all of its streams.
        std::vector<int> members;
        while (members.empty()) {
          const int head = t.drafts[it->second.back()].action.transfer_group();
          members = head == 0 ? std::vector<int>{it->second.back()} : NextOfGroup(t, streams, head);
          if (members.empty() && ++it == streams.end()) it = streams.begin();
        }
        for (int d : members) {
          const auto own = streams.find(t.drafts[d].stream);
          own->second.pop_back();
          if (own->second.empty()) streams.erase(own);
          id_of[d] = next_id;
          next_id += 1 + static_cast<int>(random_.Below(2));
          order.emplace_back(list, d);
        }
      }
    }
    for (const auto& [list, d] : order) {
      Draft& draft = t.drafts[d];
      Action& action = list == kPrologue ? *t.t.add_prologue() : list == kBody ? *t.t.add_body() : *t.t.add_epilogue();
      action = draft.action;
      action.set_id(id_of[d]);
      action.set_name(absl::StrCat(ActionKind_Name(action.kind()), " ", id_of[d]));
      for (const auto& [on, distance] : draft.deps) {
        Dependency& dep = *action.add_deps();
        dep.set_action(id_of[on]);
        dep.set_distance(distance);
      }
    }
    *program_.add_templates() = std::move(t.t);
  }

  static constexpr int64_t kColumns = 4;
  Random random_;
  const RandomProgramOptions options_;
  Program program_;
  int pipe_ = 1, data_ = 1;
  int64_t rows_ = 0;
  std::vector<int64_t> sizes_;
  std::vector<TemplateDraft> templates_;
  std::map<std::string, int> segments_;
  ListKind list_ = kBody;
  bool groups_ = false;
  int event_ = 0, last_group_ = 0;
  // Buffers of the transfer group that is being made.
  std::map<const TemplateDraft*, std::vector<int>> busy_;
};

}  // namespace

Program RandomProgram(uint64_t seed, const RandomProgramOptions& options) { return Generator(seed, options).Run(); }

}  // namespace weft
