"""Measure time and memory of each stage of the default run, against an earlier commit.

    python -m benchmarks default_run --reference d28c4db5 [--runs 3]

Each run is `dvc repro` in a fresh clone with a cache of its own and this environment: of the reference, then
of HEAD (changes that are not committed have no effect), in turn. The table has medians: wall time, processor
time, and the peak of memory of the stage's largest process. Ratio: the reference divided by ours.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.first_answer import Run, clone
from pipeline.cli.arguments import parsed, whole, word
from pipeline.io.errors import InputError

ALL = "dvc repro"
# The program that runs a stage and appends what it took to the file MEASURED, as a line of JSON.
# Python finds its packages by its own path, so that path is the first argument.
NOTING = f"""import json, os, sys, time
start = time.perf_counter()
child = os.posix_spawn({sys.executable!r}, [{sys.executable!r}, *sys.argv[1:]], os.environ)
_, status, usage = os.wait4(child, 0)
seconds = time.perf_counter() - start
row = [os.environ["DVC_STAGE"], seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]
with open(os.environ["MEASURED"], "a") as measured:
    print(json.dumps(row), file=measured)
sys.exit(os.waitstatus_to_exitcode(status) & 255)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--reference", type=word, required=True, help="a commit of this repository")
    parser.add_argument("--runs", type=whole(1, 100), default=3, help="runs of each build")
    arguments = parsed(parser)
    reference, ours = medians([arguments.reference, "HEAD"], arguments.runs)
    print("| stage | the reference: wall, processor, memory | ours | ratio |\n|---|---|---|---|")
    for name in dict.fromkeys([*ours, *reference]):
        ratios = "–"
        if name in ours and name in reference:
            both = zip(reference[name], ours[name], strict=True)
            ratios = ", ".join(f"{theirs / own:.2f}" if own else "–" for theirs, own in both)
        print(f"| {name} | {reference.get(name, '–')} | {ours.get(name, '–')} | {ratios} |")


def medians(commits: list[str], runs: int) -> list[dict[str, Run]]:
    """Return stage -> medians for each commit. The commits take turns."""
    turns = [[measured(commit) for commit in commits] for _ in range(runs)]
    return [median(of_commit) for of_commit in zip(*turns, strict=True)]


def median(runs: Sequence[dict[str, Run]]) -> dict[str, Run]:
    """Return stage -> medians of its time, processor time and memory."""
    each = {name: zip(*(run[name] for run in runs), strict=True) for name in runs[0]}
    return {name: Run(*map(statistics.median, values)) for name, values in each.items()}


def measured(commit: str) -> dict[str, Run]:
    """Reproduce a commit's default run from nothing. Raises InputError if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        lab, programs, rows = (Path(folder) / name for name in ("lab", "programs", "rows.jsonl"))
        clone(commit, lab)
        programs.mkdir()
        noting = programs / "noting.py"
        noting.write_text(NOTING, encoding="utf-8")
        # DVC finds this program as `python`. It is a shell script, because a path after #! has no spaces.
        command = shlex.join([sys.executable, "-IS", str(noting)])
        (programs / "python").write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        (programs / "python").chmod(0o755)
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        # DVC finds the environment's other programs next to its Python
        environment["PATH"] = os.pathsep.join(
            [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        )
        environment["MEASURED"] = str(rows)
        start = time.perf_counter()
        repro = [sys.executable, "-m", "dvc", "repro"]
        done = subprocess.run(repro, cwd=lab, env=environment, capture_output=True, text=True)
        seconds = time.perf_counter() - start
        if done.returncode:
            raise InputError(f"{commit}: dvc repro failed: {(done.stdout + done.stderr).strip()[-500:]}")
        stages = {name: Run(*took) for name, *took in map(json.loads, rows.read_text().splitlines())}
    processor = sum(run.processor for run in stages.values())
    largest = max(run.memory for run in stages.values())
    return stages | {ALL: Run(seconds, processor, largest)}


if __name__ == "__main__":
    main()
