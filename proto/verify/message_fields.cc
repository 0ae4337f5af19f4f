// Rule P13 on the message itself: no field and no enum value that this version does not know, no number that is not
// finite. Found by reflection, so that a field added to a proto is covered at once.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/unknown_field_set.h"
#include "proto/verify/index.h"

namespace weft::verify {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kMaxDepth = 16;

// Fields of a type of messages in which something may be wrong, by number.
struct CheckedType {
  struct Field {
    const FieldDescriptor* field = nullptr;
    // Of messages.
    const CheckedType* type = nullptr;
  };
  std::vector<Field> fields;
};

// Where a message is: a path as text is for findings only.
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
  // Before what is said of it.
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
    for (int i = 0; is_new && i < descriptor.field_count(); ++i) {
      const FieldDescriptor* field = descriptor.field(i);
      const bool message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
      // The nested evaluation is a program of its own and walked as such.
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
          if (!std::isfinite(value)) findings_->Add("P13.range", at.Where(), "is ", value, ", must be finite");
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
