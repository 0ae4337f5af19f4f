"""proto_library for C++ with the system protoc (3.21)."""

load("//tools:copts.bzl", "FAST_COPTS")

def cc_proto(name, srcs, deps = [], protobuf = "//third_party:protobuf", visibility = None):
    """Generates x.pb.h and x.pb.cc for every x.proto and compiles them into one library.

    Imports are written from the root of the workspace, as in import "pb/model.proto".
    """
    protos = name + "_protos"
    native.filegroup(name = protos, srcs = srcs + [d + "_protos" for d in deps], visibility = visibility)
    outs = [s[:-len(".proto")] + ext for s in srcs for ext in (".pb.h", ".pb.cc")]
    native.genrule(
        name = name + "_gen",
        srcs = srcs + [":" + protos],
        outs = outs,
        # --proto_path=/usr/include is for google/protobuf/*.proto
        cmd = "protoc --proto_path=. --proto_path=/usr/include --cpp_out=$(GENDIR) " +
              " ".join(["$(location %s)" % s for s in srcs]),
        message = "Protoc",
    )
    native.cc_library(
        name = name,
        srcs = [o for o in outs if o.endswith(".cc")],
        hdrs = [o for o in outs if o.endswith(".h")],
        copts = FAST_COPTS + ["-w"],
        deps = deps + [protobuf],
        visibility = visibility,
    )
