#include "cli/inputs/simulate_flags.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/io/decimal.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"

namespace weft {
namespace {

// Parses "15T", "300e9" or "1.5B": a number with an optional k, M, B (or G) or T.
std::optional<double> ParseCount(absl::string_view text) {
  double scale = 1;
  if (!text.empty()) {
    const size_t unit = std::string("kMBGT").find(text.back());
    constexpr double kScales[] = {1e3, 1e6, 1e9, 1e9, 1e12};
    if (unit != std::string::npos) {
      scale = kScales[unit];
      text.remove_suffix(1);
    }
  }
  double value = 0;
  if (text.find_first_not_of("0123456789.e+") != absl::string_view::npos || !BadBeginning(text).empty() ||
      !absl::SimpleAtod(text, &value)) {
    return std::nullopt;
  }
  value *= scale;
  if (!(value >= 1) || value > 1e18) return std::nullopt;
  return value;
}

}  // namespace

SimulateFlags::SimulateFlags(SimulateRequest* request)
    : request_(request),
      flags_("weft simulate", "PROGRAM | --model=M --cluster=C [--recipe=R] [--plan=P]   [flags]",
             "Predicts what a program costs: time per step, idle time and its causes, memory, tokens per second. The\n"
             "program is a file that `weft compile` wrote. With --model, weft compiles it first, from the flags of "
             "`weft compile`.") {
  AddInputFlags(&flags_, &request->input);
  cost_flags_.emplace(&flags_, request);
  AddOutputFlags();
  flags_.Example("weft simulate gpt2.weft --cluster=dgx-h100 --trace=t.json");
  flags_.Example("weft simulate gpt2.weft --cluster=mine.textproto --goodput --days=30 --tokens=15T");
  flags_.Example("weft simulate gpt2.weft --explain --what-if=intra=2x,compute=1.2x");
}

void SimulateFlags::AddOutputFlags() {
  flags_.Bool("explain", "also print the critical path: what the end of the step waited for, back to its start",
              &request_->options.explain);
  flags_.Custom(
      "what-if", "NAME=FACTOR,...",
      absl::StrCat(
          "also print the gain on a changed machine, for each change and for all together, e.g. intra=2x; can be "
          "repeated; names: ",
          absl::StrJoin(sim::WhatIfNames(), " ")),
      "",
      [this](const std::string& text) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(sim::WhatIfChanges changes, sim::ParseWhatIf(text));
        request_->what_if.push_back(std::move(changes));
        return absl::OkStatus();
      },
      /*repeated=*/true);
  flags_.Custom("tokens", "COUNT", "also print the time to train on COUNT tokens, e.g. 15T", "",
                [this](const std::string& text) {
                  request_->tokens = ParseCount(text);
                  if (request_->tokens) return absl::OkStatus();
                  return absl::InvalidArgumentError(
                      absl::StrCat("expected a number from 1 to 1e18, e.g. 300B or 15T", BadBeginning(text)));
                });
  flags_.Bool("goodput",
              "also print how much of its time the job trains if it is interrupted as cluster.reliability states, and "
              "how often it should save",
              &goodput_);
  flags_.Int("days", "N", "with --goodput: also draw 1000 runs of N days, and print how their goodput varies",
             &goodput_options_.days, 1, sim::kMaxDays);
  flags_.Choice("format", {"text", "json"}, "output format", &request_->format);
  flags_.Bool("verbose", "also print what each rank waited for, and for how long", &request_->verbose);
  flags_.String("trace", "FILE", "write the simulated steps, for ui.perfetto.dev and weft report", &request_->trace);
  flags_.Int("trace-repetitions", "K",
             "number of repetitions in the trace; one is an optimizer step, or several if the schedule never drains "
             "the pipeline",
             &repetitions_, 1, 1000);
  flags_.Bool("require-fit", "exit with status 1 if the program does not fit the device", &request_->require_fit);
}

absl::Status SimulateFlags::Parse(absl::Span<const std::string> args) {
  WEFT_RETURN_IF_ERROR(flags_.Parse(args, 0, 1));
  if (flags_.help_wanted()) return absl::OkStatus();
  if (!flags_.positional().empty()) request_->program = flags_.positional()[0];
  WEFT_RETURN_IF_ERROR(CheckInput());
  if (flags_.Given("days") && !goodput_) return UsageError("--days needs --goodput");
  if (goodput_) {
    goodput_options_.seed = request_->options.seed;
    request_->goodput = goodput_options_;
  }
  WEFT_RETURN_IF_ERROR(cost_flags_->Finish());
  const bool json = request_->format == "json";
  if (request_->verbose && json)
    return UsageError("--verbose needs --format=text; the JSON report holds everything without it");
  if (request_->tokens && json) return UsageError("--tokens needs --format=text; see weft simulate --help");
  if (flags_.Given("trace-repetitions") && request_->trace.empty()) {
    return UsageError("--trace-repetitions needs --trace=FILE");
  }
  for (const sim::WhatIfChanges& changes : request_->what_if) {
    if (absl::Status status = sim::CheckWhatIf(changes, request_->options); !status.ok()) {
      return UsageError(absl::StrCat("--what-if: ", status.message()));
    }
  }
  std::vector<NamedFile> read = InputFiles(request_->input);
  read.push_back({"the program", request_->program});
  read.push_back({"--runtime", request_->runtime});
  WEFT_RETURN_IF_ERROR(CheckFileClashes(read, {{"--trace", request_->trace}}));
  request_->options.trace = !request_->trace.empty();
  request_->options.trace_repetitions = static_cast<int>(repetitions_);
  return absl::OkStatus();
}

absl::Status SimulateFlags::CheckInput() const {
  for (const char* flag : {"model", "recipe", "plan", "set"}) {
    if (!request_->program.empty() && flags_.Given(flag)) {
      return UsageError(absl::StrCat("--", flag, " is for compilation, but the program ", Quoted(request_->program),
                                     " is compiled already; leave out the flag or the program"));
    }
  }
  if (flags_.positional().empty() && request_->input.model.empty()) {
    return UsageError("a PROGRAM is needed, or --model and --cluster; see weft simulate --help");
  }
  return absl::OkStatus();
}

}  // namespace weft
