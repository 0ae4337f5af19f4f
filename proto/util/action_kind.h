// Classes of action kinds.
#ifndef WEFT_PROTO_UTIL_ACTION_KIND_H_
#define WEFT_PROTO_UTIL_ACTION_KIND_H_

#include "proto/program.pb.h"

namespace weft {

inline bool IsTransfer(ActionKind kind) { return kind == SEND || kind == RECV; }
// True for collectives that are actions. Collectives within segments are steps.
inline bool IsCollective(ActionKind kind) { return kind == ALL_REDUCE || kind == ALL_GATHER || kind == REDUCE_SCATTER; }
// True for transfers and collectives. They have no segment; all other actions run one.
inline bool IsMessage(ActionKind kind) { return IsTransfer(kind) || IsCollective(kind); }
// True if the action copies between device and host memory.
inline bool IsCopy(ActionKind kind) { return kind == FETCH || kind == OFFLOAD; }

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_ACTION_KIND_H_
