#include <random>
#include <vector>

#include "google/protobuf/unknown_field_set.h"
#include "tests/random_program.h"

namespace weft {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

struct FieldRef {
  Message* message = nullptr;
  const FieldDescriptor* field = nullptr;
};

// Collects all set fields at any depth.
void Gather(Message* message, std::vector<FieldRef>* places) {
  const Reflection& reflection = *message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    places->push_back({message, field});
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      Gather(reflection.MutableMessage(message, field), places);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(*message, field); ++i) {
      Gather(reflection.MutableRepeatedMessage(message, field, i), places);
    }
  }
}

int64_t Twist(int64_t value, std::mt19937_64& random) {
  switch (random() % 8) {
    case 0:
    case 1:
      return value + 1;
    case 2:
    case 3:
      return value - 1;
    case 4:
      return 0;
    case 5:
      return static_cast<int64_t>(random() % 1000);
    case 6:
      return static_cast<int64_t>(static_cast<uint64_t>(value) * 2);
    default:
      return static_cast<int64_t>(random());
  }
}

// Sets element i (the field itself if i < 0) to a similar value.
void MutateScalar(const FieldRef& p, int i, std::mt19937_64& random) {
  const Reflection& r = *p.message->GetReflection();
  switch (p.field->cpp_type()) {
#define WEFT_TWIST(KIND, Name, Type)                                                                       \
  case FieldDescriptor::CPPTYPE_##KIND:                                                                    \
    if (i < 0) {                                                                                           \
      r.Set##Name(p.message, p.field, static_cast<Type>(Twist(r.Get##Name(*p.message, p.field), random))); \
    } else {                                                                                               \
      r.SetRepeated##Name(p.message, p.field, i,                                                           \
                          static_cast<Type>(Twist(r.GetRepeated##Name(*p.message, p.field, i), random)));  \
    }                                                                                                      \
    break;
    WEFT_TWIST(INT32, Int32, int32_t)
    WEFT_TWIST(INT64, Int64, int64_t)
    WEFT_TWIST(UINT32, UInt32, uint32_t)
    WEFT_TWIST(UINT64, UInt64, uint64_t)
#undef WEFT_TWIST
    case FieldDescriptor::CPPTYPE_ENUM:
      // Repeated enums do not occur.
      r.SetEnumValue(p.message, p.field, static_cast<int>(random() % (p.field->enum_type()->value_count() + 1)));
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      r.SetBool(p.message, p.field, !r.GetBool(*p.message, p.field));
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      constexpr double kValues[] = {0, -1, 0.5, 1e30, 1e-30, 2};
      r.SetDouble(p.message, p.field, kValues[random() % 6]);
      break;
    }
    case FieldDescriptor::CPPTYPE_STRING:
      if (i < 0) r.SetString(p.message, p.field, random() % 2 == 0 ? "" : "other");
      break;
    default:
      break;
  }
}

}  // namespace

void Mutate(Program* program, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<FieldRef> places;
  Gather(program, &places);
  if (places.empty()) return;
  if (random() % 64 == 0) {
    Message* message = places[random() % places.size()].message;
    message->GetReflection()->MutableUnknownFields(message)->AddVarint(1000, 1);
    return;
  }
  if (random() % 16 == 0) {
    // Change a number or switch that may be unset.
    Message* message = places[random() % places.size()].message;
    const auto& type = *message->GetDescriptor();
    const FieldDescriptor* field = type.field(static_cast<int>(random() % type.field_count()));
    if (!field->is_repeated()) MutateScalar({message, field}, -1, random);
    return;
  }
  const FieldRef& p = places[random() % places.size()];
  const Reflection& r = *p.message->GetReflection();
  const bool is_message = p.field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (!p.field->is_repeated()) {
    if (is_message || random() % 8 == 0) {
      r.ClearField(p.message, p.field);
    } else {
      MutateScalar(p, -1, random);
    }
    return;
  }
  const int size = r.FieldSize(*p.message, p.field);
  const int i = static_cast<int>(random() % size);
  switch (random() % 4) {
    case 0:
      r.SwapElements(p.message, p.field, i, size - 1);
      r.RemoveLast(p.message, p.field);
      break;
    case 1:
      r.SwapElements(p.message, p.field, i, static_cast<int>(random() % size));
      break;
    case 2:
      if (is_message) {
        Message* copy = r.AddMessage(p.message, p.field);
        copy->CopyFrom(r.GetRepeatedMessage(*p.message, p.field, i));
      } else if (p.field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
        r.AddInt32(p.message, p.field, r.GetRepeatedInt32(*p.message, p.field, i));
      } else if (p.field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
        r.AddInt64(p.message, p.field, r.GetRepeatedInt64(*p.message, p.field, i));
      }
      break;
    default:
      if (!is_message) {
        MutateScalar(p, i, random);
      } else {
        r.SwapElements(p.message, p.field, i, static_cast<int>(random() % size));
      }
      break;
  }
}

}  // namespace weft
