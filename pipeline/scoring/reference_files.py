"""Read reference sentences from a file in COCO's format, or a JSON object of id -> sentences."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, FailFast, StrictInt, StrictStr

from pipeline.io.errors import InputError
from pipeline.io.inputs import json_of, read_text
from pipeline.io.records import checked

REFERENCES = (
    'it should hold {"images": [{"id": …}], "annotations": [{"image_id": …, "caption": "…"}]} '
    'or {"id": ["sentence", …], …}'
)
Id = Annotated[StrictInt | StrictStr, AfterValidator(str)]


class Image(BaseModel):
    """An entry of COCO's `images`; other keys are ignored."""

    id: Id
    file_name: Any = None


class Reference(BaseModel):
    """An entry of COCO's `annotations`: a reference sentence of an image."""

    image_id: Id
    caption: StrictStr


class Coco(BaseModel):
    """References in COCO's format. Validation stops at the first wrong entry."""

    images: Annotated[list[Image], FailFast()]
    annotations: Annotated[list[Reference], FailFast()]


def read_references(path: Path) -> dict[str, list[str]]:
    """Return id -> reference sentences, unchanged. An image without references has an empty list.

    The file has COCO's format, or is a JSON object of id -> list of sentences. Raises InputError if the file
    is missing, empty, too large or in another format.
    """
    tree = json_of(read_text(path, REFERENCES), path, REFERENCES)
    if isinstance(tree, dict) and "annotations" in tree:
        references = _of_coco(checked(Coco, tree, str(path), REFERENCES), path)
    else:
        references = checked(dict[str, list[StrictStr]], tree, str(path), REFERENCES)
    if not references:
        raise InputError(f"{path} holds no references; {REFERENCES}")
    return references


def _of_coco(tree: Coco, path: Path) -> dict[str, list[str]]:
    """Return id -> sentences. An image that is listed several times, once per annotator, counts once."""
    files: dict[str, Any] = {}
    for image in tree.images:
        if files.setdefault(str(image.id), image.file_name) != image.file_name:
            raise InputError(
                f"{path} gives the image {image.id} two file names, {files[str(image.id)]!r} and "
                f"{image.file_name!r}; give each image an id of its own"
            )
    references: dict[str, list[str]] = {image: [] for image in files}
    for number, reference in enumerate(tree.annotations, 1):
        if reference.image_id not in references:
            raise InputError(
                f"{path}, annotations, entry {number}: image {reference.image_id} is not listed in `images`; "
                "add it there"
            )
        references[str(reference.image_id)].append(reference.caption)
    return references


def has_word(sentences: Iterable[str]) -> bool:
    return any(map(str.isalnum, "".join(sentences)))
