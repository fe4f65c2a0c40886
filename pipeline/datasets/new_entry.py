"""Add an entry for a user's own dataset to params.yaml. No other byte of the file changes."""

import re
from pathlib import Path
from typing import Any

from pipeline.config import params
from pipeline.config.dataset_params import SELECT, Dataset
from pipeline.datasets import cards, pairs_csv_rows, readers
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_text, read_yaml
from pipeline.io.outputs import replacing, write_text, yaml_of
from pipeline.io.source_code import git

NAME = re.compile(r"[A-Za-z0-9_]{1,100}")
DATASETS = re.compile(r"^dataset:\n(?=( +))", re.MULTILINE)  # the group is the indentation of the entries
# scores that need scene facts or kinds of change; a dataset in a table of pairs may lack both
SCENE_SCORES = ("truth", "CIDEr-D/change")
REMEDY = "run it from the repository's root"


def add(path: Path, name: str, folder: Path, like: str) -> bool:
    """Add an entry with the settings of `like` to params.yaml, and write a card; False if it exists already.

    `prepare.root` is absolute if git tracks no file of the folder. All errors are raised before anything is
    written.
    """
    if not NAME.fullmatch(name) or _scalar(name) != name:  # 12 or null is no text in YAML
        raise InputError(
            f"{name!r} is no name of a dataset; use letters, digits and _ (100), and begin with a letter"
        )
    table = pairs_csv_rows.find(folder)
    datasets = params.load(path).dataset
    if like not in datasets:
        raise InputError(f"{path} has no dataset {like!r} to be like; there are {', '.join(datasets)}")
    relative, absolute = (
        {"prepare": {"reader": readers.OWN, "root": root, "protocol": None}, "like": like}
        | _selection_settings(datasets[like])
        for root in (_short_path(folder), folder.absolute().as_posix())
    )
    if name in datasets:
        if read_yaml(path, REMEDY)["dataset"].get(name) in (relative, absolute):
            return False
        raise InputError(f"{path} has a dataset {name!r} already; take another name, or edit that entry")
    entry = absolute if _is_untracked(folder) else relative
    text = _with_entry(read_text(path, REMEDY), name, entry, path)
    with replacing(path) as temporary_path:
        temporary_path.write_text(text, encoding="utf-8")
        try:
            params.load(temporary_path)
        except InputError as error:
            raise InputError(
                f"{str(error).replace(str(temporary_path), str(path))}; nothing was entered"
            ) from None
        _write_card(name, folder, table)  # before params.yaml: without an entry, a card has no effect
    return True


def _selection_settings(like: Dataset) -> dict[str, Any]:
    """Return the settings `train.select` that a new dataset cannot copy from the dataset `like`.

    The setting `train.select` names the score that selects the best snapshot. The scores SCENE_SCORES
    need facts about the pairs that the new dataset may lack. If `like` uses such a score, the result sets
    `train.select` to SELECT instead. This holds for the dataset and for each model or family in
    `like.models` that has a score of its own. Otherwise, the result is empty.
    """
    of_models = {
        name: {"train": {"select": SELECT}}
        for name, layer in like.models.items()
        if layer.train.get("select") in SCENE_SCORES
    }
    selection = {"train": {"select": SELECT}} if like.train.select in SCENE_SCORES else {}
    return selection | ({"models": of_models} if of_models else {})


def _is_untracked(folder: Path) -> bool:
    """Return True if git tracks no file of the folder: DVC's copy of the repository lacks such a folder."""
    return git(Path(), "--literal-pathspecs", "ls-files", "--", str(folder)) == ""


def _short_path(folder: Path) -> str:
    absolute, working_folder = folder.absolute(), Path.cwd()
    return (
        absolute.relative_to(working_folder) if absolute.is_relative_to(working_folder) else absolute
    ).as_posix()


def _with_entry(text: str, name: str, entry: dict[str, Any], path: Path) -> str:
    if not (match := DATASETS.search(text)):
        raise InputError(f"{path}: the entries of 'dataset' are not on separate lines; enter {name} by hand")
    lines = [f"{name}:", *(f"  {key}: {_scalar(value)}" for key, value in entry.items())]
    block = "".join(f"{match[1]}{line}\n" for line in lines)
    return text[: match.end()] + block + text[match.end() :]


def _scalar(value: Any) -> str:
    return yaml_of(value, 10**6, flow=True).removesuffix("...\n").strip()


def _write_card(name: str, folder: Path, table: Path) -> None:
    """Write a card that names the table of pairs if there is none, because `prepare` needs a card."""
    card = {
        "name": name,
        "citation": "a dataset of your own",
        "source": _short_path(folder),
        "files": {table.name: "a row a pair: before, after, captions"},
    }
    head = f"# After changing the files, run `make check-data DATASET={name}`; it says what to do.\n"
    if not cards.path_of(name).exists():
        write_text(cards.path_of(name), head + yaml_of(card, 1000))
