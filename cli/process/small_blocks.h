// Memory of small objects for a program that makes millions of them: linking this replaces operator new and delete for
// up to 512 bytes. Programs and their proofs are lists of small messages, and glibc's malloc was a sixth of the time of
// a folded simulation. Libraries were measured first (docs/benchmarks.md): jemalloc gains half as much, tcmalloc
// nothing, and mimalloc as much only with large pages, which it takes from its environment alone.
//
// Blocks of one size, in steps of 16 bytes, are cut from spans of 16 KiB of a region that is reserved once; which span
// has which size is a table, so a block needs no header. Each thread keeps its own free blocks. What it has kept when
// it ends is not used again: weft's commands run on one thread. Larger blocks, those of malloc and those with a larger
// alignment are glibc's; so is everything if the region cannot be reserved or is used up, and where address space is
// limited (ulimit -v). With sanitizers nothing is replaced.
#ifndef WEFT_CLI_PROCESS_SMALL_BLOCKS_H_
#define WEFT_CLI_PROCESS_SMALL_BLOCKS_H_

#include <cstddef>

namespace weft {

// Bytes of spans that were begun; 0 if nothing is replaced. They do not shrink.
size_t SmallBlockBytes();

}  // namespace weft

#endif  // WEFT_CLI_PROCESS_SMALL_BLOCKS_H_
