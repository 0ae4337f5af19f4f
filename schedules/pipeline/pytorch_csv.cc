#include "schedules/pipeline/pytorch_csv.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/util/suggest.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/params.h"
#include "schedules/pipeline/transfer_check.h"

namespace weft {
namespace {

using Kind = ListActionKind;

template <typename... Args>
absl::Status Refuse(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

// The words of all dialects. The meaning of B and BW is known only when the whole file has been read.
const std::vector<std::string>& Words() {
  static const auto& words = *new std::vector<std::string>{
      "F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD", "BW"};
  return words;
}
constexpr int kWordB = 1, kWordI = 2, kWordW = 3, kWordBW = kListActionKinds;

constexpr absl::string_view kPairWord = "OVERLAP_F_B";
constexpr absl::string_view kExample = "expected STAGE ACTION MICROBATCH like 0F0, or (0F1;3B0)OVERLAP_F_B";

// A position in the file. Lines and cells count from 1.
struct Place {
  int line = 0;
  int cell = 0;
};

// One action as it was read.
struct Cell {
  Place place;
  int word = 0;
  bool paired = false;
  int32_t stage = 0;
  int32_t microbatch = -1;
};

// The look-up key of an action that has a microbatch.
uint64_t Key(Kind kind, int stage, int microbatch) {
  static_assert(kMaxSlots <= int64_t{1} << 28);
  return (static_cast<uint64_t>(kind) << 28 | static_cast<uint64_t>(stage)) << 28 | static_cast<uint64_t>(microbatch);
}

struct Reader {
  CsvOptions options;
  std::vector<std::vector<Cell>> rows;
  // The place where each word first appears. The key is the word's index in Words().
  std::map<int, Place> seen;
  bool has_pair = false;
  Place first_empty;

  std::string At(const Place& place) const {
    return absl::StrCat("line ", place.line, " (rank ", place.line - 1, "), cell ", place.cell, ": ");
  }
  std::string At(const Cell& cell) const {
    return absl::StrCat(At(cell.place), cell.stage, Words()[cell.word],
                        cell.microbatch < 0 ? "" : absl::StrCat(cell.microbatch), ": ");
  }

  absl::Status ReadAction(absl::string_view token, const Place& place, Cell* cell) const {
    cell->place = place;
    size_t digits = 0;
    while (digits < token.size() && absl::ascii_isdigit(token[digits])) ++digits;
    size_t tail = token.size();
    while (tail > digits && absl::ascii_isdigit(token[tail - 1])) --tail;
    const absl::string_view word = token.substr(digits, tail - digits), microbatch = token.substr(tail);
    if (digits == 0 || word.empty()) return Refuse(At(place), "cannot read ", Quoted(token), "; ", kExample);
    const auto known = std::find(Words().begin(), Words().end(), word);
    if (known == Words().end()) {
      // The digits inside a word such as "F3xyz" show that other characters follow a complete action.
      const size_t inner = std::find_if(word.begin(), word.end(), absl::ascii_isdigit) - word.begin();
      if (inner < word.size()) {
        const size_t junk = std::find_if_not(word.begin() + inner, word.end(), absl::ascii_isdigit) - word.begin();
        return Refuse(At(place), Quoted(token), " has ", Quoted(token.substr(digits + junk)), " after the action ",
                      Quoted(token.substr(0, digits + junk)), "; cells are separated by commas");
      }
      return Refuse(At(place), "unknown action ", Quoted(word), " in ", Quoted(token), NameHelp(word, Words()));
    }
    cell->word = static_cast<int>(known - Words().begin());
    if (!absl::SimpleAtoi(token.substr(0, digits), &cell->stage) || cell->stage >= kMaxSlots) {
      return Refuse(At(place), "stage ", Quoted(token.substr(0, digits)), "; allowed: 0 to ", kMaxSlots - 1);
    }
    const bool wants_microbatch = cell->word == kWordBW || HasMicrobatch(static_cast<Kind>(cell->word));
    if (wants_microbatch != !microbatch.empty()) {
      return Refuse(At(place), Quoted(token),
                    wants_microbatch ? " lacks its microbatch, like in 0F0" : " takes no microbatch, like 0UNSHARD");
    }
    if (!microbatch.empty() && (!absl::SimpleAtoi(microbatch, &cell->microbatch) || cell->microbatch >= kMaxSlots)) {
      return Refuse(At(place), "microbatch ", Quoted(microbatch), "; allowed: 0 to ", kMaxSlots - 1);
    }
    return absl::OkStatus();
  }

  absl::Status ReadCell(absl::string_view token, const Place& place, std::vector<Cell>* row) {
    if (token.empty() || token == "\"\"") {
      if (first_empty.line == 0) first_empty = place;
      return absl::OkStatus();
    }
    if (token.front() == '#') return Refuse(At(place), Quoted(token), "; PyTorch's CSV has no comments");
    std::vector<absl::string_view> parts = {token};
    if (token.front() == '(') {
      const size_t close = token.find(')');
      if (close == absl::string_view::npos) return Refuse(At(place), Quoted(token), " lacks its ')'; ", kExample);
      if (token.substr(close + 1) != kPairWord) {
        return Refuse(At(place), Quoted(token.substr(close + 1)), " after ')'; allowed: ", kPairWord);
      }
      parts = absl::StrSplit(token.substr(1, close - 1), ';');
      if (parts.size() != 2) {
        return Refuse(At(place), Quoted(token), " groups ", parts.size(), "; allowed: a forward and a backward");
      }
      has_pair = true;
    }
    for (absl::string_view part : parts) {
      Cell cell;
      const absl::string_view stripped = absl::StripAsciiWhitespace(part);
      if (stripped.empty()) return Refuse(At(place), Quoted(token), " groups nothing; ", kExample);
      if (absl::Status status = ReadAction(stripped, place, &cell); !status.ok()) return status;
      seen.try_emplace(cell.word, place);
      row->push_back(cell);
    }
    if (parts.size() == 2) {
      Cell& forward = (*row)[row->size() - 2];
      forward.paired = true;
      const int second = row->back().word;
      if (forward.word != 0 || (second != kWordB && second != kWordBW)) {
        return Refuse(At(place), Quoted(token), "; allowed in a group: a forward, then a whole backward");
      }
    }
    return absl::OkStatus();
  }

  absl::Status Read(absl::string_view text) {
    if (text.empty()) return Refuse("the file is empty; expected one line per pipe rank");
    if (absl::StartsWith(text, "\xef\xbb\xbf"))
      return Refuse("the file begins with a byte order mark; save it without");
    std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
    if (lines.back().empty()) lines.pop_back();
    for (size_t i = 0; i < lines.size(); ++i) {
      const absl::string_view line = absl::StripSuffix(lines[i], "\r");
      Place place = {.line = static_cast<int>(i) + 1, .cell = 0};
      if (line.empty())
        return Refuse("line ", place.line, " is empty; each line is a rank, which must have at least one action");
      std::vector<Cell>& row = rows.emplace_back();
      for (absl::string_view token : absl::StrSplit(line, ',')) {
        ++place.cell;
        if (absl::Status status = ReadCell(absl::StripAsciiWhitespace(token), place, &row); !status.ok()) return status;
      }
      if (row.empty()) return Refuse("line ", place.line, " (rank ", i, ") has no action");
    }
    return absl::OkStatus();
  }

  bool Has(int word) const { return seen.count(word) > 0; }

  absl::Status SettleDialect() {
    CsvDialect& dialect = options.dialect;
    if (Has(kWordBW) && Has(kWordI)) {
      return Refuse(At(seen[kWordBW]), "BW is of PyTorch nightlies of late 2024, but ", At(seen[kWordI]),
                    "I is of later ones; no dialect has both");
    }
    if (dialect == CsvDialect::kAuto) {
      dialect = Has(kWordBW)                              ? CsvDialect::kLate2024
                : Has(kWordI) || !Has(kWordW) || has_pair ? CsvDialect::kTorch
                                                          : CsvDialect::kTorch25;
    }
    if (Has(kWordBW) && dialect != CsvDialect::kLate2024) {
      return Refuse(At(seen[kWordBW]), "dialect ", kCsvDialects[static_cast<int>(dialect)],
                    " has no BW; allowed: F, I, W, B; nearest valid: dialect late-2024");
    }
    if (Has(kWordI) && dialect != CsvDialect::kTorch) {
      return Refuse(At(seen[kWordI]), "dialect ", kCsvDialects[static_cast<int>(dialect)],
                    " has no I; nearest valid: dialect torch");
    }
    return absl::OkStatus();
  }

  absl::Status SettleForm() {
    const std::pair<const int, Place>* other = nullptr;
    for (const auto& entry : seen) {
      if (entry.first >= static_cast<int>(Kind::kSendForward) && entry.first < kWordBW) {
        other = &entry;
        break;
      }
    }
    if (options.form == CsvForm::kAuto)
      options.form = other != nullptr ? CsvForm::kComputeComms : CsvForm::kComputeOnly;
    if (options.form == CsvForm::kComputeOnly && other != nullptr) {
      return Refuse(At(other->second), Words()[other->first],
                    " in a compute_only file; allowed: F, I, W, B; nearest valid: form compute_comms");
    }
    if (options.form == CsvForm::kComputeComms && first_empty.line > 0) {
      return Refuse(At(first_empty), "empty; a compute_comms file has an action in every cell");
    }
    return absl::OkStatus();
  }

  Kind KindOf(int word) const {
    if (word == kWordBW) return Kind::kBackward;
    if (word != kWordB) return static_cast<Kind>(word);
    const bool input_only =
        options.dialect == CsvDialect::kLate2024 || (options.dialect == CsvDialect::kTorch25 && Has(kWordW));
    return input_only ? Kind::kBackwardInput : Kind::kBackward;
  }

  // Collects the stages and their ranks. Checks that no action appears twice and that each stage has all microbatches.
  absl::StatusOr<ActionLists> ToLists() const {
    std::map<int, const Cell*> stages;
    absl::flat_hash_map<uint64_t, const Cell*> where;
    const Cell* last = nullptr;
    ActionLists lists;
    for (const std::vector<Cell>& row : rows) {
      std::vector<ListAction>& list = lists.order.emplace_back();
      for (const Cell& cell : row) {
        const Kind kind = KindOf(cell.word);
        list.push_back({kind, cell.paired, cell.stage, cell.microbatch});
        const Cell* first = stages.try_emplace(cell.stage, &cell).first->second;
        if (first->place.line != cell.place.line) {
          return Refuse(At(cell), "stage ", cell.stage, " is on rank ", first->place.line - 1, " too (line ",
                        first->place.line, ", cell ", first->place.cell, "); allowed: one rank per stage");
        }
        if (!HasMicrobatch(kind)) continue;
        const auto [entry, fresh] = where.try_emplace(Key(kind, cell.stage, cell.microbatch), &cell);
        if (!fresh) return Refuse(At(cell), "is also in cell ", entry->second->place.cell);
        if (IsCompute(kind) && (last == nullptr || cell.microbatch > last->microbatch)) last = &cell;
        const bool backward = kind == Kind::kBackward || kind == Kind::kBackwardInput;
        if (backward && where.count(Key(Kind::kForward, cell.stage, cell.microbatch)) == 0) {
          return Refuse(At(cell), "comes before its forward ", cell.stage, "F", cell.microbatch);
        }
        if (kind == Kind::kBackwardWeight && where.count(Key(Kind::kBackwardInput, cell.stage, cell.microbatch)) == 0) {
          return Refuse(At(cell), "comes before its input gradient");
        }
      }
    }
    if (last == nullptr) return Refuse("the file has no forward and no backward");
    lists.microbatches = last->microbatch + 1;
    for (const auto& [stage, cell] : stages) {
      if (stage != static_cast<int>(lists.rank_of.size())) {
        return Refuse(At(*cell), "there is no stage ", lists.rank_of.size(), " in the file; stages count from 0");
      }
      lists.rank_of.push_back(cell->place.line - 1);
      for (int m = 0; m < lists.microbatches; ++m) {
        auto has = [&, stage = stage](Kind kind) { return where.count(Key(kind, stage, m)) > 0; };
        auto missing = [&, cell = cell](absl::string_view what) {
          return Refuse("line ", cell->place.line, " (rank ", cell->place.line - 1, "): stage ", cell->stage, " lacks ",
                        what, " of microbatch ", m, "; ", At(*last), "so there are ", lists.microbatches,
                        " microbatches");
        };
        if (!has(Kind::kForward)) return missing("the forward");
        if (has(Kind::kBackward)) {
          for (Kind half : {Kind::kBackwardInput, Kind::kBackwardWeight}) {
            if (!has(half)) continue;
            return Refuse(At(*where.at(Key(half, stage, m))), "the whole backward is in cell ",
                          where.at(Key(Kind::kBackward, stage, m))->place.cell, " too");
          }
        } else if (!has(Kind::kBackwardInput)) {
          return missing("the backward");
        } else if (!has(Kind::kBackwardWeight)) {
          return missing("the weight gradient (W)");
        }
      }
    }
    return lists;
  }

  // Adds the cell of the wrong slot to an error of CheckSchedule.
  absl::Status AtSlot(const absl::Status& status, const WrongSlot& wrong, const PipelineSchedule& schedule) const {
    int64_t left = IndexOf(wrong, schedule);
    if (left < 0) return status;
    for (const Cell& cell : rows[wrong.rank]) {
      if (IsCompute(KindOf(cell.word)) && left-- == 0) return Refuse(At(cell), status.message());
    }
    return status;
  }

  // Adds the cell of the first action that an error of CheckTransfers names to that error.
  absl::Status AtAction(const absl::Status& status, const ActionLists& lists) const {
    std::map<std::string, const Cell*> cells;
    for (size_t rank = 0; rank < rows.size(); ++rank) {
      for (size_t i = 0; i < rows[rank].size(); ++i) {
        cells.try_emplace(ListActionName(lists.order[rank][i]), &rows[rank][i]);
      }
    }
    const absl::string_view message = status.message();
    for (size_t at = 0; at < message.size();) {
      size_t end = at;
      while (end < message.size() && (absl::ascii_isalnum(message[end]) || message[end] == '_')) ++end;
      const auto found = cells.find(std::string(message.substr(at, end - at)));
      if (found != cells.end()) return Refuse(At(*found->second), message);
      at = end + 1;
    }
    return status;
  }

  // Checks that UNSHARD and RESHARD alternate, and that stages are unsharded when they compute, if any stage of the
  // rank is ever sharded. PyTorch sums gradients only in REDUCE_GRAD. Older versions sum them in the last backward, and
  // their files have no REDUCE_GRAD at all.
  absl::Status CheckWeights() const {
    const bool reduces = seen.count(static_cast<int>(Kind::kReduceGradient)) > 0;
    for (const std::vector<Cell>& row : rows) {
      const bool sharded =
          std::any_of(row.begin(), row.end(), [&](const Cell& c) { return KindOf(c.word) == Kind::kUnshard; });
      std::map<int, const Cell*> held, reduced, last_gradient;
      for (const Cell& cell : row) {
        switch (const Kind kind = KindOf(cell.word); kind) {
          case Kind::kUnshard:
            if (!held.try_emplace(cell.stage, &cell).second) {
              return Refuse(At(cell), "stage ", cell.stage, " is unsharded already, since cell ",
                            held[cell.stage]->place.cell);
            }
            break;
          case Kind::kReshard:
            if (held.erase(cell.stage) == 0) return Refuse(At(cell), "stage ", cell.stage, " is not unsharded here");
            break;
          case Kind::kReduceGradient:
            if (!reduced.try_emplace(cell.stage, &cell).second) {
              return Refuse(At(cell), "is also in cell ", reduced[cell.stage]->place.cell);
            }
            break;
          default:
            if (!IsCompute(kind)) break;
            if (sharded && held.count(cell.stage) == 0) {
              return Refuse(At(cell), "stage ", cell.stage, " is not unsharded here");
            }
            if (kind != Kind::kBackward && kind != Kind::kBackwardWeight) break;
            last_gradient[cell.stage] = &cell;
            if (reduced.count(cell.stage) > 0) {
              return Refuse(At(cell), "comes after ", cell.stage, "REDUCE_GRAD in cell ",
                            reduced[cell.stage]->place.cell);
            }
        }
      }
      for (const auto& [stage, cell] : last_gradient) {
        if (!sharded || !reduces || reduced.count(stage) > 0) continue;
        return Refuse(At(*cell), "is the last gradient of stage ", stage, ", whose weights are sharded, and no ", stage,
                      "REDUCE_GRAD follows to sum it; ", At(seen.at(static_cast<int>(Kind::kReduceGradient))),
                      "another stage has one");
      }
    }
    return absl::OkStatus();
  }
};

}  // namespace

absl::StatusOr<CsvSchedule> ParsePytorchCsv(absl::string_view text, const CsvOptions& options) {
  Reader reader = {.options = options, .rows = {}, .seen = {}, .has_pair = false, .first_empty = {}};
  if (absl::Status status = reader.Read(text); !status.ok()) return status;
  if (absl::Status status = reader.SettleDialect(); !status.ok()) return status;
  if (absl::Status status = reader.SettleForm(); !status.ok()) return status;
  CsvSchedule result;
  absl::StatusOr<ActionLists> lists = reader.ToLists();
  if (!lists.ok()) return lists.status();
  result.lists = *std::move(lists);
  if (absl::Status status = reader.CheckWeights(); !status.ok()) return status;
  if (reader.options.form == CsvForm::kComputeComms) {
    if (absl::Status status = CheckTransfers(result.lists); !status.ok()) return reader.AtAction(status, result.lists);
  }
  result.options = reader.options;
  result.microbatches = result.lists.microbatches;
  result.schedule = ToSchedule(result.lists);
  std::optional<WrongSlot> wrong;
  if (absl::Status status = CheckSchedule(result.schedule, result.microbatches, &wrong); !status.ok()) {
    return wrong ? reader.AtSlot(status, *wrong, result.schedule) : status;
  }
  return result;
}

absl::StatusOr<std::string> FormatPytorchCsv(const ActionLists& lists, CsvDialect dialect) {
  if (dialect == CsvDialect::kAuto) dialect = CsvDialect::kTorch;
  const bool old = dialect != CsvDialect::kTorch;
  // If the file has a W, torch 2.5 reads every B as an input gradient.
  bool splits = false;
  for (const std::vector<ListAction>& list : lists.order) {
    for (const ListAction& action : list) splits |= action.kind == Kind::kBackwardWeight;
  }
  std::string text;
  for (size_t rank = 0; rank < lists.order.size(); ++rank) {
    const std::vector<ListAction>& list = lists.order[rank];
    if (list.empty()) return Refuse("rank ", rank, " does nothing, which the format cannot express");
    auto refuse = [&](const ListAction& action, absl::string_view why) {
      return Refuse("dialect ", kCsvDialects[static_cast<int>(dialect)], ": rank ", rank, ", ", ListActionName(action),
                    ": ", why, "; nearest valid: dialect torch");
    };
    for (size_t i = 0; i < list.size(); ++i) {
      const ListAction& action = list[i];
      absl::string_view word = ListActionWord(action.kind);
      if (old) {
        if (action.paired) return refuse(action, "has no OVERLAP_F_B");
        if (action.kind == Kind::kReduceGradient) return refuse(action, "has no REDUCE_GRAD");
        if (action.kind == Kind::kBackwardInput) word = "B";
        if (action.kind == Kind::kBackward && dialect == CsvDialect::kLate2024) word = "BW";
        if (action.kind == Kind::kBackward && dialect == CsvDialect::kTorch25 && splits) {
          return refuse(action, "cannot have whole and split backwards in one file");
        }
      }
      const bool second = i > 0 && list[i - 1].paired;
      absl::StrAppend(&text, second ? ";" : i > 0 ? "," : "", action.paired ? "(" : "", action.stage, word);
      if (HasMicrobatch(action.kind)) absl::StrAppend(&text, action.microbatch);
      if (second) absl::StrAppend(&text, ")", kPairWord);
    }
    text += '\n';
  }
  return text;
}

}  // namespace weft
