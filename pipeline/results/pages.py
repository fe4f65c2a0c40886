"""Fill the tables of hand-written pages of results, and make the page of a user's own records."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pipeline.io.errors import InputError
from pipeline.reporting.tables import Table

START, END = "<!-- table: ", "<!-- end -->"
BLOCK = re.compile(rf"^{START}(?P<name>.+?) -->\n(?:(?!{START}).)*?^{END}$", re.MULTILINE | re.DOTALL)
NO_RECORD = "*There is no record for this table yet.*\n"
OWN = """# Own results

The tables and figures of the records in results/own/records, and of the published records that the same
params.yaml and data make. docs/results_details.md says what the columns mean.

`python -m commands.results --own` writes this page. `python -m commands.record --promote` publishes the
records.
"""


def filled(page: Path, tables: Mapping[str, Table]) -> str:
    """Return the text of a hand-written page with the current tables in its blocks.

    Raises InputError if a block has no end or names an unknown table. The message names page and block.
    """
    text = page.read_text(encoding="utf-8")
    names = blocks(page)
    if unknown := next((name for name in names if name not in tables), None):
        raise InputError(f"{page}: there is no table {unknown!r}; there are {', '.join(tables)}")
    shown = {name: table.markdown if table.rows else NO_RECORD for name, table in tables.items()}
    return BLOCK.sub(lambda block: f"{START}{block['name']} -->\n{shown[block['name']]}{END}", text)


def blocks(page: Path) -> list[str]:
    """Return the names of the tables in a page's blocks. Raises InputError if a block has no end."""
    text = page.read_text(encoding="utf-8")
    names = [block["name"] for block in BLOCK.finditer(text)]
    started = re.findall(rf"^{START}(.+?) -->$", text, re.MULTILINE)
    for place, name in enumerate(started):
        if names[place : place + 1] != [name]:
            raise InputError(f"{page}: the block of the table {name!r} has no end; write {END} below it")
    return names


def own_page(tables: Iterable[Table], figures: Iterable[str]) -> str:
    """Return the page of a user's own records; `figures` are lines of Markdown."""
    parts = [f"## {table.title}\n\n{table.markdown}" for table in tables if table.rows]
    return "\n".join([OWN, *(f"{figure}\n" for figure in figures), *parts])
