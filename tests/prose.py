"""Check the prose of the repository by docs/style.md, "Rules": python -m tests.prose

It reports docstrings that begin as in OPENINGS, and words of RETIRED in docstrings, comments and pages.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("models", "pipeline", "stages", "commands")
OPENINGS = re.compile(r"(?:Of|What|Whether|That of|The same|Where|Beside)\b")
RETIRED = {
    r"\banew\b": "again; rebuilt",
    r"\bbeside\b": "next to; besides",
    r"\bmends?\b": "correct",
    r"\btold truly\b": "correct",
    r"\bwhere it look(?:s|ed)\b": "attention",
    r"\bfirst weights\b": "initialisation",
    r"\bstrangers?\b": "untrusted",
}
EXCEPT = ("docs/style.md", "docs/notes/")  # the page that lists the words, and the diaries


def texts(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield line, text, and True for a docstring; of a page, its lines without quoted code."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from (
            (number, re.sub("`[^`]*`", "", line), False) for number, line in enumerate(source.splitlines(), 1)
        )
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (
            text := ast.get_docstring(node)
        ):
            yield node.body[0].lineno, text, True
    for number, line in enumerate(source.splitlines(), 1):
        if comment := re.search(r"(?:^|\s)#\s(.*)", line):
            yield number, comment[1], False


def faults(path: Path, name: str) -> list[str]:
    """Return the faults of a file, each with its line and what to write instead."""
    found = []
    for line, text, docstring in texts(path):
        if docstring and (opening := OPENINGS.match(text)):
            found.append(f"{name}:{line}: a docstring begins with {opening[0]!r}")
        for word, better in RETIRED.items():
            found += [f"{name}:{line}: {each[0]!r}: write {better}" for each in re.finditer(word, text, re.I)]
    return found


def files() -> Iterator[Path]:
    for package in (*PACKAGES, "change_captioning_lab"):
        yield from sorted((ROOT / package).rglob("*.py"))
    yield from (
        ROOT / name for name in ("README.md", "data/README.md", "demo/README.md", "benchmarks/README.md")
    )
    yield from sorted((ROOT / "docs").rglob("*.md"))


def all_faults() -> list[str]:
    """Return the faults of all files that are checked."""
    names = {path.relative_to(ROOT).as_posix(): path for path in files()}
    checked = {name: path for name, path in names.items() if not name.startswith(EXCEPT)}
    return [fault for name, path in checked.items() for fault in faults(path, name)]


def main() -> int:
    found = all_faults()
    for line in found:
        print(line)
    if found:
        print(f"{len(found)} faults; see docs/style.md")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
