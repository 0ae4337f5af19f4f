#include "simulator/program/joined_steps.h"

#include "absl/strings/str_cat.h"
#include "proto/util/suggest.h"
#include "simulator/program/view_actions.h"

namespace weft::sim {
namespace {

bool JoinsAny(const Program& program) {
  for (const Template& t : program.templates()) {
    JoinedSteps joined(program, t, true);
    for (const Action& action : t.body()) {
      if (IsCompute(action.kind()) && joined.IndexOf(action) >= 0) return true;
    }
  }
  return false;
}

}  // namespace

int32_t JoinedSteps::IndexOf(const Action& action) {
  if (!joins_) return -1;
  // The list depends on the segment, on whether the action runs updates, and on which operands share bytes (mostly
  // none).
  std::vector<int64_t> key = {action.segment(), RunsUpdates(action.kind())};
  if (!places_.AreApart(action)) {
    for (const int b : action.operands()) key.push_back(AddressOf(template_.buffers(b)));
  }
  const auto [of_key, fresh] = index_of_key_.try_emplace(std::move(key), -1);
  if (!fresh) return of_key->second;
  std::vector<StepRange> ranges = FindStepRuns(action.kind(), PlacedStepsOf(program_, template_, action));
  if (ranges.empty()) return -1;
  const auto [found, is_new] = index_of_list_.try_emplace(ranges, static_cast<int32_t>(lists_.size()));
  if (is_new) lists_.push_back(std::make_shared<const std::vector<StepRange>>(std::move(ranges)));
  return of_key->second = found->second;
}

std::string NoteOnLaunches(const Program& program, const Device& device, int from) {
  // Devices with measured rates but no multiprocessors are CPU cores, which have no compute capability.
  const bool cores = device.kernel_rates_size() > 0 && device.tiles().multiprocessors() == 0;
  if (from == 0 || cores || device.compute_capability() > 0 || device.launch_seconds() <= 0) return "";
  if (!JoinsAny(program)) return "";
  return absl::StrCat(
      Quoted(device.name()),
      " states no device.compute_capability, so weft counts one launch per step; from compute capability ", from,
      " on, one launch updates or takes the norms of many tensors");
}

}  // namespace weft::sim
