"""Run the extraction of features, or the captioning of pairs, as parallel jobs: here or on a SLURM cluster.

python -m commands.parts --parts 8 --on slurm extract --dataset clevr_change ...
    dvc.yaml shows the other arguments of the extraction
python -m commands.parts --parts 8 --on slurm caption --pairs pairs.csv --out captions.jsonl --weights WEIGHTS

Each part consists of whole shards. A finished shard is not computed again. The part that finishes last joins
all shards. The result is the same file, byte for byte, that a single process writes. After a stop, run the
same command again to continue. The option --cancel ends the running jobs of the command.
"""

import argparse
import shlex
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from commands import run
from commands.study import add_places, place_of
from pipeline.captioning import many_pairs
from pipeline.cli.arguments import new_parser, parsed, parts, word
from pipeline.io.errors import InputError, listed
from pipeline.io.outputs import remove
from pipeline.io.provenance import sha256
from pipeline.study.jobs import Queue, Task, cancel

FOLDER = Path(".scratch/parts")
COMMANDS = {"extract": "stages", "caption": "commands"}  # their packages


@dataclass(frozen=True)
class PartTask:
    """One part of a command's work, as a task of the job queue."""

    command: str
    options: tuple[str, ...]
    index: int
    count: int

    @property
    def name(self) -> str:
        return f"part {self.index + 1} of {self.count}"

    @property
    def folder(self) -> Path:
        key = sha256(self.command, *self.options, str(self.count))[:16]
        return Path.cwd() / FOLDER / f"{key}-{self.index}"

    def begin(self, running: Collection[Task]) -> str:
        self.folder.mkdir(parents=True, exist_ok=True)
        script = ["python", "-m", f"{COMMANDS[self.command]}.{self.command}"]
        line = [*script, *self.options, "--part", f"{self.index}/{self.count}"]
        return f"cd {shlex.quote(str(Path.cwd()))} && {shlex.join(line)}"

    def finish(self) -> None:
        remove(self.folder)


def main() -> None:
    parser = new_parser("python -m commands.parts", __doc__)
    add = parser.add_argument
    add("--parts", type=parts, required=True)
    add_places(parser)
    add("--cancel", action="store_true", help="end the jobs, and nothing else")
    add("command", choices=COMMANDS)
    add("given", type=word, nargs=argparse.REMAINDER, help="the command's own arguments")
    arguments = parsed(parser)
    if "--out" not in arguments.given[:-1]:
        raise InputError(f"{arguments.command} needs --out; name the output")
    place, options = place_of(arguments), tuple(arguments.given)
    tasks = [PartTask(arguments.command, options, n, arguments.parts) for n in range(arguments.parts)]
    if arguments.cancel:
        print(f"ended {cancel(place, [task.folder for task in tasks])} job(s)")
        return
    if failed := Queue(place, tasks).run():
        raise listed(failed, "parts that are missing", "correct it and run again; finished parts are kept")
    if not (out := Path(options[options.index("--out") + 1])).exists():
        raise InputError(f"{out} was not written; run the command again")
    if arguments.command == "caption":
        errors = many_pairs.errors_in(out)
        print(f"{out}: complete, {errors} pairs with an error")
        sys.exit(bool(errors))


if __name__ == "__main__":
    run(main)
