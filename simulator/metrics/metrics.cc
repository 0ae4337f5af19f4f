#include "simulator/metrics/metrics.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "proto/util/mesh.h"
#include "simulator/metrics/sent_bytes.h"
#include "simulator/program/view_actions.h"

namespace weft::sim {
namespace {

double Ratio(double numerator, double denominator) { return denominator > 0 ? numerator / denominator : 0; }

// Flops, over all ranks, of the kernels that one repetition runs.
double BodyFlops(const ProgramView& view) {
  const Program& program = *view.program;
  std::vector<double> segment_flops;
  for (const Segment& segment : program.segments()) {
    double flops = 0;
    for (const Step& step : segment.steps()) flops += static_cast<double>(step.work().flops());
    segment_flops.push_back(flops);
  }
  std::vector<double> template_flops;
  for (const TemplateView& t : view.templates) {
    double flops = 0;
    for (const ActionView& own : t.actions) {
      const Action& action = *own.action;
      if (own.list == ListKind::kBody && IsCompute(action.kind())) flops += segment_flops[action.segment()];
    }
    template_flops.push_back(flops);
  }
  double total = 0;
  for (const int32_t t : view.template_of_rank) total += template_flops[t];
  return total;
}

// Bytes of the device arena that buffers of each class occupy at some time.
ClassSizes PlannedByClass(const Template& t) {
  std::array<std::vector<std::pair<int64_t, int64_t>>, kBufferClasses> ranges;
  for (const Buffer& buffer : t.buffers()) {
    if (buffer.place() != DEVICE || buffer.class_() < 0 || buffer.class_() >= kBufferClasses) continue;
    ranges[buffer.class_()].push_back({buffer.offset(), buffer.offset() + buffer.bytes()});
  }
  ClassSizes sizes = {};
  for (int c = 0; c < kBufferClasses; ++c) {
    std::sort(ranges[c].begin(), ranges[c].end());
    int64_t covered = 0;
    for (const auto& [begin, end] : ranges[c]) {
      if (end > covered) sizes[c] += end - std::max(begin, covered);
      covered = std::max(covered, end);
    }
  }
  return sizes;
}

// Largest total of the host arenas of one node's ranks.
int64_t HostBytes(const ProgramView& view, const RankPlacement& placement) {
  absl::flat_hash_map<int64_t, int64_t> bytes_of_node;
  int64_t most = 0;
  for (size_t rank = 0; rank < view.template_of_rank.size(); ++rank) {
    const int64_t bytes = view.templates[view.template_of_rank[rank]].proto->host_arena_bytes();
    if (bytes == 0) continue;
    int64_t& of_node = bytes_of_node[placement.NodeOf(static_cast<int64_t>(rank))];
    of_node = AddBytes(of_node, bytes);
    most = std::max(most, of_node);
  }
  return most;
}

// Sum of the dense peaks of all devices.
double PeakOfAll(const ProgramView& view, const DeviceClasses& devices) {
  std::vector<double> peaks;
  for (const Device* device : devices.kinds) {
    peaks.push_back(0);
    for (const Peak& row : device->peaks()) {
      if (row.dtype() == view.program->precision().compute()) peaks.back() = row.flops_per_second();
    }
  }
  const size_t ranks = view.template_of_rank.size();
  if (peaks.size() == 1) return peaks[0] * static_cast<double>(ranks);
  double sum = 0;
  for (size_t rank = 0; rank < ranks; ++rank) sum += peaks[devices.KindOf(static_cast<int64_t>(rank))];
  return sum;
}

void AddRates(const ProgramView& view, const DeviceClasses& devices, SimulationReport& report) {
  const Program& program = *view.program;
  const double ranks = static_cast<double>(report.ranks());
  const double seconds = report.iteration_seconds();
  report.set_tokens_per_step(program.recipe().global_batch_sequences() * program.recipe().sequence_length());
  // Rule P14: a repetition may be several optimizer steps.
  report.set_steps_per_repetition(program.steps_per_repetition());
  const double steps = std::max(1, program.steps_per_repetition());
  report.set_tokens_per_second(Ratio(steps * static_cast<double>(report.tokens_per_step()), seconds));
  report.set_tokens_per_second_per_device(report.tokens_per_second() / ranks);
  const double available = PeakOfAll(view, devices) * seconds;
  report.set_mfu(Ratio(steps * program.model_flops(), available));
  report.set_mfu_causal(Ratio(steps * (program.model_flops() - program.model_flops_masked()), available));
  report.set_hfu(Ratio(BodyFlops(view), available));
}

void AddMemory(const ProgramView& view, const Cluster& cluster, const RankPlacement& placement,
               const EngineResult& isolated, const EngineResult& steady, SimulationReport& report) {
  // The rank with the largest live peak, and its result in the run that reached it.
  size_t largest = 0;
  const RankResult* at_largest = &isolated.ranks[0];
  for (size_t rank = 0; rank < isolated.ranks.size(); ++rank) {
    for (const EngineResult* run : {&isolated, &steady}) {
      if (run->ranks[rank].live_peak <= at_largest->live_peak) continue;
      largest = rank;
      at_largest = &run->ranks[rank];
    }
  }
  report.set_live_peak_bytes(at_largest->live_peak);
  int64_t planned = 0;
  for (const int32_t t : view.template_of_rank) {
    planned = std::max(planned, view.templates[t].proto->device_arena_bytes());
  }
  report.set_planned_bytes(planned);
  report.set_planned_host_bytes(HostBytes(view, placement));
  report.set_host_capacity_bytes(cluster.host_memory_bytes());

  const ClassSizes by_class = PlannedByClass(*view.templates[view.template_of_rank[largest]].proto);
  for (int c = 0; c < kBufferClasses; ++c) {
    if (by_class[c] == 0 && at_largest->live_at_peak[c] == 0) continue;
    ClassBytes* row = report.add_memory();
    row->set_class_(absl::AsciiStrToLower(BufferClass_Name(static_cast<BufferClass>(c))));
    row->set_planned_bytes(by_class[c]);
    row->set_bytes_at_peak(at_largest->live_at_peak[c]);
  }
}

// Stages per pipe rank: a microbatch's activations on one whole rank are those of this many stages. A rank that holds
// replicas of other ranks' stages holds more stages than that, each of the same size.
double StagesPerRank(const Program& program) {
  const int64_t ranks = std::max<int64_t>(1, AxisSize(program.mesh(), "pipe"));
  return program.stages() > 0 ? static_cast<double>(program.stages()) / static_cast<double>(ranks) : 1;
}

void AddSent(const std::map<std::string, int64_t>& sent, google::protobuf::RepeatedPtrField<SentBytes>& rows) {
  for (const auto& [purpose, bytes] : sent) {
    SentBytes* row = rows.Add();
    row->set_purpose(purpose);
    row->set_bytes(bytes);
  }
}

void AddRanks(const ProgramView& view, const EngineResult& isolated, const EngineResult& steady,
              SimulationReport& report) {
  std::vector<std::map<std::string, int64_t>> sent_by_template;
  for (const TemplateView& t : view.templates) sent_by_template.push_back(BytesSent(view.program->mesh(), t));
  std::map<std::string, int64_t> sent;
  double idle = 0;
  for (size_t rank = 0; rank < isolated.ranks.size(); ++rank) {
    const RankResult& result = isolated.ranks[rank];
    RankReport* row = report.add_per_rank();
    row->set_rank(static_cast<int64_t>(rank));
    row->set_busy_seconds(ToSeconds(result.busy));
    row->set_slowed_seconds(ToSeconds(result.slowed));
    row->set_exposed_communication_seconds(ToSeconds(result.exposed_communication));
    row->set_idle_seconds(ToSeconds(isolated.makespan - result.busy));
    row->set_live_peak_bytes(std::max(result.live_peak, steady.ranks[rank].live_peak));
    const Template& t = *view.templates[view.template_of_rank[rank]].proto;
    row->set_planned_bytes(t.device_arena_bytes());
    row->set_peak_activations(static_cast<double>(result.peak_forwards) / StagesPerRank(*view.program));
    for (int reason = 0; reason < kIdleReasons; ++reason) {
      if (result.idle[reason].ps == 0) continue;
      IdleCause* cause = row->add_idle_causes();
      const absl::string_view name = IdleReasonName(static_cast<IdleReason>(reason));
      cause->set_cause(name.data(), name.size());
      cause->set_seconds(ToSeconds(result.idle[reason]));
    }
    idle += row->idle_seconds();
    const std::map<std::string, int64_t>& own = sent_by_template[view.template_of_rank[rank]];
    AddSent(own, *row->mutable_sent());
    for (const auto& [purpose, bytes] : own) sent[purpose] = AddBytes(sent[purpose], bytes);
  }
  AddSent(sent, *report.mutable_sent());
  report.set_bubble_ratio(Ratio(idle, report.makespan_seconds() * static_cast<double>(report.ranks())));
}

}  // namespace

double SteadyPeriodSeconds(absl::Span<const Time> t) {
  const size_t n = t.size();
  if (n == 0) return 0;
  if (n == 1) return ToSeconds(t[0]);
  const Time last = t[n - 1] - t[n - 2];
  if (n < static_cast<size_t>(kSteadyRepetitions) || t[n - 2] - t[n - 3] == last) return ToSeconds(last);
  return ToSeconds(t[n - 1] - t[n / 2 - 1]) / static_cast<double>(n / 2);
}

SimulationReport MakeReport(const ProgramView& view, const Cluster& cluster, const RankPlacement& placement,
                            const DeviceClasses& devices, const EngineResult& isolated, const EngineResult& steady,
                            const LowerBounds& bounds) {
  const Program& program = *view.program;
  SimulationReport report;
  report.set_schema_version(1);
  report.set_runtime(program.runtime().empty() ? "weft" : program.runtime());
  report.set_program(program.name());
  report.set_cluster(cluster.name());
  report.set_ranks(static_cast<int64_t>(view.template_of_rank.size()));
  // If a prologue was far ahead, the measured repetitions may follow each other faster than the steady state allows
  // (rule P1). So the bounds are lower limits of the steady period.
  report.set_iteration_seconds(std::max({SteadyPeriodSeconds(steady.repetition_finish), bounds.compute_seconds(),
                                         bounds.costed_seconds(), bounds.communication_seconds()}));
  *report.mutable_bounds() = bounds;
  report.set_makespan_seconds(ToSeconds(isolated.makespan));
  report.set_simulated_steps(isolated.steps + steady.steps);
  AddRates(view, devices, report);
  AddMemory(view, cluster, placement, isolated, steady, report);
  AddRanks(view, isolated, steady, report);
  return report;
}

Trace MakeTrace(const ProgramView& view, const EngineResult& result, int repetitions) {
  Trace trace;
  trace.set_origin("simulated");
  trace.set_program_name(view.program->name());
  trace.set_repetitions(repetitions);

  // For each template, the position of each stream in the order of first use, -1 = never used.
  std::vector<std::vector<int32_t>> places;
  std::vector<std::vector<std::string>> names;
  for (const TemplateView& t : view.templates) {
    // (first action, index of the stream). If one action is the first use of two streams, the lower index comes first.
    std::vector<std::pair<int32_t, int32_t>> first_use;
    for (size_t s = 0; s < t.streams.size(); ++s) {
      // The trace shows the two queues of compute as one stream.
      const bool second_queue = s > 0 && t.streams[s].key.queue == ComputeQueue::kBackwards &&
                                t.streams[s - 1].key.queue == ComputeQueue::kForwards;
      for (const Range& entries : t.streams[s].entries) {
        if (entries.empty() || second_queue) continue;
        first_use.push_back({t.entries[entries.begin].action, static_cast<int32_t>(s)});
        break;
      }
    }
    std::sort(first_use.begin(), first_use.end());
    std::vector<int32_t>& place = places.emplace_back(t.streams.size(), -1);
    std::vector<std::string>& name = names.emplace_back();
    for (const auto& [action, s] : first_use) {
      place[s] = static_cast<int32_t>(name.size());
      name.push_back(t.streams[s].name);
    }
    for (size_t s = 1; s < t.streams.size(); ++s) {
      if (t.streams[s].key.queue == ComputeQueue::kBackwards && place[s] < 0) place[s] = place[s - 1];
    }
  }

  for (size_t rank = 0; rank < result.ranks.size(); ++rank) {
    const int32_t index = view.template_of_rank[rank];
    const TemplateView& t = view.templates[index];
    RankTrace* rank_trace = trace.add_ranks();
    rank_trace->set_rank(static_cast<int64_t>(rank));
    rank_trace->set_template_name(t.proto->name());
    rank_trace->set_buffer_bytes(t.proto->device_arena_bytes());
    for (const std::string& name : names[index]) rank_trace->add_streams(name);

    std::vector<EngineEvent> events = result.ranks[rank].events;
    for (EngineEvent& event : events) event.stream = places[index][event.stream];
    std::sort(events.begin(), events.end(), [&](const EngineEvent& a, const EngineEvent& b) {
      const auto key = [&](const EngineEvent& e) {
        return std::make_tuple(e.start, e.stream, t.actions[e.action].list, e.repetition, e.action, e.step);
      };
      return key(a) < key(b);
    });
    for (const EngineEvent& event : events) {
      TraceEvent* out = rank_trace->add_events();
      out->set_repetition(event.repetition);
      out->set_action(t.actions[event.action].action->id());
      out->set_step(event.step);
      out->set_stream(event.stream);
      out->set_ready_ps(event.ready.ps);
      out->set_start_ps(event.start.ps);
      out->set_end_ps(event.end.ps);
      out->set_finish_ps(event.finish.ps);
    }
  }
  return trace;
}

}  // namespace weft::sim
