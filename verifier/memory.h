// Checks rule P7 on one template: data races, use before definition, lifetimes, reuse of bytes.
#ifndef WEFT_VERIFIER_MEMORY_H_
#define WEFT_VERIFIER_MEMORY_H_

#include "verifier/index.h"

namespace weft::verify {

void CheckMemory(const Index& index, const TemplateIndex& t, Findings* findings);

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_MEMORY_H_
