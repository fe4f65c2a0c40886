"""Write the records of the runs that `dvc repro` made (results/runs), or publish your own records.

python -m commands.record             write records to results/own/records, which git ignores
python -m commands.record --promote   move the records of the present params.yaml and data to results/records

A study writes the records of its runs itself. Published records are never replaced.
"""

from pathlib import Path

import commands
from pipeline.cli.arguments import new_parser, parsed
from pipeline.config import params, recipe_file
from pipeline.config.params import read_tree
from pipeline.io.errors import InputError
from pipeline.reporting import run_curves
from pipeline.results import own_records, records
from pipeline.scoring import run_files
from pipeline.study import study_runs
from pipeline.study.study_file import Study, StudyRow
from pipeline.study.study_runs import Run


def main() -> None:
    parser = new_parser("python -m commands.record", __doc__)
    parser.add_argument("--promote", action="store_true", help="publish own records")
    if parsed(parser).promote:
        promote()
    else:
        write()


def write() -> None:
    """Write the records of all finished runs of params.yaml."""
    finished_runs = [run for run in runs(Path()) if (run.scores_folder / "pairs.jsonl").exists()]
    if not finished_runs:
        raise InputError("no run of params.yaml has pairs.jsonl in results/runs; run `dvc repro`")
    for run in finished_runs:
        check(run)
    for run in finished_runs:
        record_path = records.write(Path(), run, {}, Path())
        note = f"{run.scores_folder}: no record, as there are more than {records.MOST_PAIRS} test pairs"
        print(record_path or note)


def promote() -> None:
    """Publish the user's own records that fit params.yaml and the prepared data."""
    published_paths = own_records.promote(Path(), read_tree(Path("params.yaml")))
    if not published_paths:
        raise InputError(f"{records.OWN} has no record of this params.yaml and these data; run a study")
    print(*published_paths, "now write the page: `python -m commands.results`", sep="\n")


def runs(root: Path) -> list[Run]:
    """Return the runs of params.yaml: one for each dataset, model and seed. `root` is the repository.

    The `key` of a run is a hash of its settings, code and data. So a run of params.yaml and a run of a
    study have the same key if their settings, code and data are equal.
    """
    settings = params.load()
    rows = [StudyRow(label=model, model=model) for model in settings.models]
    study = Study(title="-", source="-", datasets=settings.datasets, rows=tuple(rows))
    planned = [
        row
        for dataset in settings.datasets
        for row in study_runs.plan(root, "params.yaml", study, dataset, settings.seeds)
    ]
    return [run for _, run in study_runs.distinct_runs(planned)]


def check(run: Run) -> None:
    """Raise InputError if the run's files do not belong together, or if the run's recipe has changed.

    The files are scores, pairs, weights and curves. data/recipes must have the recipe `run.recipe`.
    """
    run_path = Path(run.dataset, run.model, str(run.seed))
    weights = Path("data/weights", run_path)
    run_files.check_scores(run.scores_folder, Path("data/pairs", f"{run.dataset}.jsonl"), weights)
    run_curves.check(Path("results/curves", run_path), weights)
    path = Path("data/recipes", run_path, "recipe.yaml")
    if not path.exists() or not recipe_file.same(recipe_file.load(path), run.recipe):
        raise InputError(f"{run.scores_folder} was made with other settings or code; run `dvc repro`")


if __name__ == "__main__":
    commands.run(main)
