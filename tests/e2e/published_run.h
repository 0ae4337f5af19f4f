// A run that a paper describes, compiled and simulated.
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
  // A plan that does not fit is simulated all the same.
  bool allow_oom = false;
  bool trace = false;
  // As in SimulateOptions.
  std::string cost = "roofline";
  std::string network = "analytic";
  // In the catalog; empty = weft's own executor.
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
// On a cluster that the catalog does not have.
absl::StatusOr<SimulatedRun> RunOn(const PublishedRun& run, const Cluster& cluster);
// Of a model that the catalog does not have; `run.model` is not looked at.
absl::StatusOr<SimulatedRun> RunOn(const ModelGraph& model, const PublishedRun& run, const Cluster& cluster);

// Collective steps of one purpose in the segments of one kind of action, e.g. weights that backwards gather.
int CollectiveSteps(const Program& program, ActionKind kind, Purpose purpose);

// When the last backward of the first repetition ends, in seconds from the start of the run. Needs the trace.
double LastBackwardSeconds(const SimulatedRun& run);
// How long a rank is in sums of gradients over replicas in the first repetition, on average. Needs the trace.
double GradientSyncSeconds(const SimulatedRun& run);

}  // namespace weft

#endif  // WEFT_TESTS_E2E_PUBLISHED_RUN_H_
