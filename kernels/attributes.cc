#include "kernels/attributes.h"

namespace weft::kernels {
namespace {

using A = StepAttributes;

#define WEFT_GETTERS_Bool(field) [](const A& a) { return static_cast<int64_t>(a.field()); }, nullptr
#define WEFT_GETTERS_Int(field) [](const A& a) { return static_cast<int64_t>(a.field()); }, nullptr
#define WEFT_GETTERS_Double(field) nullptr, [](const A& a) { return static_cast<double>(a.field()); }
#define WEFT_GETTERS_Shift(field) nullptr, nullptr
#define WEFT_GETTERS_Names(field) nullptr, nullptr

}  // namespace

constexpr Attribute kAttributes[static_cast<int>(Symbol::kAttributes)] = {
#define ATTRIBUTE(kind, field, camel) \
  {#field, A::k##camel##FieldNumber, AttributeKind::k##kind, WEFT_GETTERS_##kind(field)},
#include "kernels/attributes.def"
#undef ATTRIBUTE
};

}  // namespace weft::kernels
