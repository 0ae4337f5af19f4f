// Overrides of single fields from the command line: --set pp=4 --set recipe.lr.peak=1e-3.
#ifndef WEFT_PROTO_IO_SET_FIELD_H_
#define WEFT_PROTO_IO_SET_FIELD_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace weft {

// The value that removes a field, as if the field had not been given.
inline constexpr absl::string_view kFieldDefault = "default";

// Sets the field that `path` ("lr.peak", "mesh.axes[0].size") names to `value`. Accepts integers, doubles, bools (true,
// false), enums by name in any case, and strings as they are. A repeated field takes a comma-separated list that
// replaces it, in brackets or without; an empty list clears it. kFieldDefault removes any field; a zero would not do so
// for every field (written_zero.h). InvalidArgument names the nearest field or value. An error leaves `message`
// unchanged.
absl::Status SetField(google::protobuf::Message* message, absl::string_view path, absl::string_view value);

// Returns the full name of the field that a NAME of ApplySetting means: "recipe.microbatch_sequences" for mbs,
// "plan.zero.stage" for zero.stage. Returns sizes of axes (pp, x, ...) and unknown names unchanged.
std::string FullSettingName(absl::string_view name);

// Applies "NAME=VALUE" to the recipe or the plan. NAME is
//   recipe.FIELD or plan.FIELD,
//   pp, dp, tp   sizes of the axes pipe, data, x (appended in the order data, pipe if the mesh lacks them).
//                kFieldDefault removes the axis. tp also sets y and z to 1, or removes them with kFieldDefault,
//   x, y, z   sizes of these axes,
//   mbs, gbs, seq   recipe.microbatch_sequences, global_batch_sequences, sequence_length,
//   schedule   plan.schedule.name,
//   vpp or virtual, waves, lanes, limit, group, scaling, freeze   the schedule's parameters (plan.schedule),
//   or any field of the plan by itself.
absl::Status ApplySetting(absl::string_view setting, Recipe* recipe, Plan* plan);

}  // namespace weft

#endif  // WEFT_PROTO_IO_SET_FIELD_H_
