"""Tables of text that can be shown on the terminal, in Markdown, and on the report's page (parts.html.j2)."""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.box import SIMPLE_HEAD
from rich.table import Table as TerminalTable

from pipeline.io.progress import PlainConsole

LONGEST = 8  # most letters in a heading's line on a terminal: 80 columns hold the report's score table
WIDTH = 500  # columns that rich may print: a narrower terminal breaks lines, but no number is cut
_HYPHENS = re.compile("un(changed|readable)")
NONE = "–"  # a score that is not known


@dataclass(frozen=True)
class Table:
    """Headings and rows of text. Text after a line break in a heading or cell is small print."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()  # sentences below the table
    texts: int = 1  # leading columns that hold text; the others hold numbers
    # position of a row -> CSS class on the report's page
    kinds: Mapping[int, str] = field(default_factory=dict)

    @property
    def markdown(self) -> str:
        """This table in Markdown, without title and notes."""
        rule = ["---"] * self.texts + ["---:"] * (len(self.headings) - self.texts)
        heading, *lines = [f"| {' | '.join(row)} |".replace("\n", " ") for row in (self.headings, *self.rows)]
        return "\n".join([heading, f"|{'|'.join(rule)}|", *lines, ""])

    @property
    def terminal(self) -> TerminalTable:
        """This table for rich's console."""
        table = TerminalTable(title=self.title or None, box=SIMPLE_HEAD, padding=0, show_edge=False)
        for index, heading in enumerate(self.headings):
            narrow = textwrap.fill(_HYPHENS.sub(r"un-\1", heading).replace("/", "/ "), LONGEST)
            table.add_column(narrow, justify="left" if index < self.texts else "right")
        for row in self.rows:
            table.add_row(*(cell.replace(" ± ", "±") for cell in row))  # the spaces do not fit 80 columns
        return table


def number(value: float | None, factor: float = 100) -> str:
    return NONE if value is None else f"{factor * value:.1f}"


def show(tables: Iterable[Table]) -> None:
    """Print tables and their notes on the terminal."""
    console = PlainConsole(width=WIDTH)
    for table in tables:
        console.print(table.terminal)
        for note in table.notes:
            console.print(note, soft_wrap=True)
