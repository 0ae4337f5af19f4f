// Meshes, templates and buffers of random programs.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/util/mesh.h"
#include "tests/random_generator.h"

namespace weft {
namespace random_program {

Generator::Generator(uint64_t seed, const RandomProgramOptions& options) : random_(seed), options_(options) {
  program_.set_name(absl::StrCat("random ", seed));
}

Program Generator::Run() {
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

void Generator::MakeMesh() {
  pipe_ = 1 + static_cast<int>(random_.Below(options_.max_pipe));
  data_ = 1 + static_cast<int>(random_.Below(options_.max_data));
  // A data axis of size 4 allows blocks and strides that are neither one rank nor the whole axis.
  if (options_.collectives && options_.max_data > 1 && pipe_ * 4 <= options_.max_ranks && random_.Chance(0.3))
    data_ = 4;
  const bool pipe_first = random_.Chance(0.5);
  for (const bool is_pipe : {pipe_first, !pipe_first}) {
    MeshAxis& axis = *program_.mutable_mesh()->add_axes();
    axis.set_name(is_pipe ? "pipe" : "data");
    axis.set_size(is_pipe ? pipe_ : data_);
  }
  int64_t z = 1;
  if (options_.collectives) {
    for (const char* name : {"z", "y", "x"}) {
      const int64_t size = 2 + random_.Below(3);
      if (random_.Chance(0.4) || MeshRanks(program_.mesh()) * size > options_.max_ranks) continue;
      MeshAxis& axis = *program_.mutable_mesh()->add_axes();
      axis.set_name(name);
      axis.set_size(size);
      if (axis.name() == "z") z = size;
      const int last = program_.mesh().axes_size() - 1;
      program_.mutable_mesh()->mutable_axes()->SwapElements(last, static_cast<int>(random_.Below(last + 1)));
    }
  }
  program_.set_stages(std::max(2, pipe_));
  program_.set_microbatches(1 + static_cast<int>(random_.Below(4)));
  program_.set_vocabulary(32);
  program_.set_step_barrier(random_.Chance(0.2));
  program_.set_accumulation(IN_ORDER);
  program_.set_schedule("random");
  Recipe& recipe = *program_.mutable_recipe();
  recipe.set_sequence_length(8);
  recipe.set_microbatch_sequences(z * (1 + random_.Below(2)));
  recipe.set_global_batch_sequences(recipe.microbatch_sequences() * program_.microbatches() * data_);
  recipe.mutable_adamw();
  rows_ = recipe.sequence_length() * recipe.microbatch_sequences() / z;
  sizes_ = {rows_ * kColumns, 16 + random_.Below(std::max<int64_t>(1, options_.max_elements))};
  if (options_.collectives) sizes_.push_back(kPart);
}

void Generator::MakeSchedule() {
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

void Generator::MakeTemplates() {
  // Decides which pipe coordinates have a template per data coordinate.
  const int mode = static_cast<int>(random_.Below(3));
  for (int p = 0; p < pipe_; ++p) {
    const bool pin_data = mode == 1 || (mode == 2 && random_.Chance(0.5));
    pins_data_ = pins_data_ || pin_data;
    for (int d = pin_data ? 0 : -1; d < (pin_data ? data_ : 0); ++d) {
      TemplateDraft& t = templates_.emplace_back();
      t.pipe = p;
      t.data = d;
      t.t.set_name(absl::StrCat("pipe", p, d >= 0 ? absl::StrCat(" data", d) : ""));
      AddCoordinate(t.t.add_pins(), "pipe", p);
      if (d >= 0) AddCoordinate(t.t.add_pins(), "data", d);
      const int slots = 3 + static_cast<int>(random_.Below(5));
      for (int s = 0; s < slots; ++s) MakeSlot(t, random_.Chance(0.35), random_.Pick(sizes_), random_.Chance(0.3));
      if (options_.step_streams && random_.Chance(0.5)) {
        MakeSlot(t, random_.Chance(0.5), random_.Pick(sizes_), random_.Chance(0.3), HOST);
      }
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

void Generator::AddCoordinate(Coordinate* c, const char* axis, int64_t index) {
  c->set_axis(axis);
  c->set_index(index);
}

int Generator::MakeSlot(TemplateDraft& t, bool persistent, int64_t elements, bool epilogue, Place place) {
  Slot slot;
  slot.place = place;
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

int Generator::MakeBuffer(TemplateDraft& t, const Slot& slot, int64_t elements, int slot_id, DType dtype) {
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

int64_t Generator::Elements(const TemplateDraft& t, int buffer) { return t.t.buffers(buffer).bytes() / 4; }

bool Generator::Usable(const Slot& slot) const { return slot.epilogue ? list_ != kPrologue : list_ != kEpilogue; }

int Generator::Readable(TemplateDraft& t, int64_t elements, const std::vector<int>& avoid) {
  std::vector<int> found;
  for (const Slot& slot : t.slots) {
    const int b = slot.persistent >= 0 ? slot.persistent : slot.live;
    if (b < 0 || slot.place != DEVICE || !Usable(slot) || b == t.table || b == t.detached) continue;
    if (Elements(t, b) != elements || t.t.buffers(b).dtype() != FP32) continue;
    if (std::find(avoid.begin(), avoid.end(), b) == avoid.end()) found.push_back(b);
  }
  if (!found.empty()) return random_.Pick(found);
  const int y = Writable(t, elements, avoid);
  Compute(t, "fill", {{y, WRITE}}, [&](Segment& s) { AddStep(s, FILL, {}, {0})->mutable_attributes()->set_value(1); });
  return y;
}

int Generator::InHost(const TemplateDraft& t) {
  std::vector<int> found;
  for (const Slot& slot : t.slots) {
    const int b = slot.persistent >= 0 ? slot.persistent : slot.live;
    if (b >= 0 && slot.place == HOST && Usable(slot)) found.push_back(b);
  }
  return found.empty() ? -1 : random_.Pick(found);
}

int Generator::Writable(TemplateDraft& t, int64_t elements, const std::vector<int>& avoid, DType dtype, Place place) {
  std::vector<int> slots;
  for (int s = 0; s < static_cast<int>(t.slots.size()); ++s) {
    const Slot& slot = t.slots[s];
    if (slot.place != place || !Usable(slot) || slot.elements < elements) continue;
    if (slot.persistent >= 0) {
      if (slot.persistent == t.table || slot.persistent == t.detached || slot.elements != elements || dtype != FP32)
        continue;
      if (std::find(avoid.begin(), avoid.end(), slot.persistent) != avoid.end()) continue;
    } else if (slot.live >= 0 && (t.history[slot.live].accesses.empty() ||
                                  std::find(avoid.begin(), avoid.end(), slot.live) != avoid.end())) {
      continue;  // Reserved for the event under construction.
    }
    slots.push_back(s);
  }
  if (slots.empty()) {
    slots.push_back(MakeSlot(t, false, elements, list_ == kEpilogue, place));
  }
  const int s = random_.Pick(slots);
  if (t.slots[s].persistent >= 0) return t.slots[s].persistent;
  if (t.slots[s].live >= 0) Close(t, s);
  Slot shifted = t.slots[s];
  // Place the buffer at a random offset within the slot.
  const int64_t room = (shifted.elements - elements) * 4 / 256;
  shifted.offset += 256 * random_.Below(room + 1);
  const int b = MakeBuffer(t, shifted, elements, s, dtype);
  t.slots[s].live = b;
  return b;
}

void Generator::Close(TemplateDraft& t, int s) {
  Slot& slot = t.slots[s];
  if (t.history[slot.live].accesses.back().detached) {
    // The action that releases a buffer must have waited for the detached step.
    Compute(t, "settle", {{slot.live, WRITE}},
            [&](Segment& segment) { AddStep(segment, FILL, {}, {0})->mutable_attributes()->set_value(2); });
  }
  const auto& accesses = t.history[slot.live].accesses;
  const int release = accesses.back().draft;
  for (const Use& use : accesses) {
    if (use.draft != release) t.drafts[release].Wait(use.draft, 0, use.detached);
  }
  t.drafts[release].action.add_releases(slot.live);
  slot.last_release = release;
  if (t.drafts[release].list == kBody) slot.last_release_in_body = release;
  slot.live = -1;
}

void Generator::Access(TemplateDraft& t, int draft, int buffer, bool writes, bool detached) {
  auto& accesses = t.history[buffer].accesses;
  if (!t.t.buffers(buffer).persistent()) {
    Slot& slot = t.slots[t.history[buffer].slot];
    if (accesses.empty()) {
      if (slot.last_release >= 0) t.drafts[draft].Wait(slot.last_release, 0);
      if (list_ == kBody && slot.first_writer_in_body < 0) slot.first_writer_in_body = draft;
    }
    // Readers wait for earlier writers, writers for all earlier users.
    for (const Use& other : accesses) {
      if (writes || other.writes) t.drafts[draft].Wait(other.draft, 0, other.detached);
    }
  }
  accesses.push_back({draft, writes, detached});
}

void Generator::Fill(ListKind list, int events) {
  list_ = list;
  for (int i = 0; i < events; ++i) {
    ++event_;
    const int64_t kind = random_.Below(10);
    if (options_.collectives && random_.Chance(0.3)) {
      CollectiveSegment();
    } else if (groups_ && random_.Chance(0.2)) {
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

}  // namespace random_program

RandomProgramOptions RunnablePrograms() {
  return {.max_pipe = 4, .max_data = 2, .events = 20, .max_elements = 64, .schedules = true};
}

Program RandomProgram(uint64_t seed, const RandomProgramOptions& options) {
  return random_program::Generator(seed, options).Run();
}

}  // namespace weft
