"""Untrusted checkpoints, .pt and .pth, that state more than they hold, or that nest their contents."""

import pickle
import struct
import zipfile

import pytest

from pipeline.authors_checkpoints import checkpoint_file, importing
from pipeline.features import backbone_weights
from tests.hostile import FRAMES, device, large, pipe, refused, small_stack


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
    "a class named by escapes": (pickled(b"\x80\x02cos\n\x1b[2J\n."), "cannot be read"),
    "a storage of more numbers than its record": (
        pickled(b"\x80\x02" + tensor((2,), (1,), 100) + b".", {"x/data/0": bytes(4)}),
        "has no tensors of",
    ),
    "more numbers than an old file has": (
        old(b"\x80\x02" + tensor((100,), (1,), 100) + b"."),
        "cannot be read",
    ),
    "text longer than the file": (pickled(b"\x80\x02X\x09\x00\x00\x00abc."), "cut off"),
    "a size above the limit": (lambda path: large(path, checkpoint_file.LARGEST + 1), "this kind of file is"),
    "a pipe": (pipe, "is a pipe or a device"),
    "a device": (device, "is a pipe or a device"),
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


NESTED = {
    "dictionaries": (
        b"}X\x01\x00\x00\x00a" * FRAMES + b"}" + b"s" * FRAMES,
        "maximum recursion depth",
    ),
    "lists": (b"]" * FRAMES + b"a" * (FRAMES - 1), "has no tensors of"),
}


@pytest.mark.parametrize(("data", "said"), NESTED.values(), ids=NESTED)
def test_contents_that_are_nested_deeper_than_the_stack_are_refused(tmp_path, data, said):
    pickled(b"\x80\x02" + data + b".")(tmp_path / "their.pt")
    with small_stack():
        assert said in refused(lambda: tensors(tmp_path / "their.pt"))


def test_a_backbone_of_a_file_is_refused_alike(tmp_path):
    for number, (make, _) in enumerate(FILES.values()):
        path = tmp_path / f"{number}.pt"
        make(path)
        assert str(path) in refused(lambda path=path: backbone_weights._tensors_of_file(path))
