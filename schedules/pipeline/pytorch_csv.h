// PyTorch's schedule files (torch.distributed.pipelining, `_load_csv` and `_dump_csv`): one line per pipe rank, cells
// like "0F0", "2SEND_F1", "(0F7;3B2)OVERLAP_F_B". docs/schedule_files.md describes them.
#ifndef WEFT_SCHEDULES_PIPELINE_PYTORCH_CSV_H_
#define WEFT_SCHEDULES_PIPELINE_PYTORCH_CSV_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedules/pipeline/action_list.h"
#include "schedules/pipeline/schedule.h"

namespace weft {

// The dialects of the letters for backwards, whose meaning changed twice.
enum class CsvDialect : uint8_t {
  // When reading: derived from the tokens of the file. When writing: kTorch.
  kAuto,
  // Since 2.6: I input gradient, W weight gradient, B both.
  kTorch,
  // 2.5: W weight gradient; B input gradient if the file has any W, else both.
  kTorch25,
  // Nightlies of late 2024: B input gradient, W weight gradient, BW both.
  kLate2024,
};
inline constexpr absl::string_view kCsvDialects[] = {"auto", "torch", "torch-2.5", "late-2024"};

enum class CsvForm : uint8_t {
  // When reading: kComputeComms if the file has a transfer or weight action.
  kAuto,
  // Compute only; empty cells are ignored.
  kComputeOnly,
  // Also transfers, UNSHARD, RESHARD and REDUCE_GRAD; no empty cells.
  kComputeComms,
};
inline constexpr absl::string_view kCsvForms[] = {"auto", "compute_only", "compute_comms"};

struct CsvOptions {
  CsvDialect dialect = CsvDialect::kAuto;
  CsvForm form = CsvForm::kAuto;
};

struct CsvSchedule {
  // The compute slots. Stages, their ranks and the number of microbatches follow from the cells. The schedule has
  // passed CheckSchedule.
  PipelineSchedule schedule;
  int microbatches = 0;
  // The dialect and form that were read, never kAuto.
  CsvOptions options;
  // All actions as in the file. For compute_comms, they have passed CheckTransfers.
  ActionLists lists;
};

// InvalidArgument names the line, the cell, its content and what is allowed. Refuses several things that PyTorch
// accepts: letters after a microbatch, a repeated action, transfers without a partner or in another order than their
// partners.
absl::StatusOr<CsvSchedule> ParsePytorchCsv(absl::string_view text, const CsvOptions& options = {});

// Writes the lists as they are, with LF at line ends. Returns InvalidArgument if the dialect has no word for an action.
absl::StatusOr<std::string> FormatPytorchCsv(const ActionLists& lists, CsvDialect dialect = CsvDialect::kAuto);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_PYTORCH_CSV_H_
