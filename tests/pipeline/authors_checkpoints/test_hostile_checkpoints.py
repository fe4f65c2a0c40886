"""Untrusted checkpoints, .pt and .pth, that would take much memory or time."""

import pickle
import struct
import zipfile

import pytest

from pipeline.authors_checkpoints import checkpoint_file, importing
from pipeline.features import backbone_weights
from tests.hostile import endless, hole, pipe, refused


def pickled(data, more=()):
    """Return a function that writes a file of torch.save with this pickle."""

    def make(path):
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in {"x/version": b"3", "x/data.pkl": data, **dict(more)}.items():
                archive.writestr(name, content)

    return make


def old(data):
    """Write the format before torch 1.6: five pickles, the fourth is the tree."""
    magic = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
    start = b"".join(pickle.dumps(each, 2) for each in magic)
    return lambda path: path.write_bytes(start + data + pickle.dumps([], 2))


def dictionaries(depth):
    """Pickle nested dictionaries: each contains the previous one twice."""
    data = b"\x80\x02}q\x00"
    for level in range(depth):
        data += b"}q" + bytes([level + 1])
        for key in (b"a", b"b"):
            data += b"U\x01" + key + b"h" + bytes([level]) + b"s"
    return data.replace(b"U\x01", b"X\x01\x00\x00\x00") + b"."


def storage(count):
    return b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuJ" + (
        struct.pack("<i", count) + b"tQ"
    )


def tensor(size, stride, count):
    """Pickle a tensor of a storage that claims `count` numbers."""
    numbers = b"".join(
        b"(" + b"".join(b"J" + struct.pack("<i", n) for n in each) + b"t" for each in (size, stride)
    )
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage(count) + b"K\x00" + numbers + b"\x89}tR"


FILES = {
    "22 dictionaries that hold one another twice": (pickled(dictionaries(22)), "has no tensors of"),
    "a class named by escapes": (pickled(b"\x80\x02cos\n\x1b[2J\n."), "cannot be read"),
    "a storage of two billion numbers": (
        pickled(b"\x80\x02" + tensor((2,), (1,), 2**31 - 1) + b".", {"x/data/0": bytes(4)}),
        "has no tensors of",
    ),
    "a billion numbers in an old file": (
        old(b"\x80\x02" + tensor((2**30,), (1,), 2**30) + b"."),
        "cannot be read",
    ),
    "100000 lists within each other": (
        pickled(b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b"."),
        "has no tensors of",
    ),
    "20000 dictionaries within each other": (
        pickled(b"\x80\x02" + b"}X\x01\x00\x00\x00a" * 20_000 + b"}" + b"s" * 20_000 + b"."),
        "maximum recursion depth",
    ),
    "text of two billion letters": (pickled(b"\x80\x02X\xff\xff\xff\x7fabc."), "cut off"),
    "16 GB without content": (lambda path: hole(path, (16 << 30) + 1), "at most"),
    "a pipe": (pipe, "is a pipe or a device"),
    "a device": (endless, "is a pipe or a device"),
}


def tensors(path):
    found = checkpoint_file.tensors_of(checkpoint_file.read(path))
    return importing.system_of(path, found), found


@pytest.mark.parametrize(("make", "said"), FILES.values(), ids=FILES)
def test_a_checkpoint_is_refused_for(tmp_path, make, said):
    path = tmp_path / "their.pt"
    make(path)
    found = refused(lambda: tensors(path))
    assert said in found
    assert str(path) in found


def test_a_backbone_of_a_file_is_refused_alike(tmp_path):
    for number, (make, _) in enumerate(FILES.values()):
        path = tmp_path / f"{number}.pt"
        make(path)
        assert str(path) in refused(lambda path=path: backbone_weights._tensors_of_file(path))
