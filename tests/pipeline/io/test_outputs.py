"""An output that cannot be written is one line that names it, and leaves nothing behind."""

import errno
import os
import resource
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from pipeline.decoding import attention_maps
from pipeline.decoding.attention_maps import Attended
from pipeline.features.store import FeatureStore
from pipeline.features.writer import Writer
from pipeline.io import outputs, scratch_folders
from pipeline.io.errors import InputError, writing
from pipeline.io.outputs import replacing
from pipeline.weights import trained_model
from pipeline.weights.model_description import Trained
from tests.pipeline.training.test_loop import recipe

TOO_LARGE = "the file is larger than is allowed; raise the limit (`ulimit -f`), and run it again"
LIMIT = 100_000  # bytes: more than what pytest itself may write meanwhile
SHAPE = (128, 14, 14)


@contextmanager
def small_files(limit=LIMIT):
    """In the block, the system refuses to write files larger than `limit`, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def write_text(path):
    outputs.write_text(path, "a" * 2 * LIMIT)


def write_lines(path):
    outputs.write_json_lines(path, ("a" * 1000 for _ in range(200)))


def write_attention(path):
    maps = np.full((600, 1, 14, 14), 1 / 196, np.float16)
    attention_maps.write(path, {"1": Attended(("a",) * 600, maps)})


def write_weights(path):
    trained = Trained(recipe(), 1, (6, 3, 3), 10, 8, 4, 0.5)
    with replacing(path, trained_model.CONTENTS) as beside:
        trained_model.save(beside, trained, {"a": torch.zeros(LIMIT)})


def write_state(path):
    with replacing(path) as beside, beside.open("wb") as file:
        torch.save({"a": torch.zeros(LIMIT), "b": torch.zeros(LIMIT)}, file)


@pytest.mark.parametrize("write", [write_text, write_lines, write_attention, write_weights, write_state])
def test_the_output_is_named_and_the_old_one_stays(tmp_path, write):
    path = before = tmp_path / "out"
    if write is write_weights:
        with replacing(path, trained_model.CONTENTS) as beside:
            outputs.write_text(beside / "model.yaml", "before")
        before = path / "model.yaml"
    else:
        before.write_text("before")
    with small_files(), pytest.raises(InputError) as caught:
        write(path)
    assert str(caught.value) == f"cannot write {path}: {TOO_LARGE}"
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
    assert before.read_text() == "before"
    write(path)
    assert before.stat().st_size > len("before")


def test_a_store_that_could_not_be_written_continues(tmp_path):
    scratch = scratch_folders.scratch(tmp_path / "s.zarr", "1")
    features = np.random.default_rng(0).standard_normal((4, *SHAPE)).astype(np.float16)
    writer = Writer(scratch, 4, SHAPE)
    with small_files(), pytest.raises(InputError) as caught:
        writer.write(0, features)
    assert str(caught.value) == f"cannot write {tmp_path / 's.zarr'}: {TOO_LARGE}"
    again = Writer(scratch, 4, SHAPE)
    assert again.missing == [0]
    again.write(0, features)
    again.finish(tmp_path / "s.zarr", {"keys": ["a", "b", "c", "d"]})
    np.testing.assert_array_equal(FeatureStore(tmp_path / "s.zarr", {}).read(["c"])[0], features[2])
    assert [file.name for file in sorted(tmp_path.iterdir())] == [".s.zarr.made.json", "s.zarr"]


def test_a_full_disk():
    with (
        pytest.raises(InputError, match=r"^cannot write data/x\.json: the disk is full"),
        writing("data/x.json"),
    ):
        os.write(os.open("/dev/full", os.O_WRONLY), b"a")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.EDQUOT, "your quota of the disk is used up"),
        (errno.EROFS, "the file system is read-only"),
        (errno.EACCES, "there is no permission to"),
        (errno.EIO, "Input/output error; correct that"),
    ],
)
def test_other_reasons(tmp_path, code, said):
    with pytest.raises(InputError) as caught, replacing(tmp_path / "out") as beside:
        raise OSError(code, os.strerror(code), str(beside))
    assert str(caught.value).startswith(f"cannot write {tmp_path / 'out'}: {said}")


@pytest.mark.parametrize("in_the_way", ["file", "link"])
def test_a_file_in_the_place_of_a_folder_is_named(tmp_path, in_the_way):
    path = tmp_path / "features"
    path.touch() if in_the_way == "file" else path.symlink_to(tmp_path / "not mounted")
    with pytest.raises(InputError, match=r"features[^:]*: a file, or a link to nothing, is in the way"):
        outputs.write_text(path / "below" / "a", "a")


def test_an_error_of_reading_does_not_name_the_output(tmp_path):
    with pytest.raises(FileNotFoundError, match="input"), replacing(tmp_path / "out"):
        (tmp_path / "input").read_text()
    with pytest.raises(PermissionError), replacing(tmp_path / "out"):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "input"))
    with pytest.raises(OSError, match="Input/output"), replacing(tmp_path / "out"):
        raise OSError(errno.EIO, "Input/output error")
    with (
        pytest.raises(InputError, match="cannot write /tmp/cache: the disk is full"),
        replacing(tmp_path / "out"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/cache")
