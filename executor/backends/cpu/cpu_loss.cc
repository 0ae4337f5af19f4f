// CROSS_ENTROPY of whole rows and of columns split over ranks, and its backward kernel.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_kernel.h"
#include "proto/util/status.h"

namespace weft::exec::cpu {
namespace {

absl::Status CheckTargets(const Call& call, const TensorView& targets) {
  const auto* target = static_cast<const int32_t*>(targets.data);
  for (int64_t i = 0; i < Elements(targets); ++i) {
    if (target[i] < -1 || target[i] >= call.attributes().vocabulary()) {
      return absl::OutOfRangeError(absl::StrCat("step '", call.step.name(), "': target ", i, " is ", target[i],
                                                "; the vocabulary has ", call.attributes().vocabulary(), " entries"));
    }
  }
  return absl::OkStatus();
}

void StoreLoss(const Call& call, absl::Span<const double> losses, double* loss) {
  double total = 0;
  for (double of_row : losses) total += of_row;
  *loss = call.attributes().loss_weight() * total;
}

// Returns how many of the `columns` columns that begin at column_shift are below the vocabulary size.
int64_t LocalVocabulary(const Call& call, int64_t columns) {
  return std::clamp<int64_t>(call.attributes().vocabulary() - call.context.column_shift, 0, columns);
}

}  // namespace

absl::Status CrossEntropy(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTargets(call, call.in[1]));
  WEFT_ASSIGN_OR_RETURN(double* const loss, LossOf(call.step, call.out[1], call.context));
  const TensorView& logits = call.in[0];
  const int64_t columns = Columns(logits), rows = Rows(logits), vocabulary = call.attributes().vocabulary();
  const auto* targets = static_cast<const int32_t*>(call.in[1].data);
  double* losses = call.workspace.shared.Get<double>(rows);
  WithComputeType(call.in, [&]<typename T>() {
    ForRows(call, rows, columns, [&](int64_t row, int thread) {
      T* buffer = call.workspace.thread[thread].Get<T>(vocabulary);
      const T* x = Read(call, logits, row * columns, vocabulary, buffer);
      const T lse = GetLoops<T>(call).log_sum_exp(x, vocabulary);
      GetLoops<T>(call).store(&lse, StorageOf(call.out[0]), 1, At(call.out[0], row));
      // lse and the logit are of type T. The subtraction is in double, so that it adds almost no error if T is float.
      losses[row] = targets[row] < 0 ? 0 : static_cast<double>(lse) - static_cast<double>(x[targets[row]]);
    });
  });
  StoreLoss(call, absl::MakeSpan(losses, rows), loss);
  return absl::OkStatus();
}

absl::Status CrossEntropyPartial(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTargets(call, call.in[1]));
  const TensorView& logits = call.in[0];
  const int64_t columns = Columns(logits), rows = Rows(logits), shift = call.context.column_shift;
  const int64_t vocabulary = LocalVocabulary(call, columns);
  const auto* targets = static_cast<const int32_t*>(call.in[1].data);
  WithComputeType(call.in, [&]<typename T>() {
    ForRows(call, rows, columns, [&](int64_t row, int thread) {
      const T* x = Read(call, logits, row * columns, columns, call.workspace.thread[thread].Get<T>(columns));
      const int64_t target = targets[row] - shift;
      const T pair[2] = {
          vocabulary == 0 ? -std::numeric_limits<T>::infinity() : GetLoops<T>(call).log_sum_exp(x, vocabulary),
          targets[row] >= 0 && target >= 0 && target < vocabulary ? x[target] : T(0)};
      GetLoops<T>(call).store(pair, StorageOf(call.out[0]), 2, At(call.out[0], 2 * row));
    });
  });
  return absl::OkStatus();
}

absl::Status CrossEntropyCombine(const Call& call) {
  WEFT_ASSIGN_OR_RETURN(double* const loss, LossOf(call.step, call.out[1], call.context));
  const TensorView& partials = call.in[0];
  const int64_t rows = Elements(call.in[1]), parts = Rows(partials) / std::max<int64_t>(rows, 1);
  const auto* targets = static_cast<const int32_t*>(call.in[1].data);
  double* losses = call.workspace.shared.Get<double>(rows);
  WithComputeType(call.in, [&]<typename T>() {
    ForRows(call, rows, 2 * parts, [&](int64_t row, int thread) {
      T* sums = call.workspace.thread[thread].Get<T>(parts);
      T target = 0;
      for (int64_t part = 0; part < parts; ++part) {
        T pair[2];
        GetLoops<T>(call).load(At(partials, 2 * (part * rows + row)), StorageOf(partials), 2, pair);
        sums[part] = pair[0];
        target += pair[1];
      }
      const T most = *std::max_element(sums, sums + parts);
      T sum = 0;
      for (int64_t part = 0; part < parts; ++part) sum += std::exp(sums[part] - most);
      const T lse = most + std::log(sum);
      GetLoops<T>(call).store(&lse, StorageOf(call.out[0]), 1, At(call.out[0], row));
      losses[row] = targets[row] < 0 ? 0 : static_cast<double>(lse) - static_cast<double>(target);
    });
  });
  StoreLoss(call, absl::MakeSpan(losses, rows), loss);
  return absl::OkStatus();
}

absl::Status CrossEntropyBackward(const Call& call) {
  WEFT_RETURN_IF_ERROR(CheckTargets(call, call.in[2]));
  const double scale = call.in.size() == 4 ? *static_cast<const double*>(call.in[3].data) : 1;
  const TensorView& logits = call.in[0];
  const int64_t columns = Columns(logits), rows = Rows(logits);
  const int64_t vocabulary = LocalVocabulary(call, columns), shift = call.context.column_shift;
  const auto* targets = static_cast<const int32_t*>(call.in[2].data);
  WithComputeType(call.in.subspan(0, 3), [&]<typename T>() {
    const T weight = static_cast<T>(call.attributes().loss_weight() * scale);
    ForRows(call, rows, columns, [&](int64_t row, int thread) {
      T* buffer = call.workspace.thread[thread].Get<T>(2 * columns);
      T* dx = Target(call.out[0], row * columns, false, buffer + columns);
      if (targets[row] < 0) {
        std::fill(dx, dx + columns, T(0));
      } else {
        const T* x = Read(call, logits, row * columns, vocabulary, buffer);
        T lse;
        GetLoops<T>(call).load(At(call.in[1], row), StorageOf(call.in[1]), 1, &lse);
        GetLoops<T>(call).exp(x, T(1), lse, weight, vocabulary, dx);
        const int64_t target = targets[row] - shift;
        if (target >= 0 && target < vocabulary) dx[target] -= weight;
        std::fill(dx + vocabulary, dx + columns, T(0));
      }
      Write(call, call.out[0], row * columns, columns, false, dx);
    });
  });
  return absl::OkStatus();
}

}  // namespace weft::exec::cpu
