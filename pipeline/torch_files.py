"""Files of torch.save: a zip of a pickle and raw numbers, or both in one stream (before torch 1.6).

The pickle says where each tensor's numbers stand; torch_pickles.py reads it without executing it.
"""

import hashlib
import io
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pipeline.errors import InputError
from pipeline.torch_pickles import Machine, Storage, View

LARGEST = 2**31  # bytes; a released checkpoint has about 5e7
MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # the first two values of the stream of old files
REMEDY = "download it again, or save it anew with torch.save"


@dataclass(frozen=True)
class TorchFile:
    """What the file holds: `tree` is of dictionaries, lists, text, numbers and Views of tensors."""

    path: Path
    sha256: str
    tree: Any
    numbers: Callable[[Storage], bytes]
    order: str  # of bytes: < | >

    def floats(self, name: str, view: View) -> Tensor:
        """A tensor of 32-bit floats by its View. Raises InputError naming it where it is of another kind."""
        if view.storage.kind != "torch.FloatStorage":
            raise InputError(f"{self.path}: {name} is a {view.storage.kind}, not of 32-bit floats; {REMEDY}")
        flat = np.frombuffer(self.numbers(view.storage), f"{self.order}f4").astype(np.float32)
        return torch.as_strided(torch.from_numpy(flat), view.size, view.stride, view.offset).clone()


def read(path: str | Path) -> TorchFile:
    """Read a file of torch.save. Raises InputError saying what is wrong with it, in one line."""
    path = Path(path)
    data = _bytes(path)
    try:
        if data[:4] == b"PK\x03\x04":
            tree, numbers, order = _zip(data)
        elif data[:1] == b"\x80":
            tree, numbers, order = *_stream(data), "<"  # torch writes these numbers so on every machine
        elif data[257:262] == b"ustar":
            raise ValueError("it is a tar file, as torch before 0.2 wrote them; load and save it with torch")
        else:
            raise ValueError("it is not a file of torch.save")
    # zipfile: EOFError of a record that is cut off, RuntimeError of one that is locked
    except (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, struct.error) as error:
        reason = " ".join(str(error).split()) or "it is cut off"
        raise InputError(f"{path} cannot be read as a checkpoint: {reason}; {REMEDY}") from None
    return TorchFile(path, hashlib.sha256(data).hexdigest(), tree, numbers, order)


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST:
            raise InputError(f"{path} is larger than {LARGEST} bytes; no released checkpoint is")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); name a checkpoint's file") from None


def _zip(data: bytes) -> tuple[Any, Callable[[Storage], bytes], str]:
    """Records <root>/data.pkl, <root>/data/<key> and, since torch 2.1, <root>/byteorder."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    records = {info.filename: info for info in archive.infolist()}
    if len(records) < len(archive.infolist()):
        raise ValueError("it is a zip file that has a record twice")
    # torch never compresses: so no record can be longer than the file
    if any(info.compress_type != zipfile.ZIP_STORED for info in records.values()):
        raise ValueError("it is a zip file with compressed records, which torch.save does not write")
    roots = [name.removesuffix("data.pkl") for name in records if name.endswith("/data.pkl")]
    if len(roots) != 1:
        raise ValueError("it is a zip file without the data.pkl of torch.save")
    root = roots[0]
    machine = Machine()
    tree = machine.run(io.BytesIO(archive.read(f"{root}data.pkl")))
    numbers = {}
    for key, storage in machine.storages.items():
        if f"{root}data/{key}" not in records:
            raise ValueError(f"its record data/{key} is missing")
        numbers[storage] = _whole(storage, archive.read(f"{root}data/{key}"))
    order = archive.read(f"{root}byteorder") if f"{root}byteorder" in records else b"little"
    return tree, numbers.__getitem__, ">" if order == b"big" else "<"


def _stream(data: bytes) -> tuple[Any, Callable[[Storage], bytes]]:
    """Pickles of a magic number, a version, a machine's facts, the tree and the keys; then the numbers."""
    stream = io.BytesIO(data)
    if Machine().run(stream) != MAGIC or Machine().run(stream) != PROTOCOL:
        raise ValueError("it is a pickle, but not of torch.save")
    Machine().run(stream)
    machine = Machine()
    tree, keys = machine.run(stream), Machine().run(stream)
    if not isinstance(keys, list) or sorted(map(str, keys)) != sorted(machine.storages):
        raise ValueError("its list of storages is not that of its tensors")
    numbers = {}
    for key in keys:
        storage = machine.storages[key]
        (count,) = struct.unpack("<q", stream.read(8))
        if count != storage.count:
            raise ValueError(f"its storage {key} has {count} elements, not {storage.count}")
        numbers[storage] = _whole(storage, stream.read(storage.bytes))
    return tree, numbers.__getitem__


def _whole(storage: Storage, found: bytes) -> bytes:
    if len(found) != storage.bytes:
        raise ValueError(f"its storage {storage.key} has {len(found)} bytes, not {storage.bytes}")
    return found
