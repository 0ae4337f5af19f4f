// Translates the roles of segments' operands into the buffer roles of programs.
#ifndef WEFT_COMPILER_SEGMENTS_ROLE_KINDS_H_
#define WEFT_COMPILER_SEGMENTS_ROLE_KINDS_H_

#include "compiler/segments/segment_set.h"
#include "ir/rank_ops.h"
#include "proto/program.pb.h"

namespace weft {

ir::BufferClass BufferClassOf(ir::Role role);

// Returns the buffer role of an operand's role; NO_ROLE if no rule depends on what the buffer holds.
BufferRole BufferRoleOf(ir::Role role);

// Returns how the buffer that holds a tensor in this role is sharded.
const Shard& ShardOf(const TensorShards& shards, ir::Role role);

}  // namespace weft

#endif  // WEFT_COMPILER_SEGMENTS_ROLE_KINDS_H_
