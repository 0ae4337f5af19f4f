// Tests binary messages field by field. What protobuf itself would silently skip, truncate or overwrite is refused at
// its byte. io_test.cc tests how file formats are told apart, and written_zero_test.cc tests zeros that are values.
#include "proto/io/wire_reader.h"

#include <initializer_list>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

std::string Bytes(std::initializer_list<int> bytes) { return std::string(bytes.begin(), bytes.end()); }

template <typename Message = Recipe>
std::string Refusal(const std::string& bytes) {
  Message message;
  const absl::Status status = ReadWire(bytes, "f", &message);
  // If ReadWire accepts the bytes, protobuf reads the same message from them.
  if (status.ok()) {
    Message other;
    EXPECT_TRUE(other.ParseFromString(bytes));
    EXPECT_EQ(message.SerializeAsString(), other.SerializeAsString());
  }
  return std::string(status.message());
}

// Tags are field number x 8 + wire type.
TEST(WireReader, ReadsWhatIsWritten) {
  Recipe recipe;
  recipe.set_sequence_length(300);
  recipe.set_seed(~uint64_t{0});
  recipe.mutable_lr()->set_peak(1e-3);
  recipe.mutable_adamw()->add_overrides()->set_pattern("é*");
  recipe.set_weight_rounding(STOCHASTIC);
  Recipe read;
  read.set_steps(3);
  ASSERT_EQ(ReadWire(recipe.SerializeAsString(), "f", &read), absl::OkStatus());
  // The previous content of the message must be gone.
  EXPECT_EQ(read.SerializeAsString(), recipe.SerializeAsString());
  EXPECT_EQ(Refusal(""), "");
  // Fields may come in any order, and numbers may have more bytes than they need.
  EXPECT_EQ(Refusal(Bytes({0x20, 0x83, 0x00, 0x08, 0x05})), "");
}

TEST(WireReader, NamesTheByteAndTheField) {
  // After two good bytes comes field 13, which a recipe does not have.
  EXPECT_EQ(Refusal(Bytes({0x08, 5, 0x68, 1})),
            "f: byte 2: recipe: unknown field number 13; a newer weft wrote the file, or the file is damaged");
  // Field 9 is lr, and lr has no field 15.
  EXPECT_THAT(Refusal(Bytes({0x4a, 2, 0x78, 1})), HasSubstr("f: byte 2: recipe.lr: unknown field number 15"));
  // Field 7 is adamw, and its field 5 is overrides: the error is in the second of them.
  EXPECT_THAT(Refusal(Bytes({0x3a, 6, 0x2a, 0, 0x2a, 2, 0x18, 1})),
              HasSubstr("recipe.adamw.overrides[1]: unknown field number 3"));
  // A field number beyond all others.
  EXPECT_THAT(Refusal(Bytes({0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1})), HasSubstr("byte 0: recipe: unknown field"));
}

TEST(WireReader, NothingIsGivenTwice) {
  EXPECT_THAT(Refusal(Bytes({0x08, 5, 0x08, 6})), HasSubstr("recipe.sequence_length: given twice"));
  // protobuf would merge the two messages.
  EXPECT_THAT(Refusal(Bytes({0x4a, 0, 0x4a, 0})), HasSubstr("recipe.lr: given twice"));
  // protobuf would take the last of adamw (7) and sgd (8).
  EXPECT_THAT(Refusal(Bytes({0x3a, 0, 0x42, 0})), HasSubstr("recipe.sgd: another member of 'optimizer' is given"));
  // Repeated fields may be given again.
  EXPECT_EQ(Refusal(Bytes({0x3a, 4, 0x2a, 0, 0x2a, 0})), "");
}

TEST(WireReader, NumbersFitTheirFields) {
  // receive_buffers (7) has 32 bits: 2^32 + 1 would become 1.
  EXPECT_THAT(Refusal<Plan>(Bytes({0x38, 0x81, 0x80, 0x80, 0x80, 0x10})),
              HasSubstr("plan.receive_buffers: 4294967297 does not fit into 32 bits"));
  EXPECT_EQ(Refusal<Plan>(Bytes({0x38, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})), "");
  // step_barrier (11): protobuf would read every number except 0 as true.
  EXPECT_THAT(Refusal<Plan>(Bytes({0x58, 2})), HasSubstr("plan.step_barrier: 2 is not a bool"));
  // accumulation (6): protobuf would keep the number as an unknown field.
  EXPECT_THAT(Refusal<Plan>(Bytes({0x30, 99})), HasSubstr("plan.accumulation: 99 is not a value of AccumulationMode"));
  EXPECT_THAT(Refusal(Bytes({0x28, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02})),
              HasSubstr("recipe.seed: the integer has more than 64 bits"));
}

TEST(WireReader, WireTypesAreThoseOfTheField) {
  // sequence_length is written as fixed64, and lr as a number. Both wire types are wrong.
  EXPECT_THAT(Refusal(Bytes({0x09, 0, 0, 0, 0, 0, 0, 0, 0})), HasSubstr("recipe.sequence_length: wire type 1 instead"));
  EXPECT_THAT(Refusal(Bytes({0x48, 0})), HasSubstr("recipe.lr: wire type 0 instead of 2"));
  // A list of numbers may be packed or not. The example is layers (2) of recompute (4).
  EXPECT_EQ(Refusal<Plan>(Bytes({0x22, 4, 0x12, 2, 1, 2})), "");
  EXPECT_EQ(Refusal<Plan>(Bytes({0x22, 4, 0x10, 1, 0x10, 2})), "");
  // A packed number must not continue past the end of its list.
  EXPECT_THAT(Refusal<Plan>(Bytes({0x22, 4, 0x12, 1, 0x81, 0x01})), HasSubstr("plan.recompute.layers"));
}

TEST(WireReader, StringsAreUtf8) {
  // decay (3) of lr is a string: 0xff is not UTF-8, 0xc3 0xa9 is.
  EXPECT_THAT(Refusal(Bytes({0x4a, 3, 0x1a, 1, 0xff})), HasSubstr("recipe.lr.decay: "));
  EXPECT_EQ(Refusal(Bytes({0x4a, 4, 0x1a, 2, 0xc3, 0xa9})), "");
}

TEST(WireReader, EveryPrefixThatEndsInAFieldIsCutOff) {
  Recipe recipe;
  recipe.set_sequence_length(300);
  recipe.mutable_lr()->set_peak(1e-3);
  recipe.mutable_lr()->set_decay("cosine");
  const std::string bytes = recipe.SerializeAsString();
  int whole = 0;
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string refusal = Refusal(bytes.substr(0, size));
    if (refusal.empty()) {
      ++whole;
      continue;
    }
    EXPECT_THAT(refusal, HasSubstr("the file ends in the middle of a field")) << size;
  }
  // Only the empty prefix and the first field alone are whole messages.
  EXPECT_EQ(whole, 2);
  // A length that points past the end.
  EXPECT_THAT(Refusal(Bytes({0x4a, 100, 0x28})), HasSubstr("the file ends in the middle of a field"));
  EXPECT_THAT(Refusal(Bytes({0x4a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})),
              HasSubstr("the file ends in the middle of a field"));
}

}  // namespace
}  // namespace weft
