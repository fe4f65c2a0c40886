"""Extract features or caption pairs in parts, each a job of its own: here, or on a SLURM cluster.

python -m commands.parts --parts 8 --on slurm extract --dataset clevr_change ...   (its arguments in dvc.yaml)
python -m commands.parts --parts 8 --on slurm caption --pairs pairs.csv --out captions.jsonl --weights WEIGHTS

A part owns whole shards and leaves a mark for each, so that nothing is done twice; the last one puts all
together, byte for byte as one process would. Start it again after a stop; --cancel ends its jobs.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from commands import run
from commands.study import add_places
from pipeline.captioning import many_pairs
from pipeline.cli.arguments import jobs, parsed, parts, word
from pipeline.io.errors import InputError, listed
from pipeline.io.outputs import remove
from pipeline.io.provenance import sha256
from pipeline.study import cluster_settings as settings
from pipeline.study import live_table, places
from pipeline.study.job import Job, Step
from pipeline.study.queue import Queue, Task, cancel

FOLDER = Path(".scratch/parts")
COMMANDS = {"extract": "stages", "extract_pretraining": "stages", "caption": "commands"}  # their packages


@dataclass(frozen=True)
class PartTask:
    """One part of a command."""

    command: str
    given: tuple[str, ...]
    index: int
    count: int

    @property
    def name(self) -> str:
        return f"part {self.index + 1} of {self.count}"

    @property
    def folder(self) -> Path:
        key = sha256(self.command, *self.given, str(self.count))[:16]
        return Path.cwd() / FOLDER / f"{key}-{self.index}"

    @property
    def out(self) -> Path:
        """What the command writes."""
        return Path(self.given[self.given.index("--out") + 1])

    def begin(self, others: Collection[Task]) -> Job | None:
        line = [
            "python",
            "-m",
            f"{COMMANDS[self.command]}.{self.command}",
            *self.given,
            "--part",
            f"{self.index}/{self.count}",
        ]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        step = Step(self.command, shlex.join(line))
        return Job(str(self.folder), str(Path.cwd()), (step,), {"PATH": path})

    def finish(self) -> None:
        remove(self.folder)

    def reached(self) -> str:
        return str(self._marks())

    def shown(self) -> tuple[str, str, str]:
        return f"{self._marks()} shards of all", "", ""

    def _marks(self) -> int:
        """The shards that are done, of all parts."""
        beside = f".{self.out.name}.*.scratch"
        marks = [*self.out.parent.glob(f"{beside}/complete/*"), *self.out.parent.glob(f"{beside}/*.jsonl")]
        return len(marks)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m commands.parts", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--parts", type=parts, required=True)
    add_places(parser)
    parser.add_argument(
        "--jobs", type=jobs, help="parts at a time (default: one here, of SLURM as its file says)"
    )
    parser.add_argument("--cancel", action="store_true", help="end the jobs, and nothing else")
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("given", type=word, nargs=argparse.REMAINDER, help="the command's own arguments")
    arguments = parsed(parser)
    if "--out" not in arguments.given[:-1]:
        raise InputError(f"{arguments.command} needs --out; name what it shall write")
    cluster = settings.read(arguments.cluster) if arguments.on == "slurm" else None
    place = places.of(arguments.on, arguments.jobs, cluster)
    given = tuple(arguments.given)
    tasks = [PartTask(arguments.command, given, n, arguments.parts) for n in range(arguments.parts)]
    if arguments.cancel:
        print(f"ended {cancel(place, [task.folder for task in tasks])} job(s)")
    else:
        made(tasks, place)


def made(tasks: Sequence[PartTask], place: places.Place) -> None:
    """Run all parts. Raises InputError where some failed; exit code 1 where pairs have errors."""
    queue = Queue(place, tasks)
    with live_table.watched(queue) as watch:
        failed = queue.run(watch)
    if failed:
        lines = [f"{entry.task.name}: {entry.line or entry.state}" for entry in failed]
        raise listed(lines, "parts that are missing", "mend it and start it again; the others are kept")
    out = tasks[0].out
    if not out.exists():
        raise InputError(f"{out} was not put together; start it again")
    if tasks[0].command == "caption":
        errors = many_pairs.errors_in(out)
        print(f"{out}: whole, {errors} pairs of it with an error")
        if errors:
            sys.exit(1)


if __name__ == "__main__":
    run(main)
