// Rule P13 on the message itself: no field and no enum value that this version does not know, no number that is not
// finite. Found by reflection, so that a field added to a proto is covered at once.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "google/protobuf/unknown_field_set.h"
#include "proto/verify/index.h"

namespace weft::verify {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kMaxDepth = 16;

class Walker {
 public:
  explicit Walker(Findings* findings) : findings_(findings) {}

  void Walk(const Message& message, const std::string& path, int depth) {
    const Reflection& reflection = *message.GetReflection();
    if (reflection.GetUnknownFields(message).field_count() > 0) {
      findings_->Add("P13.unknown_field", Where(path), "unknown field number ",
                     reflection.GetUnknownFields(message).field(0).number(),
                     "; the program was written by a newer weft");
    }
    if (depth > kMaxDepth) {
      findings_->Add("P13.unknown_field", Where(path), "messages are nested more than ", kMaxDepth, " deep");
      return;
    }
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (findings_->full()) return;
      const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
      switch (field->cpp_type()) {
        case FieldDescriptor::CPPTYPE_MESSAGE:
          // The nested evaluation is a program of its own and walked as such.
          if (field->message_type() == Program::descriptor()) break;
          for (int i = 0; i < count; ++i) {
            Walk(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                      : reflection.GetMessage(message, field),
                 Path(path, *field, i), depth + 1);
          }
          break;
        case FieldDescriptor::CPPTYPE_ENUM:
          for (int i = 0; i < count; ++i) {
            const int value = field->is_repeated() ? reflection.GetRepeatedEnumValue(message, field, i)
                                                   : reflection.GetEnumValue(message, field);
            if (field->enum_type()->FindValueByNumber(value) == nullptr) {
              findings_->Add("P13.unknown_enum", Where(Path(path, *field, i)), "unknown value ", value, " of ",
                             field->enum_type()->name());
            }
          }
          break;
        case FieldDescriptor::CPPTYPE_DOUBLE:
          for (int i = 0; i < count; ++i) {
            const double value = field->is_repeated() ? reflection.GetRepeatedDouble(message, field, i)
                                                      : reflection.GetDouble(message, field);
            if (!std::isfinite(value)) {
              findings_->Add("P13.range", Where(Path(path, *field, i)), "is ", value, ", must be finite");
            }
          }
          break;
        default:
          break;
      }
    }
  }

 private:
  static std::string Where(const std::string& path) { return path.empty() ? "" : absl::StrCat(path, ": "); }
  static std::string Path(const std::string& path, const FieldDescriptor& field, int i) {
    std::string name = path.empty() ? field.name() : absl::StrCat(path, ".", field.name());
    return field.is_repeated() ? absl::StrCat(name, "[", i, "]") : name;
  }

  Findings* findings_;
};

}  // namespace

void CheckMessage(const Program& program, Findings* findings) { Walker(findings).Walk(program, "", 0); }

}  // namespace weft::verify
