// Lists which actions of an expanded template touch which buffers (rule P7 requires that these actions are ordered).
#ifndef WEFT_VERIFIER_ACCESSES_H_
#define WEFT_VERIFIER_ACCESSES_H_

#include <vector>

#include "absl/types/span.h"
#include "verifier/index.h"
#include "verifier/order.h"

namespace weft::verify {

// One action's use of one buffer.
struct BufferAccess {
  int instance = 0;
  bool write = false;
  bool reads = false;  // True if it reads bytes that it has not written before.
  // The operand of a compute action's segment; null for a transfer or collective, which touches all bytes.
  const OperandUse* use = nullptr;
};

// The accesses to each buffer of a template, in an order that agrees with happens-before.
class Accesses {
 public:
  Accesses(const Index& index, const TemplateIndex& t, const Order& order);

  absl::Span<const BufferAccess> AccessesOf(int buffer) const {
    return absl::MakeConstSpan(all_).subspan(begin_[buffer], begin_[buffer + 1] - begin_[buffer]);
  }

 private:
  void Sort(int buffer, const std::vector<int>& ranks);

  std::vector<BufferAccess> all_;  // Grouped by buffer.
  std::vector<int> begin_;         // First access of each buffer in all_, and the end.
};

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_ACCESSES_H_
