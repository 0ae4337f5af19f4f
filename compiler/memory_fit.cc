#include "compiler/memory_fit.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "proto/mesh.h"

namespace weft {
namespace {

std::string Gib(int64_t bytes) { return absl::StrFormat("%.2f GiB", static_cast<double>(bytes) / (int64_t{1} << 30)); }

std::string ClassName(BufferClass c) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(BufferClass_Name(c)), {{"_", " "}});
}

// Live bytes per class at the fullest moment in list order.
std::map<BufferClass, int64_t> FullestMoment(const Template& t) {
  std::map<BufferClass, int64_t> live;
  int64_t sum = 0;
  for (const Buffer& buffer : t.buffers()) {
    if (!buffer.persistent() || buffer.place() != DEVICE) continue;
    live[buffer.class_()] += buffer.bytes();
    sum += buffer.bytes();
  }
  std::map<BufferClass, int64_t> fullest = live;
  int64_t most = sum;
  std::vector<bool> is_live(t.buffers_size(), false);
  auto begin = [&](int b) {
    if (t.buffers(b).persistent() || t.buffers(b).place() != DEVICE || is_live[b]) return;
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
      if (t.buffers(b).place() != DEVICE) continue;
      live[t.buffers(b).class_()] -= t.buffers(b).bytes();
      sum -= t.buffers(b).bytes();
    }
  }
  return fullest;
}

// The host arenas of a node's ranks together; a cluster that does not state its memory has enough.
absl::Status CheckHostFit(const Program& program, const Cluster& cluster) {
  const bool any = std::any_of(program.templates().begin(), program.templates().end(),
                               [](const Template& t) { return t.host_arena_bytes() > 0; });
  if (cluster.host_memory_bytes() <= 0 || !any) return absl::OkStatus();
  const int64_t ranks = MeshRanks(program.mesh()), devices = std::max<int64_t>(1, cluster.devices_per_node());
  double node_bytes = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    if (rank % devices == 0) node_bytes = 0;
    const int t = TemplateOfRank(program, rank);
    if (t >= 0) node_bytes += static_cast<double>(program.templates(t).host_arena_bytes());
    if (node_bytes <= static_cast<double>(cluster.host_memory_bytes())) continue;
    const int64_t first = rank / devices * devices, here = std::min(devices, ranks - first);
    double needed = 0;
    for (int64_t r = first; r < first + here; ++r) {
      const int index = TemplateOfRank(program, r);
      if (index >= 0) needed += static_cast<double>(program.templates(index).host_arena_bytes());
    }
    return absl::ResourceExhaustedError(absl::StrFormat(
        "the plan does not fit the host memory of cluster '%s': what plan.offload keeps there for the %d ranks of node "
        "%d takes %.2f GiB, cluster.host_memory_bytes is %d (%s); use fewer ranks per node, more pipeline ranks or "
        "plan.zero, or leave plan.offload out",
        cluster.name(), here, first / devices, needed / (int64_t{1} << 30), cluster.host_memory_bytes(),
        Gib(cluster.host_memory_bytes())));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckMemoryFit(const Program& program, const Cluster& cluster) {
  const int64_t capacity = cluster.device().memory_bytes();
  const int64_t reserve = cluster.device().reserved_bytes();
  const Template* fullest = nullptr;
  for (const Program* p : {&program, &program.evaluation()}) {
    for (const Template& t : p->templates()) {
      if (fullest == nullptr || t.device_arena_bytes() > fullest->device_arena_bytes()) fullest = &t;
    }
  }
  if (fullest == nullptr || capacity <= 0 || fullest->device_arena_bytes() <= capacity - reserve) {
    return CheckHostFit(program, cluster);
  }
  std::vector<std::pair<int64_t, BufferClass>> classes;
  for (const auto& [c, bytes] : FullestMoment(*fullest)) classes.emplace_back(-bytes, c);
  std::sort(classes.begin(), classes.end());
  std::vector<std::string> shares;
  for (const auto& [bytes, c] : classes) shares.push_back(absl::StrCat(ClassName(c), " ", Gib(-bytes)));
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
      "the plan does not fit ", cluster.device().name(), ": template ", fullest->name(), " needs ",
      Gib(fullest->device_arena_bytes()), " (", fullest->device_arena_bytes(), " bytes) besides a reserve of ",
      Gib(reserve), ", the device has ", Gib(capacity), "; at the fullest moment: ", absl::StrJoin(shares, ", "),
      "; largest buffers: ", absl::StrJoin(order, ", ", [&](std::string* out, int b) {
        absl::StrAppend(out, fullest->buffers(b).name(), " ", Gib(fullest->buffers(b).bytes()));
      })));
}

}  // namespace weft
