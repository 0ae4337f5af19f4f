// Tests that the verifier finds a corruption of any field of a message, also if the field belongs to a later version of
// the protos.
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"
#include "proto/program.pb.h"
#include "verifier/verify.h"

namespace weft::verify {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Fills in every message field of `message` and of the messages inside it; repeated fields get two elements. The
// evaluation is a separate program and stays empty.
void Fill(Message& message) {
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (field->message_type() == Program::descriptor()) continue;
    if (!field->is_repeated()) {
      Fill(*reflection.MutableMessage(&message, field));
    } else {
      Fill(*reflection.AddMessage(&message, field));
      Fill(*reflection.AddMessage(&message, field));
    }
  }
}

// Calls `look` with a message and all messages in it.
void ForEach(Message& message, const std::string& path,
             const std::function<void(Message& message, const std::string& path)>& look) {
  look(message, path);
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (field->message_type() == Program::descriptor()) continue;
    const std::string name = path + "." + field->name();
    if (!field->is_repeated()) {
      ForEach(*reflection.MutableMessage(&message, field), name, look);
      continue;
    }
    for (int k = 0; k < reflection.FieldSize(message, field); ++k) {
      ForEach(*reflection.MutableRepeatedMessage(&message, field, k), name, look);
    }
  }
}

// Returns the rule of the first finding if that finding is about the program message itself, else "".
std::string RuleOn(const Program& program) {
  const std::vector<Finding> findings = FindViolations(program);
  if (findings.empty()) return "";
  const std::string& rule = findings.front().rule;
  if (rule == "P13.unknown_field" || rule == "P13.unknown_enum") return rule;
  return findings.front().message.find("must be finite") == std::string::npos ? "" : rule;
}

TEST(MessageFields, WhateverIsSpoiltIsFound) {
  Program program;
  Fill(program);
  EXPECT_EQ(RuleOn(program), "");
  int spoilt = 0;
  ForEach(program, "program", [&](Message& message, const std::string& path) {
    const Reflection& reflection = *message.GetReflection();
    reflection.MutableUnknownFields(&message)->AddVarint(4321, 1);
    EXPECT_EQ(RuleOn(program), "P13.unknown_field") << path;
    reflection.MutableUnknownFields(&message)->Clear();
    ++spoilt;
    for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor* field = message.GetDescriptor()->field(i);
      const bool number = field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
      if (!number && field->cpp_type() != FieldDescriptor::CPPTYPE_ENUM) continue;
      const std::string name = path + "." + field->name();
      if (field->is_repeated()) {
        (number ? reflection.AddDouble(&message, field, std::numeric_limits<double>::quiet_NaN())
                : reflection.AddEnumValue(&message, field, 12345));
        EXPECT_EQ(RuleOn(program), number ? "P13.range" : "P13.unknown_enum") << name;
      } else if (number) {
        for (const double bad : {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
          reflection.SetDouble(&message, field, bad);
          EXPECT_EQ(RuleOn(program), "P13.range") << name;
        }
      } else {
        reflection.SetEnumValue(&message, field, 12345);
        EXPECT_EQ(RuleOn(program), "P13.unknown_enum") << name;
      }
      reflection.ClearField(&message, field);
      ++spoilt;
    }
    EXPECT_EQ(RuleOn(program), "") << path;
  });
  EXPECT_GT(spoilt, 300);
}

}  // namespace
}  // namespace weft::verify
