#include "compiler/rewrite/saved_split.h"

#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "proto/util/units.h"

namespace weft {
namespace {

constexpr int64_t kValueAlignment = 64;

bool IsFloating(DType dtype) { return dtype == FP32 || dtype == BF16 || dtype == FP16 || dtype == FP64; }

}  // namespace

LayerNames::LayerNames(const ModelGraph& model) {
  for (const GraphOp& op : model.ops()) layers_[op.name()] = op.layer();
}

int LayerNames::LayerOf(const std::string& step) const {
  for (size_t length = step.size(); length != std::string::npos; length = step.rfind('.', length - 1)) {
    const auto found = layers_.find(step.substr(0, length));
    if (found != layers_.end()) return found->second;
    if (length == 0) break;
  }
  return -1;
}

std::vector<SavedValue> LeavingValues(const Segment& forward, int saved, const LayerNames& names, int layers,
                                      bool pair) {
  std::set<int> all;
  std::map<int, int> maker;  // The layer that makes each value.
  for (const Step& step : forward.steps()) {
    const int layer = names.LayerOf(step.name());
    bool counts = layer >= 0 && !pair;
    for (int v : step.outputs()) {
      maker[v] = layer;
      counts = counts || (layer >= 0 && forward.values(v).operand() == saved);
    }
    if (counts) all.insert(layer);
  }
  std::map<int64_t, SavedValue> leaving;
  for (const auto& [v, layer] : maker) {
    const Value& value = forward.values(v);
    const auto found = all.find(layer);
    if (value.operand() != saved || found == all.end() || std::distance(all.begin(), found) >= layers) continue;
    if (!IsFloating(value.dtype())) continue;
    SavedValue& known = leaving[value.offset()];
    const int64_t elements = ElementCount(value.shape()).value_or(0);
    if (elements > known.elements) known = {value.offset(), value.dtype(), elements};
  }
  std::vector<SavedValue> list;
  for (const auto& [offset, value] : leaving) {
    // True for the second half of a tensor that is already in the list. Such halves exist because some steps make the
    // tensor for two microbatches at once, and others make each half.
    const bool within =
        !list.empty() && offset < list.back().offset + list.back().elements * DTypeBytes(list.back().dtype);
    if (!within) list.push_back(value);
  }
  return list;
}

const SavedSplit::Range* SavedSplit::Find(int64_t offset, int64_t* begin) const {
  auto next = gone.upper_bound(offset);
  if (next == gone.begin() || offset >= std::prev(next)->second.end) return nullptr;
  *begin = std::prev(next)->first;
  return &std::prev(next)->second;
}

bool SavedSplit::Goes(int64_t offset) const {
  int64_t begin = 0;
  return Find(offset, &begin) != nullptr;
}

int64_t SavedSplit::KeptOffset(int64_t offset) const {
  int64_t moved = 0;
  for (auto it = gone.begin(); it != gone.end() && it->first < offset; ++it) {
    const auto next = std::next(it);
    moved += (next == gone.end() ? gone_bytes : next->second.to) - it->second.to;
  }
  return offset - moved;
}

SavedSplit SplitOfSaved(const std::vector<SavedValue>& leaving) {
  SavedSplit split;
  for (const SavedValue& value : leaving) {
    const int64_t bytes = value.elements * DTypeBytes(value.dtype);
    split.gone[value.offset] = {value.offset + bytes, split.gone_bytes};
    Value* last = split.copies.empty() ? nullptr : &split.copies.back();
    if (last != nullptr && last->dtype() == value.dtype &&
        last->offset() + last->shape(0) * DTypeBytes(last->dtype()) == split.gone_bytes) {
      last->set_shape(0, last->shape(0) + value.elements);
    } else {
      Value& copy = split.copies.emplace_back();
      copy.set_name(absl::StrCat("saved from ", value.offset));
      copy.set_offset(split.gone_bytes);
      copy.set_dtype(value.dtype);
      copy.add_shape(value.elements);
    }
    split.gone_bytes += RoundUp(bytes, kValueAlignment);
  }
  return split;
}

}  // namespace weft
