"""Select a user's own records that fit the current settings and data, and publish records."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from pipeline.config import resolving
from pipeline.config.params import Params
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_bytes, read_text
from pipeline.io.outputs import write_text
from pipeline.results import record_comparisons, records
from pipeline.results.record_comparisons import Group
from pipeline.results.records import FOLDER, OWN, PAIRS, REMEDY, Record
from pipeline.study.overrides import Tree, overlay
from pipeline.study.study_cells import Cell
from pipeline.study.study_file import Row


def settings_now(tree: Tree, record: Record, file: Path) -> str:
    """Return the hash of the current settings for a run with the record's model, changes and seed.

    `tree` is the content of params.yaml. Raises InputError if the settings are invalid. The message names the
    record's file.
    """
    dataset, model = record["dataset"], record["model"]
    changed = overlay(tree, Row(label=model, model=model, set=record["changes"]), dataset, str(file))
    try:
        recipe = resolving.resolve(Params.model_validate(changed), dataset, model)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    return records.settings(Cell("", dataset, model, record["seed"], changed, recipe, ""))


def check(root: Path, tree: Tree, dataset: str, found: Iterable[Record]) -> None:
    """Raise InputError if published records have other settings than params.yaml (`tree`)."""
    files = {root / FOLDER / dataset / records.name_of(record): record for record in found}
    wrong = [file for file, own in files.items() if settings_now(tree, own, file) != own["settings"]]
    if wrong:
        raise InputError(
            f"params.yaml has other settings than {len(wrong)} of the {len(files)} records in "
            f"{wrong[0].parent}, the first {wrong[0].name}; restore params.yaml with git, or make them again"
        )


def recorded(root: Path, cell: Cell, changes: Tree) -> bool:
    """Return True if a published or own record has the run's settings and pairs; the code may differ."""
    if records.path(root, cell, changes).exists():
        return True
    file = root / FOLDER / cell.dataset / records.name(cell.model, changes, cell.seed)
    if not file.exists() or records.read(file)["settings"] != records.settings(cell):
        return False
    return records.read_pairs_file(file.parent / PAIRS) == records.prepared(root, cell.dataset)


def read(root: Path, tree: Tree, dataset: str) -> tuple[list[Group], list[Path]]:
    """Return the groups of records that fit the current settings and data, and the files of other records.

    If a run has no own record, a published record of the same settings and pairs is used.
    """
    fitting: dict[str, Record] = {}
    left: list[Path] = []
    now, pairs = root / OWN / dataset / records.data(root, dataset), {}
    for folder in sorted((root / OWN / dataset).glob("*")):
        left += [folder] * (not folder.is_dir())  # a file here belongs to no data
        for file, record in _inside(folder, dataset).items():
            if folder == now and _fits(tree, record, file):
                fitting[records.name_of(record)] = record
                pairs = records.read_pairs_file(now / PAIRS)
            else:
                left.append(file)
    published, of = record_comparisons.folder(root / FOLDER / dataset, dataset, records.name_of)
    for record in published if fitting and of == pairs else []:
        name = records.name_of(record)
        if name not in fitting and _fits(tree, record, root / FOLDER / dataset / name):
            fitting[name] = record
    return record_comparisons.groups([fitting[name] for name in sorted(fitting)], pairs), left


def files(root: Path, tree: Tree) -> list[Path]:
    """Return all own records of the current settings and data."""
    found = []
    for dataset in sorted(path.name for path in (root / OWN).glob("*")):
        folder = root / OWN / dataset / records.data(root, dataset)
        found += [file for file, own in _inside(folder, dataset).items() if _fits(tree, own, file)]
    return found


def promote(root: Path, tree: Tree, own: Sequence[Path]) -> list[Path]:
    """Move own records to the published records, and return their new paths.

    Raises InputError for a record with other settings than params.yaml, for a record with other pairs than
    the published records, and if a published record would be replaced. In these cases no record is moved.
    """
    moved = {_published(root, tree, file): file for file in own}
    if len(moved) < len(own):
        raise InputError(f"{own[0].parent}: two records would have one published name; name one of them")
    for target, file in moved.items():
        if target.exists() and read_bytes(target) != read_bytes(file):
            raise InputError(f"{target} is published, and {file} differs; `git rm` the former to replace it")
    for target, file in moved.items():
        if not (target.parent / PAIRS).exists():
            write_text(target.parent / PAIRS, read_text(file.parent / PAIRS, REMEDY))
        write_text(target, read_text(file, REMEDY))
        file.unlink()
    return list(moved)


def _published(root: Path, tree: Tree, file: Path) -> Path:
    """Return the path that a record will have when published.

    Raises InputError if it must not be published.
    """
    record = records.read(file)
    dataset = record["dataset"]
    if file.parent.parent.resolve() != (root / OWN / dataset).resolve():
        raise InputError(f"{file} is not in {root / OWN / dataset}; name a record that is")
    _inside(file.parent, dataset)
    if not _fits(tree, record, file):
        raise InputError(f"{file} is of other settings than params.yaml; restore those that made it")
    folder = root / FOLDER / dataset
    published, pairs = record_comparisons.folder(folder, dataset, records.name_of)
    check(root, tree, dataset, published)
    if published and pairs != records.read_pairs_file(file.parent / PAIRS):
        raise InputError(f"{file} is of other test pairs than {folder / PAIRS}; `git rm` those records first")
    return folder / records.name_of(record)


def _inside(folder: Path, dataset: str) -> dict[Path, Record]:
    """Return file -> own record in a folder. Raises InputError if a record was made of other data."""
    found, _ = record_comparisons.folder(folder, dataset, records.own_name_of)
    inside = {folder / records.own_name_of(record): record for record in found}
    for file, record in inside.items():
        if record.get("data") != folder.name:
            raise InputError(f"{file} is a copy: it was made of the data {record.get('data')}; remove it")
    return inside


def _fits(tree: Tree, record: Record, file: Path) -> bool:
    """Return True if params.yaml has the record's settings.

    Return False if they differ or its model is missing.
    """
    try:
        return settings_now(tree, record, file) == record["settings"]
    except InputError:
        return False
