// Compares the traffic of the collectives of a U-Net's segments, in order, with the equations for a product (Singh,
// Sating, Bhatele, arXiv:2305.13525, Eq. 1 to 5, and its section on U-Nets), where channels are k and n. Also counts
// the collectives that move columns from one axis to the other.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/e2e/collective_volume.h"
#include "tests/e2e/tiny_unet.h"

namespace weft {
namespace {

// Sizes of the model of tiny_unet.h.
constexpr int64_t kTime = 32, kGroups = 4, kSamples = 4;

// How columns are sharded: kA over y, kB over x.
enum Layout { kA, kB };
Layout Other(Layout layout) { return layout == kA ? kB : kA; }

class UnetVolume {
 public:
  UnetVolume(int64_t x, int64_t y, int64_t z) : x_(x), y_(y), z_(z) {}

  // Adds the collectives of a product of k x n weights per tap, from layout `in` to the other layout. `in_rows` and
  // `rows` count the rows of the input and of the output over all ranks of z.
  void Product(Layout in, int64_t in_rows, int64_t rows, int64_t k, int64_t n, int64_t taps) {
    Begin();
    Add(forward(), "weights", "z", z_, 1, k * n * taps / (x_ * y_));
    Add(backward(), "weights", "z", z_, 1, k * n * taps / (x_ * y_));
    Add(forward(), "tensor", Name(in), Size(in), 2, rows * n / (z_ * Size(Other(in))));
    Add(backward(), "tensor", Name(Other(in)), Size(Other(in)), 2, in_rows * k / (z_ * Size(in)));
    Add(backward(), "gradients", "z", z_, 1, k * n * taps / (x_ * y_));
  }
  // Adds the collectives of a product to layout B whose input is unsharded and has no gradient.
  void First(int64_t k, int64_t n, int64_t taps) {
    Begin();
    Add(forward(), "weights", "z", z_, 1, k * n * taps / x_);
    Add(backward(), "gradients", "z", z_, 1, k * n * taps / x_);
  }
  void Last(Layout in, int64_t rows, int64_t k, int64_t n, int64_t taps) {
    Begin();
    for (auto* list : {&forward(), &backward()}) Add(*list, "weights", "z", z_, 1, k * n * taps / Size(in));
    Add(forward(), "tensor", Name(in), Size(in), 2, rows * n / z_);
    Add(backward(), "gradients", "z", z_, 1, k * n * taps / Size(in));
  }
  void Move(Layout from, int64_t rows, int64_t n) {
    Begin();
    Add(forward(), "tensor", Name(from), Size(from), 1, rows * n / z_);
    Add(backward(), "tensor", Name(Other(from)), Size(Other(from)), 1, rows * n / z_);
  }
  void Concat(Layout layout, int64_t rows, int64_t a, int64_t b) {
    if (a == b && kGroups % (2 * Size(layout)) == 0) return;
    Begin();
    for (const int64_t n : {a, b}) Add(forward(), "tensor", Name(layout), Size(layout), 1, rows * n / z_);
    Add(backward(), "tensor", Name(layout), Size(layout), 1, rows * (a + b) / z_);
  }
  void Block(Layout layout, int64_t rows, int64_t k, int64_t n) {
    Product(layout, rows, rows, k, n, 9);
    if (layout == kB) Move(kA, kSamples, kTime);
    Product(layout, kSamples, kSamples, kTime, n, 1);
    Product(Other(layout), rows, rows, n, n, 9);
    if (k == n) return;
    Product(layout, rows, rows, k, n, 1);
    Move(Other(layout), rows, n);
  }
  void Attention(Layout layout, int64_t rows, int64_t n) {
    Product(layout, rows, rows, n, 3 * n, 1);
    Product(Other(layout), rows, rows, n, n, 1);
  }

  std::string Forward() const {
    std::vector<std::string> all;
    for (const Op& op : ops_) all.insert(all.end(), op.forward.begin(), op.forward.end());
    return absl::StrJoin(all, "\n");
  }
  std::string Backward() const {
    std::vector<std::string> all;
    for (size_t i = ops_.size(); i-- > 0;) all.insert(all.end(), ops_[i].backward.begin(), ops_[i].backward.end());
    return absl::StrJoin(all, "\n");
  }

 private:
  struct Op {
    std::vector<std::string> forward, backward;
  };

  void Begin() { ops_.emplace_back(); }
  std::vector<std::string>& forward() { return ops_.back().forward; }
  std::vector<std::string>& backward() { return ops_.back().backward; }
  static const char* Name(Layout layout) { return layout == kA ? "y" : "x"; }
  int64_t Size(Layout layout) const { return layout == kA ? y_ : x_; }
  static void Add(std::vector<std::string>& list, const char* what, const char* axis, int64_t ranks, int64_t rounds,
                  int64_t elements) {
    if (ranks > 1) list.push_back(absl::StrCat(what, " ", axis, " ", rounds * (ranks - 1) * elements / ranks));
  }

  int64_t x_, y_, z_;
  std::vector<Op> ops_;
};

TEST(UnetVolumeTest, CollectivesMoveWhatTheEquationsSay) {
  struct Sizes {
    int64_t x, y, z;
  };
  for (const Sizes& s : {Sizes{2, 2, 2}, {2, 1, 1}, {1, 2, 1}, {1, 1, 4}, {2, 4, 1}, {2, 1, 4}}) {
    UnetPlan plan;
    // Without overlap, collectives are in the order in which their results are needed.
    plan.plan_fields = "overlap { all_gather: false all_reduce: false reduce_scatter: false }";
    plan.mesh = absl::StrCat("x", s.x, " y", s.y, " z", s.z);
    plan.microbatch = kSamples;
    const absl::StatusOr<Program> program = CompileUnet(plan);
    ASSERT_TRUE(program.ok()) << plan.Name() << ": " << program.status();
    // Number of positions on the two levels.
    const int64_t large = 64 * kSamples, small = 16 * kSamples;
    UnetVolume volume(s.x, s.y, s.z);
    volume.First(8, kTime, 1);
    volume.Product(kB, kSamples, kSamples, kTime, kTime, 1);
    volume.First(3, 8, 9);
    volume.Block(kB, large, 8, 8);
    volume.Product(kB, large, small, 8, 8, 9);
    volume.Block(kA, small, 8, 16);
    volume.Attention(kA, small, 16);
    volume.Block(kA, small, 16, 16);
    volume.Attention(kA, small, 16);
    volume.Block(kA, small, 16, 16);
    volume.Concat(kA, small, 16, 16);
    volume.Block(kA, small, 32, 16);
    volume.Attention(kA, small, 16);
    volume.Concat(kA, small, 16, 8);
    volume.Block(kA, small, 24, 16);
    volume.Attention(kA, small, 16);
    volume.Product(kA, large, large, 16, 16, 9);
    volume.Concat(kB, large, 16, 8);
    volume.Block(kB, large, 24, 8);
    volume.Concat(kB, large, 8, 8);
    volume.Block(kB, large, 16, 8);
    volume.Last(kB, large, 8, 3, 9);
    EXPECT_EQ(absl::StrJoin(CollectivesOf(*program, "stage0.forward"), "\n"), volume.Forward()) << plan.Name();
    EXPECT_EQ(absl::StrJoin(CollectivesOf(*program, "stage0.backward"), "\n"), volume.Backward()) << plan.Name();
  }
}

}  // namespace
}  // namespace weft
