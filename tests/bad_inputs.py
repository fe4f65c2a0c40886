"""Messages that tests of untrusted files expect, and that docs/bad_inputs.md, "Bad inputs", lists."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/bad_inputs.md"
TABLE_ROW = re.compile(r"^\| .+? \| (?P<message>`.+`.*?) \| .+ \|$", re.MULTILINE)
MESSAGE_COLUMN = "| input | message | remedy |"


def hostile_modules() -> list[ModuleType]:
    """All modules tests/**/test_hostile_*.py."""
    paths = sorted((ROOT / "tests").rglob("test_hostile_*.py"))
    return [importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts)) for path in paths]


def expected_messages() -> dict[str, str]:
    """Input that a test tries -> part of the message that the test expects."""
    return {
        f"{module.__name__}: {tried}": said for module in hostile_modules() for tried, said in _rows(module)
    }


def _rows(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Rows of the tables (id -> arguments) over which the tests of a module are parametrised."""
    for test in vars(module).values():
        for mark in getattr(test, "pytestmark", ()):
            ids = mark.kwargs.get("ids")
            if mark.name == "parametrize" and isinstance(ids, dict):
                assert list(mark.args[1]) == list(ids.values())  # each row is a test
                yield from ((tried, row[-1]) for tried, row in ids.items())


def listed_messages(page: str) -> list[str]:
    """The code spans in the column `message` of the page's tables."""
    tables = page.split(f"{MESSAGE_COLUMN}\n")[1:]
    rows = [row for table in tables for row in TABLE_ROW.findall(table.split("\n\n")[0])]
    return [message for cell in rows for message in re.findall(r"`([^`]+)`", cell)]


def alike(listed: str, expected: str) -> bool:
    """Whether one of two parts of a message contains the other."""
    return listed in expected or expected.strip() in listed
