"""Fail when a score fell against the committed ones, by more than check.tolerance of params.yaml allows.

python -m stages.check_scores --against HEAD    exit code 0: none fell; 1: some did, a line each; 2: unknown
"""

import argparse
import sys
from pathlib import Path

from pipeline import params
from pipeline.errors import printable
from pipeline.scoring import score_check
from stages import run
from stages.arguments import parsed, word


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m stages.check_scores",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--against", type=word, default="HEAD", help="git revision (default: HEAD)")
    arguments = parsed(parser)
    tolerance = params.load().check.tolerance
    found, compared = score_check.falls(Path(), arguments.against, tolerance)
    for fall in found:
        print(printable(str(fall)), file=sys.stderr)
    if found:
        sys.exit(1)
    print(printable(f"none of {compared} scores fell against {arguments.against}"))


if __name__ == "__main__":
    run(main)
