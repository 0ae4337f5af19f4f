#include "schedules/pipeline/schedule_text_reader.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "proto/util/suggest.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/params.h"

namespace weft {
namespace {

constexpr absl::string_view kSlotHelp =
    "expected KIND STAGE . MICROBATCH like F0.3, with kinds F, B, I (input gradient), W (weight gradient)";

const std::vector<std::string>& Keys() {
  static const auto& keys =
      *new std::vector<std::string>{"name",           "ranks", "microbatches", "lane N",   "rank N",
                                    "message-driven", "limit", "update-every", "versions", "uses"};
  return keys;
}

constexpr size_t kMaxName = 200;

// A word of a line, or a whole line, with its position.
struct Word {
  absl::string_view text;
  int line = 0;
  int column = 0;
};

template <typename... Args>
absl::Status RefuseAt(const Word& word, const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat("line ", word.line, ", column ", word.column, ": ", args...));
}

// The words of a line from `offset` on.
std::vector<Word> Split(absl::string_view line, int number, size_t offset) {
  std::vector<Word> words;
  for (size_t i = offset; i < line.size();) {
    if (absl::ascii_isspace(line[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < line.size() && !absl::ascii_isspace(line[end])) ++end;
    words.push_back({line.substr(i, end - i), number, static_cast<int>(i) + 1});
    i = end;
  }
  return words;
}

absl::Status ReadNumber(const Word& word, absl::string_view text, absl::string_view what, int64_t low, int64_t high,
                        int* value) {
  int64_t number = 0;
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  if (digits && absl::SimpleAtoi(text, &number) && number >= low && number <= high) {
    *value = static_cast<int>(number);
    return absl::OkStatus();
  }
  return RefuseAt(word, what, " ", Quoted(text), "; allowed: ", low, " to ", high);
}

struct Position {
  int line = 0;
  int column = 0;
};

char KindLetter(SlotKind kind) {
  switch (kind) {
    case SlotKind::kForward:
      return 'F';
    case SlotKind::kBackward:
      return 'B';
    case SlotKind::kBackwardInput:
      return 'I';
    case SlotKind::kBackwardWeight:
      break;
  }
  return 'W';
}

class TextReader {
 public:
  absl::StatusOr<NamedSchedule> Read(absl::string_view text) {
    int number = 0;
    bool header = false;
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      absl::string_view line = text.substr(begin, end - begin);
      begin = end + 1;
      ++number;
      line = line.substr(0, line.find('#'));
      const absl::string_view content = absl::StripAsciiWhitespace(line);
      if (content.empty()) continue;
      if (!header) {
        if (content != kScheduleTextHeader) {
          return RefuseAt(Split(line, number, 0)[0], Quoted(content), "; expected '", kScheduleTextHeader, "'");
        }
        header = true;
        continue;
      }
      if (absl::Status status = ReadLine(line, number); !status.ok()) return status;
    }
    return Finish();
  }

 private:
  absl::Status ReadLine(absl::string_view line, int number) {
    if (absl::ascii_isspace(line[0])) {
      const std::vector<Word> words = Split(line, number, 0);
      if (list_ == nullptr)
        return RefuseAt(words[0], "an indented line continues a 'rank N:' line, but none is before it");
      return ReadSlots(words);
    }
    list_ = nullptr;
    const size_t colon = line.find(':');
    const Word key = {absl::StripAsciiWhitespace(line.substr(0, colon)), number, 1};
    if (colon == absl::string_view::npos) return RefuseAt(key, "no ':' in ", Quoted(line), "; expected KEY: VALUE");
    const std::vector<Word> words = Split(line, number, colon + 1);
    if (const absl::Status status = Once(key); !status.ok()) return status;
    for (bool is_rank : {true, false}) {
      absl::string_view index = key.text;
      if (!absl::ConsumePrefix(&index, is_rank ? "rank " : "lane ")) continue;
      int i = 0;
      if (absl::Status status =
              ReadNumber(key, absl::StripAsciiWhitespace(index), is_rank ? "rank" : "lane", 0, kMaxSlots - 1, &i);
          !status.ok()) {
        return status;
      }
      // The numbers must differ too: "rank 0" and "rank 00" are different as text.
      if (absl::Status status = Once({is_rank ? "rank" : "lane", number, 1}, i); !status.ok()) return status;
      if (!is_rank) return ReadLane(words, &placement_[i]);
      list_ = &order_[i];
      places_ = &places_of_[i];
      return ReadSlots(words);
    }
    return ReadKey(key, words);
  }

  // Refuses a key that is there twice.
  absl::Status Once(const Word& key, int index = -1) {
    const auto [entry, fresh] =
        seen_.try_emplace(index < 0 ? std::string(key.text) : absl::StrCat(key.text, " #", index), key);
    if (fresh) return absl::OkStatus();
    return RefuseAt(key, Quoted(key.text), " is also in line ", entry->second.line);
  }

  absl::Status ReadKey(const Word& key, const std::vector<Word>& words) {
    if (std::find(Keys().begin(), Keys().end(), key.text) == Keys().end()) {
      return RefuseAt(key, "unknown key ", Quoted(key.text), NameHelp(key.text, Keys()));
    }
    if (words.empty()) return RefuseAt(key, Quoted(key.text), " lacks its value");
    if (key.text == "versions") {
      for (const Word& word : words) {
        if (absl::Status s = ReadNumber(word, word.text, "versions", 1, kMaxSlots, &versions_.emplace_back());
            !s.ok()) {
          return s;
        }
      }
      return absl::OkStatus();
    }
    const Word& value = words[0];
    if (words.size() > 1)
      return RefuseAt(words[1], "unexpected ", Quoted(words[1].text), "; ", key.text, " has one value");
    auto one_of = [&](absl::string_view first, absl::string_view second, std::optional<bool>* is_second) {
      *is_second = value.text == second;
      if (value.text == first || value.text == second) return absl::OkStatus();
      return RefuseAt(value, key.text, " ", Quoted(value.text),
                      NameHelp(value.text, {std::string(first), std::string(second)}));
    };
    if (key.text == "name") {
      if (value.text.size() > kMaxName) {
        return RefuseAt(value, "a name of ", value.text.size(), " characters; allowed: at most ", kMaxName);
      }
      if (!IsName(value.text)) {
        return RefuseAt(value, "name ", Quoted(value.text), "; allowed: letters, digits, '.', '_' and '-'");
      }
      named_.name = std::string(value.text);
      return absl::OkStatus();
    }
    if (key.text == "message-driven") return one_of("arrival", "backward-first", &backward_first_);
    if (key.text == "uses") return one_of("newest", "previous", &previous_);
    int* const target = key.text == "ranks"          ? &ranks_
                        : key.text == "microbatches" ? &named_.microbatches
                        : key.text == "limit"        ? &limit_
                                                     : &update_every_;
    return ReadNumber(value, value.text, key.text, 1, kMaxSlots / 2, target);
  }

  absl::Status ReadLane(const std::vector<Word>& words, std::vector<int>* lane) {
    for (const Word& word : words) {
      if (absl::Status s = ReadNumber(word, word.text, "rank", 0, kMaxSlots - 1, &lane->emplace_back()); !s.ok())
        return s;
    }
    return absl::OkStatus();
  }

  // Reads F0.3, F0.2-3, B1.0@1 or +F0.0.
  absl::Status ReadSlot(const Word& word, absl::string_view text, Slot* slot) {
    if (absl::ConsumePrefix(&text, "+")) slot->ahead = 1;
    if (text.empty()) return RefuseAt(word, "cannot read ", Quoted(word.text), "; ", kSlotHelp);
    switch (text[0]) {
      case 'F':
        slot->kind = SlotKind::kForward;
        break;
      case 'B':
        slot->kind = SlotKind::kBackward;
        break;
      case 'I':
        slot->kind = SlotKind::kBackwardInput;
        break;
      case 'W':
        slot->kind = SlotKind::kBackwardWeight;
        break;
      default:
        return RefuseAt(word, "cannot read ", Quoted(word.text), "; ", kSlotHelp);
    }
    text.remove_prefix(1);
    if (const size_t at = text.find('@'); at != absl::string_view::npos) {
      int lane = 0;
      if (absl::Status s = ReadNumber(word, text.substr(at + 1), "lane", 0, INT16_MAX, &lane); !s.ok()) return s;
      slot->lane = static_cast<int16_t>(lane);
      text = text.substr(0, at);
    }
    const size_t dot = text.find('.');
    if (dot == absl::string_view::npos) return RefuseAt(word, "cannot read ", Quoted(word.text), "; ", kSlotHelp);
    if (absl::Status s = ReadNumber(word, text.substr(0, dot), "stage", 0, kMaxSlots - 1, &slot->stage); !s.ok()) {
      return s;
    }
    text.remove_prefix(dot + 1);
    const size_t dash = text.find('-');
    const absl::string_view first = text.substr(0, dash);
    if (absl::Status s = ReadNumber(word, first, "microbatch", 0, kMaxSlots - 1, &slot->microbatch); !s.ok()) return s;
    if (dash == absl::string_view::npos) return absl::OkStatus();
    slot->width = 2;
    int last = 0;
    if (absl::Status s = ReadNumber(word, text.substr(dash + 1), "microbatch", 0, kMaxSlots - 1, &last); !s.ok())
      return s;
    if (last == slot->microbatch + 1) return absl::OkStatus();
    return RefuseAt(word, Quoted(word.text), "; allowed: one microbatch, or it and the next: ", slot->microbatch, "-",
                    slot->microbatch + 1);
  }

  absl::Status ReadSlots(const std::vector<Word>& words) {
    // A pair must end on the line on which it begins.
    size_t opened = 0;
    bool open = false;
    for (const Word& word : words) {
      absl::string_view text = word.text;
      if (absl::ConsumePrefix(&text, "(")) {
        if (open) return RefuseAt(word, "'(' within '('");
        open = true;
        opened = list_->size();
      }
      const bool closes = absl::ConsumeSuffix(&text, ")");
      Slot slot;
      if (absl::Status status = ReadSlot(word, text, &slot); !status.ok()) return status;
      list_->push_back(slot);
      places_->push_back({word.line, word.column});
      if (slot.ahead != 0 && first_ahead_.line == 0) first_ahead_ = word;
      lanes_ = std::max<int>(lanes_, slot.lane + 1);
      if (!closes) continue;
      if (!open) return RefuseAt(word, "')' without '('");
      open = false;
      if (list_->size() != opened + 2 || (*list_)[opened].kind != SlotKind::kForward ||
          slot.kind != SlotKind::kBackward) {
        return RefuseAt(word, "a group that ends here has ", list_->size() - opened,
                        " slots; allowed: a forward F, then a whole backward B");
      }
      (*list_)[opened].paired = true;
    }
    if (open) return RefuseAt(words.back(), "'(' is not closed in its line");
    return absl::OkStatus();
  }

  static bool IsName(absl::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-'; });
  }

  absl::Status Missing(absl::string_view key) const {
    return absl::InvalidArgumentError(absl::StrCat("the file has no line '", key, ":'"));
  }

  absl::StatusOr<NamedSchedule> Finish() {
    PipelineSchedule& schedule = named_.schedule;
    if (seen_.count("ranks") == 0) return Missing("ranks");
    if (seen_.count("microbatches") == 0) return Missing("microbatches");
    // A rank that does nothing needs a line too, so that a forgotten line is noticed.
    int64_t slots = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto list = order_.find(rank);
      if (list == order_.end()) return Missing(absl::StrCat("rank ", rank));
      slots += static_cast<int64_t>(list->second.size());
      schedule.order.push_back(std::move(list->second));
    }
    if (const auto& [last, list] = *order_.rbegin(); last >= ranks_) {
      return RefuseAt(seen_.at(absl::StrCat("rank #", last)), "rank ", last, "; with 'ranks: ", ranks_,
                      "' allowed: 0 to ", ranks_ - 1);
    }
    if (absl::Status status = Place(slots); !status.ok()) return status;
    if (backward_first_ || limit_ != 0) {
      if (!backward_first_) return Missing("message-driven");
      if (limit_ == 0) return Missing("limit");
      schedule.message_driven =
          MessageDriven{.rule = *backward_first_ ? MessageDriven::Rule::kBackwardFirst : MessageDriven::Rule::kArrival,
                        .limit = limit_};
    }
    if (update_every_ != 0 || !versions_.empty() || previous_) {
      if (update_every_ == 0) return Missing("update-every");
      if (versions_.empty()) return Missing("versions");
      if (!previous_) return Missing("uses");
      schedule.asynchrony = Asynchrony{.microbatches_per_update = update_every_,
                                       .versions = std::move(versions_),
                                       .uses = *previous_ ? Asynchrony::Uses::kPrevious : Asynchrony::Uses::kNewest};
    } else if (first_ahead_.line != 0) {
      return RefuseAt(first_ahead_, Quoted(first_ahead_.text),
                      " is of the next repetition ('+'), which only asynchronous schedules (update-every) have");
    }
    std::optional<WrongSlot> wrong;
    if (absl::Status status = CheckSchedule(schedule, named_.microbatches, &wrong); !status.ok()) {
      return wrong ? InFile(status, *wrong) : status;
    }
    return std::move(named_);
  }

  // Adds the position of the wrong slot, and the slot's name in this file, to an error.
  absl::Status InFile(const absl::Status& status, const WrongSlot& wrong) const {
    const int64_t index = IndexOf(wrong, named_.schedule);
    const Word& line = seen_.at(absl::StrCat("rank #", wrong.rank));
    const Position place = index >= 0 ? places_of_.at(wrong.rank)[index] : Position{line.line, line.column};
    const std::string word = SlotWord(index >= 0 ? named_.schedule.order[wrong.rank][index] : wrong.slot);
    return absl::InvalidArgumentError(
        absl::StrCat("line ", place.line, ", column ", place.column, ", ", word, ": ", status.message()));
  }

  // Takes the placement from 'lane N:' lines if there are any, else from the ranks of each stage's slots.
  absl::Status Place(int64_t slots) {
    PipelineSchedule& schedule = named_.schedule;
    if (!placement_.empty()) lanes_ = std::max(lanes_, placement_.rbegin()->first + 1);
    // There cannot be more lanes than slots. A hostile file could otherwise claim much memory.
    if (lanes_ > std::max<int64_t>(slots, 1)) {
      return absl::InvalidArgumentError(absl::StrCat("lane ", lanes_ - 1, " in a file of ", slots, " slots"));
    }
    int stages = 0;
    // The place in the file that requires this number of stages.
    std::string most_stages;
    for (const auto& [lane, ranks] : placement_) {
      if (static_cast<int>(ranks.size()) <= stages) continue;
      stages = static_cast<int>(ranks.size());
      most_stages = absl::StrCat("in line ", seen_.at(absl::StrCat("lane #", lane)).line, " (lane ", lane, ")");
    }
    for (const auto& [rank, places] : places_of_) {
      for (size_t i = 0; i < places.size(); ++i) {
        const Slot& slot = schedule.order[rank][i];
        if (slot.stage < stages) continue;
        stages = slot.stage + 1;
        most_stages = absl::StrCat("for ", SlotWord(slot), " in line ", places[i].line, ", column ", places[i].column);
      }
    }
    if (int64_t{stages} * lanes_ > std::max<int64_t>(slots, 1) * 64) {
      return absl::InvalidArgumentError(absl::StrCat("stage ", stages - 1, " in ", lanes_,
                                                     " lanes is too large for a file of ", slots,
                                                     " slots; allowed: at most 64 stages of all lanes per slot"));
    }
    schedule.stages = stages;
    schedule.lanes = lanes_;
    schedule.placement.assign(lanes_, std::vector<int>(stages, -1));
    for (const auto& [lane, ranks] : placement_) {
      if (static_cast<int>(ranks.size()) != stages) {
        return RefuseAt(seen_.at(absl::StrCat("lane #", lane)), "lane ", lane, " places ", ranks.size(),
                        " stages; expected ", stages, " as ", most_stages);
      }
      schedule.placement[lane] = ranks;
    }
    for (int rank = 0; rank < static_cast<int>(schedule.order.size()); ++rank) {
      for (const Slot& slot : schedule.order[rank]) {
        int& at = schedule.placement[slot.lane][slot.stage];
        if (at < 0) at = rank;
      }
    }
    for (int lane = 0; lane < lanes_; ++lane) {
      for (int stage = 0; stage < stages; ++stage) {
        if (schedule.placement[lane][stage] >= 0) continue;
        return absl::InvalidArgumentError(absl::StrCat("stage ", stage, " of lane ", lane,
                                                       " has no slot; say in a line 'lane ", lane,
                                                       ":' on which rank each stage is"));
      }
    }
    return absl::OkStatus();
  }

  NamedSchedule named_;
  std::map<std::string, Word> seen_;
  std::map<int, std::vector<int>> placement_;
  std::map<int, std::vector<Slot>> order_;
  // Positions of the slots, by rank.
  std::map<int, std::vector<Position>> places_of_;
  // The slots and the positions of the current 'rank N:' line.
  std::vector<Slot>* list_ = nullptr;
  std::vector<Position>* places_ = nullptr;
  Word first_ahead_;
  int lanes_ = 1;
  int ranks_ = 0;
  int limit_ = 0;
  int update_every_ = 0;
  std::optional<bool> backward_first_;
  std::optional<bool> previous_;
  std::vector<int> versions_;
};

}  // namespace

std::string SlotWord(const Slot& slot) {
  std::string word =
      absl::StrCat(slot.ahead != 0 ? "+" : "", std::string(1, KindLetter(slot.kind)), slot.stage, ".", slot.microbatch);
  if (slot.width > 1) absl::StrAppend(&word, "-", slot.microbatch + slot.width - 1);
  if (slot.lane > 0) absl::StrAppend(&word, "@", slot.lane);
  return word;
}

absl::StatusOr<NamedSchedule> ReadTextForm(absl::string_view text) { return TextReader().Read(text); }

}  // namespace weft
