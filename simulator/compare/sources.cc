#include "simulator/compare/sources.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "proto/util/mesh.h"
#include "simulator/program/view_actions.h"

namespace weft::sim {
namespace {

constexpr int kRunning = 3;

struct Piece {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t ready = 0;
  // The Source as a number, less than kRunning.
  int source = 0;
  // Kernel of a compute step; null = not known.
  const std::string* kernel = nullptr;
};

// Names of kernels by (template, action, step).
class KernelNames {
 public:
  explicit KernelNames(const Program* program) : program_(program) {}

  const std::string* NameOf(int template_index, const TraceEvent& event) {
    if (program_ == nullptr || template_index < 0) return nullptr;
    auto [found, is_new] = actions_.try_emplace(template_index);
    if (is_new) {
      const Template& t = program_->templates(template_index);
      for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
        for (const Action& action : *list) found->second[action.id()] = &action;
      }
    }
    const auto action = found->second.find(event.action());
    if (action == found->second.end() || !IsCompute(action->second->kind())) return nullptr;
    const Segment& segment = program_->segments(action->second->segment());
    if (event.step() < 0 || event.step() >= segment.steps_size()) return nullptr;
    return &Kernel_Name(segment.steps(event.step()).kernel());
  }

 private:
  const Program* program_;
  std::map<int, std::map<int32_t, const Action*>> actions_;
};

int SourceOf(const std::string& stream) {
  if (stream == "compute") return static_cast<int>(Source::kCompute);
  if (stream == "d2h" || stream == "h2d") return static_cast<int>(Source::kCopies);
  return static_cast<int>(Source::kCommunication);
}

// The work that runs on a rank at an instant: the number of pieces of each source, and the compute steps.
struct Running {
  std::array<int64_t, kRunning> count = {};
  std::set<std::pair<int64_t, size_t>> compute;
};

class RankSweep {
 public:
  RankSweep(std::vector<Piece> pieces, SteadyWindow window, TimeBySource* total)
      : pieces_(std::move(pieces)), window_(window), total_(*total) {
    std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  }

  void Run() {
    // (time, whether the piece begins, piece). At one instant, ends come before begins.
    std::vector<std::tuple<int64_t, bool, size_t>> turns;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const Piece& piece = pieces_[i];
      if (piece.end <= window_.begin_ps || piece.begin >= window_.end_ps || piece.begin == piece.end) continue;
      turns.emplace_back(std::max(piece.begin, window_.begin_ps), true, i);
      turns.emplace_back(std::min(piece.end, window_.end_ps), false, i);
      if (piece.source == 0 && piece.kernel != nullptr) ++total_.kernels[*piece.kernel].steps;
    }
    std::sort(turns.begin(), turns.end());
    int64_t now = window_.begin_ps;
    Running running;
    for (const auto& [time, begins, i] : turns) {
      Pass(now, time, running);
      now = time;
      const Piece& piece = pieces_[i];
      running.count[piece.source] += begins ? 1 : -1;
      if (piece.source != 0) continue;
      if (begins) {
        running.compute.insert({piece.begin, i});
      } else {
        running.compute.erase({piece.begin, i});
      }
    }
    Pass(now, window_.end_ps, running);
  }

 private:
  void Add(Source source, int64_t ps) { total_.ps[static_cast<int>(source)] += ps; }

  void Pass(int64_t from, int64_t to, const Running& running) {
    if (to <= from) return;
    for (int source = 0; source < kRunning; ++source) {
      if (running.count[source] == 0) continue;
      Add(static_cast<Source>(source), to - from);
      // If several compute steps run, which happens only if clocks disagree, the one that began last counts.
      if (source == 0) {
        const Piece& piece = pieces_[running.compute.rbegin()->second];
        if (piece.kernel != nullptr) total_.kernels[*piece.kernel].ps += to - from;
      }
      return;
    }
    // Pieces are sorted by their begin. Pieces without length count here too, as the rank may have waited for them.
    const auto next = std::lower_bound(pieces_.begin(), pieces_.end(), to,
                                       [](const Piece& piece, int64_t time) { return piece.begin < time; });
    // Nothing follows on this rank: the end of the repetition waits for other ranks.
    if (next == pieces_.end()) return Add(Source::kWaiting, to - from);
    for (auto same = next; same != pieces_.end() && same->begin == next->begin; ++same) {
      if (same->source == static_cast<int>(Source::kCommunication)) return Add(Source::kWaiting, to - from);
    }
    const int64_t ready = std::clamp(next->ready, from, to);
    Add(Source::kHost, ready - from);
    Add(Source::kWaiting, to - ready);
  }

  std::vector<Piece> pieces_;
  const SteadyWindow window_;
  TimeBySource& total_;
};

double MeanSeconds(absl::int128 ps, int64_t ranks) {
  return ranks == 0 ? 0 : static_cast<double>(ps) / static_cast<double>(ranks) * 1e-12;
}

double Share(double difference, double all) { return all > 0 ? std::abs(difference) / all : 0; }

}  // namespace

const char* SourceName(Source source) {
  switch (source) {
    case Source::kCompute:
      return "compute";
    case Source::kCopies:
      return "copies";
    case Source::kCommunication:
      return "communication";
    case Source::kHost:
      return "host";
    case Source::kWaiting:
      return "waiting";
  }
  return "";
}

SteadyWindow WindowOf(const Trace& trace) {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  std::vector<std::pair<int64_t, int64_t>> extents(trace.repetitions(), {kNever, -1});
  for (const RankTrace& rank : trace.ranks()) {
    for (const TraceEvent& event : rank.events()) {
      auto& [start, finish] = extents[event.repetition()];
      start = std::min(start, event.start_ps());
      finish = std::max(finish, event.finish_ps());
    }
  }
  SteadyWindow whole = {kNever, 0};
  std::vector<int64_t> finishes;
  for (const auto& [start, finish] : extents) {
    if (start > finish) continue;
    whole.begin_ps = std::min(whole.begin_ps, start);
    whole.end_ps = std::max(whole.end_ps, finish);
    finishes.push_back(finish);
  }
  // Repetitions that overlap may end in another order than they begin.
  std::sort(finishes.begin(), finishes.end());
  std::vector<SteadyWindow> periods;
  for (size_t i = 1; i < finishes.size(); ++i) periods.push_back({finishes[i - 1], finishes[i]});
  if (periods.size() > 1) periods.erase(periods.begin());
  if (periods.empty()) return whole;
  const auto middle = periods.begin() + (periods.size() - 1) / 2;
  std::nth_element(periods.begin(), middle, periods.end(), [](const SteadyWindow& a, const SteadyWindow& b) {
    return std::make_pair(a.end_ps - a.begin_ps, a.begin_ps) < std::make_pair(b.end_ps - b.begin_ps, b.begin_ps);
  });
  return *middle;
}

TimeBySource SourcesOf(const Trace& trace, const Program* program) {
  TimeBySource result;
  const SteadyWindow window = WindowOf(trace);
  result.ranks = trace.ranks_size();
  result.window_ps = window.end_ps - window.begin_ps;
  KernelNames names(program);
  for (const RankTrace& rank : trace.ranks()) {
    const int t = program == nullptr ? -1 : TemplateOfRank(*program, rank.rank());
    std::vector<int> sources;
    for (const std::string& stream : rank.streams()) sources.push_back(SourceOf(stream));
    std::vector<Piece> pieces;
    pieces.reserve(rank.events_size());
    for (const TraceEvent& event : rank.events()) {
      const int source = sources[event.stream()];
      pieces.push_back({event.start_ps(), event.finish_ps(), event.ready_ps(), source,
                        source == 0 ? names.NameOf(t, event) : nullptr});
    }
    RankSweep(std::move(pieces), window, &result).Run();
  }
  return result;
}

void AddSources(const Trace& first, const Trace& second, const Program* program, ComparisonReport* report) {
  const TimeBySource one = SourcesOf(first, program), two = SourcesOf(second, program);
  double all = 0;
  for (int s = 0; s < kSources; ++s) {
    SourceComparison* row = report->add_sources();
    row->set_source(SourceName(static_cast<Source>(s)));
    row->set_first_seconds(MeanSeconds(one.ps[s], one.ranks));
    row->set_second_seconds(MeanSeconds(two.ps[s], two.ranks));
    all += std::abs(row->first_seconds() - row->second_seconds());
  }
  for (SourceComparison& row : *report->mutable_sources()) {
    row.set_share(Share(row.first_seconds() - row.second_seconds(), all));
  }

  std::set<std::string> kernels;
  for (const TimeBySource* side : {&one, &two}) {
    for (const auto& [kernel, time] : side->kernels) kernels.insert(kernel);
  }
  double off = 0;
  std::vector<KernelComparison> rows;
  for (const std::string& kernel : kernels) {
    const auto of = [&](const TimeBySource& side) {
      const auto found = side.kernels.find(kernel);
      return found == side.kernels.end() ? TimeBySource::KernelTimes() : found->second;
    };
    KernelComparison& row = rows.emplace_back();
    row.set_kernel(kernel);
    row.set_steps(std::max(of(one).steps, of(two).steps));
    row.set_first_seconds(MeanSeconds(of(one).ps, one.ranks));
    row.set_second_seconds(MeanSeconds(of(two).ps, two.ranks));
    const double difference = row.first_seconds() - row.second_seconds();
    if (row.second_seconds() > 0) row.set_error(difference / row.second_seconds());
    off += std::abs(difference);
  }
  const auto difference = [](const KernelComparison& row) {
    return std::abs(row.first_seconds() - row.second_seconds());
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const KernelComparison& a, const KernelComparison& b) { return difference(a) > difference(b); });
  for (KernelComparison& row : rows) {
    row.set_share(Share(difference(row), off));
    *report->add_kernels() = std::move(row);
  }
}

}  // namespace weft::sim
