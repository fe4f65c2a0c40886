"""Read predictions and references in COCO's formats for caption evaluation. Ids are converted to text.

Predictions may also be the JSON Lines that commands.caption --pairs writes.
"""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, FailFast, RootModel, StrictInt, StrictStr

from pipeline.io.errors import InputError, listed
from pipeline.io.inputs import json_of, read_text
from pipeline.io.records import checked, read_records

MOST = 8_000_000  # values in a file; COCO's own 600,000 captions have about 2,500,000
CAPTION_LINE = re.compile(r'\s*\{\s*"pair_id"\s*:')
LINES = "caption those pairs again (python -m commands.caption --pairs … --out …)"
RESULTS = 'it should hold [{"image_id": …, "caption": "…"}, …]'
REFERENCES = (
    'it should hold {"images": [{"id": …}], "annotations": [{"image_id": …, "caption": "…"}]} '
    'or {"id": ["sentence", …], …}'
)


Id = Annotated[StrictInt | StrictStr, AfterValidator(str)]


class Image(BaseModel):
    """An entry of COCO's `images`; other keys are ignored."""

    id: Id


class Captioned(BaseModel):
    """A caption of an image: a prediction or a reference."""

    image_id: Id
    caption: StrictStr


class Results(RootModel[Annotated[list[Captioned], FailFast()]]):  # stops at the first wrong entry
    """Predictions in COCO's format."""


class CaptionLine(BaseModel):
    """A line that commands.caption wrote. `error` or `reason` explains why a caption is missing."""

    pair_id: str
    caption: StrictStr | None = None
    error: str | None = None
    reason: str | None = None


class Coco(BaseModel):
    """References in COCO's format."""

    images: Annotated[list[Image], FailFast()]
    annotations: Annotated[list[Captioned], FailFast()]


def read_results(path: str | Path, remedy: str = RESULTS) -> dict[str, str]:
    """Return id -> predicted caption, which may be empty.

    Raises InputError if the file is missing, empty, too large or in another format, or has an id twice.
    """
    text = read_text(path, remedy)
    if CAPTION_LINE.match(text):
        return _of_lines(path)
    found = checked(Results, _tree(text, path, remedy), str(path), remedy).root
    if not found:
        raise InputError(f"{path} holds no prediction; {remedy}")
    _refuse_doubled((each.image_id for each in found), f"{path} predicts an id more than once")
    return {str(each.image_id): each.caption for each in found}


def read_references(path: str | Path) -> dict[str, list[str]]:
    """Return id -> reference sentences, unchanged. An image without references has an empty list.

    The file has COCO's format, or is a JSON object of id -> list of sentences. Raises InputError if the file
    is missing, empty, too large or in another format.
    """
    tree = _tree(read_text(path, REFERENCES), path, REFERENCES)
    if isinstance(tree, dict) and "annotations" in tree:
        references = _of_coco(checked(Coco, tree, str(path), REFERENCES), path)
    else:
        references = checked(dict[str, list[StrictStr]], tree, str(path), REFERENCES)
    if not references:
        raise InputError(f"{path} holds no references; {REFERENCES}")
    return references


def _tree(text: str, path: str | Path, remedy: str) -> Any:
    """Parse JSON. Raises InputError for a file with so many values that they would fill the memory."""
    if sum(map(text.count, ",{[")) > MOST:
        raise InputError(f"{path} holds more than {MOST:,} values; split it into several files; {remedy}")
    return json_of(text, path, remedy)


def _of_lines(path: str | Path) -> dict[str, str]:
    found = {line.pair_id: line for line in read_records(path, CaptionLine, LINES, "pair_id", "ignore")}
    if lacking := [
        f"{key}: {line.error or line.reason}" for key, line in found.items() if line.caption is None
    ]:
        raise listed(lacking, f"{path} has pairs without a caption", LINES)
    return {key: line.caption or "" for key, line in found.items()}


def _of_coco(tree: Coco, path: str | Path) -> dict[str, list[str]]:
    _refuse_doubled((image.id for image in tree.images), f"{path} lists an image more than once")
    references: dict[str, list[str]] = {str(image.id): [] for image in tree.images}
    for number, each in enumerate(tree.annotations, 1):
        if each.image_id not in references:
            raise InputError(
                f"{path}, annotations, entry {number}: image {each.image_id} is not listed in `images`; "
                "add it there"
            )
        references[str(each.image_id)].append(each.caption)
    return references


def _refuse_doubled(ids: Iterable[int | str], what: str) -> None:
    if doubled := [f"{key} ({count} times)" for key, count in Counter(ids).items() if count > 1]:
        raise listed(doubled, what, "keep one of each")
