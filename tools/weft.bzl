"""weft_library: a folder of sources as one library, with a test for every *_test.cc beside them."""

_MAIN = "//third_party:gtest_main"

def _stems(files, suffixes):
    """Names without ending of the files that end so, each once."""
    stems = []
    for file in files:
        for suffix in suffixes:
            if file.endswith(suffix) and file[:-len(suffix)] not in stems:
                stems.append(file[:-len(suffix)])
    return stems

def weft_test(name, srcs, deps, main = _MAIN, full = None, **kwargs):
    """A test; with `full` also NAME_full_test, which is run when it is asked for.

    Args:
      name: ends with _test.
      srcs: its sources.
      deps: what it links beside its main.
      main: the library with main().
      full: attributes in which the full variant differs, None for no such variant. Unless they are `local_defines`, it
        is started with --full.
      **kwargs: further attributes of both.
    """
    kwargs.setdefault("size", "small")
    if full == None:
        native.cc_test(name = name, srcs = srcs, deps = deps + [main], **kwargs)
        return
    full = dict(full)
    if "local_defines" not in full:
        full["args"] = ["--full"]
        main = "//tests:full_main"
    attributes = dict(kwargs)
    attributes.update(full)
    attributes["tags"] = ["exhaustive", "manual"] + kwargs.get("tags", [])
    native.cc_test(name = name, srcs = srcs, deps = deps + [main], **kwargs)
    native.cc_test(
        name = name[:-len("_test")] + "_full_test",
        srcs = srcs,
        deps = deps + [main],
        **attributes
    )

def weft_library(
        name,
        deps = [],
        testing_deps = [],
        test_deps = [],
        tests = {},
        exclude = [],
        testing = [],
        copts = [],
        test_copts = [],
        benchmark_deps = [],
        **kwargs):
    """The sources of a folder, and what tests them.

    Every .cc and .h is part of the library NAME, except *_test.cc, which become a test each; *_testing.{cc,h}, which
    become the library `testing` for tests here and elsewhere; *_benchmark.cc, which become a program each; and `exclude`.

    Args:
      name: of the library, normally that of the folder.
      deps: of the library.
      testing_deps: of `testing`, beside the library and its deps.
      test_deps: of every test, beside the library, its deps, and `testing` with its deps.
      tests: by name of a test, attributes that differ from the usual ones; its `deps` are added to the others'.
      exclude: files that other rules of the package compile.
      testing: further files of the library `testing`.
      copts: of the library.
      test_copts: of the tests.
      benchmark_deps: of the programs *_benchmark, beside the library and its deps.
      **kwargs: further attributes of the library.
    """
    sources = native.glob(["*.cc", "*.h"], exclude = exclude)
    support = [] if kwargs.get("testonly") else [
        f
        for f in sources
        if f in testing or f.endswith("_testing.cc") or f.endswith("_testing.h")
    ]
    apart = [f for f in sources if f.endswith("_test.cc") or f.endswith("_benchmark.cc")]
    own = [f for f in sources if f not in support and f not in apart]
    native.cc_library(
        name = name,
        srcs = [f for f in own if f.endswith(".cc")],
        hdrs = [f for f in own if f.endswith(".h")],
        copts = copts,
        deps = deps,
        **kwargs
    )
    native.filegroup(name = name + "_sources", srcs = own)
    everything = [":" + name] + deps + [d for d in test_deps if d not in deps]
    if support:
        native.cc_library(
            name = "testing",
            testonly = 1,
            srcs = [f for f in support if f.endswith(".cc")],
            hdrs = [f for f in support if f.endswith(".h")],
            copts = copts,
            deps = [":" + name, "//third_party:gtest"] + deps + [d for d in testing_deps if d not in deps],
        )
        everything.append(":testing")
    known = _stems(sources, ["_test.cc"])
    for test in tests:
        if test[:-len("_test")] not in known:
            fail("weft_library: there is no %s.cc" % test)
    for stem in known:
        attributes = dict(tests.get(stem + "_test", {}))
        attributes.setdefault("copts", test_copts)
        weft_test(
            name = stem + "_test",
            srcs = [stem + "_test.cc"],
            deps = everything + [d for d in attributes.pop("deps", []) if d not in everything],
            **attributes
        )
    for stem in _stems(sources, ["_benchmark.cc"]):
        native.cc_binary(
            name = stem + "_benchmark",
            testonly = 1,
            srcs = [stem + "_benchmark.cc"],
            copts = copts,
            deps = everything + [d for d in benchmark_deps if d not in everything] + ["//third_party:benchmark_main"],
        )
