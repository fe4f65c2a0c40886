"""Select a user's own records that fit the current settings and data.

`promote` publishes these records: it moves them to the folder of the published records.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from pipeline.config import resolving
from pipeline.config.params import Params
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_bytes, read_text
from pipeline.io.outputs import write_text
from pipeline.results import record_tables, records
from pipeline.results.record_tables import Records
from pipeline.results.records import FOLDER, OWN, PAIRS, REMEDY, Record, pairs_path
from pipeline.study.study_file import StudyRow, Tree, overlay
from pipeline.study.study_runs import Run


def current_settings(tree: Tree, record: Record) -> str:
    """Return the hash of the settings in `tree` (params.yaml) for the record's model, changes and seed."""
    dataset, model = record["dataset"], record["model"]
    record_name = records.name_of(record)
    changed = overlay(tree, StudyRow(label=model, model=model, set=record["changes"]), dataset, record_name)
    recipe = resolving.resolve(Params.model_validate(changed), dataset, model)
    return records.settings(Run("", dataset, model, record["seed"], changed, recipe, ""))


def check(root: Path, tree: Tree, dataset: str, dataset_records: Iterable[Record]) -> None:
    """Raise InputError, which names the dataset's folder, if a record has other settings than params.yaml."""
    others = [records.name_of(record) for record in dataset_records if not _fits(tree, record)]
    if others:
        raise InputError(
            f"params.yaml has other settings than {len(others)} of the records in {root / FOLDER / dataset}, "
            f"the first {others[0]}; restore params.yaml with git, or make them again"
        )


def recorded(root: Path, run: Run, changes: Tree) -> bool:
    """Return True if a published or own record has the run's pairs, and its settings with `changes`."""
    if records.path(root, run, changes).exists():
        return True
    file = root / FOLDER / run.dataset / records.name(run.model, changes, run.seed)
    if not file.exists() or records.read(file)["settings"] != records.settings(run):
        return False
    return records.read_pairs_file(file.parent / PAIRS) == records.prepared(root, run.dataset)


def read(root: Path, tree: Tree, dataset: str) -> tuple[Records, list[Path]]:
    """Return the tables of a user's own records of a dataset, and the files of records that are left out.

    A record of other data or settings is left out. If a user's record remains, the tables also contain the
    published records with current settings and the same pairs, except those that a user's record replaces.
    """
    folder = root / OWN / dataset / records.data(root, dataset)
    own_records, pairs = _fitting(folder, tree)
    by_name = {records.name_of(record): file for file, record in own_records.items()}
    by_file = dict(own_records)
    if by_name:
        published, published_pairs = _fitting(root / FOLDER / dataset, tree)
        if published_pairs == pairs:
            by_name = {file.name: file for file in published} | by_name
            by_file |= published
    files = sorted((root / OWN / dataset).glob("*/*.json"))
    left_out = [file for file in files if file.name != PAIRS and file not in own_records]
    chosen = {by_name[name]: by_file[by_name[name]] for name in sorted(by_name)}
    return record_tables.of_records(dataset, chosen, pairs), left_out


def promote(root: Path, tree: Tree) -> list[Path]:
    """Move the user's own records of the current settings and data to the published ones; return their paths.

    If a published record has other settings or pairs, or would be replaced, an InputError comes before any
    move.
    """
    moved: dict[Path, Path] = {}
    for dataset in sorted(path.name for path in (root / OWN).glob("*")):
        folder = root / OWN / dataset / records.data(root, dataset)
        own_records, pairs = _fitting(folder, tree)
        if own_records:
            moved |= _targets(root, tree, dataset, own_records, pairs)
    for file, target in moved.items():
        if not (target.parent / PAIRS).exists():
            write_text(target.parent / PAIRS, read_text(file.parent / PAIRS, REMEDY))
        for part, new_part in ((pairs_path(file), pairs_path(target)), (file, target)):
            write_text(new_part, read_text(part, REMEDY))
            part.unlink()
    return [*moved.values()]


def _targets(
    root: Path, tree: Tree, dataset: str, own_records: Mapping[Path, Record], pairs: Record
) -> dict[Path, Path]:
    """Return where the user's own records are to be published, file -> new file; errors as in `promote`."""
    folder = root / FOLDER / dataset
    published, published_pairs = record_tables.read_folder(folder)
    check(root, tree, dataset, published.values())
    if published and published_pairs != pairs:
        raise InputError(
            f"the own records of {dataset} have other test pairs than {folder / PAIRS}; remove these first"
        )
    targets = {file: folder / records.name_of(record) for file, record in own_records.items()}
    for file, target in targets.items():
        if target.exists() and any(
            read_bytes(part(target)) != read_bytes(part(file)) for part in (Path, pairs_path)
        ):
            raise InputError(f"{target} is published, and {file} differs; `git rm` the former to replace it")
    return targets


def _fitting(folder: Path, tree: Tree) -> tuple[dict[Path, Record], Record]:
    """Return the records of the models and settings in params.yaml, file -> record, and the test pairs."""
    by_file, pairs = record_tables.read_folder(folder)
    return {file: record for file, record in by_file.items() if _fits(tree, record)}, pairs


def _fits(tree: Tree, record: Record) -> bool:
    """Return True if params.yaml has the record's model and settings."""
    try:
        return current_settings(tree, record) == record["settings"]
    except InputError:
        return False
