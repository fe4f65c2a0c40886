"""What the files of shared weights may say and hold: they may come from anybody.

Text is held against its type, with bounds on all sizes; tensors against the model that the text describes, by
their file's header alone. Nothing of the size that a stranger names is made before these fit.
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, get_args

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from models.captioner import Captioner
from pipeline import vocabularies
from pipeline.dataset_params import Stride
from pipeline.errors import InputError
from pipeline.features.preprocessing import RESIZES
from pipeline.features.store_contents import GRID, IMPORTED, PIXELS, PixelSpec, Spec
from pipeline.inputs import check_regular
from pipeline.recipes import recipe_file
from pipeline.recipes.trained_model import Trained
from pipeline.records import parsed

Value = TypeVar("Value")
MOST_BYTES = 1 << 30  # bytes of a file: 268 million numbers
FLOATS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
KINDS = FLOATS | {"I64": torch.int64}  # batch norms count in it
LOOKS = 1 << 28  # numbers of an attention's weights, of a pair: 1 GiB
STRIDES: tuple[int, ...] = get_args(Stride)
LARGEST = 1024  # pixels a side, as in params.yaml
DEEPEST = 64  # lists and objects within each other
LONGEST = 1000  # letters of a text: more than a caption's
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


def model(path: Path, record: Any, remedy: str) -> Trained:
    """What model.yaml says. Raises InputError naming the key of it that is not what training writes."""
    trained = read(path, Trained, record, remedy)
    features = record["recipe"]["features"]
    kind: type[Spec | PixelSpec] = PixelSpec if features.get("input") == PIXELS else Spec
    unknown = features.keys() - {each.name for each in fields(kind)}
    fault = f"{min(unknown)} is no key of it" if unknown else _fault(read(path, kind, features, remedy))
    if fault:
        raise InputError(f"{path}: recipe.features.{fault}; {remedy}")
    if fault := _too_large(trained):
        raise InputError(f"{path}: {fault} at most; {remedy}")
    return trained


def check_vocabulary(path: Path, record: Any, remedy: str) -> None:
    """The same of vocabulary.json."""
    read(path, vocabularies.kind_of(record), record, remedy)


def read(path: Path, kind: type[Value], record: Any, remedy: str) -> Value:
    """The record as that type. Raises InputError naming the key that does not fit it."""
    if fault := _not_plain(record):
        raise InputError(f"{path}: {fault}; {remedy}")
    # as JSON a dictionary may be a dataclass, and is converted no more
    return parsed(kind, json.dumps(record), str(path), remedy)


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
    """What no file of ours holds: dates, numbers beyond 64 bits, keys that are no text, length, depth."""
    waiting: list[tuple[str, Any, int]] = [("", record, 0)]
    while waiting:
        key, value, depth = waiting.pop()
        where = f"{key[:80]}: " if key else ""
        if depth > DEEPEST:
            return f"{key[:80]} …: more than {DEEPEST} lists and objects within each other"
        if isinstance(value, dict):
            if odd := [each for each in value if not isinstance(each, str)]:
                return f"{where}the key {odd[0]!s:.80} is no text"
            if long := next((each for each in value if len(each) > LONGEST), None):
                return f"{where}a key of {len(long):,} letters, which has {LONGEST:,} at most"
            waiting += [(f"{key}.{name}".strip("."), each, depth + 1) for name, each in value.items()]
        elif isinstance(value, str) and len(value) > LONGEST:
            return f"{where}a text of {len(value):,} letters, which has {LONGEST:,} at most"
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


def tensors_said(path: Path, named: str, remedy: str) -> dict[str, Tensor]:
    """Name -> a tensor of that shape and kind without numbers (torch.device("meta")).

    Raises InputError, naming the file as `named`, where it does not open, or has tensors of other kinds.
    """
    try:
        check_regular(path, MOST_BYTES)
        with safe_open(path, "pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  # no dictionary
            said = {name: (each.get_dtype(), each.get_shape()) for name, each in slices.items()}
    except (OSError, SafetensorError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{named} does not load ({reason}); {remedy}") from None
    for name, (kind, _) in said.items():
        if kind not in KINDS:
            raise InputError(f"{named}: {name} is of {kind}, not of floats of at most 32 bits; {remedy}")
    return {
        name: torch.empty(shape, dtype=KINDS[kind], device="meta") for name, (kind, shape) in said.items()
    }


def check_model(path: Path, named: str, trained: Trained, source: Path, remedy: str) -> None:
    """Raises InputError where the weights are not those of the model that `source` describes."""
    found = tensors_said(path, named, remedy)
    sizes = trained.recipe.sizes_for(trained.shape, trained.vocabulary, trained.longest)
    with torch.device("meta"):  # names and shapes only
        model = recipe_file.build(trained.recipe, sizes, source)
    _check_looks(model, source, remedy)
    check_tensors(found, model.state_dict(), named, remedy)


def _check_looks(model: Captioner, source: Path, remedy: str) -> None:
    """What no tensor tells: a picture of many cells, each of which looks at all."""
    rows, columns = model.cells
    heads: int = model.sizes.heads  # type: ignore[attr-defined]  # of every class of sizes
    if heads * (rows * columns) ** 2 > LOOKS:
        raise InputError(
            f"{source}: {heads} heads of {rows} x {columns} cells would take more than "
            f"{LOOKS >> 28} GB a pair; {remedy}"
        )


def check_tensors(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], named: str, remedy: str) -> None:
    """Raises InputError naming the first tensor that is missing, surplus, or of another shape or kind."""
    for name, own in wanted.items():
        if name not in found:
            raise InputError(f"{named} does not load (the tensor {name} is missing); {remedy}")
        if found[name].shape != own.shape:
            shapes = f"{tuple(found[name].shape)}, where the model has {tuple(own.shape)}"
            raise InputError(f"{named} does not load ({name} is {shapes}); {remedy}")
        if found[name].is_floating_point() != own.is_floating_point():
            raise InputError(f"{named} does not load ({name} is of {found[name].dtype}); {remedy}")
    if surplus := next((name for name in found if name not in wanted), None):
        raise InputError(f"{named} does not load ({surplus} is no tensor of the model); {remedy}")


def check_finite(tensors: Mapping[str, Tensor], named: str, remedy: str) -> None:
    """Raises InputError naming the first tensor with a number that is none, or without end."""
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise InputError(f"{named}: {name} has a number that is not finite; {remedy}")
