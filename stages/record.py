"""Write the records of the cells that `dvc repro` made (results/cells), so that the page of results has them.

python -m stages.record             # in the repository's root; then python -m stages.results

A study writes its cells' records itself.
"""

import argparse
from pathlib import Path

from pipeline import params
from pipeline.errors import InputError
from pipeline.recipes import recipe_file
from pipeline.studying import records, study_cells
from pipeline.studying.study_cells import Cell
from pipeline.studying.study_file import Row, Study
from stages import run


def main() -> None:
    argparse.ArgumentParser(
        prog="python -m stages.record", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    ).parse_args()
    done = [cell for cell in cells(Path()) if (cell.made / "pairs.jsonl").exists()]
    if not done:
        raise InputError("no cell of params.yaml has pairs.jsonl in results/cells; run `dvc repro`")
    for cell in done:
        check(cell)
    for cell in done:
        if records.has_records(Path(), cell.dataset):
            records.write(Path(), cell, {}, Path())
            print(records.path(Path(), cell, {}))
        else:
            print(f"{cell.made}: no record, as {cell.dataset} has over {records.MOST_PAIRS} test pairs")


def cells(root: Path) -> list[Cell]:
    """Those of params.yaml, as a study would plan them: a study with --unrecorded then has them already."""
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
    """Raises InputError where the cell was made with another recipe than params.yaml has now."""
    path = Path("data/recipes", cell.dataset, f"{cell.model}.yaml")
    if not path.exists() or recipe_file.load(path) != cell.recipe:
        raise InputError(f"{cell.made} is not what params.yaml and the code make now; run `dvc repro`")


if __name__ == "__main__":
    run(main)
