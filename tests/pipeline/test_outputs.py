"""What cannot be written is one line that names it, and leaves nothing behind; YAML without doubled keys."""

import errno
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from pipeline import outputs
from pipeline.decoding import attention_maps
from pipeline.decoding.attention_maps import Attended
from pipeline.errors import InputError, writing
from pipeline.features.store import FeatureStore
from pipeline.features.writer import Writer
from pipeline.outputs import replacing, telling
from pipeline.recipes import trained_model
from pipeline.recipes.trained_model import Trained
from tests.pipeline.training.test_loop import recipe

TOO_LARGE = "the file is larger than is allowed; raise the limit (`ulimit -f`), and run it again"
LIMIT = 100_000  # bytes: more than what pytest itself may write meanwhile
SHAPE = (128, 14, 14)


@contextmanager
def small_files(limit=LIMIT):
    """Files beyond `limit` cannot be written: the system refuses, as on a full disk, any library's write."""
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
    with replacing(path) as beside:
        trained_model.save(beside, trained, {"a": torch.zeros(LIMIT)})


def write_state(path):
    with replacing(path) as beside, telling(beside) as file:
        torch.save({"a": torch.zeros(LIMIT), "b": torch.zeros(LIMIT)}, file)


@pytest.mark.parametrize("write", [write_text, write_lines, write_attention, write_weights, write_state])
def test_whoever_writes_the_output_is_named_and_nothing_is_left(tmp_path, write):
    path = tmp_path / "out"
    path.write_text("before")
    with small_files(), pytest.raises(InputError) as caught:
        write(path)
    assert str(caught.value) == f"cannot write {path}: {TOO_LARGE}"
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
    assert path.read_text() == "before"
    write(path)
    assert path.exists()


def test_a_copied_folder(tmp_path):
    (tmp_path / "of").mkdir()
    (tmp_path / "of" / "a").write_bytes(bytes(2 * LIMIT))
    with (
        small_files(),
        pytest.raises(InputError, match="to: the file is larger than"),
        writing(tmp_path / "to"),
    ):
        shutil.copytree(tmp_path / "of", tmp_path / "to")


def test_a_store_that_could_not_be_written_goes_on(tmp_path):
    scratch = outputs.scratch(tmp_path / "s.zarr", "1")
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
    assert [file.name for file in tmp_path.iterdir()] == ["s.zarr"]


def test_a_full_disk():
    said = r"^cannot write data/x\.json: the disk is full; free some space"
    with pytest.raises(InputError, match=said), writing("data/x.json"):
        os.write(os.open("/dev/full", os.O_WRONLY), b"a")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.EDQUOT, "your quota of the disk is used up"),
        (errno.EROFS, "the file system is read-only"),
        (errno.EACCES, "there is no permission to"),
        (errno.EIO, "Input/output error; mend that"),
    ],
)
def test_other_reasons(tmp_path, code, said):
    with pytest.raises(InputError) as caught, replacing(tmp_path / "out") as beside:
        raise OSError(code, os.strerror(code), str(beside))
    assert str(caught.value).startswith(f"cannot write {tmp_path / 'out'}: {said}")


def test_a_file_of_an_output_that_is_a_folder_is_named(tmp_path):
    with pytest.raises(InputError) as caught, replacing(tmp_path / "out") as beside, small_files():
        outputs.write_text(beside / "page.html", "a" * 2 * LIMIT)
    assert str(caught.value) == f"cannot write {tmp_path / 'out/page.html'}: {TOO_LARGE}"
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("in_the_way", ["file", "link"])
def test_what_stands_on_the_way(tmp_path, in_the_way):
    path = tmp_path / "features"
    path.touch() if in_the_way == "file" else path.symlink_to(tmp_path / "not mounted")
    with pytest.raises(InputError, match=r"features[^:]*: a file, or a link to nothing, stands on the way"):
        outputs.write_text(path / "below" / "a", "a")


def test_an_error_of_reading_is_not_said_of_the_output(tmp_path):
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


def test_standard_output_that_is_full():
    program = "from stages import run; run(lambda: print('a'))"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "error: cannot write standard output, or a temporary file: the disk is full"
    )
    assert done.stderr.count("\n") == 1


def test_scratch_is_cleared_with_that_of_other_keys_but_not_of_other_outputs(tmp_path):
    out = tmp_path / "a[1]"
    for folder in (
        outputs.scratch(out, "1"),
        outputs.scratch(out, "2"),
        outputs.scratch(tmp_path / "a1", "1"),
    ):
        assert folder.parent == tmp_path
        folder.mkdir()
    outputs.clear(out)
    assert [file.name for file in tmp_path.iterdir()] == [".a1.1.scratch"]


@pytest.fixture
def elsewhere(tmp_path):
    """A folder of another file system, reached by a link."""
    own = tmp_path.stat().st_dev
    places = [Path(place) for place in ("/dev/shm", "/var/tmp") if Path(place).is_dir()]
    others = [place for place in places if place.stat().st_dev != own]
    if not others:
        pytest.skip("there is no other file system")
    with tempfile.TemporaryDirectory(dir=others[0]) as folder:
        (tmp_path / "features").symlink_to(folder)
        yield tmp_path / "features"


def test_a_store_on_another_disk(elsewhere, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = Path("features/s.zarr")
    writer = Writer(outputs.scratch(out, "1"), 2, (1, 1, 1))
    writer.write(0, np.ones((2, 1, 1, 1), np.float16))
    writer.finish(out, {"keys": ["a", "b"]})
    assert FeatureStore(out, {}).read(["b"]).item() == 1
    assert [file.name for file in elsewhere.iterdir()] == ["s.zarr"]


def test_a_link_that_dvc_would_refuse_at_the_end_is_refused_at_once(elsewhere, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    (tmp_path / ".dvc").mkdir()
    assert outputs.scratch(Path("data/s.zarr"), "1") == Path("data/.s.zarr.1.scratch")
    with pytest.raises(InputError, match=r"^features is reached by a link out of the repository"):
        outputs.scratch(Path("features/s.zarr"), "1")
    (tmp_path / ".dvc/config").write_text("[core]\n    no_scm = true\n")
    assert outputs.scratch(Path("features/s.zarr"), "1") == Path("features/.s.zarr.1.scratch")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: the key 'a' stands in line 1 already; keep one of them"),
        ("a: {b: 1, c: 2, b: 1}\n", "line 1: the key 'b' stands in line 1 already"),
        ("a:\n- 1: 2\n  01: 2\n", "line 3: the key 1 stands in line 2 already"),
        ("? [a, b]\n: 1\n", "is not valid YAML .*unhashable key.*; mend it, or ask"),
        ("a: [", "is not valid YAML .*; mend it, or ask"),
        ("[" * 1000, "is not valid YAML .*; mend it, or ask"),
        ("- " * 100_000, "is not valid YAML .*; mend it, or ask"),
    ],
)
def test_yaml_that_is_refused(tmp_path, text, said):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InputError, match=said) as caught:
        outputs.read_yaml(tmp_path / "a.yaml", "ask")
    assert str(caught.value).startswith(str(tmp_path / "a.yaml"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["params.yaml", "dvc.yaml", "data/published/spot_the_diff.yaml"])
def test_yaml_is_what_pyyaml_s_own_parser_reads(name):
    path = Path(__file__).parents[2] / name
    found = outputs.read_yaml(path, "")
    assert repr(found) == repr(yaml.safe_load(path.read_text(encoding="utf-8")))  # types and order, too


def test_yaml_that_lays_one_mapping_over_another_is_read(tmp_path):
    (tmp_path / "a.yaml").write_text("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\nc: *a\n")
    assert outputs.read_yaml(tmp_path / "a.yaml", "") == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 3, "y": 2},
        "c": {"x": 1, "y": 2},
    }
