"""Numbers, arrays and random states of NumPy in files of torch.save are loaded; no code of a file is run."""

import pickle
import random
import warnings
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from pipeline.authors_checkpoints import checkpoint_file
from pipeline.features import backbone_weights
from pipeline.io import torch_files
from pipeline.io.errors import InputError
from tests.hostile import little_memory

FORMS = pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "old"])
WEIGHTS = torch.arange(3.0)


def loaded(path, value, is_zip=True, old_names=False):
    """Save a value next to a tensor; return what is loaded for the value."""
    torch.save({"best": value, "weights": WEIGHTS}, path, _use_new_zipfile_serialization=is_zip)
    if old_names:  # as NumPy 1 wrote them
        rename(path)
    found = torch_files.load(path)
    assert torch.equal(found["weights"], WEIGHTS)
    return found["best"]


def rename(path):
    if not zipfile.is_zipfile(path):
        path.write_bytes(path.read_bytes().replace(b"numpy._core", b"numpy.core"))
        return
    with zipfile.ZipFile(path) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in records.items():
            archive.writestr(name, content.replace(b"numpy._core", b"numpy.core"))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("numpy") / "x.pt"


NUMBERS = [
    *(np.float64(1.5), np.float32(0.5), np.float16(2), np.int64(-3), np.uint8(200), np.bool_(True)),
    *(np.complex128(1 + 2j), np.str_("Grün"), np.str_(""), np.bytes_(b"ab"), np.array(2, ">i4")[()]),
]


@FORMS
@pytest.mark.parametrize("old_names", [True, False])
@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_a_number_is_loaded_as_a_number_of_python(path, value, is_zip, old_names):
    found = loaded(path, value, is_zip, old_names)
    assert found == value.item()
    assert type(found) is type(value.item())


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_an_array_is_loaded(path, data):
    kinds = (
        st_numpy.floating_dtypes(sizes=(16, 32, 64)),
        st_numpy.integer_dtypes(),
        st_numpy.boolean_dtypes(),
    )
    array = data.draw(st_numpy.arrays(st.one_of(*kinds), st_numpy.array_shapes(min_dims=0, min_side=0)))
    array = np.asfortranarray(array) if data.draw(st.booleans()) else array
    found = loaded(path, array, data.draw(st.booleans()), data.draw(st.booleans()))
    assert type(found) is np.ndarray
    assert found.dtype == array.dtype.newbyteorder("=")  # as NumPy loads it
    np.testing.assert_array_equal(found, array)


@FORMS
def test_random_states_and_other_objects_do_not_hide_the_tensors(path, is_zip):
    state = loaded(path, np.random.RandomState(3).get_state(), is_zip)
    assert state[0] == "MT19937"
    np.testing.assert_array_equal(state[1], np.random.RandomState(3).get_state()[1])
    objects = [
        np.random.RandomState(3),
        np.random.default_rng(3),
        random.Random(3),
        np.datetime64("2026-01-01"),
    ]
    for each in objects:
        assert loaded(path, each, is_zip) == {}
    for each in (np.array([1, "a"], object), np.zeros(2, [("a", "f4")])):
        assert loaded(path, each, is_zip).size == 0
    assert loaded(path, np.dtype("f4"), is_zip) == np.dtype("f4")
    assert loaded(path, [np.float64(1), {"a": np.int64(2)}], is_zip) == [1.0, {"a": 2}]


def pickled(path, data):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/version", b"3")
        archive.writestr("x/data.pkl", b"\x80\x02" + data + b".")


def dtype(code, order="<"):
    """Pickle a dtype with a byte order."""
    return pickle.dumps(code, 2)[2:-1].join([b"cnumpy\ndtype\n", b"\x85R"]) + (
        b"(K\x03" + pickle.dumps(order, 2)[2:-1] + b"tb"
    )


DATA = b"c_codecs\nencode\nX\x02\x00\x00\x00abX\x06\x00\x00\x00latin1\x86R"
SCALAR, ARRAY = b"cnumpy.core.multiarray\nscalar\n", b"cnumpy.core.multiarray\n_reconstruct\n)R"
FALSE_STATES = {
    "a number with too little data": SCALAR + dtype("f8") + DATA + b"\x86R",
    "a text of a billion letters": SCALAR + dtype("U999999999") + DATA + b"\x86R",
    "an array with too little data": ARRAY + b"(K\x01K\x09\x85" + dtype("f8") + b"\x89" + DATA + b"tb",
    "an array of negative size": ARRAY
    + b"(K\x01J\xff\xff\xff\xff\x85"
    + dtype("f8")
    + b"\x89"
    + DATA
    + b"tb",
    "a state that is no tuple": ARRAY + b"K\x01b",
}


@pytest.mark.parametrize("data", FALSE_STATES.values(), ids=FALSE_STATES)
def test_a_false_state_is_refused(path, data):
    pickled(path, data)
    with little_memory(), pytest.raises((ValueError, TypeError)):
        torch_files.load(path)
    with little_memory(), pytest.raises(InputError, match=r"x\.pt"):
        checkpoint_file.read(path)


@pytest.mark.parametrize("code", ["O", "O8", "V8", "f4,O", "M8[ns]", "f16", "S", ("a", "b")])
def test_a_type_that_is_not_plain_gives_an_empty_dictionary(path, code):
    pickled(path, SCALAR + dtype(code) + DATA + b"\x86R")
    assert torch_files.load(path) == {}


@pytest.mark.parametrize(
    "name", ["numpy.load", "numpy.core.multiarray.fromfile", "numpy.ctypeslib.load_library"]
)
def test_other_functions_of_numpy_are_not_called(path, name):
    module, _, function = name.rpartition(".")
    pickled(path, f"c{module}\n{function}\n".encode() + b"X\x03\x00\x00\x00abc\x85R")
    assert torch_files.load(path) == {}


def test_a_whole_model_before_torch_1_6_is_named_with_its_remedy(path):
    with warnings.catch_warnings(action="ignore"):  # torch can't always read a class's source
        torch.save(torch.nn.Linear(2, 2), path, _use_new_zipfile_serialization=False)
    for read in (checkpoint_file.read, backbone_weights._tensors_of_file):
        with pytest.raises(InputError, match=r"x\.pt .*state_dict") as refused:
            read(path)
        assert "download" not in str(refused.value)
    # DeepSpeed's name of a state dict
    tree = {"module": OrderedDict(weights=WEIGHTS), "more": ("module", OrderedDict, None, None)}
    torch.save(tree, path, _use_new_zipfile_serialization=False)
    assert torch.equal(torch_files.load(path)["module"]["weights"], WEIGHTS)
