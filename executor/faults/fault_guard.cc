#include "executor/faults/fault_guard.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/faults/fault_report.h"
#include "executor/interpreter/named_action.h"

namespace weft::exec {

FaultGuard::Rank::Rank(const Program& program, int rank, const FaultOptions& options)
    : flight(ActionCount(program, rank)),
      deadlines(program, rank, options.timeout, options.predicted != nullptr ? *options.predicted : PredictedTimes(),
                options.generous_first) {}

FaultGuard::FaultGuard(const Program& program, const std::vector<std::unique_ptr<Endpoint>>& endpoints,
                       FaultOptions options)
    : program_(program), options_(std::move(options)) {
  std::vector<WatchedRank> watched;
  for (const std::unique_ptr<Endpoint>& endpoint : endpoints) {
    Rank& rank = ranks_.emplace_back(program, endpoint->rank(), options_);
    rank.endpoint = endpoint.get();
    watched.push_back({rank.endpoint, &rank.flight, &rank.deadlines});
  }
  WatchdogOptions watchdog;
  watchdog.stop = options_.stop;
  watchdog.report = [this](int rank, const absl::Status& reason) { Write(rank, reason, false); };
  if (options_.give_up) {
    watchdog.give_up = [this](int /*rank*/, const absl::Status& reason) {
      bool reports = false;
      // Aborting again returns whether the abort came from one of this process's ranks. All ranks are asked, not only
      // the stuck one: while the process waits for the stuck rank, it cannot report what the other ranks have found.
      for (Rank& own : ranks_) reports |= own.endpoint->Abort(reason);
      options_.give_up(reason, reports);
    };
  }
  watchdog_ = std::make_unique<Watchdog>(program, std::move(watched), std::move(watchdog));
}

FaultGuard::~FaultGuard() = default;

absl::Status FaultGuard::Located(size_t index, const absl::Status& status) {
  const Rank& rank = ranks_[index];
  if (status.ok() || NamesAction(status) || status.code() == absl::StatusCode::kDataLoss ||
      !rank.endpoint->AbortReason().ok()) {
    return status;
  }
  const std::vector<FlightRecorder::Entry> last = rank.flight.Last();
  if (last.empty()) return status;
  const std::string prefix = absl::StrCat("rank ", rank.endpoint->rank());
  return absl::Status(
      status.code(),
      absl::StrCat(absl::StartsWith(status.message(), prefix) ? "" : absl::StrCat(prefix, ": "), status.message(),
                   "; the last action that it began is ", DescribeEntry(program_, rank.endpoint->rank(), last.back())));
}

void FaultGuard::Returned(size_t index, const absl::Status& status, bool first) {
  watchdog_->Returned(index);
  if (!status.ok()) Write(ranks_[index].endpoint->rank(), status, first);
}

void FaultGuard::Write(int rank, const absl::Status& reason, bool first) {
  if (options_.report_file.empty()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  for (Rank& own : ranks_) {
    // A refusal before the first step is not a fault, because nothing has been done yet.
    if (own.endpoint->rank() != rank || own.deadlines.phase() == RunPhase::kStarting) continue;
    if (std::exchange(own.written, true)) continue;
    report_status_.Update(WriteFaultReport(options_.report_file, program_, rank, reason, first, own.flight));
  }
}

absl::Status FaultGuard::report_status() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return report_status_;
}

int ExitStatusOf(const absl::Status& failed_in_run) {
  switch (failed_in_run.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kDeadlineExceeded:
      return 3;
    case absl::StatusCode::kAborted:
      return 4;
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
      return 5;
    case absl::StatusCode::kDataLoss:
      return 6;
    default:
      return 1;
  }
}

}  // namespace weft::exec
