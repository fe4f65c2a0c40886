"""Hashes of the user's own files, which DVC cannot watch: tables of pairs, images, features, weights.

The stage `settings` writes them whenever DVC runs, and the stages that read the files depend on the hashes.
Annotation files and files that the settings name are hashed by content. There may be 240,000 images or
.npy files, so their names, sizes and modification times are hashed, which takes a second or two. If only
a time changed, a stage runs again and writes the same outputs.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pipeline.config.params import Params
from pipeline.datasets import readers
from pipeline.datasets.checking import IMAGES, is_system_file
from pipeline.io import named_files
from pipeline.io.content_hashes import file_hash
from pipeline.io.errors import InputError

ANNOTATIONS, IMAGE_FILES, FILES = "annotations", "images", "files"  # keys of hashes
Hashes = dict[str, Any]
Folder = tuple[int, int]  # device and inode


def of_dataset(settings: Params, dataset: str) -> dict[str, Hashes]:
    """Return the hashes of the user's files by section of a dataset's settings (prepare, features, ...)."""
    tree, own = settings.model_dump(), settings.of(dataset)
    named = named_files.of_dataset(tree, dataset).items()
    found: dict[str, Hashes] = {
        section: {FILES: named_files.hashes(files)} for section, files in named if files
    }
    if not named_files.is_rendered(tree, dataset):
        root = Path(own.prepare.root)
        files = readers.annotation_files(own.prepare.reader, root)
        annotations = {file.relative_to(root).as_posix(): file_hash(file) for file in files}
        found["prepare"] = {ANNOTATIONS: annotations, IMAGE_FILES: state(root, _is_image)}
    if (start := settings.train.fine_tune) is not None:
        found["train"] = {FILES: state(Path(start), lambda name: True)}
    if own.features.npy is not None:
        found["features"] = {FILES: state(Path(own.features.npy), _is_npy)}
    return found


def of_pretraining(settings: Params, dataset: str) -> dict[str, Hashes]:
    """Return the hashes of CUB's or NABirds' files ("prepare") and of the backbone's weights ("features")."""
    tree = settings.model_dump()
    root = Path(tree["pretraining"]["root"][dataset])
    return {
        "prepare": {FILES: state(root, lambda name: True)},
        "features": {FILES: named_files.hashes(named_files.weights_of_pretraining(tree))},
    }


def state(root: Path, counts: Callable[[str], bool]) -> str | None:
    """Return a hash of names, sizes and modification times of files below `root`; None if it is missing.

    `counts` says whether a file belongs to the hash. Files that operating systems write are left out.
    """
    if not root.is_dir():
        return None
    digest = hashlib.sha256()
    status = root.stat()
    for line in sorted(_lines(root, "", counts, ((status.st_dev, status.st_ino),))):
        digest.update(line)
    return digest.hexdigest()


def _lines(
    folder: Path, above: str, counts: Callable[[str], bool], open_folders: tuple[Folder, ...]
) -> Iterator[bytes]:
    """Yield a line for each file below `folder`, whose relative name is `above`, also through links.

    A link to one of `open_folders`, the folders above this one, is not followed.
    """
    try:
        entries = list(os.scandir(folder))
    except OSError as error:
        raise InputError(f"{folder} cannot be read ({error.strerror}); correct that") from None
    for entry in entries:
        if is_system_file(entry.name):
            continue
        name, status = above + entry.name, _status(entry)
        if status is not None and stat.S_ISDIR(status.st_mode):
            if (this := (status.st_dev, status.st_ino)) not in open_folders:
                yield from _lines(Path(entry.path), f"{name}/", counts, (*open_folders, this))
        elif counts(entry.name):
            size_and_time = (status.st_size, status.st_mtime_ns) if status else None
            yield os.fsencode(f"{name}\0{size_and_time}\n")


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return the size, time and kind of a file or folder; None for a link to nothing."""
    try:
        return entry.stat()
    except OSError:
        return None


def _is_image(name: str) -> bool:
    return Path(name).suffix.lower() in IMAGES


def _is_npy(name: str) -> bool:
    return name.endswith(".npy")
