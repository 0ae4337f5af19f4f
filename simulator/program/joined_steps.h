// Which steps of the actions of a template run together on a device that joins steps to launches
// (proto/util/step_runs.h).
#ifndef WEFT_SIMULATOR_PROGRAM_JOINED_STEPS_H_
#define WEFT_SIMULATOR_PROGRAM_JOINED_STEPS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "proto/util/step_runs.h"
#include "simulator/program/operand_places.h"

namespace weft::sim {

// Program and template must outlive it. Actions alike have one list.
class JoinedSteps {
 public:
  // Where the device does not join steps, no action has a list.
  JoinedSteps(const Program& program, const Template& t, bool joins)
      : program_(program), template_(t), joins_(joins), places_(t) {}

  // The number of a compute action's list; -1 = nothing of it is joined.
  int32_t IndexOf(const Action& action);
  const std::vector<StepRange>* List(int32_t index) const { return lists_[index].get(); }
  // All of them, by number; they live on where they are.
  std::vector<std::shared_ptr<const std::vector<StepRange>>> TakeLists() { return std::move(lists_); }

 private:
  const Program& program_;
  const Template& template_;
  const bool joins_;
  OperandPlaces places_;
  std::vector<std::shared_ptr<const std::vector<StepRange>>> lists_;
  std::map<std::vector<StepRange>, int32_t> index_of_list_;
  // By segment, whether it updates, and the operands' places where these share bytes.
  absl::flat_hash_map<std::vector<int64_t>, int32_t> index_of_key_;
};

// Where `program` has steps that would be one launch, and `device` may be a GPU but states no compute capability, which
// is to be at least `from`: that none are. Empty otherwise, and where a launch takes no time.
std::string NoteOnLaunches(const Program& program, const Device& device, int from);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_JOINED_STEPS_H_
