// The class behind random_program.h. How: events are drawn in one global order and appended to the lists of all who
// take part, so waiting only ever goes back in that order and no deadlock is possible. Every conflict on bytes gets a
// dependency. At the end the lists are shuffled in ways that keep the order on each stream, which changes nothing but
// the text (and what depends on it).
#ifndef WEFT_TESTS_RANDOM_GENERATOR_H_
#define WEFT_TESTS_RANDOM_GENERATOR_H_

#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/random_program.h"

namespace weft {
namespace random_program {

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
  bool has_detached = false;
  // (draft, distance) -> its detached steps too.
  std::map<std::pair<int, int>, bool> deps;

  void Wait(int draft, int distance, bool detached = false) { deps[{draft, distance}] |= detached; }
};

// One action's use of a buffer. `detached`: by a detached step, which is to be waited for by name.
struct Use {
  int draft = 0;
  bool writes = false, detached = false;
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
  std::vector<Use> accesses;  // In global order.
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
  Generator(uint64_t seed, const RandomProgramOptions& options);
  Program Run();

 private:
  // random_program.cc: mesh, templates, buffers.
  void MakeMesh();
  void MakeSchedule();
  void MakeTemplates();
  static void AddCoordinate(Coordinate* c, const char* axis, int64_t index);
  // Returns the buffer if persistent, else the slot.
  int MakeSlot(TemplateDraft& t, bool persistent, int64_t elements, bool epilogue, Place place = DEVICE);
  int MakeBuffer(TemplateDraft& t, const Slot& slot, int64_t elements, int slot_id, DType dtype);
  static int64_t Elements(const TemplateDraft& t, int buffer);
  bool Usable(const Slot& slot) const;
  // A buffer of so many elements whose content is defined; made by a FILL if there is none.
  int Readable(TemplateDraft& t, int64_t elements, const std::vector<int>& avoid);
  // A buffer of so many elements to be overwritten: persistent, or a transient one that starts its life.
  int Writable(TemplateDraft& t, int64_t elements, const std::vector<int>& avoid, DType dtype = FP32,
               Place place = DEVICE);
  // A buffer in host memory whose content is defined, -1 if there is none.
  int InHost(const TemplateDraft& t);
  // The last user so far releases it, after all others.
  void Close(TemplateDraft& t, int s);
  void Access(TemplateDraft& t, int draft, int buffer, bool writes, bool detached = false);
  void Fill(ListKind list, int events);

  // random_events.cc: compute and transfers.
  Draft& NewDraft(TemplateDraft& t, ActionKind kind, std::string stream);
  // Values 0, 1, ... cover the operands; `steps` names them. Of a random kind that may compute, if none is given.
  void Compute(TemplateDraft& t, const std::string& name, const std::vector<std::pair<int, ::weft::Access>>& operands,
               const std::function<void(Segment&)>& steps, ActionKind kind = ACTION_UNSPECIFIED);
  // Some buffers to host memory, or back.
  void HostCopy(TemplateDraft& t);
  static bool DetachedUse(const Segment& segment, int operand);
  Action RandomKind();
  Step* AddStep(Segment& segment, Kernel kernel, std::vector<int> inputs, std::vector<int> outputs);
  void RandomCompute(TemplateDraft& t);
  // Readable may have closed what an earlier call returned.
  bool Live(const TemplateDraft& t, const std::vector<int>& buffers) const;
  // A transient buffer was promised and is not used after all.
  void Abandon(TemplateDraft& t, int buffer);
  std::vector<TemplateDraft*> OnPipe(int pipe, int data = -1);
  // Transfers that start together. No member may wait for another, so they share no buffer.
  void TransferGroup();
  void Transfer(int group = 0);

  // random_collectives.cc
  int64_t AxisOf(const std::string& name) const;
  // A canonical text of whom the collective is with: the same set of members may be named in several ways.
  std::string Communicator(const Group& group, Purpose purpose) const;
  // Some of the axes that no template pins and of `data`, each whole, in blocks or in strides; pipe too, if all do it.
  // More than one member, or no axis.
  Group RandomGroup(bool pipe);
  void Collective();
  // A segment with collectives of several communicators, on all templates that are members of one of them.
  void CollectiveSegment();

  // random_order.cc: waits and lists.
  // Waits for what is written and read later or earlier in persistent buffers, also around the repetition.
  void OrderPersistent(TemplateDraft& t);
  void OrderRepetitions(TemplateDraft& t);
  // Whether the queues of a message-driven program order the two.
  static bool OneQueue(const Action& a, const Action& b);
  void ExtraDeps(TemplateDraft& t);
  // The members of the group in the order in which they were drawn, empty if something stands before one of them.
  static std::vector<int> NextOfGroup(const TemplateDraft& t, const std::map<std::string, std::vector<int>>& streams,
                                      int group);
  // Writes the lists: a random merge of the streams, each in its order. Compute is one stream here, even where a
  // segment's steps use others.
  void Emit(TemplateDraft& t);

  static constexpr int64_t kColumns = 4;
  // Elements of what a member of a gather has.
  static constexpr int64_t kPart = 24;
  Random random_;
  const RandomProgramOptions options_;
  Program program_;
  int pipe_ = 1, data_ = 1;
  bool pins_data_ = false;
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

}  // namespace random_program
}  // namespace weft

#endif  // WEFT_TESTS_RANDOM_GENERATOR_H_
