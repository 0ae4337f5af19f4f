// Where the buffers of a template lie in memory, to find out whether buffers of one action share bytes.
#ifndef WEFT_SIMULATOR_PROGRAM_OPERAND_PLACES_H_
#define WEFT_SIMULATOR_PROGRAM_OPERAND_PLACES_H_

#include <cstdint>
#include <vector>

#include "proto/program.pb.h"

namespace weft::sim {

// Returns the address of a buffer. Addresses in the same memory can be compared. Addresses in host memory are negative.
int64_t AddressOf(const Buffer& buffer);

// Places of one template's buffers; the template must outlive this object. The time of a check grows with the number of
// the action's operands.
class OperandPlaces {
 public:
  explicit OperandPlaces(const Template& t) : template_(t) {}

  // True if no two operands of the action share bytes and none of them is empty.
  bool AreApart(const Action& action);

 private:
  void SortBuffers();

  const Template& template_;
  // Buffers in order of memory and address, and the place of each buffer in that order; empty until first needed.
  std::vector<int32_t> by_address_, place_of_;
  // By place: true if the buffer there is an operand of the action that is being checked.
  std::vector<char> is_operand_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_OPERAND_PLACES_H_
