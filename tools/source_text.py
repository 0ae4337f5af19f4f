"""C++ sources as text: their comments, and the code without them. Shared by count_lines, lint and prose_sample."""
import os
import re
import subprocess

CODE = re.compile(r"\.(cc|h|cu|cuh|def)$")
# Files that are not part of the product: tests, code that only tests use, benchmarks.
TEST = re.compile(r"(^|/)(tests|testing|naive|conformance)/|_(test|testing|benchmark|fuzz|test_util)\.\w+$")

# Comments, and the literals in which // does not start a comment.
_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'',
    re.S)


def _all_files():
    """Yields the paths of all files below this folder, for trees that are not git repositories."""
    for folder, folders, files in os.walk("."):
        folders[:] = [name for name in folders if not name.startswith((".git", "bazel-"))]
        for name in files:
            yield os.path.join(folder, name)[2:]


def tracked_files(pattern=CODE):
    """Returns the paths of the project's files whose names match, sorted."""
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True)
    paths = listed.stdout.split("\n") if listed.returncode == 0 else _all_files()
    return sorted(path for path in paths if pattern.search(path) and "third_party/" not in path)


def without_comments(text):
    """Returns the text without comments, but with their line breaks."""
    def replacement(match):
        token = match.group(0)
        return "\n" * token.count("\n") if token.startswith(("//", "/*")) else token
    return _TOKEN.sub(replacement, text)


def comment_blocks(text):
    """Returns (line, comment, next line of code) for every run of comment lines, counting lines from 1."""
    lines = text.split("\n")
    blocks, i = [], 0
    while i < len(lines):
        if not lines[i].lstrip().startswith("//"):
            i += 1
            continue
        first = i
        while i < len(lines) and lines[i].lstrip().startswith("//"):
            i += 1
        below = next((line.strip() for line in lines[i:] if line.strip()), "")
        blocks.append((first + 1, " ".join(line.strip().lstrip("/").strip() for line in lines[first:i]), below))
    return blocks
