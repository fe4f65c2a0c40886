"""Released checkpoints: read without executing anything, checked by name and shape, equal when imported."""

import io
import json
import pickle
import struct
import subprocess
import sys
import tarfile
import types
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest
import torch

import models
from models.captioner import Sizes
from pipeline import checkpoints, torch_files, weights
from pipeline.errors import InputError
from pipeline.text import SPECIAL, Vocabulary
from pipeline.torch_pickles import Foreign, Machine, Named

SIZES = Sizes(1024, (14, 14), 11, 7, 8, 2, 2, 2, 6)
VOCABULARY = Vocabulary((*SPECIAL, *"abcdefg"), 7, lower_case=False)
GOLDEN = Path(__file__).parents[1] / "golden" / "released_scorer_shapes.json"


def model(sizes=SIZES):
    """A model with random weights, biases and norms included."""
    torch.manual_seed(0)
    made = models.build("scorer", sizes, checkpoints.SETTINGS).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.2)
    return made


def states(made):
    """Its tensors as the released program names them."""
    flat = {checkpoints.theirs(name, SIZES.layers): value for name, value in made.state_dict().items()}
    flat |= {checkpoints.scale(0): torch.tensor(0.5), checkpoints.POSITIONS: made.decoder.positions}
    found = {"change_detector_state": OrderedDict(), "speaker_state": OrderedDict()}
    for name, value in flat.items():
        state, rest = name.split(".", 1)
        found[state][rest] = value
    return found


def foreign_class(name="Configuration", bases=(dict,)):
    """A class of a module that exists while the file is written, as theirs does where they train."""
    module = types.ModuleType("their_configs")
    setattr(module, name, type(name, bases, {"__module__": "their_configs"}))
    return module, getattr(module, name)


def write(path, tree, **how):
    """torch.save with a model_cfg of a class that is gone afterwards."""
    module, kind = foreign_class()
    sys.modules["their_configs"] = module
    try:
        configuration = kind(width=8)
        configuration.frozen = True
        configuration["nested"] = kind(names=["a", "b"], shape=(1, 2), rate=0.1, none=None)
        torch.save({"model_cfg": configuration} | tree, path, **how)
    finally:
        del sys.modules["their_configs"]
    return path


def bring_in(path, vocabulary=VOCABULARY, heads=2):
    return checkpoints.imported(torch_files.read(path), vocabulary, "clevr_change", heads, 1)


@pytest.mark.parametrize("zipped", [True, False])
def test_round_trip(tmp_path, zipped):
    made = model()
    path = write(tmp_path / "their.pt", states(made), _use_new_zipfile_serialization=zipped)
    with pytest.raises((pickle.UnpicklingError, AttributeError, ModuleNotFoundError)):
        torch.load(path, weights_only=True)  # torch itself refuses such a file
    weights.save(tmp_path / "ours", *bring_in(path))
    again, trained = weights.load(tmp_path / "ours")
    assert (trained.vocabulary, trained.longest, trained.shape) == (11, 7, (1024, 14, 14))
    assert trained.recipe.sizes == {"width": 8, "heads": 2, "layers": 2, "decoder_layers": 2, "word_width": 6}
    assert trained.recipe.features["resize"] == "opencv_bicubic"
    assert trained.recipe.settings["variant"] == "released"
    before, after = torch.randn(2, 2, 1024, 14, 14)
    tokens = torch.tensor([[2, 4, 5, 3], [2, 6, 3, 0]])
    with torch.no_grad():
        expected, found = made.losses(before, after, tokens), again.losses(before, after, tokens)
        memory = made.encode(before, after).memory
        assert torch.equal(again.encode(before, after).memory, memory)
        assert torch.equal(again.decoder(tokens, memory).logits, made.decoder(tokens, memory).logits)
    assert {name: loss.item() for name, loss in found.items()} == {
        name: loss.item() for name, loss in expected.items()
    }


def test_names_and_shapes_are_the_released_ones():
    sizes = Sizes(1024, (14, 14), 76, 24, 512, 8, 2, 2, 300)
    with torch.device("meta"):
        wanted = checkpoints.wanted(models.build("scorer", sizes, checkpoints.SETTINGS))
    golden = json.loads(GOLDEN.read_text())
    assert wanted == {
        f"{s}.{name}": tuple(shape) for s, names in golden.items() for name, shape in names.items()
    }


def test_the_last_layers_temperature_is_the_contrasts(tmp_path):
    tree = states(model())
    tree["change_detector_state"]["scorer.0.attention.logit_scale"] = torch.tensor(0.25)
    tree["change_detector_state"]["scorer.1.attention.logit_scale"] = torch.tensor(0.75)
    _, tensors = bring_in(write(tmp_path / "their.pt", tree))
    assert tensors["regularisers.cv.contrast.s"].item() == 0.75


def wrong_shape(tree):
    tree["change_detector_state"]["scorer.1.attention.key.weight"] = torch.zeros(8, 9)


def missing(tree):
    del tree["speaker_state"]["core.layer.1.norm2.bias"]


def surplus(tree):
    tree["speaker_state"]["core.memory"] = torch.zeros(3)


def no_embedding(tree):
    del tree["speaker_state"]["core.embed.weight"]


def flat_embedding(tree):
    tree["speaker_state"]["core.embed.weight"] = torch.zeros(66)


def not_finite(tree):
    tree["speaker_state"]["logit.bias"] = torch.full((11,), torch.nan)


def other_positions(tree):
    tree["speaker_state"]["core.position_enc.pe"] = torch.zeros(7, 6)


def halves(tree):
    tree["speaker_state"]["logit.bias"] = torch.zeros(11, dtype=torch.float16)


def without_coordinates(tree):
    tree["change_detector_state"]["img.0.weight"] = torch.zeros(8, 1024, 1, 1)


def no_speaker(tree):
    del tree["speaker_state"]


def no_tensor(tree):
    tree["speaker_state"]["logit.bias"] = [0.0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (wrong_shape, r"scorer\.1\.attention\.key\.weight is \(8, 9\), where the model has \(8, 8\)"),
        (missing, r"speaker_state\.core\.layer\.1\.norm2\.bias is missing"),
        (surplus, r"speaker_state\.core\.memory is no tensor of SCORER"),
        (no_embedding, r"speaker_state\.core\.embed\.weight is missing"),
        (flat_embedding, r"speaker_state\.core\.embed\.weight is \(66,\), and has not 2 dimensions"),
        (not_finite, r"speaker_state\.logit\.bias has a number that is not finite"),
        (other_positions, r"position_enc\.pe is not the sinusoids"),
        (halves, r"speaker_state\.logit\.bias is a torch\.HalfStorage, not of 32-bit floats"),
        (without_coordinates, r"features of \(1022, 14, 14\).*layer3 at 224 pixels gives \(1024, 14, 14\)"),
        (no_speaker, r"has no tensors under 'speaker_state'"),
        (no_tensor, r"has no tensors under 'speaker_state'"),
    ],
)
def test_the_first_tensor_that_differs_is_named(tmp_path, change, said):
    tree = states(model())
    change(tree)
    with pytest.raises(InputError, match=said) as error:
        bring_in(write(tmp_path / "their.pt", tree))
    assert "\n" not in str(error.value)
    assert "their.pt" in str(error.value)


def test_other_words_and_heads_are_refused(tmp_path):
    path = write(tmp_path / "their.pt", states(model()))
    with pytest.raises(InputError, match=r"core\.embed\.weight is of 11 words, the vocabulary of 5"):
        bring_in(path, Vocabulary((*SPECIAL, "a"), 7, lower_case=False))
    with pytest.raises(InputError, match=r"its width, 8, is not a multiple of 3 heads; mend --heads"):
        bring_in(path, heads=3)
    with pytest.raises(InputError, match=r"not a multiple of 0 heads"):
        bring_in(path, heads=0)


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
        bring_in(path)
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
