// Compiles and simulates a run that a paper describes.
#ifndef WEFT_TESTS_E2E_PUBLISHED_RUN_H_
#define WEFT_TESTS_E2E_PUBLISHED_RUN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/model_graph.pb.h"
#include "proto/program.pb.h"
#include "simulator/simulate.h"

namespace weft {

struct PublishedRun {
  // Names in the catalog.
  std::string model;
  std::string cluster;
  // Text protos.
  std::string recipe;
  std::string plan;
  // If true, a plan that does not fit is simulated anyway.
  bool allow_oom = false;
  bool trace = false;
  // As in SimulateOptions.
  std::string cost = "roofline";
  std::string network = "analytic";
  // Name in the catalog; empty = weft's own executor.
  std::string runtime;
  // As in CompileOptions.
  std::vector<std::string>* notes = nullptr;
};

struct SimulatedRun {
  Cluster cluster;
  Program program;
  sim::Simulation simulation;
};

absl::StatusOr<Cluster> CatalogCluster(const std::string& name);

absl::StatusOr<SimulatedRun> Run(const PublishedRun& run);
// Runs on a cluster that is not in the catalog.
absl::StatusOr<SimulatedRun> RunOn(const PublishedRun& run, const Cluster& cluster);
// Runs a model that is not in the catalog; `run.model` is ignored.
absl::StatusOr<SimulatedRun> RunOn(const ModelGraph& model, const PublishedRun& run, const Cluster& cluster);

// Number of collective steps of one purpose in the segments of one kind of action, e.g. weight gathers of backwards.
int CollectiveSteps(const Program& program, ActionKind kind, Purpose purpose);

// Seconds from the start of the run to the end of the last backward of the first repetition. Needs the trace.
double LastBackwardSeconds(const SimulatedRun& run);
// Seconds that a rank spends on average in gradient sums over replicas in the first repetition. Needs the trace.
double GradientSyncSeconds(const SimulatedRun& run);

}  // namespace weft

#endif  // WEFT_TESTS_E2E_PUBLISHED_RUN_H_
