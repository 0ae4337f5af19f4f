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

// Dialects of the CSV files. They differ in the letters for backwards, whose meaning changed twice in PyTorch.
enum class CsvDialect : uint8_t {
  // The reader derives the dialect from the words of the file. The writer uses kTorch.
  kAuto,
  // PyTorch since 2.6: I is the input gradient, W the weight gradient, B both.
  kTorch,
  // PyTorch 2.5: W is the weight gradient. B is the input gradient if the file has any W, else both gradients.
  kTorch25,
  // PyTorch nightlies of late 2024: B is the input gradient, W the weight gradient, BW both.
  kLate2024,
};
inline constexpr absl::string_view kCsvDialects[] = {"auto", "torch", "torch-2.5", "late-2024"};

enum class CsvForm : uint8_t {
  // The reader takes kComputeComms if the file has a transfer or weight action, else kComputeOnly.
  kAuto,
  // The file has compute actions only. Empty cells are ignored.
  kComputeOnly,
  // The file also has transfers, UNSHARD, RESHARD and REDUCE_GRAD, and must have no empty cells.
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
