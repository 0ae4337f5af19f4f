// Checks the messages of actions (send, receive, sum, gather): buffers, peers, groups and algorithms (P4, P8, P10).
#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "proto/util/groups.h"
#include "proto/util/suggest.h"
#include "proto/util/units.h"
#include "verifier/actions.h"

namespace weft::verify {
namespace {

bool IsMessage(DType dtype) { return dtype != INT32 && dtype != UINT8; }

}  // namespace

bool ActionMessages::Pinned(const std::string& axis) const {
  return std::any_of(t_.pins().begin(), t_.pins().end(), [&](const Coordinate& pin) { return pin.axis() == axis; });
}

// Checks that the buffer of a message exists and is a tensor.
bool ActionMessages::MessageOk(const Action& action, const char* field, int b) {
  if (!BufferOk(action, field, b)) return false;
  if (t_.buffers(b).dtype() != DTYPE_UNSPECIFIED) return true;
  Bad("P4.dtype", action, field, " names ", DescribeBuffer(t_, b), ", which has no dtype");
  return false;
}

void ActionMessages::CheckTransfer(const Action& action) {
  const bool send = action.kind() == SEND;
  const auto& buffers = send ? action.sources() : action.destinations();
  if (buffers.size() != 1) {
    Bad("P4.buffers", action, "must name one buffer, but names ", buffers.size());
  } else if (MessageOk(action, send ? "sources" : "destinations", buffers.Get(0)) &&
             !IsMessage(t_.buffers(buffers.Get(0)).dtype())) {
    Bad("P4.dtype", action, "moves ", DescribeBuffer(t_, buffers.Get(0)), " of ",
        DTypeName(t_.buffers(buffers.Get(0)).dtype()), "; messages must be floating point");
  }
  if (action.direction() == DIRECTION_UNSPECIFIED) Bad("P4.direction", action, "has no direction");
  absl::flat_hash_set<std::string> seen;
  bool differs = false;
  for (const Coordinate& at : action.peer().at()) {
    const int axis = Axis(at.axis());
    if (axis < 0 || at.index() < 0 || at.index() >= program_.mesh().axes(axis).size()) {
      Bad("P8.peer", action, "peer ", at.axis(), "=", at.index(), axis < 0 ? ": no such axis" : ": beyond the axis");
      return;
    }
    if (!seen.insert(at.axis()).second) Bad("P8.peer", action, "peer names axis ", at.axis(), " twice");
    if (!Pinned(at.axis())) {
      Bad("P8.peer", action, "peer names axis ", at.axis(), ", which the template does not pin");
    }
    for (const Coordinate& pin : t_.pins()) differs = differs || (pin.axis() == at.axis() && pin.index() != at.index());
  }
  if (!differs) Bad("P8.peer", action, "names its own rank as the peer");
}

void ActionMessages::CheckCollective(const Action& action) {
  if (action.sources_size() == 0 || action.sources_size() != action.destinations_size()) {
    Bad("P4.buffers", action, "has ", action.sources_size(), " sources and ", action.destinations_size(),
        " destinations; it needs the same number of both, at least one");
    return;
  }
  if (action.purpose() == PURPOSE_UNSPECIFIED) Bad("P4.collective", action, "has no purpose");
  const std::vector<std::string>& known = options_.algorithms;
  if (action.algorithm().empty()) {
    Bad("P10.algorithm", action, "names no algorithm");
  } else if (!known.empty() && std::find(known.begin(), known.end(), action.algorithm()) == known.end()) {
    Bad("P10.algorithm", action, "algorithm ", Quoted(action.algorithm()), " is unknown",
        NameHelp(action.algorithm(), known));
  }
  absl::flat_hash_map<int, int> role;  // Buffer -> index of the (source, destination) pair that uses it.
  for (int i = 0; i < action.sources_size(); ++i) {
    const int s = action.sources(i), d = action.destinations(i);
    if (!MessageOk(action, "sources", s) || !MessageOk(action, "destinations", d)) continue;
    const Buffer &a = t_.buffers(s), &b = t_.buffers(d);
    const bool sums = action.kind() != ALL_GATHER;
    if (!IsMessage(a.dtype())) {
      Bad("P4.dtype", action, sums ? "sums " : "gathers ", DescribeBuffer(t_, s), " of ", DTypeName(a.dtype()),
          sums ? "; sums must be of fp64, fp32, bf16, fp16 or exact192" : "; messages must be floating point");
    }
    const int64_t size = GroupFault(program_.mesh(), action.group()).empty() ? GroupSize(program_, action.group()) : 1;
    const int64_t gathers = action.kind() == ALL_GATHER ? size : 1,
                  scatters = action.kind() == REDUCE_SCATTER ? size : 1;
    // Divides, because a product could overflow: arenas have up to 2^50 bytes and meshes up to 2^20 ranks.
    const bool fits =
        b.bytes() / gathers == a.bytes() / scatters && b.bytes() % gathers == 0 && a.bytes() % scatters == 0;
    if (a.dtype() != b.dtype() || !fits) {
      Bad("P4.shape", action, DescribeBuffer(t_, s), " of ", a.bytes(), " bytes is ",
          gathers > 1 ? "gathered" : "summed", " into ", DescribeBuffer(t_, d), " of ", b.bytes(),
          action.kind() == ALL_REDUCE ? " bytes, of another dtype or size"
                                      : absl::StrCat(" bytes by ", size, " members, of another dtype or size"));
    }
    if (s == d && action.kind() != ALL_REDUCE) {
      Bad("P4.buffers", action, DescribeBuffer(t_, s),
          " is source and destination; only an ALL_REDUCE can be in place");
    }
    for (int x : {s, d}) {
      const auto [it, fresh] = role.emplace(x, i);
      if (!fresh && it->second != i) Bad("P4.buffers", action, DescribeBuffer(t_, x), " appears twice");
    }
  }
  CheckGroup(action, "", action.group());
}

}  // namespace weft::verify
