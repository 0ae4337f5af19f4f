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
    if (!buffer.persistent()) continue;
    live[buffer.class_()] += buffer.bytes();
    sum += buffer.bytes();
  }
  std::map<BufferClass, int64_t> fullest = live;
  int64_t most = sum;
  std::vector<bool> is_live(t.buffers_size(), false);
  auto begin = [&](int b) {
    if (t.buffers(b).persistent() || is_live[b]) return;
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
      live[t.buffers(b).class_()] -= t.buffers(b).bytes();
      sum -= t.buffers(b).bytes();
    }
  }
  return fullest;
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
    return absl::OkStatus();
  }
  std::vector<std::pair<int64_t, BufferClass>> classes;
  for (const auto& [c, bytes] : FullestMoment(*fullest)) classes.emplace_back(-bytes, c);
  std::sort(classes.begin(), classes.end());
  std::vector<std::string> shares;
  for (const auto& [bytes, c] : classes) shares.push_back(absl::StrCat(ClassName(c), " ", Gib(-bytes)));
  std::vector<int> order(fullest->buffers_size());
  for (int b = 0; b < fullest->buffers_size(); ++b) order[b] = b;
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
