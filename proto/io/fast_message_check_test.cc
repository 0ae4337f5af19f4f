// Tests that all bytes which LooksRight accepts are right. An oracle that reads the bytes as unknown fields decides
// whether they are. Also tests that LooksRight accepts what protobuf writes.
#include "proto/io/fast_message_check.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"
#include "proto/cluster.pb.h"
#include "proto/io/content.h"
#include "proto/plan.pb.h"
#include "proto/program.pb.h"
#include "proto/recipe.pb.h"

namespace weft {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

using Random = std::mt19937_64;

int64_t AnyInteger(Random& random) {
  // Numbers of all lengths, some of them negative.
  const auto number = static_cast<int64_t>(random() >> (random() % 64));
  return random() % 8 == 0 ? -number : number;
}

// Sets some fields of `message` to values that they may have.
void Fill(Random& random, int depth, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message->GetDescriptor()->field(i);
    if (random() % 3 == 0) continue;
    const int count = field.is_repeated() ? static_cast<int>(random() % 12) : 1;
    for (int k = 0; k < count; ++k) {
      const auto put = [&](auto set, auto add, auto value) {
        field.is_repeated() ? (reflection.*add)(message, &field, value) : (reflection.*set)(message, &field, value);
      };
      switch (field.cpp_type()) {
        case FieldDescriptor::CPPTYPE_INT32:
          put(&Reflection::SetInt32, &Reflection::AddInt32, static_cast<int32_t>(AnyInteger(random)));
          break;
        case FieldDescriptor::CPPTYPE_INT64:
          put(&Reflection::SetInt64, &Reflection::AddInt64, AnyInteger(random));
          break;
        case FieldDescriptor::CPPTYPE_UINT32:
          put(&Reflection::SetUInt32, &Reflection::AddUInt32, static_cast<uint32_t>(AnyInteger(random)));
          break;
        case FieldDescriptor::CPPTYPE_UINT64:
          put(&Reflection::SetUInt64, &Reflection::AddUInt64, static_cast<uint64_t>(AnyInteger(random)));
          break;
        case FieldDescriptor::CPPTYPE_DOUBLE:
          put(&Reflection::SetDouble, &Reflection::AddDouble, 0.5 * static_cast<double>(random() % 100));
          break;
        case FieldDescriptor::CPPTYPE_FLOAT:
          put(&Reflection::SetFloat, &Reflection::AddFloat, 0.5f * static_cast<float>(random() % 100));
          break;
        case FieldDescriptor::CPPTYPE_BOOL:
          put(&Reflection::SetBool, &Reflection::AddBool, random() % 2 == 0);
          break;
        case FieldDescriptor::CPPTYPE_ENUM: {
          const auto* value = field.enum_type()->value(
              static_cast<int>(random() % static_cast<uint64_t>(field.enum_type()->value_count())));
          put(&Reflection::SetEnumValue, &Reflection::AddEnumValue, value->number());
          break;
        }
        case FieldDescriptor::CPPTYPE_STRING: {
          std::string text(random() % 20, 'a');
          if (random() % 4 == 0) text += "é";
          field.is_repeated() ? reflection.AddString(message, &field, text)
                              : reflection.SetString(message, &field, text);
          break;
        }
        case FieldDescriptor::CPPTYPE_MESSAGE:
          if (depth == 0) break;
          Fill(random, depth - 1,
               field.is_repeated() ? reflection.AddMessage(message, &field)
                                   : reflection.MutableMessage(message, &field));
          break;
      }
    }
  }
}

bool IsNumberOf(const FieldDescriptor& field, uint64_t value) {
  const auto as_signed = static_cast<int64_t>(value);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return value <= 1;
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_ENUM:
      return as_signed >= std::numeric_limits<int32_t>::min() && as_signed <= std::numeric_limits<int32_t>::max();
    case FieldDescriptor::CPPTYPE_UINT32:
      return value <= std::numeric_limits<uint32_t>::max();
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT64:
      return true;
    default:
      return false;
  }
}

// True if the bytes have a problem that protobuf's own reader of the type does not refuse: a field is given twice, two
// members of a oneof are given, or a number is too large. Does not look into packed lists.
bool Repeats(const std::string& bytes, const Descriptor& type) {
  UnknownFieldSet fields;
  if (!fields.ParseFromString(bytes)) return true;
  std::map<const void*, int> seen;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& own = fields.field(i);
    const FieldDescriptor* field = type.FindFieldByNumber(own.number());
    if (field == nullptr) return true;
    if (!field->is_repeated() && seen[field]++ > 0) return true;
    if (const auto* oneof = field->real_containing_oneof(); oneof != nullptr && seen[oneof]++ > 0) return true;
    if (own.type() == UnknownField::TYPE_VARINT && !IsNumberOf(*field, own.varint())) return true;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (own.type() != UnknownField::TYPE_LENGTH_DELIMITED) return true;
      if (Repeats(own.length_delimited(), *field->message_type())) return true;
    }
  }
  return false;
}

// True if `bytes` are a message of the type without any problem.
template <typename Type>
bool IsRight(const std::string& bytes) {
  Type message;
  return message.ParseFromString(bytes) && CheckContent(message, "").ok() && !Repeats(bytes, *Type::descriptor());
}

template <typename Type>
class FastMessageCheckTest : public testing::Test {};

using Contracts = testing::Types<Program, Plan, Recipe, Cluster>;
TYPED_TEST_SUITE(FastMessageCheckTest, Contracts);

TYPED_TEST(FastMessageCheckTest, WhatIsWrittenLooksRight) {
  WireMessages messages;
  const WireMessage& type = messages.Of(*TypeParam::descriptor());
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    TypeParam message;
    Fill(random, 4, &message);
    const std::string bytes = message.SerializeAsString();
    ASSERT_TRUE(IsRight<TypeParam>(bytes)) << seed;
    EXPECT_TRUE(LooksRight(bytes, type)) << seed;
  }
}

TYPED_TEST(FastMessageCheckTest, WhatLooksRightIs) {
  WireMessages messages;
  const WireMessage& type = messages.Of(*TypeParam::descriptor());
  int right = 0, wrong = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    TypeParam message;
    Fill(random, 2, &message);
    std::string bytes = message.SerializeAsString();
    if (bytes.empty()) continue;
    for (int mutation = 0; mutation < 10; ++mutation) {
      std::string damaged = bytes;
      const auto at = static_cast<std::ptrdiff_t>(random() % damaged.size());
      switch (random() % 4) {
        case 0:
          damaged[static_cast<size_t>(at)] = static_cast<char>(random());
          break;
        case 1:
          damaged[static_cast<size_t>(at)] ^= static_cast<char>(1 << random() % 8);
          break;
        case 2:
          damaged.erase(damaged.begin() + at,
                        damaged.begin() + at + std::min<std::ptrdiff_t>(2, damaged.end() - damaged.begin() - at));
          break;
        default:
          damaged.insert(damaged.begin() + at, static_cast<char>(random()));
          break;
      }
      const bool looks_right = LooksRight(damaged, type);
      (looks_right ? right : wrong) += 1;
      EXPECT_TRUE(!looks_right || IsRight<TypeParam>(damaged)) << seed << " " << mutation;
    }
  }
  // Both outcomes must have occurred.
  EXPECT_GT(right, 100);
  EXPECT_GT(wrong, 100);
}

// The numbers of a list are checked eight at a time. A wrong number is found at every place.
TEST(FastMessageCheck, SeesEveryNumberOfAList) {
  WireMessages messages;
  const WireMessage& type = messages.Of(*Partition::descriptor());
  const int field = Partition::kLayersPerStageFieldNumber;
  const auto list = [&](const std::string& numbers) {
    return std::string{static_cast<char>(field << 3 | 2), static_cast<char>(numbers.size())} + numbers;
  };
  for (size_t size = 0; size < 30; ++size) {
    EXPECT_TRUE(LooksRight(list(std::string(size, '\x7f')), type));
    for (size_t i = 0; i < size; ++i) {
      std::string numbers(size, '\x01');
      // The largest value, 2^31 - 1, is accepted; 2^31 is refused.
      EXPECT_TRUE(LooksRight(list(std::string(numbers).insert(i, "\xff\xff\xff\xff\x07")), type)) << size << " " << i;
      EXPECT_FALSE(LooksRight(list(std::string(numbers).insert(i, "\x80\x80\x80\x80\x08")), type)) << size << " " << i;
      // This is the first byte of a number of two bytes. At the end of the list, the second byte is missing.
      numbers[i] = '\x80';
      EXPECT_EQ(LooksRight(list(numbers), type), i + 1 < size) << size << " " << i;
    }
  }
}

TEST(FastMessageCheck, FollowsMessagesAsDeepAsReadersDo) {
  WireMessages messages;
  const WireMessage& type = messages.Of(*Program::descriptor());
  Program program;
  Program* innermost = &program;
  for (int depth = 0; depth < kMaxMessageDepth; ++depth) innermost = innermost->mutable_evaluation();
  EXPECT_TRUE(LooksRight(program.SerializeAsString(), type));
  innermost->mutable_evaluation();
  EXPECT_FALSE(LooksRight(program.SerializeAsString(), type));
}

}  // namespace
}  // namespace weft
