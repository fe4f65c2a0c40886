"""Files of torch.save: nothing that they name is executed, and damage is reported in one line."""

import os
import pickle
import sys
import tarfile
import zipfile

import pytest
import torch

from pipeline.authors_checkpoints import checkpoint_file, tensor_table
from pipeline.io.errors import InputError
from tests import released
from tests.released import CASES, foreign_class, write

FORMATS = pytest.mark.parametrize("zipped", [True, False])


def states():
    return released.tree(released.tensors(CASES["scorer"]))


class Calls:
    """An object that is pickled as a function call."""

    def __init__(self, called, *arguments):
        self.called, self.arguments = called, arguments

    def __reduce__(self):
        return self.called, self.arguments


@FORMATS
@pytest.mark.parametrize("place", ["model_cfg", "top", "within", "bare"])
def test_a_call_is_refused_by_name_and_nothing_runs(tmp_path, place, zipped):
    made, path = tmp_path / "made", tmp_path / "calling.pt"
    call = Calls(os.mkdir, str(made))
    tree = states()
    if place == "within":
        tree["change_detector_state"]["img.0.bias"] = [call]
    whole = {"top": call, "bare": tree | {"model_cfg": os.mkdir}}.get(place, tree | {"model_cfg": call})
    torch.save(whole, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(InputError, match=r"names (posix|nt)\.mkdir, .*nothing of it was executed") as error:
        checkpoint_file.read(path)
    assert "\n" not in str(error.value)
    assert not made.exists()
    if place == "top" and zipped:  # without the check it runs
        torch.load(path, weights_only=False)
        assert made.exists()


@FORMATS
def test_an_unknown_class_becomes_a_dictionary_and_is_not_called(tmp_path, monkeypatch, zipped):
    called = []
    module, kind = foreign_class()
    kind.__init__ = kind.__setstate__ = lambda self, *given: called.append(given)
    monkeypatch.setitem(sys.modules, "their_configs", module)
    path = tmp_path / "their.pt"
    cfg = [Calls(kind, "rm", {"a": 1}), kind()]
    torch.save({"model_cfg": cfg}, path, _use_new_zipfile_serialization=zipped)
    called.clear()
    assert checkpoint_file.read(path).tree == {"model_cfg": [{}, {}]}
    assert called == []
    monkeypatch.undo()
    write(path, {}, _use_new_zipfile_serialization=zipped)
    nested = {"names": ["a", "b"], "shape": (1, 2), "rate": 0.1, "none": None}
    assert checkpoint_file.read(path).tree == {"model_cfg": {"width": 8, "nested": nested}}


def pickled(path, data):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/version", b"3")
        archive.writestr("x/data.pkl", data)
    return path


def test_no_module_is_imported_for_a_name(tmp_path, monkeypatch):
    (tmp_path / "theirs.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("this", "theirs"):  # `this` of the standard library prints when it is imported
        data = f"\x80\x02c{module}\nThing\n)\x81.".encode("latin1")
        assert checkpoint_file.read(pickled(tmp_path / "x.pt", data)).tree == {}
        assert module not in sys.modules


@FORMATS
def test_a_truncated_file_is_refused(tmp_path, zipped):
    path = write(tmp_path / "their.pt", states(), _use_new_zipfile_serialization=zipped)
    data = path.read_bytes()
    for length in [0, 1, 3, 5, 20, 200, *range(1000, len(data), len(data) // 20), len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(InputError, match=r"their\.pt cannot be read as a checkpoint") as error:
            checkpoint_file.read(path)
        assert "\n" not in str(error.value)


def test_a_flipped_bit_of_a_tensor_is_refused(tmp_path):
    path = write(tmp_path / "their.pt", states())
    data = bytearray(path.read_bytes())
    number = released.tensors(CASES["scorer"])["speaker_state.logit.weight"]
    data[data.index(number.numpy().tobytes())] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"their/data/\d+ is damaged"):
        checkpoint_file.read(path)


def tar(path):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("storages"))


def compressed(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", b"\x80\x02}." + b"\0" * 1000)


def other_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/readme", b"hello")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.write_text("hello"), "as a checkpoint: it is not a file of torch.save"),
        (lambda path: path.write_bytes(pickle.dumps([1], 2)), "as a checkpoint: it is cut off"),
        (tar, "as a checkpoint: it is not a file of torch.save"),
        (compressed, "as a checkpoint: .*compressed records"),
        (other_zip, "as a checkpoint: .*version"),
        (lambda path: torch.save({"a": 1}, path, pickle_protocol=4), "as a checkpoint: Unsupported operand"),
        (lambda path: None, r"\(No such file"),
        (lambda path: path.mkdir(), r"\(Is a directory"),
    ],
)
def test_a_file_that_is_no_checkpoint_is_named(tmp_path, make, said):
    make(tmp_path / "their.pt")
    with pytest.raises(InputError, match=rf"their\.pt cannot be read {said}"):
        checkpoint_file.read(tmp_path / "their.pt")


def saved(path, tensors, zipped):
    torch.save(tensors, path, _use_new_zipfile_serialization=zipped)
    tree = checkpoint_file.read(path).tree
    return {name: tensor_table.floats(name, tensor) for name, tensor in tree.items()}


@FORMATS
def test_tensors_of_one_storage_are_read_as_separate_tensors(tmp_path, zipped):
    whole = torch.randn(6, 4)
    tensors = {"whole": whole, "turned": whole.T, "part": whole[2:4, 1:3], "every": whole.flatten()[3::2]}
    found = saved(tmp_path / "x.pt", tensors, zipped)
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
    found["whole"].zero_()
    assert found["part"].any()


@FORMATS
def test_floats_of_up_to_32_bits_are_read_exactly_and_other_numbers_refused(tmp_path, zipped):
    numbers = torch.randn(5)
    for kind in (torch.float16, torch.bfloat16, torch.float32):
        found = saved(tmp_path / "x.pt", {"a": numbers.to(kind)}, zipped)["a"]
        assert found.dtype == torch.float32
        assert torch.equal(found, numbers.to(kind).float())
    for other in (numbers.double(), numbers.long(), numbers.to_sparse()):
        with pytest.raises(ValueError, match=r"a is torch\.\w+, torch\.\w+, not of floats"):
            saved(tmp_path / "x.pt", {"a": other}, zipped)
