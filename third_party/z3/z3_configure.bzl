"""Finds the solver Z3 (libz3-dev), or makes a stand-in without which schedule synthesis has no exact search.

libLLVM needs libz3 already, so it costs weft no further library at its start.
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])
cc_library(
    name = "z3",
    defines = ["WEFT_HAVE_Z3={have}"],
    linkopts = {linkopts},
)
"""

def _impl(ctx):
    want = ctx.os.environ.get("WEFT_Z3", "auto")
    have = want != "off" and ctx.path("/usr/include/z3++.h").exists
    if want == "on" and not have:
        fail("WEFT_Z3=on, but there is no /usr/include/z3++.h (Debian's libz3-dev)")
    ctx.file("BUILD", _BUILD.format(have = int(have), linkopts = ["-lz3"] if have else []))

z3_configure_rule = repository_rule(
    implementation = _impl,
    local = True,
    environ = ["WEFT_Z3"],
)

def z3_configure(name):
    z3_configure_rule(name = name)
