"""Collect the results of `dvc exp run` in a file. The report then plots CIDEr-D against loss weights.

python -m commands.experiments     then run `dvc repro report`; git ignores the file
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from commands import run
from pipeline.cli.arguments import parsed
from pipeline.io import dvc_lock
from pipeline.io.errors import InputError
from pipeline.io.outputs import file_to_write, write_json
from pipeline.reporting import dvc_experiments

SHOW = (sys.executable, "-m", "dvc", "exp", "show", "--json")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m commands.experiments",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument(
        "--out", type=file_to_write, default=dvc_experiments.FILE, help="(default: %(default)s)"
    )
    arguments = parsed(parser)
    if said := dvc_lock.check(Path()):
        print(said, file=sys.stderr)
    found = dvc_experiments.gather(_shown())
    write_json(arguments.out, dvc_experiments.records(found))
    print(f"{arguments.out}: {len(found)} experiment(s)")


def _shown() -> Any:
    """Run `dvc exp show --json` and return its output. Raises InputError if the command fails."""
    done = subprocess.run(SHOW, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no message"])[0].removeprefix("ERROR: ")
        raise InputError(f"`dvc exp show --json` failed ({said}); run it to see what is wrong")
    return json.loads(done.stdout)


if __name__ == "__main__":
    run(main)
