"""Check the prose of the repository by docs/style.md, "Rules": python -m tests.prose

It reports docstrings that begin as in OPENINGS, and words of RETIRED in docstrings, comments and pages. A
package or page that is not rewritten yet has an entry in LEFT. Its number may only fall: the check fails if
there are more faults, and prints a note if there are fewer. `--count` prints the present numbers.
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
    r"\btwins?\b": "reference implementation",
}
# faults that are left, by first folder and, in pipeline/, second; 0 for all others
LEFT: dict[str, int] = {
    "benchmarks": 20,
    "commands": 3,
    "models": 97,
    "pipeline/__init__.py": 1,
    "pipeline/authors_checkpoints": 9,
    "pipeline/compute": 9,
    "pipeline/config": 20,
    "pipeline/datasets": 33,
    "pipeline/decoding": 12,
    "pipeline/features": 16,
    "pipeline/io": 26,
    "pipeline/negatives": 21,
    "pipeline/probe": 2,
    "pipeline/reporting": 5,
    "pipeline/results": 2,
    "pipeline/study": 20,
    "pipeline/tabletop": 19,
    "pipeline/training": 26,
    "pipeline/weights": 5,
    "stages": 12,
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


def group(name: str) -> str:
    """Return the entry of LEFT that a file belongs to."""
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] in ("pipeline", "docs") else parts[0]


def files() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))
    yield from (
        ROOT / name for name in ("README.md", "data/README.md", "demo/README.md", "benchmarks/README.md")
    )
    yield from sorted((ROOT / "docs").rglob("*.md"))


def by_group() -> dict[str, list[str]]:
    """Return the faults of all files by entry of LEFT."""
    found: dict[str, list[str]] = {}
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(EXCEPT) and (own := faults(path, name)):
            found.setdefault(group(name), []).extend(own)
    return found


def compared(found: dict[str, list[str]], left: dict[str, int]) -> tuple[list[str], list[str]]:
    """Return the faults of groups that have more than `left` allows, and notes on numbers to lower."""
    lines, notes = [], []
    for name in sorted({*found, *left}):
        own, allowed = found.get(name, []), left.get(name, 0)
        if len(own) > allowed:
            lines += [*own, f"{name}: {len(own)} faults, {allowed} allowed (docs/style.md)"]
        elif len(own) < allowed:
            notes.append(f"note: lower {name} in tests/prose.py from {allowed} to {len(own)}")
    return lines, notes


def main() -> int:
    if "--count" in sys.argv:
        print({name: len(own) for name, own in by_group().items()})
        return 0
    lines, notes = compared(by_group(), LEFT)
    print("\n".join([*lines, *notes]), end="\n" if lines or notes else "")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
