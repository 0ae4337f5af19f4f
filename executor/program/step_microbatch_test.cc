// Tests which microbatch a step works on, if a forward has several microbatches or an action is a pair of a forward and
// a backward.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/interpreter/interpreter.h"
#include "executor/testing/test_data.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"

namespace weft::exec {
namespace {

constexpr int64_t kSequence = 16;
constexpr int64_t kVocabulary = 4;

struct Field {
  std::string name;
  // Bytes of one row for values with a row per token, else of the whole value.
  int64_t bytes;
  bool rows;
};

// Returns the values that a microbatch needs. Buffers and operands have the same order.
const std::vector<Field>& Fields() {
  static const auto* fields = new std::vector<Field>{{"table", kVocabulary * 12 * 4, false},
                                                     {"losses", 8 * 8, false},
                                                     {"tokens", 4, true},
                                                     {"y", 48, true},
                                                     {"z", 48, true},
                                                     {"o", 16, true},
                                                     {"scores", 8, true},
                                                     {"targets", 4, true},
                                                     {"lse", 4, true}};
  return *fields;
}

std::string Shape(int field, int64_t rows) {
  switch (field) {
    case 0:
      return "dtype: FP32 shape: 4 shape: 12";
    case 1:
      return "dtype: FP64 shape: 8";
    case 2:
    case 7:
      return absl::StrCat("dtype: INT32 shape: ", rows);
    case 3:
    case 4:
      return absl::StrCat("dtype: FP32 shape: ", rows, " shape: 12");
    case 5:
      return absl::StrCat("dtype: FP32 shape: ", rows, " shape: 4");
    case 6:
      return absl::StrCat("dtype: FP32 shape: ", rows, " shape: 2");
    default:
      return absl::StrCat("dtype: FP32 shape: ", rows);
  }
}

// Returns a segment for `width` microbatches of 2 sequences. A step covers `at_once` of these microbatches, except that
// the loss has one step per microbatch.
std::string SegmentText(int width, int at_once) {
  const int64_t rows = 2 * kSequence;
  std::string operands, values, steps;
  for (const Field& field : Fields()) {
    absl::StrAppend(&operands, "operands { name: '", field.name,
                    "' access: READ_WRITE bytes: ", field.rows ? field.bytes * rows * width : field.bytes, " }\n");
  }
  // Adds nine values for each part. A part is `parts` microbatches. The values of part p begin 9 p after the first
  // value that this call adds. Returns the number of values added.
  const auto add_values = [&](int parts) {
    for (int part = 0; part < width / parts; ++part) {
      for (int f = 0; f < 9; ++f) {
        absl::StrAppend(&values, "values { operand: ", f,
                        " offset: ", Fields()[f].rows ? Fields()[f].bytes * rows * part * parts : 0, " ",
                        Shape(f, rows * parts), " }\n");
      }
    }
    return 9 * (width / parts);
  };
  const int small = add_values(at_once);
  for (int part = 0; part < width / at_once; ++part) {
    const int v = 9 * part;
    const std::string offset = absl::StrCat("microbatch_offset: ", part * at_once);
    absl::StrAppend(&steps, "steps { kernel: LOAD_TOKENS outputs: ", v + 2, " attributes { ", offset, " } }\n");
    absl::StrAppend(&steps, "steps { kernel: EMBEDDING inputs: ", v + 2, " inputs: 0 outputs: ", v + 3, " }\n");
    absl::StrAppend(&steps, "steps { kernel: DROPOUT inputs: ", v + 3, " outputs: ", v + 4,
                    " attributes { dropout: 0.4 dropout_site: 3 ", offset, " } }\n");
    absl::StrAppend(&steps, "steps { kernel: ATTENTION inputs: ", v + 4, " outputs: ", v + 5, " outputs: ", v + 6,
                    " attributes { heads: 2 sequence: 16 causal: true scale: 0.7 dropout: 0.3 dropout_site: 4 ", offset,
                    " } }\n");
    absl::StrAppend(&steps, "steps { kernel: LOAD_TARGETS outputs: ", v + 7, " attributes { ", offset, " } }\n");
  }
  add_values(1);
  for (int part = 0; part < width; ++part) {
    const int v = small + 9 * part;
    absl::StrAppend(&steps, "steps { kernel: CROSS_ENTROPY inputs: ", v + 5, " inputs: ", v + 7, " outputs: ", v + 8,
                    " outputs: 1 attributes { vocabulary: 4 loss_weight: 0.01 microbatch_offset: ", part, " } }\n");
  }
  return absl::StrCat("segments { ", operands, values, steps, " }\n");
}

// Returns a program of forwards, each of `width` microbatches. With `depth` > 1, that many ranks (axis z) share the
// samples of each microbatch. In either case a rank has two sequences of a microbatch.
Program ForwardProgram(int width, int at_once, int depth = 1, int microbatches = 4) {
  std::string buffers, actions;
  int64_t offset = 0;
  const auto add_buffer = [&](const Field& field) {
    const int64_t bytes = field.rows ? field.bytes * 2 * kSequence * width : field.bytes;
    absl::StrAppend(&buffers, "buffers { name: '", field.name, "' persistent: true bytes: ", bytes, " offset: ", offset,
                    field.name == "losses" ? " role: LOSSES dtype: FP64 shape: 8" : "", " }\n");
    offset += (bytes + 255) / 256 * 256;
  };
  int next = 0;
  for (; next < 2; ++next) add_buffer(Fields()[next]);
  for (int m = 0; m < microbatches; m += width) {
    absl::StrAppend(&actions, "body { id: ", m, " kind: FORWARD segment: 0 microbatch: ", m, " width: ", width,
                    " operands: 0 operands: 1");
    for (int f = 2; f < 9; ++f) {
      add_buffer(Fields()[f]);
      absl::StrAppend(&actions, " operands: ", next++);
    }
    absl::StrAppend(&actions, " }\n");
  }
  Program program;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("mesh { axes { name: 'z' size: ", depth, " } } microbatches: ", microbatches, " vocabulary: 4\n",
                   "recipe { seed: 99 sequence_length: 16 microbatch_sequences: ", 2 * depth,
                   " global_batch_sequences: ", 2 * depth * microbatches, " }\n", SegmentText(width, at_once),
                   "templates { ", buffers, actions, "device_arena_bytes: ", offset, " }"),
      &program));
  return program;
}

// Results after three steps: the losses of the steps and of the microbatches, and the contents of the buffers "o" of
// all microbatches, in order.
struct Outcome {
  std::vector<double> losses;
  std::string o;
};

Outcome RunForwards(const Program& program, int rank = 0) {
  Outcome outcome;
  const Template& t = program.templates(0);
  const auto endpoints = *(*FindTransport("inproc"))->open(static_cast<int>(MeshRanks(program.mesh())));
  const auto arena = *Arena::Allocate(t.device_arena_bytes(), 0);
  for (int i = 0; i < 48; ++i)
    reinterpret_cast<float*>(arena->Data(t.buffers(0)))[i] = 0.1f * static_cast<float>(i % 7);
  const TestData data(kVocabulary);
  InterpreterOptions options;
  options.data = &data;
  const auto backend = MakeCpuBackend(1);
  auto interpreter = Interpreter::Create(program, endpoints[rank].get(), backend.get(), arena.get(), options);
  EXPECT_TRUE(interpreter.ok()) << interpreter.status();
  const auto ran = (*interpreter)->RunBody(5, 3);
  EXPECT_TRUE(ran.ok()) << ran.status();
  for (const StepResult& result : (*interpreter)->results()) outcome.losses.push_back(result.loss);
  for (const Buffer& buffer : t.buffers()) {
    const char* bytes = reinterpret_cast<const char*>(arena->Data(buffer));
    if (buffer.name() == "o") outcome.o.append(bytes, buffer.bytes());
    if (buffer.name() != "losses") continue;
    for (int m = 0; m < 4; ++m) {
      double loss;
      std::memcpy(&loss, bytes + 8 * m, 8);
      outcome.losses.push_back(loss);
    }
  }
  return outcome;
}

TEST(StepMicrobatchTest, AWideForwardIsSeveralNarrowOnes) {
  const Outcome narrow = RunForwards(ForwardProgram(1, 1));
  ASSERT_EQ(narrow.losses.size(), 7u);
  for (size_t i = 4; i < 7; ++i) EXPECT_NE(narrow.losses[i], narrow.losses[i - 1]);
  EXPECT_EQ(narrow.o.size(), 4 * 2 * kSequence * 16);
  for (const int at_once : {1, 2}) {
    const Outcome wide = RunForwards(ForwardProgram(2, at_once));
    EXPECT_EQ(wide.losses, narrow.losses) << at_once;
    EXPECT_TRUE(wide.o == narrow.o) << at_once;
  }
}

// By rule P9, the coordinates of z take consecutive samples of a microbatch. So two ranks with four microbatches
// compute the same as one rank with eight microbatches of half the size: the same tokens, targets and both kinds of
// dropout.
TEST(StepMicrobatchTest, CoordinatesOfZShareTheSamples) {
  const Outcome one = RunForwards(ForwardProgram(1, 1, 1, 8));
  const size_t size = one.o.size() / 8;
  for (const auto& [width, at_once] : {std::pair(1, 1), {2, 1}, {2, 2}}) {
    for (int z = 0; z < 2; ++z) {
      const Outcome part = RunForwards(ForwardProgram(width, at_once, 2), z);
      ASSERT_EQ(part.o.size(), 4 * size);
      for (int m = 0; m < 4; ++m) {
        EXPECT_TRUE(part.o.substr(m * size, size) == one.o.substr((2 * m + z) * size, size))
            << "z " << z << " microbatch " << m << " width " << width << " at once " << at_once;
      }
    }
  }
}

// One action pairs the forward of microbatch 3 with the backward of microbatch 1. Each step must load its own half's
// microbatch.
TEST(StepMicrobatchTest, StepsOfAPairNameTheirHalf) {
  Program program;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        mesh { axes { name: "pipe" size: 1 } }
        microbatches: 4
        recipe { sequence_length: 16 microbatch_sequences: 1 global_batch_sequences: 4 }
        segments {
          operands { name: "f" bytes: 64 access: WRITE }
          operands { name: "b" bytes: 64 access: WRITE }
          values { operand: 0 dtype: INT32 shape: 16 }
          values { operand: 1 dtype: INT32 shape: 16 }
          steps { kernel: LOAD_TOKENS outputs: 0 }
          steps {
            kernel: LOAD_TOKENS
            outputs: 1
            attributes { of_backward: true }
          }
        }
        templates {
          device_arena_bytes: 512
          buffers { name: "f" bytes: 64 }
          buffers { name: "b" bytes: 64 offset: 256 }
          body {
            kind: FORWARD_BACKWARD
            segment: 0
            operands: 0
            operands: 1
            microbatch: 3
            backward { microbatch: 1 }
          }
        }
      )pb",
      &program));
  const auto endpoints = *(*FindTransport("inproc"))->open(1);
  const auto arena = *Arena::Allocate(512, 0);
  const TestData data(kVocabulary);
  InterpreterOptions options;
  options.data = &data;
  const auto backend = MakeCpuBackend(1);
  auto interpreter = Interpreter::Create(program, endpoints[0].get(), backend.get(), arena.get(), options);
  ASSERT_TRUE(interpreter.ok()) << interpreter.status();
  ASSERT_TRUE((*interpreter)->RunBody(2, 1).ok());
  for (const auto& [buffer, microbatch] : {std::pair(0, 3), {1, 1}}) {
    const auto* tokens = reinterpret_cast<const int32_t*>(arena->Data(program.templates(0).buffers(buffer)));
    for (int i = 0; i < kSequence; ++i) EXPECT_EQ(tokens[i], data.Token(2 * 4 + microbatch, i)) << buffer;
  }
}

}  // namespace
}  // namespace weft::exec
