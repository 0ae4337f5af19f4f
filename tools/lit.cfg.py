import os
import lit.formats
config.name = "weft"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(os.environ["TEST_TMPDIR"], "lit_out")
config.environment["PATH"] = os.environ["LLVM_BIN"] + os.pathsep + os.environ["PATH"]
for pair in os.environ.get("LIT_TOOLS", "").split():
    name, path = pair.split("=", 1)
    config.substitutions.append((r"(?<![\w/-])%s(?![\w-])" % name, os.path.join(os.environ["LIT_ROOT"], path)))
