"""C++ sources as text: their comments, and what is left without them. Shared by count_lines, lint and prose_sample."""
import os
import re
import subprocess

CODE = re.compile(r"\.(cc|h|cu|cuh|def)$")
# Files that are not part of the product: tests, what only tests use, benchmarks.
TEST = re.compile(r"(^|/)(tests|testing|naive|conformance)/|_(test|testing|benchmark|fuzz|test_util)\.\w+$")

# Comments, and the literals in which // is no comment.
_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'',
    re.S)


def _all_files():
    """Paths of all files below this folder, for trees that git does not know."""
    for folder, folders, files in os.walk("."):
        folders[:] = [name for name in folders if not name.startswith((".git", "bazel-"))]
        for name in files:
            yield os.path.join(folder, name)[2:]


def tracked_files(pattern=CODE):
    """Paths of the project's files whose names match, sorted."""
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True)
    paths = listed.stdout.split("\n") if listed.returncode == 0 else _all_files()
    return sorted(path for path in paths if pattern.search(path) and "third_party/" not in path)


def without_comments(text):
    """The text with each comment replaced by nothing, except the line breaks in it."""
    def replacement(match):
        token = match.group(0)
        return "\n" * token.count("\n") if token.startswith(("//", "/*")) else token
    return _TOKEN.sub(replacement, text)


def comment_blocks(text):
    """(line, comment, next line of code) of every run of lines that hold nothing but a comment, from line 1 on."""
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
