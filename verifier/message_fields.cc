// Rule P13 on the message itself: it must not contain a field or enum value that this version does not know, or a
// number that is not finite. The check uses reflection, so that it covers a new field of a proto at once. For the most
// frequent message types, a direct check comes first, which takes a tenth of the time; reflection runs only if that
// check fails.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/unknown_field_set.h"
#include "verifier/index.h"

namespace weft::verify {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kMaxDepth = 16;

// ---- Direct checks of the most frequent message types. IsClean is true if the message and all messages inside it have
// no unknown field, no unknown enum value and only finite numbers. message_fields_test.cc puts each of these faults
// into every message.

template <typename T>
bool Knows(const T& message) {
  static const google::protobuf::Reflection* const reflection = T::default_instance().GetReflection();
  return reflection->GetUnknownFields(message).empty();
}

template <typename Messages>
bool KnowsAll(const Messages& messages) {
  return std::all_of(messages.begin(), messages.end(), [](const auto& message) { return Knows(message); });
}

bool IsClean(const Value& value) { return Knows(value) && DType_IsValid(value.dtype()); }

bool IsClean(const Operand& operand) { return Knows(operand) && Access_IsValid(operand.access()); }

bool IsClean(const Shift& shift) { return Knows(shift) && KnowsAll(shift.terms()); }

bool IsClean(const StepAttributes& a) {
#define WEFT_IS_CLEAN_Bool(field) true
#define WEFT_IS_CLEAN_Int(field) true
#define WEFT_IS_CLEAN_Double(field) std::isfinite(a.field())
#define WEFT_IS_CLEAN_Shift(field) (!a.has_##field() || IsClean(a.field()))
#define WEFT_IS_CLEAN_Names(field) true
#define ATTRIBUTE(kind, field, camel) &&WEFT_IS_CLEAN_##kind(field)
  return Knows(a)
#include "kernels/attributes.def"
      ;
#undef ATTRIBUTE
}

bool IsClean(const Group& group) { return Knows(group) && KnowsAll(group.axes()); }

bool IsClean(const Collective& collective) {
  return Knows(collective) && Purpose_IsValid(collective.purpose()) &&
         (!collective.has_group() || IsClean(collective.group()));
}

bool IsClean(const Step& step) {
  return Knows(step) && Kernel_IsValid(step.kernel()) && StreamKind_IsValid(step.stream()) &&
         (!step.has_attributes() || IsClean(step.attributes())) &&
         (!step.has_work() || (Knows(step.work()) && DType_IsValid(step.work().dtype()))) &&
         (!step.has_collective() || IsClean(step.collective()));
}

bool IsClean(const Shard& shard) { return Knows(shard) && KnowsAll(shard.dimensions()) && KnowsAll(shard.ranges()); }

bool IsClean(const Buffer& buffer) {
  return Knows(buffer) && BufferClass_IsValid(buffer.class_()) && DType_IsValid(buffer.dtype()) &&
         Place_IsValid(buffer.place()) && BufferRole_IsValid(buffer.role()) &&
         (!buffer.has_shard() || IsClean(buffer.shard()));
}

bool IsClean(const Action& action) {
  return Knows(action) && ActionKind_IsValid(action.kind()) && Direction_IsValid(action.direction()) &&
         Purpose_IsValid(action.purpose()) && KnowsAll(action.deps()) &&
         (!action.has_backward() || Knows(action.backward())) &&
         (!action.has_peer() || (Knows(action.peer()) && KnowsAll(action.peer().at()))) &&
         (!action.has_group() || IsClean(action.group()));
}

template <typename Messages>
bool AreClean(const Messages& messages) {
  return std::all_of(messages.begin(), messages.end(), [](const auto& message) { return IsClean(message); });
}

bool IsClean(const Segment& segment) {
  return Knows(segment) && AreClean(segment.operands()) && AreClean(segment.values()) && AreClean(segment.steps());
}

bool IsClean(const Template& t) {
  return Knows(t) && KnowsAll(t.pins()) && AreClean(t.buffers()) && AreClean(t.prologue()) && AreClean(t.body()) &&
         AreClean(t.epilogue());
}

template <typename T>
bool IsCleanAs(const Message& message) {
  return IsClean(static_cast<const T&>(message));
}

// Returns the direct check of a message type, null if there is none.
using IsCleanFn = bool (*)(const Message& message);
IsCleanFn IsCleanOf(const google::protobuf::Descriptor& type) {
  if (&type == Segment::descriptor()) return IsCleanAs<Segment>;
  if (&type == Template::descriptor()) return IsCleanAs<Template>;
  if (&type == Value::descriptor()) return IsCleanAs<Value>;
  if (&type == Operand::descriptor()) return IsCleanAs<Operand>;
  if (&type == Step::descriptor()) return IsCleanAs<Step>;
  if (&type == Buffer::descriptor()) return IsCleanAs<Buffer>;
  if (&type == Action::descriptor()) return IsCleanAs<Action>;
  return nullptr;
}

// ---- All messages.

// The fields of a message type that need a check, by number.
struct CheckedType {
  struct Field {
    const FieldDescriptor* field = nullptr;
    // Type of the field if it is a message, else null.
    const CheckedType* type = nullptr;
  };
  std::vector<Field> fields;
  // The direct check of the type; null if there is none.
  IsCleanFn is_clean = nullptr;
};

// The position of a message. It becomes text only for a finding.
struct Place {
  const Place* outer = nullptr;
  const FieldDescriptor* field = nullptr;
  int index = 0;

  // Empty for the program itself.
  std::string Path() const {
    if (field == nullptr) return "";
    const std::string before = outer->Path();
    return absl::StrCat(before, before.empty() ? "" : ".", field->name(),
                        field->is_repeated() ? absl::StrCat("[", index, "]") : "");
  }
  // The prefix of a finding.
  std::string Where() const { return field == nullptr ? "" : absl::StrCat(Path(), ": "); }
};

class Walker {
 public:
  explicit Walker(Findings* findings) : findings_(findings) {}

  void Check(const Message& message) { Walk(message, *TypeOf(*message.GetDescriptor()), {}, 0); }

 private:
  const CheckedType* TypeOf(const Descriptor& descriptor) {
    const auto [found, is_new] = types_.try_emplace(&descriptor);
    CheckedType& type = found->second;
    if (is_new) type.is_clean = IsCleanOf(descriptor);
    for (int i = 0; is_new && i < descriptor.field_count(); ++i) {
      const FieldDescriptor* field = descriptor.field(i);
      const bool message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
      // The nested evaluation is checked separately, as a program of its own.
      if (message && field->message_type() == Program::descriptor()) continue;
      if (!message && field->cpp_type() != FieldDescriptor::CPPTYPE_ENUM &&
          field->cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE) {
        continue;
      }
      type.fields.push_back({field, message ? TypeOf(*field->message_type()) : nullptr});
    }
    if (is_new) {
      std::sort(type.fields.begin(), type.fields.end(), [](const CheckedType::Field& a, const CheckedType::Field& b) {
        return a.field->number() < b.field->number();
      });
    }
    return &type;
  }

  void Walk(const Message& message, const CheckedType& type, const Place& place, int depth) {
    if (type.is_clean != nullptr && type.is_clean(message)) return;
    const Reflection& reflection = *message.GetReflection();
    if (const auto& unknown = reflection.GetUnknownFields(message); unknown.field_count() > 0) {
      findings_->Add("P13.unknown_field", place.Where(), "unknown field number ", unknown.field(0).number(),
                     "; the program was written by a newer weft");
    }
    if (depth > kMaxDepth) {
      findings_->Add("P13.unknown_field", place.Where(), "messages are nested more than ", kMaxDepth, " deep");
      return;
    }
    for (const CheckedType::Field& own : type.fields) {
      if (findings_->full()) return;
      const FieldDescriptor* field = own.field;
      const bool repeated = field->is_repeated();
      const int count = repeated              ? reflection.FieldSize(message, field)
                        : own.type != nullptr ? reflection.HasField(message, field)
                                              : 1;
      for (int i = 0; i < count; ++i) {
        const Place at = {&place, field, i};
        if (own.type != nullptr) {
          Walk(repeated ? reflection.GetRepeatedMessage(message, field, i) : reflection.GetMessage(message, field),
               *own.type, at, depth + 1);
        } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
          const int value =
              repeated ? reflection.GetRepeatedEnumValue(message, field, i) : reflection.GetEnumValue(message, field);
          if (field->enum_type()->FindValueByNumber(value) == nullptr) {
            findings_->Add("P13.unknown_enum", at.Where(), "unknown value ", value, " of ", field->enum_type()->name());
          }
        } else {
          const double value =
              repeated ? reflection.GetRepeatedDouble(message, field, i) : reflection.GetDouble(message, field);
          if (!std::isfinite(value)) findings_->Add("P13.range", at.Where(), "is ", value, "; it must be finite");
        }
      }
    }
  }

  Findings* findings_;
  std::map<const Descriptor*, CheckedType> types_;
};

}  // namespace

void CheckMessage(const Program& program, Findings* findings) { Walker(findings).Check(program); }

}  // namespace weft::verify
