"""CLIP's weights in a safetensors file, in either way of naming -> ours (clip_names.py), in 32-bit floats."""

import hashlib
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from models.clip4idc.encoders import ClipSizes
from pipeline.authors_checkpoints.checkpoint_file import FLOATS, LARGEST
from pipeline.authors_checkpoints.clip_names import FORMATS, Names, shapes
from pipeline.authors_checkpoints.expectations import check_finite, check_tensors
from pipeline.authors_checkpoints.systems import Place
from pipeline.errors import InputError
from pipeline.inputs import check_regular
from pipeline.vocabularies import ClipVocabulary, exchanged

CONVERT = (
    "import torch, sys; from safetensors.torch import save_file; "
    "save_file({k: v.contiguous() for k, v in torch.jit.load(sys.argv[1], 'cpu').state_dict().items()}, "
    "sys.argv[2])"
)
REMEDY = "name the safetensors file of CLIP with a ViT, in OpenAI's names or in Hugging Face's"
TOKENS = "text.tables.tokens.weight"


@dataclass(frozen=True)
class ClipFile:
    """The file's tensors by name, theirs."""

    path: Path
    sha256: str
    tensors: dict[str, Tensor]


def read(path: Path) -> ClipFile:
    """Read the file. Raises InputError where it is missing, damaged, or a TorchScript archive."""
    try:
        check_regular(path, LARGEST)
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            zipped = file.read(4) == b"PK\x03\x04"
        if zipped:
            raise InputError(f"{path} is {kind_of(path)}")
        return ClipFile(path, sha256, load_file(path))
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); {REMEDY}") from None
    except SafetensorError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path} is no whole safetensors file ({reason}); download it again") from None


def kind_of(path: Path) -> str:
    """What a zip file is, and what to do with a TorchScript archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            scripted = any("/code/" in name for name in archive.namelist())
    except zipfile.BadZipFile:
        return f"a damaged zip file; {REMEDY}"
    if not scripted:
        return f"a file of torch.save; {REMEDY}"
    return (
        "a TorchScript archive, a program that is not run here; convert it where you downloaded it: "
        f'python -c "{CONVERT}" {path.name} clip.safetensors'
    )


def imported(file: ClipFile) -> dict[str, Tensor]:
    """All of CLIP's parameters, in our names and order of tokens.

    Raises InputError naming the tensor that is missing, of another shape or kind, or not CLIP's.
    """
    names = format_of(file)
    found = {name: tensor for name, tensor in file.tensors.items() if not re.match(names.unused, name)}
    wanted = shapes(sizes_of(file, names))
    places = {ours: names.place(ours) for ours in wanted}
    check(file.path, found, {places[ours].name: places[ours].shape(wanted[ours]) for ours in wanted})
    return taken(file.path, found, places)


def format_of(file: ClipFile) -> Names:
    """Whose names the file has."""
    for names in FORMATS:
        if names.place("patches.project.weight").name in file.tensors:
            return names
    first = " or ".join(names.place("patches.project.weight").name for names in FORMATS)
    raise InputError(f"{file.path} has no {first}; {REMEDY}")


def sizes_of(file: ClipFile, names: Names) -> ClipSizes:
    """The sizes, from the tensors' shapes; heads stand in none of them."""

    def shape(ours: str, dimensions: int) -> tuple[int, ...]:
        name = names.place(ours).name
        if name not in file.tensors:
            raise InputError(f"{file.path}: {name} is missing; {REMEDY}")
        if len(size := tuple(file.tensors[name].shape)) != dimensions:
            raise InputError(f"{file.path}: {name} is {size}, and has not {dimensions} dimensions")
        return size

    width, _, patch, _ = shape("patches.project.weight", 4)
    vocabulary, text_width = shape(TOKENS, 2)
    if vocabulary != len(ClipVocabulary(2)):
        raise InputError(
            f"{file.path}: its vocabulary is of {vocabulary} tokens, not CLIP's 49,408; {REMEDY}"
        )
    side = isqrt(shape("patches.positions", 2)[0] - 1) * patch
    context, joint = shape("text.tables.positions", 2)[0], shape("text.map.weight", 2)
    joint_width = joint[1 if "text.map.weight" in names.transposed else 0]
    depths = (count(file, names, tower) for tower in ("", "text."))
    blocks, layers = depths
    return ClipSizes(
        *(3, (side, side), vocabulary, context),
        *(patch, width, 1, blocks, 1, text_width, 1, layers, context, joint_width, 1, 1),
    )


def count(file: ClipFile, names: Names, tower: str) -> int:
    """How many blocks the names speak of; at least one, whose absence is told by name."""
    pattern = re.escape(names.blocks[tower]).replace(r"\{0\}", r"(\d+)")
    return max(1, len({match[1] for name in file.tensors if (match := re.match(rf"{pattern}\.", name))}))


def check(
    path: Path, found: Mapping[str, Tensor], wanted: Mapping[str, tuple[int, ...]], remedy: str = REMEDY
) -> None:
    """Raises InputError naming the first tensor that is missing, of another shape or kind, or not wanted."""
    check_tensors(path, found, wanted, "the model", remedy)
    for name, tensor in found.items():
        if tensor.dtype not in FLOATS:
            raise InputError(f"{path}: {name} is {tensor.dtype}, not of floats of at most 32 bits; {remedy}")


def taken(path: Path, found: dict[str, Tensor], places: Mapping[str, Place]) -> dict[str, Tensor]:
    """Ours, of checked ones. Raises InputError where a number is not finite."""
    tensors = {ours: place.of(found).float().contiguous().clone() for ours, place in places.items()}
    check_finite(path, {places[ours].name: tensor for ours, tensor in tensors.items()})
    for ours, tensor in tensors.items():
        if ours.endswith("tables.tokens.weight") or ours == "decoder.bias":
            tensors[ours] = reordered(tensor)
    return tensors


def reordered(rows: Tensor) -> Tensor:
    """A row for each of CLIP's tokens, in the order of our ids."""
    return rows[[exchanged(number) for number in range(len(rows))]]
