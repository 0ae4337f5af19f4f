// Rule P7 on one template: data races, use before definition, lifetimes, reuse of bytes.
#ifndef WEFT_PROTO_VERIFY_MEMORY_H_
#define WEFT_PROTO_VERIFY_MEMORY_H_

#include <vector>

#include "proto/verify/index.h"
#include "proto/verify/order.h"

namespace weft::verify {

// One action's use of one buffer.
struct BufferAccess {
  int instance = 0;
  bool write = false;
  // Compute: which operand of its segment; -1 = all bytes, by a transfer or collective.
  int operand = -1;
  const OperandUse* use = nullptr;
  bool reads = false;  // Bytes that it did not write itself.
};

// accesses[buffer] in an order that agrees with happens-before wherever that orders them.
std::vector<std::vector<BufferAccess>> CollectAccesses(const Index& index, const TemplateIndex& t, const Order& order);

void CheckMemory(const Index& index, const TemplateIndex& t, Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_PROTO_VERIFY_MEMORY_H_
