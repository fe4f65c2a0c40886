"""Prepare for `dvc repro` what would end it: a dvc.lock that is cut off, and links to files that vanished.

A copy of a whole dvc.lock is kept, and the last good copy replaces one that a kill has cut off.

python -m commands.check_lock     before `dvc repro`; `make repro` does it
"""

import argparse
import sys
from pathlib import Path

from commands import run
from pipeline.cli.arguments import parsed
from pipeline.io import dvc_lock, named_files
from pipeline.io.errors import printable


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m commands.check_lock",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parsed(parser)
    if said := dvc_lock.check(Path()):
        print(said, file=sys.stderr)
    for name in named_files.remove_dead():
        said = f"note: the file {name} is missing, which the settings named; bring it back, or name another"
        print(printable(said), file=sys.stderr)


if __name__ == "__main__":
    run(main)
