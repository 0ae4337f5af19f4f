// Tables that all rule groups share. Internal to the verifier.
#ifndef WEFT_PROTO_VERIFY_INDEX_H_
#define WEFT_PROTO_VERIFY_INDEX_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "proto/program.pb.h"
#include "proto/verify/range_set.h"
#include "proto/verify/verify.h"

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
  // Put before every message that follows, e.g. "evaluation: ".
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }
  std::vector<Finding> Take() { return std::move(list_); }

 private:
  int maximum_;
  std::string prefix_;
  std::vector<Finding> list_;
};

// The largest sizes that are accepted, so that every sum and product below stays in range.
struct Limits {
  static constexpr int64_t kRanks = int64_t{1} << 20;
  static constexpr int64_t kRoles = int64_t{1} << 16;
  static constexpr int64_t kArenaBytes = int64_t{1} << 50;
  static constexpr int64_t kMicrobatches = int64_t{1} << 20;
  static constexpr int64_t kStages = int64_t{1} << 16;
  // Of one dimension: BLAS counts in int.
  static constexpr int64_t kExtent = (int64_t{1} << 31) - 1;
  static constexpr int64_t kRows = kExtent;
  static constexpr int kParts = 4096;
  static constexpr int kDistance = 64;
  static constexpr int kLanes = 64;
  // Clock entries of one template (streams x steps) and expanded steps of all roles.
  static constexpr int64_t kClocks = int64_t{1} << 26;
  static constexpr int64_t kExpandedSteps = int64_t{1} << 25;
};

// Steps of a segment that the order rules need not tell apart: the whole segment when it runs on one stream and has no
// detached step, else one part per step.
struct Part {
  StreamKind stream = COMPUTE;
  bool detached = false;
  std::vector<int> deps;  // Earlier parts.
};

// How one segment uses one operand.
struct OperandUse {
  RangeSet first_reads;  // Bytes read that no earlier step of the segment wrote.
  RangeSet writes;
  // The same for indices into tables: what EMBEDDING and CROSS_ENTROPY index with must come from LOAD_TOKENS and
  // LOAD_TARGETS, or a read out of bounds could follow.
  RangeSet token_reads, target_reads;
  RangeSet token_writes, target_writes;  // What `writes` leaves there.
  std::vector<int> parts;                // That touch it, ascending.
};

struct SegmentUse {
  std::vector<Part> parts;
  std::vector<OperandUse> operands;
};

// The lists of a template.
enum List { kPrologue = 0, kBody = 1, kEpilogue = 2 };

struct ActionRef {
  const Action* action = nullptr;
  List list = kBody;
  int stream = 0;  // Of a transfer or collective; -1 for compute.
};

// Where the ranks of a template differ only in unpinned axes.
struct TemplateIndex {
  const Template* t = nullptr;
  std::vector<ActionRef> actions;  // Prologue, body, epilogue.
  int list_begin[4] = {0, 0, 0, 0};
  absl::flat_hash_map<int, int> by_id;
  // Streams: 0 compute, 1 d2h, 2 h2d, then transfers and collectives in order of first use.
  int streams = 3;
};

struct Index {
  const Program* program = nullptr;
  std::vector<SegmentUse> segments;
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
  // Whether the group takes in every coordinate of the axis (true for an axis of size 1).
  bool GroupCoversAxis(const Group& group, const std::string& axis) const;
  int64_t AxisSize(const std::string& axis) const;
};

inline bool IsCompute(ActionKind kind) {
  return kind == FORWARD || kind == BACKWARD || kind == GRAD_NORM || kind == SCALE_GRADIENTS || kind == OPTIMIZER_STEP;
}
inline bool IsTransfer(ActionKind kind) { return kind == SEND || kind == RECV; }

// "template 'pipe1', action 12 'F s1 m3'"
std::string Describe(const Template& t, const Action& action);
// "action 12 'F s1 m3'"
std::string Describe(const Action& action);
// "buffer 7 'x.m0'"
std::string DescribeBuffer(const Template& t, int buffer);

// A canonical text of whom the action exchanges with, as seen from its template: equal texts = same stream.
std::string StreamKey(const Program& program, const Template& t, const Action& action);

// The rule groups, in the order in which they build on one another. Each expects that the earlier ones found nothing.
void CheckMessage(const Program& program, Findings* findings);
void CheckStructure(const Program& program, const VerifyOptions& options, Findings* findings);
void CheckBuffers(const Program& program, Findings* findings);
void CheckSegments(const Program& program, Findings* findings);
void CheckActions(const Program& program, const VerifyOptions& options, Findings* findings);
bool CheckRoles(Index* index, Findings* findings);
void CheckSegmentOrder(Index* index, Findings* findings);
bool BuildTemplates(Index* index, Findings* findings);
void CheckStep(const Program& program, const Segment& segment, int step, Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_PROTO_VERIFY_INDEX_H_
