"""Files of torch.save: nothing that they name is executed, and damage is said in one line."""

import io
import pickle
import struct
import subprocess
import sys
import tarfile
import zipfile

import pytest
import torch

from pipeline import torch_files
from pipeline.errors import InputError
from pipeline.torch_pickles import Foreign, Machine, Named
from tests.released import foreign_class, model, states, write

# --- what a file may make happen: nothing ---


class Calls:
    """Pickled as a call of anything."""

    def __init__(self, called, *arguments):
        self.called, self.arguments = called, arguments

    def __reduce__(self):
        return self.called, self.arguments


def system():
    import os

    return os.system


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("place", ["model_cfg", "top", "within", "tensor", "bare"])
def test_a_call_is_refused_by_name_and_nothing_runs(tmp_path, place, protocol, zipped):
    touched = tmp_path / "touched"
    call = Calls(system(), f"touch {touched}")
    tree = states(model())
    if place == "within":
        tree["change_detector_state"]["img.0.bias"] = call
    if place == "tensor":
        tree["speaker_state"]["img.0.bias"] = [call]
    whole = {"top": call, "bare": tree | {"model_cfg": system()}}.get(place, tree | {"model_cfg": call})
    path = tmp_path / "evil.pt"
    torch.save(whole, path, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
    with pytest.raises(InputError, match=r"names (posix|nt)\.system, .*nothing of it was executed") as error:
        torch_files.read(path)
    assert "\n" not in str(error.value)
    assert not touched.exists()
    if place == "top" and zipped:  # and it would have run
        torch.load(path, weights_only=False)
        assert touched.exists()


@pytest.mark.parametrize("called", [eval, exec, getattr, print, subprocess.run, torch.load, bytearray])
def test_any_other_callable_is_refused_too(tmp_path, called):
    path = tmp_path / "evil.pt"
    torch.save({"model_cfg": Calls(called, "x")}, path)
    with pytest.raises(InputError, match=rf"names \S*{called.__name__}, "):
        torch_files.read(path)


def test_a_foreign_class_is_not_called_either(tmp_path):
    module, kind = foreign_class()
    sys.modules["their_configs"] = module
    try:
        torch.save({"model_cfg": Calls(kind)}, tmp_path / "evil.pt")
    finally:
        del sys.modules["their_configs"]
    with pytest.raises(InputError, match=r"calls their_configs\.Configuration, which is not allowed"):
        torch_files.read(tmp_path / "evil.pt")


def test_no_module_is_imported_for_a_name():
    stream = io.BytesIO(b"\x80\x02cthis\nPoem\n)\x81.")
    # `this` prints where it is imported, and is of the standard library: refused
    with pytest.raises(ValueError, match=r"names this\.Poem"):
        Machine().run(stream)
    assert "this" not in sys.modules
    assert Machine().run(io.BytesIO(b"\x80\x02cnowhere\nThing\n)\x81.")) == Foreign(Named("nowhere.Thing"))


def test_attributes_cannot_be_given_to_what_reads(tmp_path):
    # GLOBAL, EMPTY_DICT, BUILD: pickle itself would change the class
    with pytest.raises(ValueError, match=r"gives attributes to nowhere\.Thing"):
        Machine().run(io.BytesIO(b"\x80\x02cnowhere\nThing\n}b."))
    with pytest.raises(ValueError, match="gives items to a tuple"):
        Machine().run(io.BytesIO(b"\x80\x02)K\x01a."))


# --- damage ---


@pytest.mark.parametrize("zipped", [True, False])
def test_a_truncated_file_is_refused_wherever_it_is_cut(tmp_path, zipped):
    path = write(tmp_path / "their.pt", states(model()), _use_new_zipfile_serialization=zipped)
    data = path.read_bytes()
    for length in [0, 1, 3, 5, 20, 200, *range(1000, len(data), len(data) // 20), len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(InputError, match=r"their\.pt cannot be read as a checkpoint") as error:
            torch_files.read(path)
        assert "\n" not in str(error.value)


def test_a_flipped_bit_of_a_tensor_is_noticed(tmp_path):
    path = write(tmp_path / "their.pt", states(model()))
    data = bytearray(path.read_bytes())
    data[data.index(model().decoder.vocabulary.weight.detach().numpy().tobytes())] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match="Bad CRC-32"):
        torch_files.read(path)


def tar(path):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("storages"))


def compressed(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", b"\x80\x02}." + b"\0" * 1000)


def twice(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", b"\x80\x02}.")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("x/data.pkl", b"\x80\x02}.")


def other_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme", b"hello")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.write_text("hello"), "is not a file of torch.save"),
        (lambda path: path.write_bytes(b""), "is not a file of torch.save"),
        (lambda path: path.write_bytes(pickle.dumps([1], 2)), "a pickle, but not of torch.save"),
        (tar, "is a tar file, as torch before 0.2 wrote them"),
        (compressed, "compressed records"),
        (twice, "a record twice"),
        (other_zip, r"without the data\.pkl"),
    ],
)
def test_what_is_no_checkpoint_is_named(tmp_path, make, said):
    make(tmp_path / "their.pt")
    with pytest.raises(InputError, match=rf"their\.pt cannot be read as a checkpoint: .*{said}"):
        torch_files.read(tmp_path / "their.pt")


def test_a_file_that_is_absent_or_a_folder_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.pt cannot be read \(No such file"):
        torch_files.read(tmp_path / "nowhere.pt")
    with pytest.raises(InputError, match=r"cannot be read \(Is a directory"):
        torch_files.read(tmp_path)


# --- tensors ---


def save(path, tensors, **how):
    torch.save({"tensors": tensors}, path, **how)
    file = torch_files.read(path)
    return {name: file.floats(name, view) for name, view in file.tree["tensors"].items()}


@pytest.mark.parametrize("zipped", [True, False])
def test_views_of_one_storage_are_read_as_they_were(tmp_path, zipped):
    whole = torch.randn(6, 4)
    tensors = {"whole": whole, "turned": whole.T, "part": whole[2:4, 1:3], "every": whole.flatten()[3::2]}
    found = save(tmp_path / "x.pt", tensors, _use_new_zipfile_serialization=zipped)
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor), name
    found["whole"].zero_()
    assert found["part"].any()  # a storage shared in the file is shared by nothing read from it


def test_numbers_of_either_byte_order(tmp_path):
    path = tmp_path / "x.pt"
    tensor = torch.randn(3, 2)
    torch.save({"tensors": {"a": tensor}}, path)
    with zipfile.ZipFile(path) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    records["x/byteorder"] = b"big"
    records["x/data/0"] = tensor.numpy().astype(">f4").tobytes()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in records.items():
            archive.writestr(name, data)
    file = torch_files.read(path)
    assert torch.equal(file.floats("a", file.tree["tensors"]["a"]), tensor)


def tensor_pickle(offset, size, stride, count):
    """A pickle of one tensor of a storage of `count` floats."""
    buffer = io.BytesIO()
    buffer.write(
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
    )
    buffer.write(b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuJ" + struct.pack("<i", count) + b"tQJ")
    buffer.write(struct.pack("<i", offset))
    for numbers in (size, stride):
        buffer.write(b"(" + b"".join(b"J" + struct.pack("<i", n) for n in numbers) + b"t")
    buffer.write(b"\x89}tR.")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("offset", "size", "stride", "count"),
    [
        (1, (2, 3), (3, 1), 6),  # one element past its storage
        (0, (2, 3), (4, 1), 6),
        (0, (2**30, 2**30), (0, 0), 6),  # few numbers spread without end
        (0, (7,), (0,), 6),
        (-1, (2,), (1,), 6),
        (0, (2, -3), (1, 1), 6),
        (0, (2,), (-1,), 6),
        (0, (0, 2**30), (1, 1), 6),
        (0, (2, 3), (1,), 6),
        (0, (1,), (1,), 0),
    ],
)
def test_a_tensor_outside_its_storage_is_refused(offset, size, stride, count):
    with pytest.raises(ValueError, match="describes a tensor of size"):
        Machine().run(io.BytesIO(tensor_pickle(offset, size, stride, count)))


def test_a_tensor_inside_its_storage_is_read():
    view = Machine().run(io.BytesIO(tensor_pickle(0, (2, 3), (3, 1), 6)))
    assert (view.size, view.stride, view.offset, view.storage.count) == ((2, 3), (3, 1), 0, 6)


def test_a_storage_longer_than_its_record_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.writestr("x/data.pkl", tensor_pickle(0, (2**29,), (1,), 2**30))
        archive.writestr("x/data/0", b"\0" * 24)
    with pytest.raises(InputError, match=r"storage 0 has 24 bytes, not 4294967296"):
        torch_files.read(tmp_path / "x.pt")


def test_a_storage_without_a_record_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.writestr("x/data.pkl", tensor_pickle(0, (2,), (1,), 6))
    with pytest.raises(InputError, match=r"its record data/0 is missing"):
        torch_files.read(tmp_path / "x.pt")


@pytest.mark.parametrize(
    ("pickled", "said"),
    [
        (b"\x80\x02" + b"(" * 100_000 + b"t" * 99_999 + b"K\x01s.", "damaged|gives items"),
        (b"\x80\x02}" + b")" + b"\x85" * 100_000 + b"K\x01s.", "has a tuple as a key"),
        (b"\x80\x02" + b"N0" * 3 + b".", "operation POP"),
        (b"\x80\x02" + b"Nq\x00" * 1_000_001 + b".", "more than 1000000 operations"),
        (b"\x80\x02X\xff\xff\xff\x7fabc.", "expected 2147483647 bytes"),
        (b"\x80\x02h\x07.", "damaged: KeyError"),
        (b"\x80\x02.", "damaged: IndexError"),
        (b"\x80\x02N", "exhausted"),
        (b"\x80\x04)\x85N\x93.", "names a class without text"),
    ],
)
def test_a_hostile_pickle_is_refused_in_words(pickled, said):
    with pytest.raises(ValueError, match=said) as error:
        Machine().run(io.BytesIO(pickled))
    assert len(str(error.value)) < 200
