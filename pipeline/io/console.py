"""rich's console for what users and files may name: no markup in their texts, and no control characters."""

import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from pipeline.io.errors import printable
from pipeline.io.standard_streams import NO_READER


class PlainConsole(Console):
    """A console on standard output, or on standard error, that prints texts as they are.

    `[bold]` in a text is no markup, and control characters are escaped.
    """

    def __init__(self, stderr: bool = False, **options: Any) -> None:
        stream = sys.stderr if stderr else sys.stdout
        raw = getattr(stream, "raw", stream)
        super().__init__(file=raw, markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)

    def on_broken_pipe(self) -> None:
        raise SystemExit(NO_READER)
