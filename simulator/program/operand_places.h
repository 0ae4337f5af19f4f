// Where the buffers of a template lie, to see whether those of one action share bytes.
#ifndef WEFT_SIMULATOR_PROGRAM_OPERAND_PLACES_H_
#define WEFT_SIMULATOR_PROGRAM_OPERAND_PLACES_H_

#include <cstdint>
#include <vector>

#include "proto/program.pb.h"

namespace weft::sim {

// Of a buffer, by which those in one memory compare; host memory has negative ones.
int64_t AddressOf(const Buffer& buffer);

// Of one template, which must outlive it. To look at an action takes about as long as it has operands.
class OperandPlaces {
 public:
  explicit OperandPlaces(const Template& t) : template_(t) {}

  // Whether no two operands of the action meet, nor one begins where another is empty.
  bool AreApart(const Action& action);

 private:
  void SortBuffers();

  const Template& template_;
  // Buffers by memory and address, and the place of each in that; empty until they are asked for.
  std::vector<int32_t> by_address_, place_of_;
  // Which places are those of the action's operands.
  std::vector<char> is_operand_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_PROGRAM_OPERAND_PLACES_H_
