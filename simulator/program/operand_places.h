// Where the buffers of a template lie, to tell whether buffers of one action share bytes.
#ifndef WEFT_SIMULATOR_PROGRAM_OPERAND_PLACES_H_
#define WEFT_SIMULATOR_PROGRAM_OPERAND_PLACES_H_

#include <cstdint>
#include <vector>

#include "proto/program.pb.h"

namespace weft::sim {

// Returns the address of a buffer, comparable within one memory. Addresses in host memory are negative.
int64_t AddressOf(const Buffer& buffer);

// Places of one template's buffers; the template must outlive this object. A check takes about as long as the action
// has operands.
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
  // True for places of the action's operands.
  std::vector<char> is_operand_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_OPERAND_PLACES_H_
