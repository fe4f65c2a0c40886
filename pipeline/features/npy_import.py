"""Import of features into a store from the released extractors' .npy files, one per image.

NumPy's read_array reads them, never as a pickle (np.load would also accept archives). Files are float32
(C, H, W) and are rounded to float16. The error is at most 2^-11 (0.05 %) of values from 2^-14 on, and at most
2^-25 (3e-8) below. Values beyond 65504 are refused.
"""

import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock

import numpy as np

from pipeline.features.store_codec import OF_FILES
from pipeline.features.writer import Writer, fill
from pipeline.io.errors import InputError, listed
from pipeline.io.outputs import write_json
from pipeline.io.prefetch import prefetch

LARGEST = 65504.0  # float16
AHEAD = 64  # files in memory before they are asked for
HEADER = 1024  # bytes: an array's header is shorter
REMEDY = "name in features.npy the folder that the released extractor wrote, or null to extract here"
# NumPy parses a header as Python. In 3.11 the parser counts its depth over all threads (CPython's issue
# 106905), so parsing in several threads sometimes refuses a valid header
_parsing = Lock()
Shape = tuple[int, int, int]
"""Channels, height and width of an image's feature grid."""


def locate(folder: Path, names: Sequence[str], shape: Shape) -> list[Path]:
    """Return the file of every image.

    For `sc_images/a.png` it is `sc_images/a.png.npy` or `sc_features/a.png.npy` (the released programs'
    folder) under `folder`, but not both. If neither exists, it is the only `a.png.npy` of all sub-folders.
    Raises InputError listing the images whose file is missing, ambiguous, or of the wrong size for `shape`.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder of features; {REMEDY}")
    wanted = {f"{Path(name).name}.npy" for name in names}
    there = _files(folder, wanted)
    taken: dict[str, str] = {}
    found, problems = [], []
    for name in names:
        candidates = _candidates(name, there)
        if fault := _fault(folder, name, candidates, taken, shape):
            problems.append(fault)
        else:
            taken[candidates[0]] = name
            found.append(folder / candidates[0])
    if problems:
        raise listed(problems, str(folder), REMEDY)
    return found


def _files(folder: Path, wanted: set[str]) -> dict[str, list[str]]:
    """Return file name -> its paths below `folder`. Links to folders are followed, each folder once."""
    found: dict[str, list[str]] = {}
    seen = set()
    for parent, folders, files in os.walk(folder, followlinks=True):
        status = Path(parent).stat()
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        below = Path(parent).relative_to(folder)
        for file in wanted.intersection(files):
            found.setdefault(file, []).append((below / file).as_posix())
    return found


def _candidates(name: str, there: Mapping[str, list[str]]) -> list[str]:
    path = Path(name)
    files = there.get(f"{path.name}.npy", [])
    released = Path(*(part.replace("images", "features") for part in path.parent.parts), path.name)
    exact = {f"{path.as_posix()}.npy", f"{released.as_posix()}.npy"}
    return sorted(exact.intersection(files) or files)


def _fault(
    folder: Path, name: str, candidates: list[str], taken: Mapping[str, str], shape: Shape
) -> str | None:
    """Return the fault of an image's file, without opening it; None if there is none."""
    if not candidates:
        return f"{name}.npy is missing, and no sub-folder has {Path(name).name}.npy"
    if len(candidates) > 1:
        return f"{name} could be any of {', '.join(candidates)}: leave one of them"
    file = candidates[0]
    if file in taken:
        return f"{file} would be the features of {taken[file]} and of {name}: give each its own"
    if not (folder / file).is_file():
        return f"{file} is a link to nothing"
    payload, found = 4 * int(np.prod(shape)), (folder / file).stat().st_size
    if not payload < found < payload + HEADER:
        return f"{file} has {found:,} bytes, not the {payload:,} and a header of {_said(shape)} in float32"
    return None


def _said(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def load(path: Path, shape: Shape) -> np.ndarray:
    """Return a file's features in float16, (C, H, W).

    Raises InputError naming a file that cannot be read, is no .npy of that shape in float32, is too short or
    too long, or has a value that is not finite or beyond float16.
    """
    try:
        data = io.BytesIO(path.read_bytes())
        with _parsing:
            array = np.lib.format.read_array(data, allow_pickle=False)
        if array.shape != shape or array.dtype != np.dtype("<f4"):
            raise ValueError(f"it holds {_said(array.shape)} {array.dtype}, not {_said(shape)} float32")
        if data.read(1):
            raise ValueError("bytes follow its array")
        if not (np.abs(array) <= LARGEST).all():  # nor is a NaN
            raise ValueError(f"it holds values that are not finite, or beyond {LARGEST:.0f}")
    except Exception as error:  # NumPy raises any exception on damaged headers
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"{path} cannot be imported ({reason}); extract that image again") from None
    return array.astype(np.float16)


def fingerprint(files: Sequence[Path]) -> str:
    """Return a hash of the files' names, sizes and modification times: only the same work is resumed."""
    digest = hashlib.sha256()
    for file in files:
        status = file.stat()
        digest.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


class Importer:
    """Reads files into a Writer, shard by shard; a kill loses no complete shard.

    The hash of each shard is kept in the writer's folder, so that a resumed import need not read finished
    shards again.
    """

    def __init__(self, files: Sequence[Path], shape: Shape, writer: Writer):
        self.files, self.shape, self.writer = files, shape, writer
        self.log = writer.folder / "sha256.json"
        self.digests: dict[str, str] = json.loads(self.log.read_text()) if self.log.exists() else {}
        for shard in writer.shards:
            if str(shard) not in self.digests:
                writer.forget(shard)

    def fill(self) -> str:
        """Write every missing shard; return the id of all features, a hash of them in float16.

        Raises InputError naming a file that cannot be imported.
        """
        fill(self.writer, self.writer.missing, self._features, self._write, "importing")
        together = "".join(self.digests[str(shard)] for shard in range(len(self.digests)))
        return f"{OF_FILES}{hashlib.sha256(together.encode()).hexdigest()}"

    def _features(self, rows: Sequence[int]) -> Iterator[np.ndarray]:
        files = (self.files[row] for row in rows)
        return prefetch(partial(load, shape=self.shape), files, os.cpu_count() or 1, AHEAD)

    def _write(self, shard: int, features: np.ndarray) -> None:
        self.digests[str(shard)] = hashlib.sha256(features.data).hexdigest()
        write_json(self.log, self.digests)  # first, so that every written shard has its hash
        self.writer.write(shard, features)
