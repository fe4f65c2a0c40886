"""Files of torch.save: nothing that they name is executed, and damage is said in one line."""

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


def states():
    return released.tree(released.tensors(CASES["scorer"]))


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
@pytest.mark.parametrize("place", ["model_cfg", "top", "within", "tensor", "bare"])
def test_a_call_is_refused_by_name_and_nothing_runs(tmp_path, place, zipped):
    touched = tmp_path / "touched"
    call = Calls(system(), f"touch {touched}")
    tree = states()
    if place == "within":
        tree["change_detector_state"]["img.0.bias"] = call
    if place == "tensor":
        tree["speaker_state"]["img.0.bias"] = [call]
    whole = {"top": call, "bare": tree | {"model_cfg": system()}}.get(place, tree | {"model_cfg": call})
    path = tmp_path / "evil.pt"
    torch.save(whole, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(InputError, match=r"names (posix|nt)\.system, .*nothing of it was executed") as error:
        checkpoint_file.read(path)
    assert "\n" not in str(error.value)
    assert not touched.exists()
    if place == "top" and zipped:  # and it would have run
        torch.load(path, weights_only=False)
        assert touched.exists()


@pytest.mark.parametrize("zipped", [True, False])
def test_a_foreign_class_is_an_empty_dictionary_whatever_it_is_called_with(tmp_path, monkeypatch, zipped):
    called = []
    module, kind = foreign_class()
    kind.__init__ = kind.__setstate__ = lambda self, *given: called.append(given)
    monkeypatch.setitem(sys.modules, "their_configs", module)
    path = tmp_path / "their.pt"
    cfg = [Calls(kind, "rm", {"a": 1}), kind()]
    torch.save({"model_cfg": cfg}, path, _use_new_zipfile_serialization=zipped)
    called.clear()
    # not even where the file's class is there
    assert checkpoint_file.read(path).tree == {"model_cfg": [{}, {}]}
    assert called == []


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


@pytest.mark.parametrize("zipped", [True, False])
def test_settings_of_a_class_of_theirs_are_read(tmp_path, zipped):
    path = write(tmp_path / "their.pt", {}, _use_new_zipfile_serialization=zipped)
    nested = {"names": ["a", "b"], "shape": (1, 2), "rate": 0.1, "none": None}
    assert checkpoint_file.read(path).tree == {"model_cfg": {"width": 8, "nested": nested}}


@pytest.mark.parametrize("zipped", [True, False])
def test_a_truncated_file_is_refused_wherever_it_is_cut(tmp_path, zipped):
    path = write(
        tmp_path / "their.pt",
        states(),
        _use_new_zipfile_serialization=zipped,
    )
    data = path.read_bytes()
    for length in [0, 1, 3, 5, 20, 200, *range(1000, len(data), len(data) // 20), len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(InputError, match=r"their\.pt cannot be read as a checkpoint") as error:
            checkpoint_file.read(path)
        assert "\n" not in str(error.value)


def test_a_flipped_bit_of_a_tensor_is_noticed(tmp_path):
    path = write(tmp_path / "their.pt", states())
    data = bytearray(path.read_bytes())
    number = released.tensors(CASES["scorer"])["speaker_state.logit.weight"]
    data[data.index(number.numpy().tobytes())] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"its record their/data/\d+ is damaged"):
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
        (lambda path: path.write_text("hello"), "is not a file of torch.save"),
        (lambda path: path.write_bytes(b""), "is not a file of torch.save"),
        (lambda path: path.write_bytes(pickle.dumps([1], 2)), "it is cut off"),
        (tar, "is not a file of torch.save"),
        (compressed, "compressed records"),
        (other_zip, "version"),
        (lambda path: torch.save({"a": 1}, path, pickle_protocol=4), "Unsupported operand"),
    ],
)
def test_what_is_no_checkpoint_is_named(tmp_path, make, said):
    make(tmp_path / "their.pt")
    with pytest.raises(InputError, match=rf"their\.pt cannot be read as a checkpoint: .*{said}"):
        checkpoint_file.read(tmp_path / "their.pt")


def test_a_file_that_is_absent_or_a_folder_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.pt cannot be read \(No such file"):
        checkpoint_file.read(tmp_path / "nowhere.pt")
    with pytest.raises(InputError, match=r"cannot be read \(Is a directory"):
        checkpoint_file.read(tmp_path)


def save(path, tensors, **how):
    torch.save({"tensors": tensors}, path, **how)
    file = checkpoint_file.read(path)
    return {name: floats(file, name, tensor) for name, tensor in file.tree["tensors"].items()}


def floats(file, name, tensor):
    return tensor_table.floats(file.path, name, tensor, "download it again")


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
    file = checkpoint_file.read(path)
    assert torch.equal(floats(file, "a", file.tree["tensors"]["a"]), tensor)


@pytest.mark.parametrize("zipped", [True, False])
def test_narrower_floats_are_read_exactly_and_others_refused(tmp_path, zipped):
    numbers = torch.randn(5)
    for kind in (torch.float16, torch.bfloat16, torch.float32):
        found = save(tmp_path / "x.pt", {"a": numbers.to(kind)}, _use_new_zipfile_serialization=zipped)["a"]
        assert found.dtype == torch.float32
        assert torch.equal(found, numbers.to(kind).float())
    for other in (numbers.double(), numbers.long(), numbers.to_sparse()):
        with pytest.raises(InputError, match=r"x\.pt: a is torch\.\w+, torch\.\w+, not of floats"):
            save(tmp_path / "x.pt", {"a": other}, _use_new_zipfile_serialization=zipped)
