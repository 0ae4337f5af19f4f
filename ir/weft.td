// Includes the whole dialect, for its documentation. Code is generated from the files one by one, so that each compiles
// alone.
include "ir/structure_ops.td"
include "ir/forward_ops.td"
include "ir/attention_ops.td"
include "ir/backward_ops.td"
include "ir/transformer_ops.td"
include "ir/pointwise_ops.td"
include "ir/image_ops.td"
include "ir/optimizer_ops.td"
include "ir/collective_ops.td"
include "ir/split_ops.td"
include "ir/rank_ops.td"
