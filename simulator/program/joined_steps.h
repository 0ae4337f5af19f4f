// Finds which steps of a template's actions run together, on a device that joins several steps into one launch
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

// The lists of joined steps of a template's actions. Actions that are alike share one list. Program and template must
// outlive this object.
class JoinedSteps {
 public:
  // If `joins` is false, the device does not join steps, and no action has a list.
  JoinedSteps(const Program& program, const Template& t, bool joins)
      : program_(program), template_(t), joins_(joins), places_(t) {}

  // Returns the number of the list of joined steps of a compute action; -1 = none of its steps are joined.
  int32_t IndexOf(const Action& action);
  const std::vector<StepRange>* List(int32_t index) const { return lists_[index].get(); }
  // Returns all lists by number. The lists are not copied, so pointers to them stay valid.
  std::vector<std::shared_ptr<const std::vector<StepRange>>> TakeLists() { return std::move(lists_); }

 private:
  const Program& program_;
  const Template& template_;
  const bool joins_;
  OperandPlaces places_;
  std::vector<std::shared_ptr<const std::vector<StepRange>>> lists_;
  std::map<std::vector<StepRange>, int32_t> index_of_list_;
  // Number of the list by segment, whether the action runs updates, and addresses of the operands if they share bytes.
  absl::flat_hash_map<std::vector<int64_t>, int32_t> index_of_key_;
};

// Returns a note that no steps are joined, if all of this holds: `program` has steps that would be one launch, `device`
// may be a GPU but states no compute capability (which must be at least `from`), and a launch takes time. Else "".
std::string NoteOnLaunches(const Program& program, const Device& device, int from);

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_JOINED_STEPS_H_
