"""Predictions and references in the COCO caption evaluation's file forms; ids are compared as strings."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, StrictInt, StrictStr

from pipeline.errors import InputError, listed
from pipeline.inputs import read_json
from pipeline.records import checked

RESULTS = 'it should hold [{"image_id": …, "caption": "…"}, …]'
REFERENCES = (
    'it should hold {"images": [{"id": …}], "annotations": [{"image_id": …, "caption": "…"}]} '
    'or {"id": ["sentence", …], …}'
)


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("it holds half of a surrogate pair, which is no text") from None
    return value


Id = Annotated[StrictInt | StrictStr, AfterValidator(str)]
Sentence = Annotated[StrictStr, AfterValidator(_text)]


class Image(BaseModel):
    """An image of COCO's form; further keys do not matter."""

    id: Id


class Captioned(BaseModel):
    """A sentence of an image, predicted or a reference."""

    image_id: Id
    caption: Sentence


class Coco(BaseModel):
    """References in COCO's form."""

    images: list[Image]
    annotations: list[Captioned]


def read_results(path: str | Path, remedy: str = RESULTS) -> dict[str, str]:
    """Id -> predicted caption, which may be empty.

    Raises InputError where the file is missing, empty or of another form, or predicts an id twice.
    """
    found = checked(list[Captioned], read_json(path, remedy), str(path), remedy)
    if not found:
        raise InputError(f"{path} holds no prediction; {remedy}")
    _refuse_doubled((each.image_id for each in found), f"{path} predicts an id more than once")
    return {str(each.image_id): each.caption for each in found}


def read_references(path: str | Path) -> dict[str, list[str]]:
    """Id -> reference sentences, as written; an image without any has an empty list.

    Raises InputError where the file is missing, empty or of neither form.
    """
    tree = read_json(path, REFERENCES)
    if isinstance(tree, dict) and "annotations" in tree:
        references = _of_coco(checked(Coco, tree, str(path), REFERENCES), path)
    else:
        references = checked(dict[str, list[Sentence]], tree, str(path), REFERENCES)
    if not references:
        raise InputError(f"{path} holds no references; {REFERENCES}")
    return references


def _of_coco(tree: Coco, path: str | Path) -> dict[str, list[str]]:
    _refuse_doubled((image.id for image in tree.images), f"{path} lists an image more than once")
    references: dict[str, list[str]] = {str(image.id): [] for image in tree.images}
    for number, each in enumerate(tree.annotations, 1):
        if each.image_id not in references:
            raise InputError(
                f"{path}, annotations, entry {number} is of image {each.image_id}, which is not among the "
                "images; add it there"
            )
        references[str(each.image_id)].append(each.caption)
    return references


def _refuse_doubled(ids: Iterable[int | str], what: str) -> None:
    if doubled := [f"{key} ({count} times)" for key, count in Counter(ids).items() if count > 1]:
        raise listed(doubled, what, "keep one of each")
