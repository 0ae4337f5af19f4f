// Rule P7 on one template: data races, use before definition, lifetimes, reuse of bytes.
#ifndef WEFT_PROTO_VERIFY_MEMORY_H_
#define WEFT_PROTO_VERIFY_MEMORY_H_

#include "proto/verify/index.h"

namespace weft::verify {

void CheckMemory(const Index& index, const TemplateIndex& t, Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_PROTO_VERIFY_MEMORY_H_
