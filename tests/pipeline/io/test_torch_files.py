"""Files of torch.save: a damaged file is refused, or loaded as it was; nothing in it is executed."""

import io
import pickle
import zipfile

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.io import torch_files
from tests.hostile import little_memory

TREE = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(1)}


def saved(**how):
    file = io.BytesIO()
    torch.save(TREE, file, **how)
    return file.getvalue()


FORMS = [saved(), saved(_use_new_zipfile_serialization=False)]


def same(tree):
    return tree.keys() == TREE.keys() and all(tree[key].equal(value) for key, value in TREE.items())


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("torch") / "x.pt"


@pytest.mark.parametrize("data", FORMS, ids=["zip", "old"])
def test_a_sound_file_is_loaded(path, data):
    path.write_bytes(data)
    assert same(torch_files.load(path))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_damaged_zip_file_is_refused_or_loaded_as_it_was(path, data):
    changed = bytearray(FORMS[0])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(changed) - 1))
        changed[place] = data.draw(
            st.sampled_from([0, 1, 0x7F, 0xFF, changed[place] ^ 1, changed[place] ^ 0x80])
        )
    path.write_bytes(changed[: data.draw(st.sampled_from([len(changed), len(changed) // 2]))])
    try:
        with little_memory():
            tree = torch_files.load(path)
    except MemoryError:
        raise
    except Exception:
        return
    assert same(tree)


@pytest.mark.parametrize(("module", "refused"), [("os", True), ("subprocess", False), ("theirs", False)])
def test_a_call_in_a_pickle_is_refused_or_gives_an_empty_dictionary(path, module, refused):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/version", b"3")
        archive.writestr("x/data.pkl", f"\x80\x02c{module}\ngetcwd\n)R.".encode("latin1"))
    if refused:
        with pytest.raises(pickle.UnpicklingError, match=r"os\.getcwd"):
            torch_files.load(path)
    else:
        assert torch_files.load(path) == {}


def test_a_dictionary_that_a_file_holds_twice_is_copied_once(path):
    """Else the time of reading would double with each level of such dictionaries."""
    inner = {"x": torch.ones(1)}
    torch.save({"a": inner, "b": inner}, path)
    found = torch_files.load(path)
    assert found["a"] is found["b"]
    assert found["a"] is not inner
