"""Import features from .npy files, one file per image, into a store.

Such files are written by the feature extractors that other authors released. NumPy's read_array reads
the files, and refuses pickles. (np.load would also accept archives.) A file is float32 (C, H, W): C
channels on a grid of H x W cells. The features are rounded to float16. The relative error is at most
2^-11 (0.05 %) for magnitudes of 2^-14 or more. For smaller magnitudes the absolute error is at most
2^-25 (3e-8). Magnitudes above 65504 are refused.
"""

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock

import numpy as np

from pipeline.datasets.checking import files_below
from pipeline.features.store_codec import OF_FILES
from pipeline.features.writer import Writer, fill
from pipeline.io.errors import InputError, listed
from pipeline.io.prefetch import prefetch
from pipeline.io.provenance import sha256

LARGEST = 65504.0  # largest value of float16
AHEAD = 64  # number of files that are read in advance
HEADER = 1024  # bytes; the header of an array is shorter
REMEDY = "name in features.npy the folder that the released extractor wrote, or null to extract here"
# NumPy parses a header with Python's parser. In Python 3.11 the parser counts its depth over all threads
# (CPython issue 106905), so that parsing in several threads sometimes fails for a valid header.
_parsing = Lock()
Shape = tuple[int, int, int]
"""Channels, height and width of an image's feature grid."""


def locate(folder: Path, names: Sequence[str], shape: Shape) -> list[Path]:
    """Return each image's file: `sc_images/a.png.npy`, `sc_features/a.png.npy` or `a.png.npy` in any folder.

    One InputError lists the images without a file, with several files, or with a file of another size than
    `shape`.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder of features; {REMEDY}")
    paths_of: dict[str, list[str]] = {}  # file name -> paths below the folder
    for file in files_below(folder):
        paths_of.setdefault(Path(file).name, []).append(file)
    image_of_file: dict[str, str] = {}  # file -> the image that it belongs to
    problems = []
    for name in names:
        candidates = _candidates(name, paths_of)
        if fault := _fault(folder, name, candidates, image_of_file, shape):
            problems.append(fault)
        else:
            image_of_file[candidates[0]] = name
    if problems:
        raise listed(problems, str(folder), REMEDY)
    return [folder / file for file in image_of_file]


def _candidates(name: str, paths_of: Mapping[str, list[str]]) -> list[str]:
    path = Path(name)
    files = paths_of.get(f"{path.name}.npy", [])
    released = Path(*(part.replace("images", "features") for part in path.parent.parts), path.name)
    exact = {f"{path.as_posix()}.npy", f"{released.as_posix()}.npy"}
    return sorted(exact.intersection(files) or files)


def _fault(
    folder: Path, name: str, candidates: list[str], image_of_file: Mapping[str, str], shape: Shape
) -> str | None:
    """Return a message if the .npy file of the image `name` is missing or wrong, else None.

    `candidates` may belong to the image; `image_of_file` has those that belong to another image.
    """
    if not candidates:
        return f"{name}.npy is missing, and no sub-folder has {Path(name).name}.npy"
    if len(candidates) > 1:
        return f"{name} could be any of {', '.join(candidates)}: leave one of them"
    file = candidates[0]
    if file in image_of_file:
        return f"{file} would be the features of {image_of_file[file]} and of {name}: give each its own"
    if not (folder / file).is_file():
        return f"{file} is a link to nothing"
    payload, size = 4 * int(np.prod(shape)), (folder / file).stat().st_size
    if not payload < size < payload + HEADER:
        return (
            f"{file} has {size:,} bytes, not the {payload:,} and a header of {_shape_text(shape)} in float32"
        )
    return None


def _shape_text(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def load(path: Path, shape: Shape) -> np.ndarray:
    """Return a file's finite float32 features as float16, (C, H, W)."""
    try:
        data = io.BytesIO(path.read_bytes())
        with _parsing:
            array = np.lib.format.read_array(data, allow_pickle=False)
        if array.shape != shape or array.dtype != np.dtype("<f4"):
            raise ValueError(
                f"it holds {_shape_text(array.shape)} {array.dtype}, not {_shape_text(shape)} float32"
            )
        if data.read(1):
            raise ValueError("bytes follow its array")
        if not (np.abs(array) <= LARGEST).all():  # the comparison is false for a NaN too
            raise ValueError(f"it holds values that are not finite, or beyond {LARGEST:.0f}")
    except Exception as error:  # NumPy raises any exception on damaged headers
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"{path} cannot be imported ({reason}); extract that image again") from None
    return array.astype(np.float16)


def fingerprint(files: Sequence[Path]) -> str:
    """Return a hash of the files' names, sizes and times of modification and change.

    A program can set the modification time, but only the system sets the time of change (ctime). So the hash
    shows every change without reading the files.
    """
    statuses = [(file, file.stat()) for file in files]
    return sha256(
        *(
            f"{file}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ctime_ns}"
            for file, status in statuses
        )
    )


def take_over(files: Sequence[Path], shape: Shape, writer: Writer) -> str:
    """Import a .npy file per image into the store's missing shards; return an id of all features."""

    def features(rows: Sequence[int]) -> Iterator[np.ndarray]:
        return prefetch(partial(load, shape=shape), [files[row] for row in rows], os.cpu_count() or 1, AHEAD)

    fill(writer, writer.missing, features, "importing")
    return OF_FILES + writer.digest()
