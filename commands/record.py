"""Write the records of the runs that `dvc repro` made (results/cells), or publish your own records.

python -m commands.record                     write records to results/own/records, which git ignores
python -m commands.record --promote           move the records of the present params.yaml and data
                                              to results/records
python -m commands.record --promote FILE ...  move these records

A study writes the records of its runs itself. Published records are never replaced. Next,
`python -m commands.results` writes the page of the published records, and `python -m commands.results --own`
the page of your own records.
"""

import argparse
from pathlib import Path

from commands import run
from pipeline.cli.arguments import parsed, to_read
from pipeline.config import params, recipe_file
from pipeline.config.params import read_tree
from pipeline.io.errors import InputError
from pipeline.reporting import run_curves
from pipeline.results import own_records, records
from pipeline.scoring import run_files
from pipeline.study import study_cells
from pipeline.study.study_cells import Cell
from pipeline.study.study_file import Row, Study


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m commands.record", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--promote",
        nargs="*",
        type=to_read,
        metavar="FILE",
        help="publish own records (default: all that fit)",
    )
    own = parsed(parser).promote
    if own is None:
        write()
    else:
        promote(own)


def write() -> None:
    """Write the records of all finished runs of params.yaml."""
    done = [cell for cell in cells(Path()) if (cell.made / "pairs.jsonl").exists()]
    if not done:
        raise InputError("no run of params.yaml has pairs.jsonl in results/cells; run `dvc repro`")
    for cell in done:
        check(cell)
    for cell in done:
        written = records.write(Path(), cell, {}, Path())
        many = f"{cell.made}: no record, as {cell.dataset} has more than {records.MOST_PAIRS} test pairs"
        print(written or many)


def promote(own: list[Path]) -> None:
    """Publish the records in `own`.

    If `own` is empty, publish all of the user's own records that fit params.yaml and the data.
    """
    tree = read_tree(Path("params.yaml"))
    found = own or own_records.files(Path(), tree)
    if not found:
        raise InputError(
            f"{records.OWN} has no record of this params.yaml and the prepared data; run a study"
        )
    for path in own_records.promote(Path(), tree, found):
        print(path)
    print("now write the page: `python -m commands.results`")


def cells(root: Path) -> list[Cell]:
    """Return the runs of params.yaml, with the same keys that they would have in a study.

    Therefore a study with --unrecorded skips the runs whose records this command writes.
    """
    settings = params.load()
    rows = [Row(label=model, model=model) for model in settings.models]
    study = Study(title="-", source="-", datasets=settings.datasets, rows=tuple(rows))
    planned = [
        row
        for dataset in settings.datasets
        for row in study_cells.plan(root, "params.yaml", study, dataset, settings.seeds)
    ]
    return [cell for _, cell in study_cells.each(planned)]


def check(cell: Cell) -> None:
    """Raise InputError if the run's files do not belong together, or if the run's recipe has changed."""
    run = Path(cell.dataset, cell.model, str(cell.seed))
    weights = Path("data/weights", run)
    run_files.check_scores(cell.made, Path("data/pairs", f"{cell.dataset}.jsonl"), weights)
    run_curves.check(Path("results/curves", run), weights)
    path = Path("data/recipes", run, "recipe.yaml")
    if not path.exists() or not recipe_file.same(recipe_file.load(path), cell.recipe):
        raise InputError(f"{cell.made} was made with other settings or code; run `dvc repro`")


if __name__ == "__main__":
    run(main)
