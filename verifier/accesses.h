// Which actions of an expanded template touch which buffers (rule P7 asks whether those that do are ordered).
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
  bool reads = false;  // Bytes that it did not write itself.
  // Of an operand of a compute action's segment; null = all bytes, by a transfer or collective.
  const OperandUse* use = nullptr;
};

// Of each buffer of a template, in an order that agrees with happens-before wherever that orders them.
class Accesses {
 public:
  Accesses(const Index& index, const TemplateIndex& t, const Order& order);

  absl::Span<const BufferAccess> Of(int buffer) const {
    return absl::MakeConstSpan(all_).subspan(begin_[buffer], begin_[buffer + 1] - begin_[buffer]);
  }

 private:
  void Sort(int buffer, const std::vector<int>& ranks);

  std::vector<BufferAccess> all_;  // Buffer by buffer.
  std::vector<int> begin_;         // Of each buffer, and the end.
};

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_ACCESSES_H_
