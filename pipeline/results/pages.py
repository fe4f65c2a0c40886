"""Insert tables into the blocks of hand-written pages. A block is between the comments START and END."""

import re
from collections.abc import Mapping
from pathlib import Path

from pipeline.io.errors import InputError
from pipeline.reporting.tables import Table

START, END = "<!-- table: ", "<!-- end -->"
BLOCK = re.compile(rf"^{START}(?P<name>.+?) -->\n(?:(?!{START}).)*?^{END}$", re.MULTILINE | re.DOTALL)
NO_RECORD = "*There is no record for this table yet.*\n"


def filled(page: Path, tables: Mapping[str, Table]) -> str:
    """Return a hand-written page's text, with the current table in each block, which names its table."""
    text = page.read_text(encoding="utf-8")
    complete_blocks = blocks(text)
    started_blocks = re.findall(rf"^{START}(.+?) -->$", text, re.MULTILINE)
    for index, name in enumerate(started_blocks):
        if complete_blocks[index : index + 1] != [name]:
            raise InputError(f"{page}: the block of the table {name!r} has no end; write {END} below it")
        if name not in tables:
            raise InputError(f"{page}: there is no table {name!r}; there are {', '.join(tables)}")
    contents = {name: table.markdown if table.rows else NO_RECORD for name, table in tables.items()}
    return BLOCK.sub(lambda block: f"{START}{block['name']} -->\n{contents[block['name']]}{END}", text)


def blocks(text: str) -> list[str]:
    return [block["name"] for block in BLOCK.finditer(text)]
