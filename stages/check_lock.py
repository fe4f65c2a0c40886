"""Check that dvc.lock is whole, and keep a copy; replace one that a kill has cut off by the last good copy.

python -m stages.check_lock     before `dvc repro`; `make repro` does it
"""

import argparse
import sys
from pathlib import Path

from pipeline import dvc_lock
from stages import run
from stages.arguments import parsed


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m stages.check_lock",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parsed(parser)
    if said := dvc_lock.check(Path()):
        print(said, file=sys.stderr)


if __name__ == "__main__":
    run(main)
