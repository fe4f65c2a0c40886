"""Repair a truncated dvc.lock, which would stop `dvc repro`.

The command keeps a copy of each complete dvc.lock. If a killed process truncated dvc.lock, the last
copy replaces the truncated file.

python -m commands.check_lock     run it before `dvc repro`; `make repro` runs it, too
"""

import sys
from pathlib import Path

from commands import run
from pipeline.cli.arguments import new_parser, parsed
from pipeline.io import dvc_lock


def main() -> None:
    parsed(new_parser("python -m commands.check_lock", __doc__))
    if note := dvc_lock.check(Path()):
        print(note, file=sys.stderr)


if __name__ == "__main__":
    run(main)
