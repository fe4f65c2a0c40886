"""Predictions and references in the COCO caption evaluation's file forms; ids are compared as strings."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipeline.errors import InputError, listed
from pipeline.inputs import read_json

RESULTS = 'it should hold [{"image_id": …, "caption": "…"}, …]'
REFERENCES = (
    'it should hold {"images": [{"id": …}], "annotations": [{"image_id": …, "caption": "…"}]} '
    'or {"id": ["sentence", …], …}'
)


def read_results(path: str | Path) -> dict[str, str]:
    """Id -> predicted caption, which may be empty.

    Raises InputError where the file is missing, empty or of another form, or predicts an id twice.
    """
    entries = _list(read_json(path, RESULTS), str(path), RESULTS)
    captions = [_id_and_text(entry, f"{path}, entry {n}", RESULTS) for n, entry in enumerate(entries, 1)]
    if not captions:
        raise InputError(f"{path} holds no prediction; {RESULTS}")
    _refuse_doubled((key for key, _ in captions), f"{path} predicts an id more than once")
    return dict(captions)


def read_references(path: str | Path) -> dict[str, list[str]]:
    """Id -> reference sentences, as written; an image without any has an empty list.

    Raises InputError where the file is missing, empty or of neither form.
    """
    tree = read_json(path, REFERENCES)
    if not isinstance(tree, dict):
        raise InputError(f"{path} is not an object; {REFERENCES}")
    references = _coco(tree, str(path)) if "annotations" in tree else _mapping(tree, str(path))
    if not references:
        raise InputError(f"{path} holds no references; {REFERENCES}")
    return references


def _coco(tree: dict[str, Any], path: str) -> dict[str, list[str]]:
    images = _list(tree.get("images"), f"{path}, images", REFERENCES)
    ids = [_id(image, "id", f"{path}, images, entry {n}", REFERENCES) for n, image in enumerate(images, 1)]
    _refuse_doubled(ids, f"{path} lists an image more than once")
    references: dict[str, list[str]] = {key: [] for key in ids}
    annotations = _list(tree["annotations"], f"{path}, annotations", REFERENCES)
    for number, entry in enumerate(annotations, 1):
        where = f"{path}, annotations, entry {number}"
        key, text = _id_and_text(entry, where, REFERENCES)
        if key not in references:
            raise InputError(f"{where} is of image {key}, which is not among the images; add it there")
        references[key].append(text)
    return references


def _mapping(tree: dict[str, Any], path: str) -> dict[str, list[str]]:
    return {
        key: [
            _text(text, f"{path}, {key}", REFERENCES) for text in _list(texts, f"{path}, {key}", REFERENCES)
        ]
        for key, texts in tree.items()
    }


def _list(value: Any, where: str, form: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{where} is {_kind(value)}, not a list; {form}")
    return value


def _id_and_text(entry: Any, where: str, form: str) -> tuple[str, str]:
    key = _id(entry, "image_id", where, form)
    return key, _text(entry.get("caption"), f"{where} ({key}), caption", form)


def _id(entry: Any, name: str, where: str, form: str) -> str:
    value = entry.get(name) if isinstance(entry, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise InputError(f"{where} has no {name} that is a whole number or a string; {form}")
    return str(value)


def _text(value: Any, where: str, form: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where} is {_kind(value)}, not a string; {form}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{where} holds half of a surrogate pair, which is no text; mend it") from None
    return value


def _kind(value: Any) -> str:
    return "null or missing" if value is None else f"a {type(value).__name__}"


def _refuse_doubled(ids: Iterable[str], what: str) -> None:
    if doubled := [f"{key} ({count} times)" for key, count in Counter(ids).items() if count > 1]:
        raise listed(doubled, what, "keep one of each")
