// A digest of all fields of a cluster, to distinguish clusters. A program stores the digest of its cluster.
#ifndef WEFT_PROTO_IO_CLUSTER_DIGEST_H_
#define WEFT_PROTO_IO_CLUSTER_DIGEST_H_

#include <cstdint>

#include "proto/cluster.pb.h"

namespace weft {

// FNV-1a, 64 bits, of the cluster's deterministic bytes.
uint64_t ClusterDigest(const Cluster& cluster);

}  // namespace weft

#endif  // WEFT_PROTO_IO_CLUSTER_DIGEST_H_
