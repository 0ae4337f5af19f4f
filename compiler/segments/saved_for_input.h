// Saved values that end with the input half of a backward. They lie in an operand of their own: its role is Saved, like
// that of all other saved values of the stage, and its `use` is kSavedForInput instead of 0.
#ifndef WEFT_COMPILER_SEGMENTS_SAVED_FOR_INPUT_H_
#define WEFT_COMPILER_SEGMENTS_SAVED_FOR_INPUT_H_

#include <cstdint>

#include "llvm/ADT/StringRef.h"

namespace weft {

// SegmentOperand.use of the operand.
inline constexpr int32_t kSavedForInput = 1;
// Name of the operand, and the first word of its buffers' names.
inline constexpr char kSavedForInputName[] = "saved_for_input";
// Attribute of a forward: the values' numbers (`use` of their roles). Set by weft-reuse-saved.
inline constexpr llvm::StringLiteral kSavedForInputAttr = "weft.saved_for_input";

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_SAVED_FOR_INPUT_H_
