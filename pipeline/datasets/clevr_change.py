"""CLEVR-Change (Park et al., 2019) as its authors lay it out; `tabletop` uses the same layout.

Every scene number gives two pairs: (default, semantic change) and (default, distractor).
Images are found by name, never by their position in a listing: one missing file would
otherwise shift every later label.
"""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from pipeline.datasets.schema import NO_CHANGE, SPLITS, ChangedObject, Look, Pair
from pipeline.errors import InputError, listed
from pipeline.outputs import read_json

REMEDY = "data/README.md lists the files of CLEVR-Change"
TYPES = {"color": "color", "material": "texture", "add": "add", "drop": "drop", "move": "move"}
DEFAULT = "images/CLEVR_default_{:06d}.png"
SEMANTIC = "sc_images/CLEVR_semantic_{:06d}.png"
DISTRACTOR = "nsc_images/CLEVR_nonsemantic_{:06d}.png"


def read(root: Path) -> list[Pair]:
    """Both pairs of every scene that splits.json names, in the order train, val, test, by scene number.

    Raises InputError naming the file and the first scenes that do not fit together.
    """
    splits = _splits(root / "splits.json")
    change = _captions(root / "change_captions.json")
    no_change = _captions(root / "no_change_captions.json")
    types = _types(root / "type_mapping.json")
    truth = _scenes(root / "scenes.json")
    _check_scenes(root, splits, change, no_change, types)
    return [
        pair
        for split in SPLITS
        for number in splits[split]
        for pair in _pairs(number, split, change[number], no_change[number], types[number], truth)
    ]


def _pairs(
    number: int, split: str, change: list[str], no_change: list[str], kind: str, truth: dict[int, Any]
) -> Iterator[Pair]:
    scene = truth.get(number, {})
    shared = {"scene_id": f"{number:06d}", "split": split, "before": DEFAULT.format(number)}
    yield Pair(
        pair_id=f"{number:06d}.png",
        after=SEMANTIC.format(number),
        captions=tuple(change),
        change_type=kind,
        before_box=_box(scene.get("before_box")),
        after_box=_box(scene.get("after_box")),
        viewpoint_iou=scene.get("semantic_iou"),
        changed_object=scene.get("changed_object"),
        **shared,
    )
    yield Pair(
        pair_id=f"{number:06d}.png_n",
        after=DISTRACTOR.format(number),
        captions=tuple(no_change),
        change_type=NO_CHANGE,
        viewpoint_iou=scene.get("distractor_iou"),
        **shared,
    )


def _splits(path: Path) -> dict[str, list[int]]:
    splits = read_json(path, REMEDY)
    if not isinstance(splits, dict) or not set(splits) >= set(SPLITS):
        raise InputError(f"{path} must map train, val and test to lists of scene numbers; {REMEDY}")
    for name in SPLITS:
        if not isinstance(splits[name], list) or not all(_is_number(n) for n in splits[name]):
            raise InputError(f"{path}: {name!r} must be a list of scene numbers; {REMEDY}")
        if not splits[name]:
            raise InputError(f"{path}: {name!r} is empty; every split needs scenes")
    _check_disjoint(path, splits)
    return {name: sorted(splits[name]) for name in SPLITS}


def _check_disjoint(path: Path, splits: dict[str, list[int]]) -> None:
    where: dict[int, str] = {}
    problems = []
    for name in SPLITS:
        for number in splits[name]:
            if number in where:
                problems.append(f"scene {number} stands in {where[number]!r} and again in {name!r}")
            where[number] = name
    if problems:
        raise listed(problems, f"{path}: splits overlap", "leave each scene in one split, once")


def _captions(path: Path) -> dict[int, list[str]]:
    """Scene number -> sentences, from {"CLEVR_default_000000.png": [sentence, ...]}."""
    table = read_json(path, REMEDY)
    if not isinstance(table, dict):
        raise InputError(f"{path} must map image names to lists of sentences; {REMEDY}")
    problems = [f"{name}: {fault}" for name, value in table.items() if (fault := _caption_fault(name, value))]
    if problems:
        raise listed(problems, str(path), "give each image its list of sentences")
    return {_scene_number(name): [text for text in value if text.strip()] for name, value in table.items()}


def _caption_fault(name: str, value: Any) -> str | None:
    if _scene_number(name) is None:
        return "is not named like CLEVR_default_000000.png"
    if not isinstance(value, list) or not all(isinstance(sentence, str) for sentence in value):
        return "is not a list of sentences"
    if not any(sentence.strip() for sentence in value):
        return "has no caption"
    return None


def _types(path: Path) -> dict[int, str]:
    """Scene number -> change type, from {"color": ["000000.png", ...], "material": ..., ...}."""
    table = read_json(path, REMEDY)
    if not isinstance(table, dict) or set(table) != set(TYPES):
        raise InputError(f"{path} must have the keys {', '.join(TYPES)}; {REMEDY}")
    found: dict[int, str] = {}
    for kind, names in table.items():
        for name in names if isinstance(names, list) else [names]:
            number = _scene_number(f"CLEVR_default_{name}")
            if number is None:
                raise InputError(f"{path}: {kind!r} holds {name!r}, which is not a name like 000000.png")
            if number in found:
                raise InputError(f"{path}: {name} is listed twice; leave it under one type")
            found[number] = TYPES[kind]
    return found


def _scenes(path: Path) -> dict[int, dict[str, Any]]:
    """What is known of each scene beyond CLEVR-Change's own files; empty where there is no scenes.json."""
    if not path.exists():
        return {}
    remedy = "remove it or render the dataset again"
    table = read_json(path, remedy)
    try:
        return {scene["number"]: scene | {"changed_object": _changed(scene)} for scene in table["scenes"]}
    except (KeyError, TypeError) as error:
        raise InputError(f"{path} does not describe scenes ({error!r}); {remedy}") from None


def _changed(scene: dict[str, Any]) -> ChangedObject | None:
    """The object that changes; None where the scene does not say which."""
    if "changed" not in scene:
        return None
    sides = {
        side: [thing for thing in scene[side] if thing["number"] == scene["changed"]]
        for side in ("before", "after")
    }
    names = [field.name for field in fields(Look)]
    looks = {side: [Look(*(thing[name] for name in names)) for thing in own] for side, own in sides.items()}
    return ChangedObject(**{side: own[0] if own else None for side, own in looks.items()})


def _check_scenes(
    root: Path, splits: dict[str, list[int]], change: dict, no_change: dict, types: dict
) -> None:
    tables = {
        "change_captions.json": change,
        "no_change_captions.json": no_change,
        "type_mapping.json": types,
    }
    named = {number for name in SPLITS for number in splits[name]}
    problems = [
        f"splits.json names scene {number}, unknown to {file}"
        for file, table in tables.items()
        for number in sorted(named - set(table))
    ]
    problems += [
        f"{file} has scene {number}, which is in no split"
        for file, table in tables.items()
        for number in sorted(set(table) - named)
    ]
    if problems:
        raise listed(problems, str(root), f"mend the files so that they agree; {REMEDY}")


def _box(value: Any) -> tuple[float, float, float, float] | None:
    return None if value is None else tuple(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _scene_number(name: Any) -> int | None:
    digits = str(name).removeprefix("CLEVR_default_").removesuffix(".png")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 9 else None
