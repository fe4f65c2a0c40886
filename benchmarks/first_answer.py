"""Measure how long programs take to start and to give their first answer, against an earlier commit.

    python -m benchmarks first_answer --reference d28c4db5 [--runs 3] [--pairs data/pairs/tabletop.jsonl]

The reference commit is cloned into a temporary folder and runs with this environment. Both builds run each
program in turn, after one run of each that writes bytecode. The programs: a caption of the sample with the
shipped weights, a judgement of the first reference of each test pair of --pairs, and each stage with --help.
The table has medians: wall time, processor time (which other programs change less), and the peak of memory.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pipeline.cli.arguments import pairs_of, parsed, to_read, whole, word
from pipeline.io.errors import InputError
from pipeline.io.source_code import ROOT

CAPTION = "commands.caption docs/sample/before.png docs/sample/after.png --weights demo/clip4idc"


class Run(NamedTuple):
    """What one run of a program took, or the medians of several runs."""

    wall: float  # seconds
    processor: float  # seconds
    memory: float  # MiB

    def __str__(self) -> str:
        return f"{self.wall:.2f} s, {self.processor:.2f} s, {self.memory:.0f} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--reference", type=word, required=True, help="a commit of this repository")
    parser.add_argument("--runs", type=whole(1, 100), default=3, help="runs of each program and build")
    parser.add_argument("--pairs", type=to_read, default=Path("data/pairs/tabletop.jsonl"))
    arguments = parsed(parser)
    with tempfile.TemporaryDirectory() as folder:
        earlier, answers = Path(folder) / "earlier", Path(folder) / "answers.jsonl"
        clone(arguments.reference, earlier)
        pairs = pairs_of(arguments.pairs, "test")
        lines = (json.dumps({"image_id": pair.pair_id, "caption": pair.captions[0]}) for pair in pairs)
        answers.write_text("\n".join(lines), encoding="utf-8")
        judge = ["commands.judge", str(answers), "--pairs", str(arguments.pairs.resolve())]
        stages = sorted(path.stem for path in (ROOT / "stages").glob("[!_]*.py"))
        programs = {"a caption": CAPTION.split(), f"a judgement of {len(pairs)} captions": judge}
        programs |= {f"start of stages.{name}": [f"stages.{name}", "--help"] for name in stages}
        print("| program | the reference: wall, processor, memory | ours | ratio |\n|---|---|---|---|")
        for name, command in programs.items():
            reference, ours = compared((earlier, ROOT), command, arguments.runs)
            ratios = [f"{theirs / own:.1f}" for theirs, own in zip(reference, ours, strict=True)]
            print(f"| {name} | {reference} | {ours} | {', '.join(ratios)} |", flush=True)


def clone(commit: str, folder: Path) -> None:
    """Clone this repository at `commit`. Raises InputError if git has no such commit."""
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(ROOT), str(folder)], check=True)
    checkout = ["git", "checkout", "--quiet", "--detach", commit]
    if subprocess.run(checkout, cwd=folder, capture_output=True).returncode:
        raise InputError(f"--reference {commit}: this repository has no such commit; name one of `git log`")


def compared(builds: Sequence[Path], command: Sequence[str], runs: int) -> list[Run]:
    """Return the medians of each build. The builds take turns, after a run of each that is not counted."""
    turns = [[run(build, command) for build in builds] for _ in range(runs + 1)][1:]
    return [
        Run(*map(statistics.median, zip(*of_build, strict=True))) for of_build in zip(*turns, strict=True)
    ]


def run(build: Path, command: Sequence[str]) -> Run:
    """Run a module in a build's folder. Raises InputError if it fails."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    with tempfile.TemporaryFile() as printed:
        whole_command = [sys.executable, "-m", *command]
        process = subprocess.Popen(whole_command, cwd=build, env=environment, stdout=printed, stderr=printed)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        if process.returncode:
            printed.seek(0)
            text = printed.read().decode(errors="replace").strip()
            raise InputError(f"{build}: python -m {' '.join(command)} failed: {text[-500:]}")
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


if __name__ == "__main__":
    main()
