// Memory for small objects, for programs that make millions of them. Linking this library replaces operator new and
// delete for up to 512 bytes. Programs and their proofs are lists of small messages, and glibc's malloc took a sixth of
// the time of a folded simulation. Libraries were measured first (tests/bench/history.md): jemalloc gains half as much,
// tcmalloc nothing, and mimalloc as much only with large pages, which only its environment variables turn on.
//
// Blocks of one size, in steps of 16 bytes, are cut from spans of 16 KiB. The spans are cut from a region that is
// reserved once. A table holds the block size of each span, so a block needs no header. Each thread keeps its own free
// blocks. Blocks that a thread has kept when it ends are not used again: weft's commands run on one thread. Larger
// blocks, blocks from malloc and blocks with a larger alignment are glibc's. So is everything if the region cannot be
// reserved, if it is used up, or if address space is limited (ulimit -v). With sanitizers nothing is replaced.
#ifndef WEFT_CLI_PROCESS_SMALL_BLOCKS_H_
#define WEFT_CLI_PROCESS_SMALL_BLOCKS_H_

#include <cstddef>

namespace weft {

// Bytes of all spans begun so far; 0 if nothing is replaced. Never shrinks.
size_t SmallBlockBytes();

}  // namespace weft

#endif  // WEFT_CLI_PROCESS_SMALL_BLOCKS_H_
