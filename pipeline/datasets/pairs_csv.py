"""A dataset of your own: a table of pairs, pairs.csv or pairs.jsonl, beside the folders of its pictures.

A row is a pair: `before` and `after`, files below the table's folder; its captions, `caption` and, for more,
`caption_2` … (csv), a list `captions` (jsonl) or further rows of the same two pictures. Where you know them:
`pair_id`, `scene` (pairs of one scene share a split), `split`, `type` (of schema.py), `before_box` and
`after_box` (x, y, width, height in pixels). Without a split, 80/10/10 of the scenes, drawn by a fixed seed;
without a scene, pairs that share a picture are one.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from pipeline.datasets import checking
from pipeline.datasets.annotations import ImageName, check_splits, connected, scenes_by_images, written
from pipeline.datasets.checking import on_disk
from pipeline.datasets.pairs_csv_rows import NAMES, find, read_rows
from pipeline.datasets.schema import SPLITS, Box, Kind, Pair, Split, images_of
from pipeline.io.errors import InputError, listed
from pipeline.io.records import first_fault

FILES = ()
OPTIONAL = NAMES  # one of them
REMEDY = "mend these lines (data/README.md says what stands in a row)"
UNSEEN = re.compile("[\x00-\x08\x0e-\x1f\x7f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
"""Characters that are no white space and aren't seen, and by which equal words differ."""
SEED = 1
HELD_OUT = 0.1  # of the scenes: val, and as many test


def _box(value: Any) -> Any:
    """Four numbers, of a list or of text."""
    # a list may be in brackets, as pandas writes it
    parts = value.strip("[]()").replace(",", " ").split() if isinstance(value, str) else value
    try:
        x, y, width, height = (float(part) for part in parts)
    except (TypeError, ValueError):
        x = y = width = height = -1
    if not np.isfinite([x, y, width, height]).all() or min(x, y) < 0 or min(width, height) <= 0:
        raise ValueError("must be x, y, width and height in pixels (1.5, not 1,5)")
    return x, y, width, height


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    before: ImageName
    after: ImageName
    caption: str = ""
    captions: list[str] = []
    pair_id: str | None = None
    scene: str = ""
    split: Split | None = None
    type: Kind | None = None
    before_box: Annotated[Box, BeforeValidator(_box)] | None = None
    after_box: Annotated[Box, BeforeValidator(_box)] | None = None


@dataclass
class Found:
    """A pair of the table, and the line that named it first."""

    line: int
    pair: Pair  # split and scene_id are "" where the table does not say
    captions: list[str]


@dataclass(frozen=True)
class Table:
    """What a table says, and what is wrong with it: problems by line."""

    path: Path
    found: dict[tuple[str, str], Found]
    problems: list[tuple[int, str]]


def read(root: Path) -> list[Pair]:
    """The pairs in the table's order. Raises InputError naming every line that is wrong."""
    table = _table(root)
    pairs = [] if table.problems else _divided(table, root)
    if problems := _sorted(table.problems or _leaks(table, pairs)):
        raise listed(problems, str(table.path), REMEDY)
    check_splits(table.path, pairs)
    return pairs


def faults(root: Path) -> list[str]:
    """All that is wrong with the table and the files that it names, by line; empty: nothing.

    Beside what `read` refuses: missing pictures, and a file in one split whose content stands in another
    under another name. No picture is opened as one.
    """
    table = _table(root)
    pairs = _divided(table, root) if table.found else []
    missing = [
        (line, f"{name}: {fault.removeprefix(f'{name}: ')}")
        for name, line in _lines(table).items()
        for fault in checking.missing(root, [name])
    ]
    return _sorted([*table.problems, *missing, *_leaks(table, pairs), *_copies(table, pairs, root)])


def _sorted(problems: Iterable[tuple[int, str]]) -> list[str]:
    return [f"line {line}: {problem}" for line, problem in sorted(problems)]


def _table(root: Path) -> Table:
    path = find(root)
    table = Table(path, {}, [])
    for row in read_rows(path):
        parsed = row.fault or _parsed(row.values)
        if isinstance(parsed, str):
            table.problems.append((row.line, parsed))
        else:
            _enter(table, row.line, parsed, root)
    _check_whole(table)
    return table


def _parsed(values: dict[str, Any]) -> _Row | str:
    """A row, or what is wrong with it."""
    try:
        return _Row.model_validate(values)
    except ValidationError as error:
        said = first_fault(error)
    names = ", ".join(_Row.model_fields).replace("captions", "caption_2 … (csv), captions (jsonl)")
    return f"{said}; there are {names}" if said.startswith("unknown key") else said


def _enter(table: Table, line: int, row: _Row, root: Path) -> None:
    """Enter another pair, or more captions of one that is there."""
    before, after = on_disk(root, row.before), on_disk(root, row.after)
    pair = Pair(
        pair_id=f"{before}+{after}" if row.pair_id is None else row.pair_id,
        scene_id=row.scene,
        split=row.split or "",
        before=before,
        after=after,
        captions=(),
        change_type=row.type,
        before_box=row.before_box,
        after_box=row.after_box,
    )
    found = table.found.setdefault((before, after), Found(line, pair, []))
    if found.pair != pair:
        table.problems.append((line, f"not as line {found.line} says of the same two pictures"))
    if not (captions := written([row.caption, *row.captions])):
        table.problems.append((line, "no caption"))
    if mute := [caption for caption in captions if not any(map(str.isalnum, caption))]:
        table.problems.append((line, f"the caption {mute[0]!r} has no word; write it out"))
    if hidden := UNSEEN.search("".join(captions)):
        table.problems.append(
            (line, f"a caption holds an invisible character, U+{ord(hidden[0]):04X}; remove it")
        )
    found.captions += captions


def _check_whole(table: Table) -> None:
    """Problems of rows together: names that stand twice, a split or scene that only some have."""
    ids: dict[str, int] = {}
    everything = list(table.found.values())
    for found in everything:
        other = ids.setdefault(found.pair.pair_id, found.line)
        if other != found.line:
            table.problems.append(
                (found.line, f"the pair_id {found.pair.pair_id!r} stands in line {other} already")
            )
    for key in ("split", "scene_id"):
        given = [found for found in everything if getattr(found.pair, key)]
        if len(given) < len(everything) and given:
            name = key.removesuffix("_id")
            table.problems.extend(
                (found.line, f"no {name}, but line {given[0].line} has one: give one to all, or none")
                for found in everything
                if not getattr(found.pair, key)
            )


def _divided(table: Table, root: Path) -> list[Pair]:
    """Return the pairs with their captions, scenes and splits."""
    pairs = [replace(found.pair, captions=tuple(found.captions)) for found in table.found.values()]
    named = all(pair.scene_id for pair in pairs)
    if all(pair.split for pair in pairs):
        return pairs if named else scenes_by_images(pairs)
    content = checking.first_alike(root, images_of(pairs))
    # a scene is a tuple, so that no picture has its name
    things = [(content[pair.before], content[pair.after], *[("", pair.scene_id)] * named) for pair in pairs]
    firsts = connected(things)
    split = _drawn(table.path, list(dict.fromkeys(firsts)))
    return [
        replace(pair, split=split[first], scene_id=pair.scene_id if named else pairs[first].pair_id)
        for pair, first in zip(pairs, firsts, strict=True)
    ]


def _drawn(path: Path, scenes: list[int]) -> dict[int, str]:
    """Map each scene to a split: a tenth val, a tenth test, at least one scene each."""
    held_out = max(1, round(HELD_OUT * len(scenes)))
    if len(scenes) <= 2 * held_out:
        raise InputError(
            f"{path}: its {len(scenes)} scene(s) cannot be divided into train, val and test: pairs that "
            "share a picture, by name or by content, are one; bring more pairs, or give each row a split"
        )
    order = np.random.default_rng(SEED).permutation(len(scenes))
    names = np.repeat(SPLITS, [len(scenes) - 2 * held_out, held_out, held_out]).tolist()
    return {scenes[place]: name for place, name in zip(order, names, strict=True)}


def _lines(table: Table) -> dict[str, int]:
    """Picture -> the first line that names it."""
    lines: dict[str, int] = {}
    for found in table.found.values():
        for name in (found.pair.before, found.pair.after):
            lines.setdefault(name, found.line)
    return lines


def _leaks(table: Table, pairs: list[Pair]) -> list[tuple[int, str]]:
    """Pictures that stand in two splits."""
    where: dict[str, tuple[str, int]] = {}
    problems = []
    for found, pair in zip(table.found.values(), pairs, strict=False):
        for name in dict.fromkeys((pair.before, pair.after)):
            split, line = where.setdefault(name, (pair.split, found.line))
            if split != pair.split:
                problems.append((found.line, f"{name} is in {pair.split}, and in {split} by line {line}"))
    return problems


def _copies(table: Table, pairs: list[Pair], root: Path) -> list[tuple[int, str]]:
    """List files of one split whose content is in another one, under another name."""
    if not all(found.pair.split for found in table.found.values()):
        return []  # they were divided by content
    splits = {name: pair.split for pair in pairs for name in (pair.before, pair.after)}
    lines = _lines(table)
    return [
        (
            lines[name],
            f"{name} in {splits[name]} is the same picture as {other} in {splits[other]}, "
            f"line {lines[other]}",
        )
        for name, other in checking.first_alike(root, splits).items()
        if splits[other] != splits[name]
    ]
