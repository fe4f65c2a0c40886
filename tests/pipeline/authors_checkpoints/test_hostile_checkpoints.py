"""Checkpoints from strangers, .pt and .pth: what was tried (the tests' names), and what happened.

What a file may make happen is in test_checkpoint_file.py (nothing); here it is what memory and time it takes.
"""

import pickle
import struct
import zipfile

import pytest
import torch

from pipeline.authors_checkpoints import checkpoint_file, clip, importing
from pipeline.features import backbone_weights
from tests import released
from tests.hostile import endless, hole, pipe, refused
from tests.released import CASES


def pickled(data, more=()):
    """A file of torch.save with that pickle."""

    def make(path):
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in {"x/version": b"3", "x/data.pkl": data, **dict(more)}.items():
                archive.writestr(name, content)

    return make


def old(data):
    """The same in the form of before torch 1.6: five pickles, the fourth is the tree."""
    magic = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
    start = b"".join(pickle.dumps(each, 2) for each in magic)
    return lambda path: path.write_bytes(start + data + pickle.dumps([], 2))


def dictionaries(depth):
    """Each holds the one before twice."""
    data = b"\x80\x02}q\x00"
    for level in range(depth):
        data += b"}q" + bytes([level + 1])
        for key in (b"a", b"b"):
            data += b"U\x01" + key + b"h" + bytes([level]) + b"s"
    return data.replace(b"U\x01", b"X\x01\x00\x00\x00") + b"."


def tuples(depth, key=True):
    """Each holds the one before twice; the last one is a key, which is looked at whole."""
    data = b"\x80\x02}(K\x01tq\x00"
    for level in range(depth):
        data += b"h" + bytes([level]) + b"\x86q" + bytes([level + 1])
    return data + b"K\x01s."


def called(name, count):
    """What takes `count` bytes for as many as stand in the file."""
    return b"\x80\x02c" + name.replace(".", "\n").encode() + b"\nJ" + struct.pack("<i", count) + b"\x85R."


def storage(count):
    return b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuJ" + (
        struct.pack("<i", count) + b"tQ"
    )


def tensor(size, stride, count):
    """Of a storage of `count` numbers."""
    numbers = b"".join(
        b"(" + b"".join(b"J" + struct.pack("<i", n) for n in each) + b"t" for each in (size, stride)
    )
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage(count) + b"K\x00" + numbers + b"\x89}tR"


def spread(number):
    """A tree of so many tensors, each of a million numbers that are one number in the file."""
    entries = b"".join(
        b"X\x02\x00\x00\x00%02d" % n + tensor((1000, 1000), (0, 0), 1) + b"s" for n in range(number)
    )
    return b"\x80\x02}" + entries + b"."


def quantised():
    """A tensor that torch would make as large as the file says."""
    data = b"\x80\x02ctorch._utils\n_rebuild_qtensor\n(" + storage(1)
    data += (
        b"K\x00(J"
        + struct.pack("<i", 2**30)
        + b"t(K\x01t(ctorch\nper_tensor_affine\nG?\xf0\x00\x00\x00\x00\x00\x00"
    )
    return data + b"K\x00t\x89}tR."


def overlapping(path):
    """A thousand records that are one megabyte."""
    pickled(dictionaries(1), {"x/data/0": bytes(1 << 20)})(path)
    with zipfile.ZipFile(path, "a") as archive:
        last = archive.infolist()[-1]
        archive.filelist += [last] * 1000
        archive._didModify = True


FILES = {
    "22 dictionaries that hold one another twice": (pickled(dictionaries(22)), "has no tensors of"),
    "200 dictionaries that hold one another twice": (pickled(dictionaries(200)), "has no tensors of"),
    "200 of them in an old file": (old(dictionaries(200)), "has no tensors of"),
    "22 of them in the place of an encoder": (
        pickled(dictionaries(22)[:-1] + b"}X\x07\x00\x00\x00encoderh\x16s."),
        "has more than 100,000 entries",
    ),
    "20 tuples that hold one another twice": (pickled(tuples(20)), "a tuple of more than 1000 entries"),
    "60 of them as a key": (pickled(tuples(60)), "a tuple of more than 1000 entries"),
    "60 of them as a key in an old file": (old(tuples(60)), "a tuple of more than 1000 entries"),
    "two billion bytes by a call": (
        pickled(called("builtins.bytearray", 2**31 - 1)),
        "names builtins.bytearray",
    ),
    "the same in Python 2's words": (
        pickled(called("__builtin__.bytearray", 2**31 - 1)),
        "names builtins.bytea",
    ),
    "the same in an old file": (old(called("builtins.bytearray", 2**31 - 1)), "names builtins.bytearray"),
    "the same among an old file's storages": (
        lambda path: path.write_bytes(old_head() + called("builtins.bytearray", 2**31 - 1)),
        "names builtins.bytearray",
    ),
    "a quantised tensor of a billion numbers": (pickled(quantised()), "names torch._utils._rebuild_qtensor"),
    "an encoder of text": (pickled(b"\x80\x02c_codecs\nencode\n."), "names _codecs.encode"),
    "a class named by escapes": (pickled(b"\x80\x02cos\n\x1b[2J\n."), "cannot be read"),
    "a million numbers that are one": (
        pickled(b"\x80\x02" + tensor((1000, 1000), (0, 0), 1) + b".", {"x/data/0": bytes(4)}),
        "more elements",
    ),
    "99 times a million numbers that are one": (pickled(spread(99), {"x/data/0": bytes(4)}), "more elements"),
    "a storage of two billion numbers": (
        pickled(b"\x80\x02" + tensor((2,), (1,), 2**31 - 1) + b".", {"x/data/0": bytes(4)}),
        "has no tensors of",
    ),
    "a billion numbers in an old file": (
        old(b"\x80\x02" + tensor((2**30,), (1,), 2**30) + b"."),
        "cannot be read",
    ),
    "a billion numbers of a storage of one, in an old file": (
        old(b"\x80\x02" + tensor((2**30,), (1,), 1) + b"."),
        "cannot be read",
    ),
    "100000 lists within each other": (
        pickled(b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b"."),
        "has no tensors of",
    ),
    "100000 tuples within each other": (pickled(b"\x80\x02)" + b"\x85" * 100_000 + b"."), "more than 1000"),
    "20000 dictionaries within each other": (
        pickled(b"\x80\x02" + b"}X\x01\x00\x00\x00a" * 20_000 + b"}" + b"s" * 20_000 + b"."),
        "maximum recursion depth",
    ),
    "three million empty dictionaries": (
        pickled(b"\x80\x02" + b"}" * 3_000_000 + b"."),
        "more than 2 MB beside",
    ),
    "text of two billion letters": (pickled(b"\x80\x02X\xff\xff\xff\x7fabc."), "cut off"),
    "a whole number of a million digits": (
        pickled(b"\x80\x02I" + b"9" * 1_000_000 + b"\n."),
        "cannot be read",
    ),
    "a thousand records that are one": (overlapping, "its records overlap"),
    "16 GB without content": (lambda path: hole(path, (16 << 30) + 1), "at most"),
    "a pipe": (pipe, "is a pipe or a device"),
    "a device": (endless, "is a pipe or a device"),
}


def old_head():
    """All of an old file but the names of its storages."""
    magic = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, {})
    return b"".join(pickle.dumps(each, 2) for each in magic)


@pytest.mark.parametrize(("make", "said"), FILES.values(), ids=FILES)
def test_a_checkpoint_is_refused_for(tmp_path, make, said):
    path = tmp_path / "their.pt"
    make(path)
    found = refused(lambda: tensors(path))
    assert said in found
    assert str(path) in found


@pytest.mark.parametrize(("make", "said"), FILES.values(), ids=FILES)
def test_a_backbone_of_a_file_is_refused_for(tmp_path, make, said):
    path = tmp_path / "their.pt"
    make(path)
    found = refused(lambda: backbone_weights._of_file(path))
    assert str(path) in found


def tensors(path):
    found = checkpoint_file.tensors_of(checkpoint_file.read(path))
    return importing.system_of(path, found), found


CHANGED = {
    "a tensor that is no number": (lambda t: torch.full_like(t, torch.nan), "is not finite"),
    "a tensor without end": (lambda t: torch.full_like(t, torch.inf), "is not finite"),
    "a tensor of bytes": (lambda t: t.to(torch.int8), "not of floats"),
    "a tensor of 64 bits": (lambda t: t.double(), "not of floats"),
    "a tensor of truths": (lambda t: t > 0, "not of floats"),
    "a sparse tensor": (lambda t: t.to_sparse(), "not of floats"),
    "a tensor of another shape": (lambda t: t[None], "where the model has"),
}


@pytest.mark.parametrize(("change", "said"), CHANGED.values(), ids=CHANGED)
def test_a_released_checkpoint_is_refused_for(tmp_path, change, said):
    flat = released.tensors(CASES["scorer"])
    flat["change_detector_state.img.0.bias"] = change(flat["change_detector_state.img.0.bias"])
    path = released.write(tmp_path / "their.pt", released.tree(flat))
    system, found = tensors(path)
    assert said in refused(lambda: importing.checked(path, system, found, 11))


@pytest.mark.parametrize("make", [pipe, endless], ids=["a pipe", "a device"])
def test_clips_weights_are_refused_for(tmp_path, make):
    make(tmp_path / "clip.safetensors")
    assert "is a pipe or a device" in refused(lambda: clip.read(tmp_path / "clip.safetensors"))


def test_what_holds_one_another_twice_is_read_as_it_is(tmp_path):
    pickled(dictionaries(200))(tmp_path / "x.pt")
    tree = checkpoint_file.read(tmp_path / "x.pt").tree
    for _ in range(200):
        assert tree["a"] is tree["b"]
        tree = tree["a"]
    assert tree == {}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x80\x02" + b"N0" * 3 + b".", "Unsupported operand 48"),
        (b"\x80\x02X\xff\xff\xff\x7fabc.", "cut off"),
        (b"\x80\x02N", "cut off"),
        (b"\x80\x02c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85" * 3, "cut off"),
        (b"\x80\x02}q\x00X\x01\x00\x00\x00ah\x00s.", "maximum recursion depth"),  # holds itself
    ],
)
def test_a_hostile_pickle_is_refused_in_words(tmp_path, data, said):
    pickled(data)(tmp_path / "x.pt")
    assert said in refused(lambda: checkpoint_file.read(tmp_path / "x.pt"))
