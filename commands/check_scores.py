"""Fail if a score is lower than the committed score by more than check.tolerance in params.yaml.

python -m commands.check_scores --against HEAD
    exit code 0: no score fell; 1: scores fell, with a line for each; 2: the scores cannot be compared
"""

import argparse
import sys
from pathlib import Path

from commands import run
from pipeline.cli.arguments import parsed, word
from pipeline.config import params
from pipeline.io.errors import printable
from pipeline.scoring import score_check


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m commands.check_scores",
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
    print(printable(f"none of {compared} scores fell since {arguments.against}"))


if __name__ == "__main__":
    run(main)
