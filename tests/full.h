// For tests that run a sample by default and everything with --full: they link //tests:full_main instead of gtest's
// main.
#ifndef WEFT_TESTS_FULL_H_
#define WEFT_TESTS_FULL_H_

namespace weft {

// True if --full was given.
extern bool full;

}  // namespace weft

#endif  // WEFT_TESTS_FULL_H_
