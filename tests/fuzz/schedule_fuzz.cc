// Fuzz target: schedule files, in weft's text form or as PyTorch's CSV.
#include <cstddef>
#include <cstdint>
#include <string>

#include "schedules/pipeline/check.h"
#include "schedules/pipeline/lowering.h"
#include "schedules/pipeline/pytorch_csv.h"
#include "schedules/pipeline/schedule_text.h"
#include "schedules/pipeline/transfer_check.h"
#include "tests/fuzz/require.h"

using weft::Require;
using weft::RequireMessage;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<weft::NamedSchedule> named = weft::ParseSchedule(text);
  if (!named.ok()) {
    RequireMessage(named.status());
  } else {
    // A schedule that was read is valid and survives a round trip through its text form.
    Require(weft::CheckSchedule(named->schedule, named->microbatches).ok());
    const std::string written = weft::FormatSchedule(*named);
    const absl::StatusOr<weft::NamedSchedule> again = weft::ParseSchedule(written);
    Require(again.ok() && again->microbatches == named->microbatches);
    Require(again->schedule.order == named->schedule.order && again->schedule.placement == named->schedule.placement);
    Require(weft::FormatSchedule(*again) == written);
  }
  for (weft::CsvDialect dialect :
       {weft::CsvDialect::kAuto, weft::CsvDialect::kTorch, weft::CsvDialect::kTorch25, weft::CsvDialect::kLate2024}) {
    const absl::StatusOr<weft::CsvSchedule> csv = weft::ParsePytorchCsv(text, {.dialect = dialect});
    if (!csv.ok()) {
      RequireMessage(csv.status());
      continue;
    }
    const absl::StatusOr<std::string> written = weft::FormatPytorchCsv(csv->lists);
    Require(written.ok());
    const absl::StatusOr<weft::CsvSchedule> again =
        weft::ParsePytorchCsv(*written, {.dialect = weft::CsvDialect::kTorch, .form = csv->options.form});
    Require(again.ok() && again->lists.order == csv->lists.order);
    // A schedule that can run can be lowered, and the lowered schedule can run.
    const absl::StatusOr<weft::ActionLists> lowered =
        weft::Lower(*weft::ToActionLists(csv->schedule, csv->microbatches));
    Require(lowered.ok());
    Require(weft::CheckTransfers(*lowered).ok());
    Require(weft::CountUnitSteps(*lowered).ok());
  }
  return 0;
}
