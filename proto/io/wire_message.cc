#include "proto/io/wire_message.h"

#include "proto/io/written_zero.h"

namespace weft {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

WireType WireTypeOf(const FieldDescriptor& field) {
  switch (field.type()) {
    case FieldDescriptor::TYPE_DOUBLE:
    case FieldDescriptor::TYPE_FIXED64:
    case FieldDescriptor::TYPE_SFIXED64:
      return kFixed64;
    case FieldDescriptor::TYPE_FLOAT:
    case FieldDescriptor::TYPE_FIXED32:
    case FieldDescriptor::TYPE_SFIXED32:
      return kFixed32;
    case FieldDescriptor::TYPE_STRING:
    case FieldDescriptor::TYPE_BYTES:
    case FieldDescriptor::TYPE_MESSAGE:
      return kLength;
    default:
      return kVarint;
  }
}

Content ContentOf(const WireField& field) {
  switch (field.type) {
    case FieldDescriptor::TYPE_BOOL:
      return Content::kBool;
    case FieldDescriptor::TYPE_INT32:
      return Content::kInt32;
    case FieldDescriptor::TYPE_INT64:
    case FieldDescriptor::TYPE_UINT64:
    case FieldDescriptor::TYPE_SINT64:
      return Content::kInt64;
    case FieldDescriptor::TYPE_ENUM:
      return Content::kEnum;
    case FieldDescriptor::TYPE_STRING:
      return Content::kString;
    case FieldDescriptor::TYPE_BYTES:
      return Content::kBytes;
    case FieldDescriptor::TYPE_MESSAGE:
      return Content::kMessage;
    default:
      break;
  }
  switch (field.wire_type) {
    case kVarint:
      return Content::kUint32;
    case kFixed64:
      return Content::kFixed64;
    case kFixed32:
      return Content::kFixed32;
    case kLength:
      break;
  }
  return Content::kUnknown;
}

std::vector<WireTag> TagsOf(const Descriptor& type, const std::vector<WireField>& fields) {
  // WireTag::once has 64 bits. No contract has more fields and oneofs than that.
  if (type.field_count() + type.real_oneof_decl_count() > 64) return {};
  std::vector<WireTag> tags(8 * fields.size());
  for (size_t number = 0; number < fields.size(); ++number) {
    const WireField& field = fields[number];
    if (field.field == nullptr) continue;
    WireTag tag;
    tag.content = ContentOf(field);
    tag.has_zero_rule = field.has_zero_rule;
    if (!field.repeated) tag.once = uint64_t{1} << field.index;
    if (field.oneof >= 0) tag.once |= uint64_t{1} << (type.field_count() + field.oneof);
    tag.field = &field;
    tag.message = field.message;
    for (int i = 0; field.values != nullptr && i < field.values->value_count(); ++i) {
      const int value = field.values->value(i)->number();
      if (value >= 0 && value < 64) tag.small_values |= uint64_t{1} << value;
    }
    tags[8 * number + field.wire_type] = tag;
    if (!field.repeated || field.wire_type == kLength) continue;
    tag.packed = true;
    tags[8 * number + kLength] = tag;
  }
  return tags;
}

}  // namespace

const WireMessage& WireMessages::Of(const Descriptor& type) {
  const auto [found, is_new] = messages_.try_emplace(&type);
  // Later insertions into a map keep this reference valid.
  WireMessage& message = found->second;
  for (int i = 0; is_new && i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const auto number = static_cast<size_t>(field.number());
    if (number >= message.fields.size()) message.fields.resize(number + 1);
    WireField own;
    own.field = &field;
    own.wire_type = WireTypeOf(field);
    own.type = field.type();
    own.index = field.index();
    own.repeated = field.is_repeated();
    own.has_zero_rule = field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE && HasZeroRule(field);
    if (const auto* oneof = field.real_containing_oneof(); oneof != nullptr) own.oneof = oneof->index();
    if (own.type == FieldDescriptor::TYPE_MESSAGE) own.message = &Of(*field.message_type());
    if (own.type == FieldDescriptor::TYPE_ENUM) own.values = field.enum_type();
    message.fields[number] = own;
  }
  if (is_new) message.tags = TagsOf(type, message.fields);
  return message;
}

}  // namespace weft
