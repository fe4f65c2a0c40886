"""What the files beside shared weights say, checked: they may come from anybody."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from pipeline.dataset_params import Count, Strict, Stride
from pipeline.errors import InputError
from pipeline.features.preprocessing import RESIZES
from pipeline.features.store_contents import GRID, IMPORTED, PIXELS, PixelSpec, Spec
from pipeline.recipes.trained_model import Trained
from pipeline.vocabularies import SPECIAL

Value = TypeVar("Value")

STRIDES: tuple[int, ...] = get_args(Stride)
LARGEST = 1024  # pixels a side, as in params.yaml
DEEPEST = 64  # lists and objects within each other
MOST_BLOCKS, WIDEST = 64, 8192
BLOCKS = (
    "layers",
    "decoder_layers",
    "intra",
    "inter",
    "text_layers",
    "caption_layers",
    "single",
    "pair",
    "cross",
)
MOST = {"longest": 1024, "vocabulary": 1_000_000}  # tokens of a caption, words
SHAPE = 1 << 16, LARGEST, LARGEST  # C, H, W


def _without_gaps(ids: dict[str, int]) -> dict[str, int]:
    words = sorted(ids, key=ids.__getitem__)
    if sorted(ids.values()) != list(range(len(ids))) or tuple(words[: len(SPECIAL)]) != SPECIAL:
        raise ValueError(f"ids must run from 0 without gaps, beginning with {' '.join(SPECIAL)}")
    return ids


class Words(Strict):
    """vocabulary.json, but for CLIP's."""

    ids: Annotated[dict[str, int], AfterValidator(_without_gaps)]
    longest: Count
    lower_case: bool
    counts: dict[str, int] = Field(default_factory=dict)


class ClipWords(Strict):
    """vocabulary.json of CLIP's tokens, which the project has."""

    tokeniser: str
    longest: Count


def model(path: Path, record: Any, remedy: str) -> Trained:
    """What model.yaml says. Raises InputError naming the key of it that is not what training writes."""
    trained = read(path, TypeAdapter(Trained), record, remedy)
    features = record["recipe"]["features"]
    kind: type[Spec | PixelSpec] = PixelSpec if features.get("input") == PIXELS else Spec
    unknown = features.keys() - {each.name for each in fields(kind)}
    fault = (
        f"{min(unknown)} is no key of it"
        if unknown
        else _fault(read(path, TypeAdapter(kind), features, remedy))
    )
    if fault:
        raise InputError(f"{path}: recipe.features.{fault}; {remedy}")
    if fault := _too_large(trained):
        raise InputError(f"{path}: {fault} at most; {remedy}")
    return trained


def check_vocabulary(path: Path, record: Any, remedy: str) -> None:
    """The same of vocabulary.json."""
    clip = isinstance(record, dict) and record.get("tokeniser") == "clip_bpe"
    kind: TypeAdapter[Any] = TypeAdapter(ClipWords if clip else Words)
    read(path, kind, record, remedy)


def read(path: Path, kind: TypeAdapter[Value], record: Any, remedy: str) -> Value:
    """The record as that type. Raises InputError naming the key that does not fit it."""
    if fault := _not_plain(record):
        raise InputError(f"{path}: {fault}; {remedy}")
    text = json.dumps(record)  # as JSON a dictionary may be a dataclass, and is converted no more
    try:
        return kind.validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        said = first["msg"].removeprefix("Value error, ")
        raise InputError(f"{path}: {f'{key}: ' if key else ''}{said}; {remedy}") from None


def _too_large(trained: Trained) -> str | None:
    """Which size is beyond all models of ours: from here on sizes decide about memory and time."""
    sizes = trained.recipe.sizes.items()
    found = [
        *((f"recipe.sizes.{name}", size, MOST_BLOCKS if name in BLOCKS else WIDEST) for name, size in sizes),
        *((name, getattr(trained, name), most) for name, most in MOST.items()),
        *(("shape", size, most) for size, most in zip(trained.shape, SHAPE, strict=True)),
    ]
    return next((f"{name} is {size}, and has {most}" for name, size, most in found if size > most), None)


def _not_plain(record: Any) -> str | None:
    """What no file of ours holds: dates, whole numbers beyond 64 bits, keys that are no text, great depth."""
    waiting: list[tuple[str, Any, int]] = [("", record, 0)]
    while waiting:
        key, value, depth = waiting.pop()
        where = f"{key}: " if key else ""
        if depth > DEEPEST:
            return f"{key[:80]} …: more than {DEEPEST} lists and objects within each other"
        if isinstance(value, dict):
            if odd := [each for each in value if not isinstance(each, str)]:
                return f"{where}the key {odd[0]!s:.80} is no text"
            waiting += [(f"{key}.{name}".strip("."), each, depth + 1) for name, each in value.items()]
        elif isinstance(value, list):
            waiting += [(key, each, depth + 1) for each in value]
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            return f"{where}a whole number beyond 64 bits"
        elif not isinstance(value, str | int | float | None):
            return f"{where}a {type(value).__name__}, which no file of ours holds"
    return None


def _fault(spec: Spec | PixelSpec) -> str | None:
    """What no features of ours are made with."""
    resizes = (*RESIZES,) if isinstance(spec, PixelSpec) else (*RESIZES, IMPORTED)
    if spec.resize not in resizes:
        return f"resize is {spec.resize!r}, not {' or '.join(resizes)}"
    if isinstance(spec, Spec) and spec.input != GRID:
        return f"input is {spec.input!r}, not {GRID} or {PIXELS}"
    if isinstance(spec, Spec) and spec.stride not in STRIDES:
        return f"stride is {spec.stride}, not {' or '.join(map(str, STRIDES))}"
    least = 1 if isinstance(spec, PixelSpec) else spec.stride
    for side in spec.squashed:
        if not least <= side <= LARGEST:
            return f"a picture is squashed to {side} pixels a side, not {least} to {LARGEST}"
    return None
