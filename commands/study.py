"""Run the missing runs of a study (studies/*.yaml), and print its table next to the paper's values.

make study NAME=scorer-table-6 DATASET=tabletop [SEEDS="1 2 3"]
python -m commands.study --name scorer-table-6 --dataset tabletop --jobs 2     two runs at a time
python -m commands.study --name scorer-table-6 --dataset tabletop --on slurm   one cluster job per run
python -m commands.study --name scorer-table-6 --dataset tabletop --show       print only, run nothing
"""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import commands
from pipeline.cli.arguments import SEEDS, jobs, new_parser, parsed, to_read, whole, word
from pipeline.config import params
from pipeline.io.errors import listed
from pipeline.io.outputs import write_text
from pipeline.reporting.tables import show
from pipeline.results import own_records, records, study_table
from pipeline.study import slurm, study_file, study_runs, workspace
from pipeline.study.jobs import Executor, Local, Queue, cancel
from pipeline.study.run_task import RunTask
from pipeline.study.study_runs import Planned, Run
from pipeline.study.workspace import Base

DEFAULT_SEEDS = (1, 2, 3)
RESULTS = Path("results/studies")


def main() -> None:
    parser = new_parser("python -m commands.study", __doc__)
    add = parser.add_argument
    commit = "keep all outputs of the runs in DVC's cache (default), or only scores and records"
    add("--name", type=word, required=True, help="the name in studies/<name>.yaml")
    add("--dataset", type=word, required=True, help="a dataset of params.yaml or datasets.yaml")
    add("--seeds", type=whole(*SEEDS), nargs="+", default=DEFAULT_SEEDS, help="(default: 1 2 3)")
    add_places(parser)
    add("--commit", action=argparse.BooleanOptionalAction, default=True, help=commit)
    add("--unrecorded", action="store_true", help="run only runs without a record, published or own")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--show", action="store_true", help="print the finished runs; run and write nothing")
    modes.add_argument("--cancel", action="store_true", help="end the study's jobs, and nothing else")
    study(parsed(parser))


def add_places(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that set where jobs run, how many run at a time, and what a cluster job requests."""
    add, cluster = parser.add_argument, f"the resources to request from SLURM (default: {slurm.FILE})"
    add("--on", choices=("local", "slurm"), default="local", help="where jobs run (default: this machine)")
    add("--cluster", type=to_read, default=slurm.FILE, help=cluster)
    add("--jobs", type=jobs, help="jobs at a time (default: one here; on SLURM the number in --cluster)")


def place_of(arguments: argparse.Namespace) -> Executor:
    """Return the place (this machine or SLURM) that the arguments name."""
    if arguments.on == "local":
        return Local(arguments.jobs or 1)
    return slurm.Slurm(slurm.read(arguments.cluster), arguments.jobs)


def study(arguments: argparse.Namespace) -> None:
    """Check the inputs, do the missing runs, then print and write the table.

    After all runs have ended, InputError is raised if some failed. The message has a line for each of them.
    """
    root, name, dataset = Path(), arguments.name, arguments.dataset
    settings, definition = params.load(), study_file.read(name)
    planned = study_runs.plan(root, name, definition, dataset, list(dict.fromkeys(arguments.seeds)))
    study_table.check(root, definition, dataset)
    missing = _missing(root, planned, arguments.unrecorded)
    failed: list[str] = []
    if missing and not arguments.show:
        place = place_of(arguments)
        if arguments.cancel:
            count = cancel(place, workspace.workspaces([run for _, run in missing], root))
            print(f"ended {count} job(s); their work is kept, and the study continues from it when run again")
            return
        with workspace.opened(root, dataset, study_runs.inputs_of(planned)) as base:
            failed = _run(root, missing, base, place, arguments.commit)
    tables = study_table.tables(root, definition, dataset, planned, settings)
    show(tables)
    if not arguments.show:
        write_text(RESULTS / name / f"{dataset}.md", study_table.markdown(tables))
        print(f"to paste: {RESULTS / name / f'{dataset}.md'}")
        print(f"records: {records.OWN / dataset}; `python -m commands.record --promote` publishes them")
    if failed:
        raise listed(failed, "runs that are missing", "correct it and run again; finished runs are kept")


def _run(
    root: Path, missing: Sequence[tuple[Planned, Run]], base: Base, place: Executor, commits: bool
) -> list[str]:
    """Run all missing runs; return a line for each that failed. `commits`: keep outputs in DVC's cache."""
    tasks = [RunTask(run, base, commits, partial(_store_results, root, row, run)) for row, run in missing]
    return Queue(place, tasks).run()


def _store_results(root: Path, row: Planned, run: Run, workspace_folder: Path) -> None:
    records.write(root, run, row.changes, workspace_folder)
    study_runs.keep_scores(root, run, workspace_folder)


def _missing(root: Path, planned: Sequence[Planned], unrecorded: bool) -> list[tuple[Planned, Run]]:
    """Return the missing runs, each with its row of the study's table. Print their names and the counts.

    If `unrecorded` is True, the missing runs are those without a record. Otherwise, the missing runs are
    those that are not finished.
    """
    runs = study_runs.distinct_runs(planned)
    if unrecorded:
        missing = [(row, run) for row, run in runs if not own_records.recorded(root, run, row.changes)]
    else:
        missing = [(row, run) for row, run in runs if not study_runs.finished(root, run)]
    state = "recorded" if unrecorded else "finished"
    print(f"{len(runs)} runs: {len(runs) - len(missing)} {state}, {len(missing)} missing", flush=True)
    for _, run in missing:
        print(f"  missing: {run.name}", flush=True)
    return missing


if __name__ == "__main__":
    commands.run(main)
