// Compares the traffic of a compiled segment's collectives, in order, with the equations of the 4D paper (Singh,
// Sating, Bhatele, arXiv:2305.13525, Eq. 1 to 5), and with its section on Megatron's case, x alone.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/e2e/collective_volume.h"
#include "tests/e2e/tiny_gpt.h"

namespace weft {
namespace {

// Sizes of the model of tiny_gpt.h.
constexpr int64_t kColumns = 32, kPositions = 32, kVocabulary = 256;

class Volume {
 public:
  Volume(int64_t x, int64_t y, int64_t z, int64_t rows) : x_(x), y_(y), z_(z), rows_(rows) {}

  void Gather(int64_t k, int64_t n) { Add("weights", "z", z_, (z_ - 1) * k * n / (x_ * y_) / z_); }
  void Scatter(int64_t k, int64_t n) { Add("gradients", "z", z_, (z_ - 1) * k * n / (x_ * y_) / z_); }
  // Adds the gather or scatter of the position table over z. Of x and y, only y shards the table.
  void Positions(bool backward) {
    Add(backward ? "gradients" : "weights", "z", z_, (z_ - 1) * kPositions * kColumns / y_ / z_);
  }
  // Adds an all-reduce of activations over the `ranks` ranks of `axis`. Each rank has 1 / `cut` of the `columns`
  // columns.
  void Sum(const char* axis, int64_t ranks, int64_t columns, int64_t cut) {
    Add("tensor", axis, ranks, 2 * (ranks - 1) * rows_ * columns / (z_ * cut) / ranks);
  }
  void Statistics(const char* axis, int64_t ranks) { Add("tensor", axis, ranks, (ranks - 1) * 2 * rows_ / z_); }
  void StatisticsBackward() { Sum("y", y_, 2, 1); }

  // Eq. 1 and 3: all-gather of W and all-reduce of O. A transposed product swaps x and y.
  void Forward(int64_t k, int64_t n, bool transposed) {
    Gather(k, n);
    transposed ? Sum("x", x_, n, y_) : Sum("y", y_, n, x_);
  }
  // Eq. 1 again, 4 and 2: all-gather of W, all-reduce of dI, reduce-scatter of dW.
  void Backward(int64_t k, int64_t n, bool transposed) {
    Gather(k, n);
    transposed ? Sum("y", y_, k, x_) : Sum("x", x_, k, y_);
    Scatter(k, n);
  }
  void Loss() { Statistics("x", x_); }
  void Embedding() {
    Gather(kVocabulary, kColumns);
    Sum("x", x_, kColumns, y_);
    Positions(false);
  }
  void Norm() { Statistics("y", y_); }
  const std::vector<std::string>& list() const { return list_; }

 private:
  void Add(const char* what, const char* axis, int64_t ranks, int64_t moved) {
    if (ranks > 1) list_.push_back(absl::StrCat(what, " ", axis, " ", moved));
  }

  int64_t x_, y_, z_, rows_;
  std::vector<std::string> list_;
};

TEST(TensorVolumeTest, CollectivesMoveWhatTheEquationsSay) {
  struct Sizes {
    int64_t x, y, z;
  };
  for (const Sizes& s : {Sizes{2, 2, 2}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {2, 4, 1}, {2, 1, 4}}) {
    TinyPlan plan;
    plan.layers = 1;
    plan.microbatch = 4;
    // Without overlap, collectives are in the order in which their results are needed.
    plan.plan_fields = "overlap { all_gather: false all_reduce: false reduce_scatter: false }";
    plan.mesh = absl::StrCat("x", s.x, " y", s.y, " z", s.z);
    const absl::StatusOr<Program> program = CompileTiny(plan);
    ASSERT_TRUE(program.ok()) << plan.Name() << ": " << program.status();
    const int64_t d = kColumns, rows = 4 * 32;
    Volume forward(s.x, s.y, s.z, rows);
    forward.Embedding();
    forward.Norm();
    forward.Forward(d, 3 * d, false);
    forward.Forward(d, d, true);
    forward.Norm();
    forward.Forward(d, 4 * d, false);
    forward.Forward(4 * d, d, true);
    forward.Norm();
    forward.Forward(d, kVocabulary, false);
    forward.Loss();
    EXPECT_EQ(absl::StrJoin(CollectivesOf(*program, "stage0.forward"), "\n"), absl::StrJoin(forward.list(), "\n"))
        << plan.Name();

    Volume backward(s.x, s.y, s.z, rows);
    backward.Backward(d, kVocabulary, false);
    backward.StatisticsBackward();
    backward.Backward(4 * d, d, true);
    backward.Backward(d, 4 * d, false);
    backward.StatisticsBackward();
    backward.Backward(d, d, true);
    backward.Backward(d, 3 * d, false);
    backward.StatisticsBackward();
    backward.Positions(true);
    backward.Scatter(kVocabulary, d);
    EXPECT_EQ(absl::StrJoin(CollectivesOf(*program, "stage0.backward"), "\n"), absl::StrJoin(backward.list(), "\n"))
        << plan.Name();
  }
}

}  // namespace
}  // namespace weft
