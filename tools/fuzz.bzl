"""A fuzz target: NAME runs libFuzzer (bazel run --config=fuzz), NAME_replay is a test over the corpus."""

def cc_fuzz(name, srcs, deps = [], corpus = [], copts = []):
    native.cc_library(name = name + "_lib", srcs = srcs, deps = deps, copts = copts, alwayslink = True)
    native.cc_binary(
        name = name,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],  # clang only
        deps = [":" + name + "_lib"],
    )
    native.cc_test(
        name = name + "_replay",
        size = "small",
        srcs = ["//tools:fuzz_replay.cc"],
        args = ["$(location %s)" % c for c in corpus],
        data = corpus,
        deps = [":" + name + "_lib"],
    )
