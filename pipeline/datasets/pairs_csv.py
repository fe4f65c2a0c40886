"""Read a user's own dataset: a table of pairs, pairs.csv or pairs.jsonl, next to the folders of images.

A row describes a pair. The columns `before` and `after` name image files, relative to the table's folder.
Captions are in the columns `caption`, `caption_2` ... (csv), in a list `captions` (jsonl), or in further rows
of the same two images. Optional columns are `pair_id`, `scene` (all pairs of a scene are in one split),
`split`, `type` (a kind of change in schema.py), `before_box` and `after_box` (x, y, width, height in pixels).
If the table has no splits, the scenes are split 80/10/10 at random with a fixed seed. If it has no scenes,
pairs that share an image are one scene.
"""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from pipeline.datasets import checking, pair_checks
from pipeline.datasets.annotations import ImageName, check_splits, connected, not_blank, scenes_by_images
from pipeline.datasets.checking import on_disk
from pipeline.datasets.pairs_csv_rows import NAMES, default_pair_id, find, read_rows
from pipeline.datasets.schema import NO_CHANGE, SPLITS, Box, Kind, Pair, Split
from pipeline.io.errors import InputError, listed
from pipeline.io.records import first_fault
from pipeline.text.caption_text import refusal

FILES = ()
OPTIONAL = NAMES  # exactly one of these files must exist
REMEDY = "correct these lines (data/README.md describes a row)"
SEED = 1
HELD_OUT = 0.1  # share of the scenes in val; test has the same share


def _box(value: Any) -> Any:
    """Convert a box to four numbers. The box is a list, or a text with or without brackets."""
    parts = value.strip("[]()").replace(",", " ").split() if isinstance(value, str) else value
    try:
        x, y, width, height = (float(part) for part in parts)
    except (TypeError, ValueError):
        x = y = width = height = -1
    if not np.isfinite([x, y, width, height]).all() or min(x, y) < 0 or min(width, height) <= 0:
        raise ValueError("must be x, y, width and height in pixels (1.5, not 1,5)")
    return x, y, width, height


def _one_spelling(scene: str) -> str:
    return unicodedata.normalize("NFC", " ".join(scene.split()))


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    before: ImageName
    after: ImageName
    caption: str = ""
    captions: list[str] = []
    pair_id: str | None = None
    scene: Annotated[str, AfterValidator(_one_spelling)] = ""
    split: Split | None = None
    type: Kind | None = None
    before_box: Annotated[Box, BeforeValidator(_box)] | None = None
    after_box: Annotated[Box, BeforeValidator(_box)] | None = None


@dataclass(frozen=True)
class PairsTable:
    """Pairs of a table, with their line numbers, and the faults of the table.

    `pairs` and `lines` are dictionaries. Their keys are tuples (before image, after image).
    """

    path: Path
    pairs: dict[tuple[str, str], Pair]  # split and scene_id are "" if the table does not give them
    lines: dict[tuple[str, str], int]  # number of the first line that has the pair
    problems: list[tuple[int, str]]  # line number, message


def read(root: Path) -> list[Pair]:
    """Return the pairs in the table's order, without decoding images; one InputError names every wrong line.

    A line is also wrong if an image is missing, if a box does not fit its image, if a scene is in two splits,
    or if images in two splits have the same content.
    """
    table = _table(root)
    lines: dict[str, int] = {}
    for names, line in table.lines.items():
        for name in names:
            lines.setdefault(name, line)
    missing = [(line, fault) for name, line in lines.items() for fault in checking.missing(root, [name])]
    first_names = checking.first_alike(root, lines)
    pairs = [] if table.problems else _pairs_in_splits(table, first_names)
    faulty_boxes, advice = pair_checks.box_faults(root, table.pairs.values())
    boxes = [(table.lines[pair.before, pair.after], fault) for pair, fault in faulty_boxes]
    faults = [*missing, *boxes, *_leaks(table, pairs, first_names), *_same_images(table, first_names)]
    if problems := sorted([*table.problems, *faults]):
        messages = [f"line {line}: {problem}" for line, problem in problems]
        raise listed(messages, str(table.path), f"{REMEDY}{advice}")
    check_splits(table.path, pairs)
    return pairs


def _table(root: Path) -> PairsTable:
    path = find(root)
    table = PairsTable(path, {}, {}, [])
    for row in read_rows(path):
        parsed = row.fault or _parsed(row.values)
        if isinstance(parsed, str):
            table.problems.append((row.line, parsed))
        else:
            _add_row(table, row.line, parsed, root)
    if len(table.problems) > 1 and not table.pairs and len({problem for _, problem in table.problems}) == 1:
        line, problem = table.problems[0]  # a wrong column name is a problem of every row
        table.problems[:] = [(line, f"{problem} (the same in all lines)")]
    _check_whole(table)
    return table


def _parsed(values: dict[str, Any]) -> _Row | str:
    try:
        return _Row.model_validate(values)
    except ValidationError as error:
        fault = first_fault(error)
    names = ", ".join(_Row.model_fields).replace("captions", "caption_2 … (csv), captions (jsonl)")
    return f"{fault}; there are {names}" if fault.startswith("unknown key") else fault


def _add_row(table: PairsTable, line: int, row: _Row, root: Path) -> None:
    """Add a row to `table`, as a new pair or as further captions of a pair in an earlier line."""
    before, after = on_disk(root, row.before), on_disk(root, row.after)
    pair = Pair(
        pair_id=default_pair_id(before, after) if row.pair_id is None else row.pair_id,
        scene_id=row.scene,
        split=row.split or "",
        before=before,
        after=after,
        captions=(),
        change_type=row.type,
        before_box=row.before_box,
        after_box=row.after_box,
    )
    first_line = table.lines.setdefault((before, after), line)
    first_pair = table.pairs.setdefault((before, after), pair)
    captions = not_blank([row.caption, *row.captions])
    problems = []
    if replace(first_pair, captions=()) != pair:
        problems.append(f"not as line {first_line} says of the same two images")
    if not captions:
        problems.append("no caption")
    if wordless := [caption for caption in captions if not any(map(str.isalnum, caption))]:
        problems.append(f"the caption {wordless[0]!r} has no word; write it out")
    problems += [message for caption in captions if (message := refusal(caption))]
    table.problems.extend((line, problem) for problem in problems)
    table.pairs[before, after] = replace(first_pair, captions=first_pair.captions + captions)


def _check_whole(table: PairsTable) -> None:
    """Add the faults of several rows: a repeated pair_id; a split or a scene that only some pairs have."""
    first_lines: dict[str, int] = {}
    lines_and_pairs = list(zip(table.lines.values(), table.pairs.values(), strict=True))
    for line, pair in lines_and_pairs:
        if (first_line := first_lines.setdefault(pair.pair_id, line)) != line:
            table.problems.append((line, f"the pair_id {pair.pair_id!r} is in line {first_line} already"))
    for field, name in (("split", "split"), ("scene_id", "scene")):
        lines_without = [line for line, pair in lines_and_pairs if not getattr(pair, field)]
        if lines_with := [line for line, pair in lines_and_pairs if getattr(pair, field)]:
            message = f"no {name}, but line {lines_with[0]} has one: give all rows a {name}, or none"
            table.problems.extend((line, message) for line in lines_without)


def _pairs_in_splits(table: PairsTable, first_names: Mapping[str, str]) -> list[Pair]:
    """Return the pairs with missing splits drawn at random by scene, and missing scenes by shared images.

    `first_names` maps the name of each image to the first name among the images with the same content.
    """
    pairs = list(table.pairs.values())
    have_scenes = all(pair.scene_id for pair in pairs)
    if all(pair.split for pair in pairs):
        return pairs if have_scenes else scenes_by_images(pairs)
    # a scene's key is a tuple, so that it differs from the name of every image
    scene_keys = [
        (first_names[pair.before], first_names[pair.after], *[("", pair.scene_id)] * have_scenes)
        for pair in pairs
    ]
    first_indexes = connected(scene_keys)
    split_of = _random_splits(table.path, list(dict.fromkeys(first_indexes)))
    return [
        replace(pair, split=split_of[index], scene_id=pair.scene_id if have_scenes else pairs[index].pair_id)
        for pair, index in zip(pairs, first_indexes, strict=True)
    ]


def _random_splits(path: Path, scenes: list[int]) -> dict[int, str]:
    """Return a dictionary: scene -> random split. val and test get a tenth of the scenes each, at least 1."""
    held_out = max(1, round(HELD_OUT * len(scenes)))
    if len(scenes) <= 2 * held_out:
        raise InputError(
            f"{path}: its {len(scenes)} scene(s) cannot be divided into train, val and test: pairs that "
            "share an image, by name or by content, are one scene; bring more pairs, or give each row a split"
        )
    order = np.random.default_rng(SEED).permutation(len(scenes))
    splits = np.repeat(SPLITS, [len(scenes) - 2 * held_out, held_out, held_out]).tolist()
    return {scenes[index]: split for index, split in zip(order, splits, strict=True)}


def _leaks(table: PairsTable, pairs: list[Pair], first_names: Mapping[str, str]) -> list[tuple[int, str]]:
    """Return (line number, message) for each scene and each image content that is in two splits."""
    first_uses: dict[str, tuple[str, str, int]] = {}
    first_of_scene: dict[str, tuple[str, int]] = {}
    problems = []
    for line, pair in zip(table.lines.values(), pairs, strict=False):
        split, first_line = first_of_scene.setdefault(pair.scene_id, (pair.split, line))
        if split != pair.split:
            scene = f"scene {pair.scene_id!r} is in {pair.split} here, and in {split} in line {first_line}"
            problems.append((line, scene))
        for name in dict.fromkeys((pair.before, pair.after)):
            first_use = (name, pair.split, line)
            first_name, split, first_line = first_uses.setdefault(first_names[name], first_use)
            if split != pair.split:
                same_image = f"the same image as {first_name} in {split}, line {first_line}"
                problems.append((line, f"{name} in {pair.split} is {same_image}"))
    return problems


def _same_images(table: PairsTable, first_names: Mapping[str, str]) -> list[tuple[int, str]]:
    """Return (line number, message) for each changed pair whose two images are equal files."""
    return [
        (line, f"before and after are the same image ({pair.before}), and the type is {pair.change_type}")
        for line, pair in zip(table.lines.values(), table.pairs.values(), strict=True)
        if pair.change_type not in (None, NO_CHANGE) and first_names[pair.before] == first_names[pair.after]
    ]
