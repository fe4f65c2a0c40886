"""Repair two faults that would stop `dvc repro`: a truncated dvc.lock, and links to missing files.

The command keeps a copy of each complete dvc.lock. If a killed process truncated dvc.lock, the last
copy replaces the truncated file. The stage `settings` makes a link to each file that the settings
name. A link to a missing file is removed, and a note names the file.

python -m commands.check_lock     run it before `dvc repro`; `make repro` runs it, too
"""

import sys
from pathlib import Path

from commands import run
from pipeline.cli.arguments import new_parser, parsed
from pipeline.io import dvc_lock, named_files
from pipeline.io.errors import printable


def main() -> None:
    parsed(new_parser("python -m commands.check_lock", __doc__))
    if note := dvc_lock.check(Path()):
        print(note, file=sys.stderr)
    for name in named_files.remove_dead():
        note = f"note: the settings named the file {name}, which is missing; restore it, or name another file"
        print(printable(note), file=sys.stderr)


if __name__ == "__main__":
    run(main)
