#include "compiler/memory_fit.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "proto/util/mesh.h"
#include "proto/util/units_text.h"
#include "simulator/network/placement.h"

namespace weft {
namespace {

std::string ClassName(BufferClass c) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(BufferClass_Name(c)), {{"_", " "}});
}

// Live bytes per class at the fullest moment in list order. Only device buffers whose class `counts` accepts are
// considered.
template <typename Counts>
std::map<BufferClass, int64_t> FullestMoment(const Template& t, const Counts& counts) {
  const auto is_counted = [&](const Buffer& buffer) { return buffer.place() == DEVICE && counts(buffer.class_()); };
  std::map<BufferClass, int64_t> live;
  int64_t sum = 0;
  for (const Buffer& buffer : t.buffers()) {
    if (!buffer.persistent() || !is_counted(buffer)) continue;
    live[buffer.class_()] += buffer.bytes();
    sum += buffer.bytes();
  }
  std::map<BufferClass, int64_t> fullest = live;
  int64_t most = sum;
  std::vector<bool> is_live(t.buffers_size(), false);
  auto begin = [&](int b) {
    if (t.buffers(b).persistent() || !is_counted(t.buffers(b)) || is_live[b]) return;
    is_live[b] = true;
    live[t.buffers(b).class_()] += t.buffers(b).bytes();
    sum += t.buffers(b).bytes();
  };
  for (const Action& action : t.body()) {
    for (int b : action.operands()) begin(b);
    for (int b : action.destinations()) begin(b);
    if (sum > most) {
      most = sum;
      fullest = live;
    }
    for (int b : action.releases()) {
      if (!is_counted(t.buffers(b))) continue;
      live[t.buffers(b).class_()] -= t.buffers(b).bytes();
      sum -= t.buffers(b).bytes();
    }
  }
  return fullest;
}

struct NodeBytes {
  int64_t node = 0;
  int64_t ranks = 0;
  int64_t bytes = 0;
};

// The node whose ranks together have the largest host arenas; the first such node on a tie.
NodeBytes FullestNode(const Program& program, const Cluster& cluster) {
  NodeBytes fullest;
  // ValidateTogether already refused a cluster with too few devices.
  const absl::StatusOr<sim::RankPlacement> placement = sim::RankPlacement::Make(MeshRanks(program.mesh()), cluster);
  if (!placement.ok()) return fullest;
  // Sums saturate at the largest int64.
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const int64_t at : placement->nodes()) {
    const std::vector<int64_t> ranks = placement->RanksOf(at);
    NodeBytes node{at, static_cast<int64_t>(ranks.size()), 0};
    for (const int64_t rank : ranks) {
      const int t = TemplateOfRank(program, rank);
      const int64_t bytes = t < 0 ? 0 : program.templates(t).host_arena_bytes();
      node.bytes = bytes > kMax - node.bytes ? kMax : node.bytes + bytes;
    }
    if (node.bytes > fullest.bytes) fullest = node;
  }
  return fullest;
}

const Template* FullestTemplate(const Program& program) {
  const Template* fullest = nullptr;
  for (const Program* p : {&program, &program.evaluation()}) {
    for (const Template& t : p->templates()) {
      if (fullest == nullptr || t.device_arena_bytes() > fullest->device_arena_bytes()) fullest = &t;
    }
  }
  return fullest;
}

// The template whose ranks have the least headroom on their devices, and the kind of device where this headroom is.
// Both may be null if every device has enough memory.
struct Tightest {
  const Template* of = nullptr;
  const Device* device = nullptr;
};

int64_t RoomOf(const Template& t, const Device& device) {
  // Unknown memory counts as enough.
  if (device.memory_bytes() <= 0) return std::numeric_limits<int64_t>::max();
  // With absurdly large sizes, the result saturates at the smallest int64.
  const int64_t beside = device.memory_bytes() - device.reserved_bytes();
  return beside < 0
             ? std::max(beside, std::numeric_limits<int64_t>::min() + t.device_arena_bytes()) - t.device_arena_bytes()
             : beside - t.device_arena_bytes();
}

Tightest TightestDevice(const Program& program, const Cluster& cluster) {
  Tightest tightest = {FullestTemplate(program), &cluster.device()};
  const absl::StatusOr<sim::RankPlacement> placement = sim::RankPlacement::Make(MeshRanks(program.mesh()), cluster);
  if (tightest.of == nullptr || !placement.ok() || placement->all_alike()) return tightest;
  tightest = {};
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t rank = 0; rank < placement->ranks(); ++rank) {
    const Device* device = placement->kinds()[placement->KindOf(rank)];
    for (const Program* p : {&program, &program.evaluation()}) {
      const int t = p->templates_size() > 0 ? TemplateOfRank(*p, rank) : -1;
      if (t < 0) continue;
      if (const int64_t room = RoomOf(p->templates(t), *device); room < least) {
        least = room;
        tightest = {&p->templates(t), device};
      }
    }
  }
  return tightest;
}

// Checks the host memory of the nodes. Always OK if the cluster does not state it.
absl::Status CheckHostFit(const Program& program, const Cluster& cluster) {
  const bool any = std::any_of(program.templates().begin(), program.templates().end(),
                               [](const Template& t) { return t.host_arena_bytes() > 0; });
  if (cluster.host_memory_bytes() <= 0 || !any) return absl::OkStatus();
  const NodeBytes fullest = FullestNode(program, cluster);
  if (fullest.bytes <= cluster.host_memory_bytes()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the plan does not fit the host memory of cluster '", cluster.name(), "': plan.offload needs ", fullest.bytes,
      " bytes (", BytesText(fullest.bytes), ") there for the ", fullest.ranks, fullest.ranks == 1 ? " rank" : " ranks",
      " of node ", fullest.node, ", but cluster.host_memory_bytes is ", cluster.host_memory_bytes(), " (",
      BytesText(cluster.host_memory_bytes()),
      "); use fewer ranks per node, more pipeline ranks or plan.zero, or leave plan.offload out"));
}

}  // namespace

bool DeviceMemoryFits(const Program& program, const Cluster& cluster) {
  const Tightest tightest = TightestDevice(program, cluster);
  return tightest.of == nullptr || RoomOf(*tightest.of, *tightest.device) >= 0;
}

int64_t BytesWithoutSaved(const Program& program) {
  const auto counts = [](BufferClass c) { return c != SAVED_ACTIVATION && c != WORKSPACE; };
  int64_t most = 0;
  for (const Template& t : program.templates()) {
    int64_t sum = 0;
    for (const auto& [c, bytes] : FullestMoment(t, counts)) sum += bytes;
    most = std::max(most, sum);
  }
  return most;
}

int64_t PlannedNodeBytes(const Program& program, const Cluster& cluster) { return FullestNode(program, cluster).bytes; }

absl::Status CheckMemoryFit(const Program& program, const Cluster& cluster) {
  const Tightest tightest = TightestDevice(program, cluster);
  const Template* fullest = tightest.of;
  const Device* device = tightest.device;
  if (fullest == nullptr || RoomOf(*fullest, *device) >= 0) return CheckHostFit(program, cluster);
  const int64_t capacity = device->memory_bytes();
  const int64_t reserve = device->reserved_bytes();
  std::vector<std::pair<int64_t, BufferClass>> classes;
  for (const auto& [c, bytes] : FullestMoment(*fullest, [](BufferClass) { return true; })) {
    classes.emplace_back(-bytes, c);
  }
  std::sort(classes.begin(), classes.end());
  std::vector<std::string> shares;
  for (const auto& [bytes, c] : classes) shares.push_back(absl::StrCat(ClassName(c), " ", BytesText(-bytes)));
  std::vector<int> order;
  for (int b = 0; b < fullest->buffers_size(); ++b) {
    if (fullest->buffers(b).place() == DEVICE) order.push_back(b);
  }
  const size_t shown = std::min<size_t>(3, order.size());
  std::partial_sort(order.begin(), order.begin() + shown, order.end(), [&](int a, int b) {
    return std::make_pair(-fullest->buffers(a).bytes(), a) < std::make_pair(-fullest->buffers(b).bytes(), b);
  });
  order.resize(shown);
  return absl::ResourceExhaustedError(absl::StrCat(
      "the plan does not fit ", device->name(), ": template ", fullest->name(), " needs ",
      BytesText(fullest->device_arena_bytes()), " (", fullest->device_arena_bytes(), " bytes) besides a reserve of ",
      BytesText(reserve), ", the device has ", BytesText(capacity), "; at the fullest moment: ",
      absl::StrJoin(shares, ", "), "; largest buffers: ", absl::StrJoin(order, ", ", [&](std::string* out, int b) {
        absl::StrAppend(out, fullest->buffers(b).name(), " ", BytesText(fullest->buffers(b).bytes()));
      })));
}

}  // namespace weft
