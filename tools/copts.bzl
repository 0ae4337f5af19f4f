"""Options of compilers that several libraries share."""

# For libraries in which programs, and tests of any build, spend their time. Bazel keeps the frame pointer in all
# builds.
FAST_COPTS = [
    "-O3",
    "-fomit-frame-pointer",
]
