"""Write the page of results and its figures from the records of finished cells.

python -m commands.results            of the published records (results/records), into docs
python -m commands.results --own    of a user's own (results/own/records) and the published ones that the same
                                    params.yaml and data make, into results/own
"""

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from commands import run
from pipeline.cli.arguments import parsed
from pipeline.config import params
from pipeline.config.params import read_tree
from pipeline.io.errors import InputError
from pipeline.io.outputs import Files, write_text
from pipeline.results import own_records, readings, record_comparisons, records, results_figures, results_page
from pipeline.results.record_comparisons import Group

PAGE = Path("docs/results.md")
FILES = Files("results", (PAGE.name, *results_figures.FILES))

DOCS, OWN = PAGE.parent, records.OWN.parent
LINK = re.compile(r"\]\((\.\.?/)")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m commands.results", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--out", type=FILES.to_write, help=f"the folder of the page (default: {DOCS}, or {OWN})"
    )
    parser.add_argument("--own", action="store_true", help="of a user's own records")
    arguments = parsed(parser)
    if arguments.own:
        write_own(arguments.out or OWN)
        return
    tree = read_tree(Path("params.yaml"))
    for dataset in params.load().tabletop.viewpoint:
        groups = record_comparisons.read(Path(), dataset)
        own_records.check(Path(), tree, dataset, [one for group in groups for one in group.records])
    write(arguments.out or DOCS)


def write(folder: Path) -> None:
    """Write the page of the published records, and its figures."""
    found = [record_comparisons.read(Path(), dataset) for dataset in params.load().tabletop.viewpoint]
    models = sorted({group.model for groups in found for group in groups if not group.changes})
    _write(folder, found, readings.read(readings.FILE, models))


def write_own(folder: Path) -> None:
    """Write the page of a user's own records, and its figures; say which records are left out."""
    rendered = params.load().tabletop.viewpoint
    tree = read_tree(Path("params.yaml"))
    found, left = [], []
    for dataset in sorted(path.name for path in records.OWN.glob("*")):
        groups, others = own_records.read(Path(), tree, dataset) if dataset in rendered else ([], [])
        found += [groups] * bool(groups)
        left += others or sorted((records.OWN / dataset).glob("*/*-*.json")) * (dataset not in rendered)
    if left:
        why = "other settings or data than today's, or of no rendered dataset"
        print(f"left out: {len(left)} own record(s) of {why}, the first {left[0]}")
    if not found:
        raise InputError(f"{records.OWN} has no record for the page; run a study with this params.yaml")
    _write(folder, found, None)


def _write(folder: Path, found: Sequence[Sequence[Group]], said: Mapping[str, str] | None) -> None:
    settings = params.load()
    with FILES.written(folder):
        figures = results_figures.write(folder, found, settings)
        page = results_page.page(found, figures, settings, said, own=said is None)
        write_text(folder / PAGE.name, _relinked(page, folder) if said is None else page)
    print(f"{folder / PAGE.name}: {sum(len(g.records) for groups in found for g in groups)} cells")


def _relinked(page: str, folder: Path) -> str:
    """A page whose links to docs, and above it, lead there from another folder."""
    return LINK.sub(lambda link: f"]({os.path.relpath(DOCS / link[1], folder)}/", page)


if __name__ == "__main__":
    run(main)
