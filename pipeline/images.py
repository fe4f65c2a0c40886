"""Images on disk: opened safely, and indexed by name, size and content hash."""

import hashlib
import io
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from PIL import Image

from pipeline.errors import InputError, listed
from pipeline.outputs import read_text, write_json_lines
from pipeline.progress import track


@dataclass(frozen=True)
class Indexed:
    """One image as it was when the dataset was prepared."""

    name: str  # relative to the dataset's root
    width: int  # pixels; boxes refer to them
    height: int
    bytes: int
    sha256: str


def decode(data: bytes, name: str) -> Image.Image:
    """An RGB image from a file's bytes. Raises InputError naming an image that does not open whole."""
    try:
        image = Image.open(io.BytesIO(data))
        image.load()
        return image.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"{name} does not open ({error}); replace the file") from None


def read_bytes(path: Path) -> bytes:
    """A file's bytes. Raises InputError naming a file that is not there."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); put the file there") from None


def index(root: Path, names: list[str]) -> list[Indexed]:
    """Open every image whole and hash it. Raises InputError listing the images that are missing or broken."""
    found, problems = [], []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in track(
            pool.map(_inspect, (root / n for n in names), names), "checking", "images", len(names)
        ):
            (found if isinstance(result, Indexed) else problems).append(result)
    if problems:
        raise listed(problems, str(root), "put these images in place")
    return found


def _inspect(path: Path, name: str) -> Indexed | str:
    try:
        data = read_bytes(path)
        width, height = decode(data, str(path)).size
    except InputError as error:
        return str(error)
    return Indexed(name, width, height, len(data), hashlib.sha256(data).hexdigest())


def write_index(path: str | Path, images: list[Indexed]) -> None:
    """Write the index as JSON lines, in order."""
    write_json_lines(path, (asdict(image) for image in images))


def read_index(path: str | Path) -> list[Indexed]:
    """Read what `write_index` wrote."""
    return list(_records(path))


def _records(path: str | Path) -> Iterator[Indexed]:
    for line in read_text(path, "run `dvc repro prepare` to make it").split("\n")[:-1]:
        try:
            yield Indexed(**json.loads(line))
        except (ValueError, TypeError):
            raise InputError(
                f"{path} is not an index of images; run `dvc repro prepare` to make it"
            ) from None
