// The library that shared_library_test opens.
extern "C" {
extern const int weft_example_version;
const int weft_example_version = 41;
int weft_example_add(int a, int b) { return a + b; }
}
