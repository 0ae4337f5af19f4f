#include "planner/fit/stage_parts.h"

#include <algorithm>
#include <utility>

#include "proto/util/mesh.h"

namespace weft::planner {
namespace {

bool IsOfMicrobatch(ActionKind kind) {
  return kind == FORWARD || kind == BACKWARD || kind == BACKWARD_INPUT || kind == BACKWARD_WEIGHT;
}

// Returns the place of an action in the order in which actions use a microbatch's buffers.
int OrderOf(ActionKind kind) {
  return kind == FORWARD ? 1 : kind == BACKWARD_WEIGHT ? 3 : kind == ACTION_UNSPECIFIED ? 0 : 2;
}

class PartsReader {
 public:
  explicit PartsReader(const Template& t) : template_(t), value_of_(t.buffers_size(), -1) { parts_.of = &t; }

  absl::StatusOr<StageParts> Read() {
    for (const Action& action : template_.body()) {
      if (action.skip() != 0) return absl::UnimplementedError("an edge skips stages");
      if (action.kind() == RECV) {
        StageValue& value = parts_.values[ValueOf(action.destinations(0), {RECV, action.direction()})];
        value.received = action.direction();
        value.of_forward = action.direction() == TOWARDS_LOSS;
      } else if (action.kind() == SEND) {
        parts_.values[value_of_[action.sources(0)]].sent = action.direction();
      } else if (IsOfMicrobatch(action.kind())) {
        Compute(action);
      } else {
        parts_.end.push_back(&action);
      }
    }
    FindUpdate();
    return std::move(parts_);
  }

 private:
  // The values of both microbatches have the same key: the kind of the first action that uses them, and the number of
  // its operand.
  using Key = std::pair<ActionKind, int>;

  int ValueOf(int32_t buffer, Key key) {
    if (value_of_[buffer] >= 0) return value_of_[buffer];
    const auto [found, is_new] = values_.try_emplace(key, static_cast<int>(parts_.values.size()));
    if (is_new) parts_.values.push_back({.buffer = buffer, .of_forward = key.first == FORWARD});
    return value_of_[buffer] = found->second;
  }

  void Compute(const Action& action) {
    StageAction& made = parts_.actions[action.kind()];
    const bool first = made.operands.empty();
    if (first) made.segment = action.segment();
    for (int k = 0; k < action.operands_size(); ++k) {
      const int32_t buffer = action.operands(k);
      if (template_.buffers(buffer).persistent()) {
        if (first) made.operands.push_back(-1 - buffer);
        continue;
      }
      const int index = ValueOf(buffer, {action.kind(), k});
      if (first) made.operands.push_back(index);
      StageValue& value = parts_.values[index];
      const auto use = [&](ActionKind* last) {
        if (OrderOf(action.kind()) > OrderOf(*last)) *last = action.kind();
      };
      if (action.kind() == FORWARD || action.kind() == BACKWARD) use(&value.last_if_whole);
      if (action.kind() != BACKWARD) use(&value.last_if_split);
    }
  }

  void FindUpdate() {
    const auto updates = [](const Action* action) {
      return action->kind() == OPTIMIZER_STEP || action->kind() == FETCH || action->kind() == OFFLOAD;
    };
    const auto first = std::find_if(parts_.end.begin(), parts_.end.end(), updates);
    const auto last = std::find_if(parts_.end.rbegin(), parts_.end.rend(), updates).base();
    parts_.update_begin = first - parts_.end.begin();
    parts_.update_end = std::max(first, last) - parts_.end.begin();
  }

  const Template& template_;
  StageParts parts_;
  std::map<Key, int> values_;
  // By buffer; -1 = no value so far.
  std::vector<int> value_of_;
};

}  // namespace

int StageParts::ValueSent(Direction direction) const {
  const auto found =
      std::find_if(values.begin(), values.end(), [&](const StageValue& value) { return value.sent == direction; });
  return found == values.end() ? -1 : static_cast<int>(found - values.begin());
}

absl::StatusOr<std::vector<StageParts>> PartsOfForms(const Program& forms) {
  std::vector<StageParts> parts(AxisSize(forms.mesh(), "pipe"));
  for (const Template& t : forms.templates()) {
    int64_t rank = 0;
    for (const Coordinate& pin : t.pins()) {
      if (pin.axis() == "pipe") rank = pin.index();
    }
    absl::StatusOr<StageParts> read = PartsReader(t).Read();
    if (!read.ok()) return read.status();
    parts[rank] = *std::move(read);
  }
  return parts;
}

}  // namespace weft::planner
