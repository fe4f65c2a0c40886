"""Zip files of torch.save: one that was changed anywhere is refused, or loaded as it was."""

import io
import struct
import zipfile

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.authors_checkpoints import checkpoint_file
from pipeline.io import stored_zip, torch_files
from pipeline.io.errors import InputError
from tests.hostile import little_memory, refused

EVIL = b"\x80\x02cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R."  # two gigabytes of zeros
TREE = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(1)}


def saved(tree=TREE):
    file = io.BytesIO()
    torch.save(tree, file)
    return file.getvalue()


SOUND = saved()
MARKS = [
    place
    for mark in (b"PK\1\2", b"PK\3\4", b"PK\5\6", b"PK\6\6", b"PK\6\7")
    for place in range(len(SOUND))
    if SOUND.startswith(mark, place)
]


def loaded(path, data):
    """The tree, or None where the file is refused."""
    path.write_bytes(data)
    try:
        with little_memory():
            return torch_files.load(path)
    except MemoryError:
        raise
    except Exception:
        return None


def same(tree):
    return (
        isinstance(tree, dict)
        and tree.keys() == TREE.keys()
        and all(isinstance(tree[key], torch.Tensor) and tree[key].equal(value) for key, value in TREE.items())
    )


def zipped(*records):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in records:
            archive.writestr(name, content)
    return file.getvalue()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("zip") / "x.pt"


def test_a_sound_file_is_loaded(path):
    assert same(loaded(path, SOUND))
    with path.open("rb") as file:
        names = [record.name for record in stored_zip.records(file)]
    assert names == [name.encode() for name in zipfile.ZipFile(path).namelist()]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_changed_file_is_refused_or_loaded_as_it_was(path, data):
    changed = bytearray(SOUND)
    for _ in range(data.draw(st.integers(1, 3))):
        # mostly within what says where records are
        near = st.sampled_from(MARKS).flatmap(lambda mark: st.integers(mark, min(mark + 55, len(SOUND) - 1)))
        place = data.draw(st.one_of(near, near, st.integers(0, len(SOUND) - 1)))
        changed[place] = data.draw(
            st.sampled_from([0, 1, 0x7F, 0xFF, changed[place] ^ 1, changed[place] ^ 0x80])
        )
    tree = loaded(path, bytes(changed))
    assert tree is None or same(tree)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_parts_put_in_cut_out_or_doubled_are_refused_or_change_nothing(path, data):
    start, end = sorted(data.draw(st.tuples(*[st.sampled_from([0, *MARKS, len(SOUND)])] * 2)))
    at = data.draw(st.sampled_from([0, *MARKS, len(SOUND)]))
    rest = SOUND if data.draw(st.booleans()) else SOUND[:start] + SOUND[end:]
    tree = loaded(path, rest[:at] + SOUND[start:end] + rest[at:])
    assert tree is None or same(tree)


def two_directories():
    """The directory at the end is sound; the one that ZIP64's locator names has two gigabytes in it."""
    evil = zipped(("x/version", b"3"), ("x/data.pkl", EVIL))
    start, size = evil.index(b"PK\1\2"), evil.index(b"PK\5\6") - evil.index(b"PK\1\2")
    own = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 2, 2, size, start)
    front = evil[: start + size] + own
    sound = zipped(("x/version", b"3"), ("x/data.pkl", b"\x80\x02}."))
    inner, last = sound.index(b"PK\1\2"), sound.index(b"PK\5\6")
    entries = bytearray(sound[inner:last])
    second = entries.index(b"PK\1\2", 4)
    for place in (0, second):
        (offset,) = struct.unpack_from("<I", entries, place + 42)
        struct.pack_into("<I", entries, place + 42, offset + len(front))
    begin = len(front) + inner
    pretended = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 2, 2, len(entries), begin)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, start + size, 1)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 2, 2, len(entries), begin, 0)
    return front + sound[:inner] + entries + pretended + locator + end


def test_two_directories(path):
    """zipfile reads one of them, and torch the other."""
    path.write_bytes(two_directories())
    assert zipfile.ZipFile(path).read("x/data.pkl") == b"\x80\x02}."
    assert torch._C.PyTorchFileReader(str(path)).get_record("data.pkl") == EVIL
    assert "two directories" in refused(lambda: checkpoint_file.read(path))


@pytest.mark.parametrize(
    "records",
    [
        [("x/data.pkl", b"\x80\x02}."), ("x/DATA.PKL", EVIL)],
        [("x/DATA.PKL", EVIL)],
        [("x/data.pkl", b"\x80\x02}."), ("y/data.pkl", EVIL)],
    ],
    ids=["two spellings", "capitals", "two folders"],
)
def test_whatever_torch_may_read_was_inspected(path, records):
    path.write_bytes(zipped(("x/version", b"3"), *records))
    refused(lambda: checkpoint_file.read(path))


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_no_damage_repeats_advice_to_trust_the_file(path, kept):
    for data in (SOUND[:-kept], zipped(("x/version", b"3"), ("x/constants.pkl", b"\x80\x02}.")), EVIL):
        path.write_bytes(data)
        with pytest.raises(InputError) as caught:
            checkpoint_file.read(path)
        assert "weights_only" not in str(caught.value)
