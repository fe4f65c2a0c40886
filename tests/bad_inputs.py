"""The page of bad inputs among the docs, made of the tests that try them: a row for each.

python -m tests.bad_inputs    # write it anew
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/bad_inputs.md"
HEAD = """\
# Bad inputs: what was tried, and what happened

Files that strangers made, or that were damaged: each was tried, in 1 GB of memory beside what the program
has, and was refused in one line that names the file. The line holds the words in the second column; a stage
prints it as `error: …` and leaves with exit code 2. A line of a table of pairs is its pair's own fault: that
pair has an `error` in place of a caption, and the others are captioned. No row ended in a traceback or
executed anything.

Each row is a test: the first column is its id. `python -m tests.bad_inputs` makes this page of the tests,
and a test holds it to them. The commonest mistakes at the command line are in tests/stages/test_mistakes.py,
what no output deletes in tests/pipeline/cli/test_nothing_is_lost.py, whom the demo answers in
tests/pipeline/demo/test_served.py.
"""


def page() -> str:
    sections = [
        section for path in sorted((ROOT / "tests").rglob("test_hostile_*.py")) for section in _of(path)
    ]
    rows = sum(section.count("\n| ") - 1 for section in sections)
    return f"{HEAD}\n{rows} rows.\n\n" + "\n".join(sections)


def _of(path: Path) -> Iterator[str]:
    """A section for each table of a file; one that several tests go through stands under the first."""
    name = path.relative_to(ROOT).with_suffix("")
    module = importlib.import_module(".".join(name.parts))
    seen: list[dict[str, tuple[Any, ...]]] = []
    for test, table in _tables(module):
        if not any(table is other for other in seen):
            seen.append(table)
            said = test.removeprefix("test_").replace("_", " ")
            rows = "".join(f"| {_cell(tried)} | {_cell(row[-1])} |\n" for tried, row in table.items())
            yield f"## {said[0].upper()}{said[1:]}\n\n`{name}.py`\n\n| tried | said |\n|---|---|\n{rows}"


def _tables(module: ModuleType) -> Iterator[tuple[str, dict[str, tuple[Any, ...]]]]:
    """Tests by name, and what each goes through: what was tried -> how it is made, and what is said."""
    for name, test in vars(module).items():
        for mark in getattr(test, "pytestmark", ()):
            ids = mark.kwargs.get("ids")
            if mark.name == "parametrize" and isinstance(ids, dict):
                assert list(mark.args[1]) == list(ids.values())  # each row is a test
                yield name, ids


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("<", "\\<")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
