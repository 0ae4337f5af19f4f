// The class behind random_program.h. It draws events in one global order and appends them to the lists of all
// participants, so actions only wait for earlier events and no deadlock is possible. Every conflict on bytes gets a
// dependency. At the end it shuffles the lists but keeps the order on each stream. The shuffle changes only the
// program's text and results that depend on the order in its lists.
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
  // Returns a number in [0, n); n >= 1. Uses no std distribution, because these differ between libraries.
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
  // (draft, distance) -> true if the action also waits for the detached steps of that draft.
  std::map<std::pair<int, int>, bool> deps;

  void Wait(int draft, int distance, bool detached = false) { deps[{draft, distance}] |= detached; }
};

// One action's use of a buffer. `detached`: a detached step uses it, so the dependency of a later user must be
// detached.
struct Use {
  int draft = 0;
  bool writes = false, detached = false;
};

// Bytes of an arena that hold one persistent buffer, or one transient buffer at a time.
struct Slot {
  Place place = DEVICE;
  int64_t offset = 0;
  int64_t elements = 0;
  int persistent = -1;  // The persistent buffer; -1 = none.
  // The epilogue may not depend on the prologue, so no slot serves both.
  bool epilogue = false;
  // For transient buffers: the buffer that is live here, and the draft that released the previous one; -1 = none.
  int live = -1;
  int last_release = -1;
  // The draft that begins the first lifetime in the body, and the draft that ends the last one; -1 = none. The first
  // lifetime begins again in the next repetition, after the last one of this repetition.
  int first_writer_in_body = -1;
  int last_release_in_body = -1;
};

// The accesses to one buffer so far.
struct History {
  int slot = -1;
  std::vector<Use> accesses;  // In the global order of events.
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
  // Returns a buffer of this many elements with defined content. Adds a FILL if there is none.
  int Readable(TemplateDraft& t, int64_t elements, const std::vector<int>& avoid);
  // Returns a buffer of this many elements to overwrite: a persistent one, or a transient one whose lifetime starts.
  int Writable(TemplateDraft& t, int64_t elements, const std::vector<int>& avoid, DType dtype = FP32,
               Place place = DEVICE);
  // Returns a buffer in host memory with defined content, -1 if there is none.
  int InHost(const TemplateDraft& t);
  // Ends a lifetime: the last user so far releases the buffer, after waiting for all other users.
  void Close(TemplateDraft& t, int s);
  void Access(TemplateDraft& t, int draft, int buffer, bool writes, bool detached = false);
  void Fill(ListKind list, int events);

  // random_events.cc: compute and transfers.
  Draft& NewDraft(TemplateDraft& t, ActionKind kind, std::string stream);
  // Adds a compute action. Values 0, 1, ... are the operands; `steps` adds steps on them. Without `kind`, the action
  // has a random kind that may compute.
  void Compute(TemplateDraft& t, const std::string& name, const std::vector<std::pair<int, ::weft::Access>>& operands,
               const std::function<void(Segment&)>& steps, ActionKind kind = ACTION_UNSPECIFIED);
  // Copies some buffers to host memory or back.
  void HostCopy(TemplateDraft& t);
  static bool DetachedUse(const Segment& segment, int operand);
  Action RandomKind();
  Step* AddStep(Segment& segment, Kernel kernel, std::vector<int> inputs, std::vector<int> outputs);
  void RandomCompute(TemplateDraft& t);
  // False if one of `buffers` has been released since it was returned. A call of Readable may release buffers.
  bool Live(const TemplateDraft& t, const std::vector<int>& buffers) const;
  // Gives back a transient buffer that Writable returned and that is not used after all.
  void Abandon(TemplateDraft& t, int buffer);
  std::vector<TemplateDraft*> OnPipe(int pipe, int data = -1);
  // Adds transfers that start together. No member may wait for another, so they share no buffer.
  void TransferGroup();
  void Transfer(int group = 0);

  // random_collectives.cc: collectives.
  int64_t AxisOf(const std::string& name) const;
  // Returns a canonical text of the collective's members, because the same set can be named in several ways.
  std::string Communicator(const Group& group, Purpose purpose) const;
  // Returns a random group over some of the axes data, x, y and z, each whole, in blocks or in strides; with `pipe`
  // also over the whole axis pipe. The group has more than one member, or no axis.
  Group RandomGroup(bool pipe);
  void Collective();
  // Adds a segment with collectives of several communicators to all templates that are members of one of them.
  void CollectiveSegment();

  // random_order.cc: waits and lists.
  //
  // Adds waits between reads and writes of persistent buffers, also from one repetition to the next.
  void OrderPersistent(TemplateDraft& t);
  void OrderRepetitions(TemplateDraft& t);
  // True if the queues of a message-driven program order the two actions.
  static bool OneQueue(const Action& a, const Action& b);
  void ExtraDeps(TemplateDraft& t);
  // Returns the drafts of a transfer group in the order in which they were drawn; empty if one of them is not yet next
  // on its stream.
  static std::vector<int> NextOfGroup(const TemplateDraft& t, const std::map<std::string, std::vector<int>>& streams,
                                      int group);
  // Writes the lists: a random merge of the streams, each in its order. Compute counts as one stream here, even if a
  // segment's steps use others.
  void Emit(TemplateDraft& t);

  static constexpr int64_t kColumns = 4;
  // Elements of one member's part of a gather.
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
  // Buffers of the transfer group under construction.
  std::map<const TemplateDraft*, std::vector<int>> busy_;
};

}  // namespace random_program
}  // namespace weft

#endif  // WEFT_TESTS_RANDOM_GENERATOR_H_
