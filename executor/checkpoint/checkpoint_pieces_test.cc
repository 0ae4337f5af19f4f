#include "executor/checkpoint/checkpoint_pieces.h"

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A manifest of tensor "w" [2, 4], whose elements are 0 to 7 row by row. One file has columns 0 and 3, the other
// columns 1 and 2.
CheckpointManifest TwoPieces() {
  return Parse<CheckpointManifest>(R"(
    tensors { name: "w" shape: [2, 4] } files { name: "a" } files { name: "b" }
    pieces { file: "a" dimensions { begin: 0 end: 2 } dimensions { begin: [0, 3] end: [1, 4] } count: 4 }
    pieces { file: "b" dimensions { begin: 0 end: 2 } dimensions { begin: 1 end: 3 } count: 4 })");
}

TensorData Floats(std::vector<float> values) {
  TensorData data;
  data.dtype = FP32;
  data.shape = {static_cast<int64_t>(values.size())};
  data.bytes.resize(values.size() * sizeof(float));
  std::memcpy(data.bytes.data(), values.data(), data.bytes.size());
  return data;
}

absl::StatusOr<TensorData> Join(const CheckpointManifest& manifest, const std::map<std::string, TensorData>& files) {
  std::vector<const CheckpointPiece*> pieces;
  for (const CheckpointPiece& piece : manifest.pieces()) pieces.push_back(&piece);
  return JoinPieces(manifest, pieces,
                    [&](const CheckpointPiece& piece) -> absl::StatusOr<TensorData> { return files.at(piece.file()); });
}

// Returns why a manifest with this change is refused.
std::string Refused(const std::function<void(CheckpointManifest*)>& change) {
  CheckpointManifest manifest = TwoPieces();
  change(&manifest);
  return std::string(CheckPieces(manifest).message());
}

TEST(CheckpointPieces, PiecesAreTheTensor) {
  const CheckpointManifest manifest = TwoPieces();
  ASSERT_TRUE(CheckPieces(manifest).ok()) << CheckPieces(manifest);
  const auto whole = Join(manifest, {{"a", Floats({0, 3, 4, 7})}, {"b", Floats({1, 2, 5, 6})}});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->dtype, FP32);
  EXPECT_THAT(whole->shape, ElementsAre(2, 4));
  std::vector<float> values(8);
  ASSERT_EQ(whole->bytes.size(), 32u);
  std::memcpy(values.data(), whole->bytes.data(), 32);
  EXPECT_THAT(values, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(CheckpointPieces, APieceComesBackFromItsMessage) {
  const CheckpointManifest manifest = TwoPieces();
  for (const CheckpointPiece& piece : manifest.pieces()) {
    CheckpointPiece again;
    SetPiece(GetPiece(piece), &again);
    EXPECT_EQ(GetPiece(again), GetPiece(piece));
  }
  EXPECT_EQ(PieceEntryName("w", "#moment1"), "w#moment1#piece");
}

TEST(CheckpointPieces, EveryElementIsInOne) {
  const std::map<std::string, TensorData> files = {{"a", Floats({0, 3, 4, 7})}, {"b", Floats({1, 2, 5, 6})}};
  const auto error = [&](const std::function<void(CheckpointManifest*)>& change) {
    CheckpointManifest manifest = TwoPieces();
    change(&manifest);
    const absl::Status status = Join(manifest, files).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    return std::string(status.message());
  };
  EXPECT_EQ(error([](CheckpointManifest* m) { m->mutable_pieces()->RemoveLast(); }),
            "tensor 'w': element 1 is in none of its pieces");
  EXPECT_EQ(error([](CheckpointManifest* m) { *m->add_pieces() = m->pieces(1); }),
            "tensor 'w': element 1 is in two of its pieces");
  // The last row of "b" is left out.
  EXPECT_EQ(error([](CheckpointManifest* m) {
              m->mutable_pieces(1)->mutable_dimensions(0)->set_end(0, 1);
              m->mutable_pieces(1)->set_count(2);
            }),
            "tensor 'w': element 5 is in none of its pieces");
  EXPECT_EQ(error([](CheckpointManifest* m) { m->mutable_tensors(0)->set_shape(0, 3); }),
            "tensor 'w': element 8 is in none of its pieces");
}

TEST(CheckpointPieces, FilesHoldWhatTheirPiecesAre) {
  const CheckpointManifest manifest = TwoPieces();
  const TensorData a = Floats({0, 3, 4, 7});
  const auto error = [&](const TensorData& b) {
    return std::string(Join(manifest, {{"a", a}, {"b", b}}).status().message());
  };
  EXPECT_EQ(error(Floats({1, 2, 5})), "tensor 'w': the piece in b is not 4 elements of fp32");
  TensorData halves = Floats({1, 2});
  halves.dtype = BF16;
  halves.shape = {4};
  EXPECT_EQ(error(halves), "tensor 'w': the piece in b is not 4 elements of fp32");
  TensorData torn = Floats({1, 2, 5, 6});
  torn.bytes.resize(12);
  EXPECT_EQ(error(torn), "tensor 'w': the piece in b is not 4 elements of fp32");
}

TEST(CheckpointPieces, APieceIsOfWhatTheManifestHas) {
  EXPECT_THAT(Refused([](CheckpointManifest* m) { m->mutable_pieces(1)->set_tensor(1); }),
              HasSubstr("pieces[1].tensor = 1, of 1 tensors"));
  EXPECT_THAT(Refused([](CheckpointManifest* m) { m->mutable_pieces(0)->set_tensor(-1); }),
              HasSubstr("pieces[0].tensor = -1"));
  EXPECT_THAT(Refused([](CheckpointManifest* m) { m->mutable_pieces(1)->set_part("#moment3"); }),
              HasSubstr("pieces[1].part = '#moment3'; allowed: '', '#moment1', '#moment2'"));
  EXPECT_THAT(Refused([](CheckpointManifest* m) { m->mutable_pieces(1)->set_file("c"); }),
              HasSubstr("pieces[1].file = 'c' is not in files"));
  EXPECT_THAT(Refused([](CheckpointManifest* m) { m->mutable_pieces(1)->mutable_dimensions(1)->add_begin(3); }),
              HasSubstr("pieces[1].dimensions: 2 begins and 1 ends"));
  EXPECT_THAT(Refused([](CheckpointManifest* m) {
                for (int i = 0; i < 2; ++i) m->mutable_tensors(0)->set_shape(i, INT64_MAX);
              }),
              HasSubstr("tensors[0].shape is not valid"));
  EXPECT_THAT(Refused([](CheckpointManifest* m) { m->mutable_tensors(0)->set_shape(0, -2); }),
              HasSubstr("tensors[0].shape is not valid"));
  // CheckPiece reports a piece that does not fit its tensor.
  EXPECT_THAT(Refused([](CheckpointManifest* m) { m->mutable_pieces(1)->mutable_dimensions(1)->set_end(0, 5); }),
              HasSubstr("pieces[1]: "));
}

}  // namespace
}  // namespace weft::exec
