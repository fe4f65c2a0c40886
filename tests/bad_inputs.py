"""Read the messages that tests of untrusted files expect, and those in docs/bad_inputs.md, "Bad inputs"."""

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
    """Import all modules tests/**/test_hostile_*.py."""
    paths = sorted((ROOT / "tests").rglob("test_hostile_*.py"))
    return [importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts)) for path in paths]


def expected_messages() -> dict[str, str]:
    """Return input of a test -> part of the expected message."""
    return {
        f"{module.__name__}: {tried}": said for module in hostile_modules() for tried, said in _rows(module)
    }


def _rows(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield the rows (id, expected message) of the tables with which a module's tests are parametrised."""
    for test in vars(module).values():
        for mark in getattr(test, "pytestmark", ()):
            ids = mark.kwargs.get("ids")
            if mark.name == "parametrize" and isinstance(ids, dict):
                assert list(mark.args[1]) == list(ids.values())  # each row is a test
                yield from ((tried, row[-1]) for tried, row in ids.items())


def listed_messages(page: str) -> list[str]:
    """Return the code spans in the column `message` of the page's tables."""
    tables = page.split(f"{MESSAGE_COLUMN}\n")[1:]
    rows = [row for table in tables for row in TABLE_ROW.findall(table.split("\n\n")[0])]
    return [message for cell in rows for message in re.findall(r"`([^`]+)`", cell)]


def alike(listed: str, expected: str) -> bool:
    """Return True if one of the two parts of a message contains the other."""
    return listed in expected or expected.strip() in listed
