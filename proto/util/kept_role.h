// Roles of the copies of weights and moments that a post-validated program keeps to undo an update (rule P15).
#ifndef WEFT_PROTO_UTIL_KEPT_ROLE_H_
#define WEFT_PROTO_UTIL_KEPT_ROLE_H_

#include "proto/program.pb.h"

namespace weft {

// Returns the role that the copy of a buffer of role `role` has; NO_ROLE if an update does not change such buffers.
inline BufferRole KeptRoleOf(BufferRole role) {
  switch (role) {
    case PARAM:
    case MASTER:
      return KEPT_WEIGHT;
    case MOMENT1:
      return KEPT_MOMENT1;
    case MOMENT2:
      return KEPT_MOMENT2;
    case LOSS_SCALE:
      return LOSS_SCALE;
    default:
      return NO_ROLE;
  }
}

}  // namespace weft

#endif  // WEFT_PROTO_UTIL_KEPT_ROLE_H_
