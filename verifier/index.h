// Tables that all rule groups share. Internal to the verifier.
#ifndef WEFT_VERIFIER_INDEX_H_
#define WEFT_VERIFIER_INDEX_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "proto/program.pb.h"
#include "proto/util/action_kind.h"
#include "verifier/range_set.h"
#include "verifier/verify.h"

namespace weft::verify {

// Collects findings up to a maximum.
class Findings {
 public:
  explicit Findings(int maximum) : maximum_(maximum) {}

  template <typename... Parts>
  void Add(const char* rule, const Parts&... parts) {
    if (!full()) list_.push_back({rule, absl::StrCat(prefix_, parts...)});
  }
  bool full() const { return static_cast<int>(list_.size()) >= maximum_; }
  bool empty() const { return list_.empty(); }
  // Sets a text before all messages that follow, e.g. "evaluation: ".
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }
  const std::string& prefix() const { return prefix_; }
  std::vector<Finding> Take() { return std::move(list_); }

 private:
  int maximum_;
  std::string prefix_;
  std::vector<Finding> list_;
};

// The largest accepted sizes. They keep all sums and products of the verifier within their integer types.
struct Limits {
  static constexpr int64_t kRanks = int64_t{1} << 20;
  static constexpr int64_t kRoles = int64_t{1} << 16;
  static constexpr int64_t kArenaBytes = int64_t{1} << 50;
  static constexpr int64_t kMicrobatches = int64_t{1} << 20;
  static constexpr int64_t kStages = int64_t{1} << 16;
  // Maximum of one dimension, because BLAS counts in int.
  static constexpr int64_t kExtent = (int64_t{1} << 31) - 1;
  static constexpr int64_t kRows = kExtent;
  static constexpr int kParts = 1 << 16;
  static constexpr int kDistance = 64;
  static constexpr int kLanes = 64;
  static constexpr int kWidth = 16;
  static constexpr int kSkips = 1 << 16;
  // Maximum members of a transfer group.
  static constexpr int kGroup = 256;
  // kClocks: maximum of clocks x steps of a template, over two repetitions. kExpandedSteps: maximum number of steps of
  // all roles together.
  static constexpr int64_t kClocks = int64_t{1} << 26;
  static constexpr int64_t kExpandedSteps = int64_t{1} << 25;
};

// Streams: COMPUTE, D2H and H2D are 0, 1 and 2 in a segment and in a template. Communicator i is stream 3 + i in a
// segment. In a template, communicators come after stream 3, the second queue of a message-driven program.
constexpr int kStepStreams = 3;

// Steps of a segment that the order rules can treat as one: consecutive steps on one stream, of which only the first
// waits for another stream and only the last has waiters on another. A collective or detached step is a part by itself.
struct Part {
  int stream = 0;  // Stream in the segment.
  bool detached = false;
  int first_step = 0;
  std::vector<int> deps;     // Earlier parts that its steps name as dependencies.
  std::vector<int> waiters;  // Later parts whose steps name it as a dependency.
};
inline bool IsCollective(const Part& part) { return part.stream >= kStepStreams; }

// How one segment uses one operand.
struct OperandUse {
  RangeSet first_reads;  // Bytes that it reads and no earlier step of the segment wrote.
  RangeSet writes;
  // First reads of table indices. The indices of EMBEDDING and CROSS_ENTROPY must come from LOAD_TOKENS and
  // LOAD_TARGETS, or they could read out of bounds.
  RangeSet token_reads, target_reads;
  RangeSet token_writes, target_writes;  // Bytes of `writes` that hold such indices.
  int rewritten_by = -1;                 // The first step that writes bytes that an earlier step wrote.
  std::vector<int> parts;                // Parts that touch it, ascending.
  // Subsets of `parts`: every part starts after one of first_parts, and is finished before one of last_parts.
  std::vector<int> first_parts, last_parts;
};

struct SegmentUse {
  std::vector<Part> parts;
  std::vector<OperandUse> operands;
  std::vector<int> first_parts, last_parts;  // Subsets of all parts as in OperandUse; last_parts excludes detached.
  std::vector<std::string> communicators;    // Keys: stream 3 + i is communicators[i].
  std::vector<int> representative;           // One step of each communicator.
  std::vector<int> losses;                   // Steps that compute losses.
  bool has_detached = false;
};

// The uses of all segments. Segments that are alike share one.
class SegmentUses {
 public:
  void Add(SegmentUse use) {
    of_.push_back(static_cast<int>(uses_.size()));
    uses_.push_back(std::move(use));
  }
  // Adds the next segment, which has the same use as `segment`.
  void AddAlike(int segment) { of_.push_back(of_[segment]); }
  int size() const { return static_cast<int>(of_.size()); }
  const SegmentUse& operator[](int segment) const { return uses_[of_[segment]]; }

 private:
  std::vector<SegmentUse> uses_;
  std::vector<int> of_;  // [segment]
};

// The lists of a template.
enum List { kPrologue = 0, kBody = 1, kEpilogue = 2 };

struct ActionRef {
  const Action* action = nullptr;
  List list = kBody;
  int stream = 0;  // Stream of a transfer or collective; -1 for compute.
  // Members of a transfer group run at the same time, even on one stream. So a stream may have several clocks, and the
  // nodes on each clock run one after the other.
  int clock = 0;
  int group = -1;  // Index into TemplateIndex::groups.
};

// A transfer group of several members (rule P4): actions first .. first + size - 1.
struct TransferGroup {
  int first = 0;
  int size = 0;
  std::vector<int> streams;  // Streams of its members, each once.
};

// The lists and streams of one template. Its ranks differ only in unpinned axes.
struct TemplateIndex {
  const Template* t = nullptr;
  std::vector<ActionRef> actions;  // Prologue, body, epilogue.
  int list_begin[4] = {0, 0, 0, 0};
  absl::flat_hash_map<int, int> by_id;
  // Number of streams: 0 compute, 1 d2h, 2 h2d, 3 the second queue of compute in a message-driven program (rule P6),
  // then transfers and collectives in order of first use. The clocks begin with the same four.
  int streams = 4;
  int clocks = 4;
  std::vector<TransferGroup> groups;
  // The stream and clock of a communicator of a segment that the template uses.
  struct Channel {
    int stream = 0, clock = 0;
  };
  std::vector<std::vector<Channel>> channels;  // [segment][communicator]

  int StreamOf(int segment, const Part& part) const {
    return IsCollective(part) ? channels[segment][part.stream - kStepStreams].stream : part.stream;
  }
};

struct Index {
  const Program* program = nullptr;
  SegmentUses segments;
  std::vector<TemplateIndex> templates;

  // A role is one combination of coordinates on the axes that some template pins.
  std::vector<int> pinned_axes;      // Indices of mesh axes, ascending.
  std::vector<int64_t> role_stride;  // Per pinned axis.
  std::vector<int> role_template;

  int AxisIndex(const std::string& name) const;
  // Position in pinned_axes, or -1.
  int PinnedPosition(int axis) const;
  int64_t RoleCoordinate(int role, int position) const {
    return role / role_stride[position] % program->mesh().axes(pinned_axes[position]).size();
  }
  int WithCoordinate(int role, int position, int64_t coordinate) const {
    return static_cast<int>(role + (coordinate - RoleCoordinate(role, position)) * role_stride[position]);
  }
  int PeerRole(int role, const Peer& peer) const;
  // Roles of the members, ascending.
  std::vector<int> GroupRoles(int role, const Group& group) const;
  // True if the group contains every coordinate of the axis (always true for an axis of size 1).
  bool GroupCoversAxis(const Group& group, const std::string& axis) const;
  int64_t AxisSize(const std::string& axis) const;
};

inline bool IsForward(ActionKind kind) { return kind == FORWARD || kind == FORWARD_BACKWARD; }
inline bool IsBackward(ActionKind kind) {
  return kind == BACKWARD || kind == BACKWARD_INPUT || kind == BACKWARD_WEIGHT || kind == FORWARD_BACKWARD;
}
// True if the action is for a microbatch.
inline bool IsMicrobatch(ActionKind kind) { return IsForward(kind) || IsBackward(kind); }
// True if the action runs a segment.
inline bool IsCompute(ActionKind kind) {
  return IsMicrobatch(kind) || IsCopy(kind) || kind == GRAD_NORM || kind == SCALE_GRADIENTS || kind == OPTIMIZER_STEP ||
         kind == KEEP_STATE || kind == VALIDATE || kind == RESTORE_STATE || kind == CLEAR_GRADIENTS;
}
// Rows of one microbatch on a rank (P9). For a step that reads the microbatch, the number of rows that the step reads,
// which may be at another level of images. 0 if an attribute makes no sense.
int64_t RowsOfMicrobatch(const Program& program);
int64_t RowsOfMicrobatch(const Program& program, const Step& step);
inline int Width(const Action& action) { return std::max(1, action.width()); }
// Rule P14: optimizer steps in a repetition, and microbatches of one data replica in an optimizer step.
inline bool IsAsynchronous(const Program& program) { return program.steps_per_repetition() > 0; }
inline int StepsPerRepetition(const Program& program) { return std::max(1, program.steps_per_repetition()); }
inline int MicrobatchesPerStep(const Program& program) { return program.microbatches() / StepsPerRepetition(program); }
// Number to add to an action's microbatch numbers: the microbatches of a repetition if the action runs ahead, else 0.
inline int MicrobatchesAhead(const Program& program, const Action& action) {
  return IsAsynchronous(program) && action.step() >= program.steps_per_repetition() ? program.microbatches() : 0;
}
inline bool IsMessageDriven(const Program& program) { return program.compute_order() != STATIC_ORDER; }

// The work of an action for one stage. A FORWARD_BACKWARD does two such works.
struct StageWork {
  ActionKind kind = FORWARD;  // FORWARD, BACKWARD, BACKWARD_INPUT or BACKWARD_WEIGHT.
  int stage = 0, lane = 0;
  int microbatch = 0, width = 1;
};
std::vector<StageWork> WorkOf(const Action& action);

// The offset after the last byte of a value.
int64_t EndOf(const Value& value);
// Bytes of a tensor; nullopt if an extent is not positive or the size exceeds an arena.
std::optional<int64_t> TensorBytes(DType dtype, const google::protobuf::RepeatedField<int64_t>& shape);
// True if a buffer of this role holds a part of a model tensor, or of data that is kept for one, such as a gradient.
bool BelongsToTensor(BufferRole role);

// The order of the nodes of one rank's list on its streams (P3, P4, P6). The caller numbers the nodes.
class StreamOrder {
 public:
  StreamOrder(bool message_driven, int streams) : message_driven_(message_driven), last_(streams, -1) {}

  // Adds a step of a compute action. Calls `edge(a, b)` for the last node a on each clock of the step, if there is one:
  // a ends before b, the new node, starts.
  template <typename Edge>
  void AddStep(ActionKind kind, int stream, int node, Edge edge) {
    if (stream != COMPUTE || !message_driven_) return Add(stream, node, node, edge);
    if (!IsBackward(kind)) Add(0, node, node, edge);
    if (!IsForward(kind)) Add(3, node, node, edge);
  }
  // Adds a transfer or collective, or one stream of a transfer group. `first` waits for the node before on the stream,
  // and the node after waits for `last`.
  template <typename Edge>
  void Add(int stream, int first, int last, Edge edge) {
    if (last_[stream] >= 0) edge(last_[stream], first);
    last_[stream] = last;
  }

 private:
  bool message_driven_;
  std::vector<int> last_;
};
// Returns the clock of a step of a compute action. The step must not be a collective.
inline int ClockOf(bool message_driven, ActionKind kind, int stream) {
  return message_driven && stream == COMPUTE && IsBackward(kind) ? 3 : stream;
}

// Returns for example "template 'pipe1', action 12 'F s1 m3'".
std::string Describe(const Template& t, const Action& action);
// Returns for example "action 12 'F s1 m3'".
std::string Describe(const Action& action);
// Returns for example "buffer 7 'x.m0'".
std::string DescribeBuffer(const Template& t, int buffer);

// groups.cc, rule P8.group. Returns what is wrong with a group for the ranks of a template, "" if nothing is. Expects
// that GroupFault (proto/util/groups.h) finds nothing wrong with the group itself.
std::string GroupFaultIn(const Program& program, const Template& t, const Group& group);
// A canonical text of a collective's members and purpose. As seen from one rank, equal texts mean the same
// communicator.
std::string CommunicatorKey(const Program& program, const Group& group, Purpose purpose);
int64_t GroupSize(const Program& program, const Group& group);

// A canonical text of the ranks with which the action exchanges. As seen from its template, equal texts mean the same
// stream.
std::string StreamKey(const Program& program, const Template& t, const Action& action);

// The checks in the order in which they depend on one another. Each requires that the earlier ones found nothing.
void CheckMessage(const Program& program, Findings* findings);
void CheckStructure(const Program& program, const VerifyOptions& options, Findings* findings);
void CheckBuffers(const Program& program, Findings* findings);
void CheckSegments(const Program& program, const VerifyOptions& options, Findings* findings);
void CheckActions(const Program& program, const VerifyOptions& options, Findings* findings);
bool CheckRoles(Index* index, Findings* findings);
void CheckSegmentOrder(Index* index, Findings* findings);
bool BuildTemplates(Index* index, Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_INDEX_H_
