"""Scratch folders beside an output, and the lock that lets one process at a time work on it."""

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from pipeline.features.store import FeatureStore
from pipeline.features.writer import Writer
from pipeline.io import scratch_folders
from pipeline.io.errors import InputError
from pipeline.io.scratch_folders import alone
from tests.running import ROOT


def test_scratch_is_cleared_with_that_of_other_keys_but_not_of_other_outputs(tmp_path):
    out = tmp_path / "a[1]"
    for folder in (
        scratch_folders.scratch(out, "1"),
        scratch_folders.scratch(out, "2"),
        scratch_folders.scratch(tmp_path / "a1", "1"),
    ):
        assert folder.parent == tmp_path
        scratch_folders.begin(folder)
    scratch_folders.clear(out)
    assert [file.name for file in tmp_path.iterdir()] == [".a1.1.scratch"]


@pytest.mark.parametrize("what", ["folder", "file", "link"])
def test_what_only_has_the_name_of_a_scratch_folder_is_left_and_named(tmp_path, what, capsys):
    out, begun = tmp_path / "out", tmp_path / ".out.2.scratch"
    mine = scratch_folders.scratch(out, "0123456789abcdef")
    scratch_folders.begin(begun)
    if what == "folder":
        (mine / "below").mkdir(parents=True)
    elif what == "file":
        mine.write_text("mine")
    else:
        scratch_folders.begin(tmp_path / "made")
        mine.symlink_to("made")
    before = {path for path in tmp_path.rglob("*") if begun not in (path, path.parent)}
    scratch_folders.begin(mine)  # where its key is this very one
    scratch_folders.clear(out)
    assert {*tmp_path.rglob("*")} == before
    assert mine.name in capsys.readouterr().err


@pytest.mark.parametrize("name", [scratch_folders.LOCK, scratch_folders.TURN])
@pytest.mark.parametrize(
    "what", ["link", "link to nothing", "link to a pipe", "pipe", "folder", "text", "digits", "hard link"]
)
def test_what_only_has_the_name_of_a_lock_is_neither_written_nor_removed(tmp_path, name, what):
    path = scratch_folders.scratch(tmp_path / "out", name)
    (tmp_path / "mine").write_text("1")
    os.mkfifo(tmp_path / "pipe")
    make = {
        "link": lambda: path.symlink_to("mine"),
        "link to nothing": lambda: path.symlink_to("nothing"),
        "link to a pipe": lambda: path.symlink_to("pipe"),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "text": lambda: path.write_text("mine"),
        "digits": lambda: path.write_text("1" * 100),
        "hard link": lambda: path.hardlink_to(tmp_path / "mine"),
    }
    make[what]()
    before = {file: file.lstat()[:7] for file in tmp_path.iterdir()}
    work = scratch_folders.alone if name == scratch_folders.LOCK else scratch_folders.in_turn
    with pytest.raises(InputError, match=rf"{path.name} is no lock"), work(tmp_path / "out"):
        pass
    assert {file: file.lstat()[:7] for file in tmp_path.iterdir()} == before
    assert (tmp_path / "mine").read_text() == "1"


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


def test_a_link_that_dvc_would_refuse_at_the_end_is_refused_at_once(elsewhere, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    (tmp_path / ".dvc").mkdir()
    assert scratch_folders.scratch(Path("data/s.zarr"), "1") == Path("data/.s.zarr.1.scratch")
    with pytest.raises(InputError, match=r"^features is reached by a link out of the repository"):
        scratch_folders.scratch(Path("features/s.zarr"), "1")
    (tmp_path / ".dvc/config").write_text("[core]\n    no_scm = true\n")
    assert scratch_folders.scratch(Path("features/s.zarr"), "1") == Path("features/.s.zarr.1.scratch")


# a stage without the rest: work on a store, which stops before its second shard when it is told so
WORK = """
import os, signal, sys
from pathlib import Path
import numpy as np
from pipeline.features import store_codec
from pipeline.features.writer import Writer
from pipeline.io.scratch_folders import alone, clear, scratch
from stages import run

def main():
    store_codec.SHARD = 2
    out = Path("s.zarr")
    with alone(out) as still_alone:
        writer = Writer(scratch(out, "key"), 4, (1, 1, 1))
        for shard in writer.missing:
            if shard == 1 and "stop" in sys.argv:
                os.kill(os.getpid(), signal.SIGSTOP)
            print(shard, flush=True)
            writer.write(shard, np.full((2, 1, 1, 1), shard + 1, np.float16))
        still_alone()
        writer.finish(out, {"keys": ["a", "b", "c", "d"], "by": sys.argv[1]})
        clear(out)
run(main)
"""


@contextmanager
def stopped(folder, *command):
    """A process in the midst of its work, as one is whose DVC was killed; it stands still."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", *command], cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            found = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            assert found.si_status == signal.SIGSTOP, process.communicate()
            yield process
        finally:
            process.kill()


def work(folder):
    """Another process at the same, to its end."""
    command = [sys.executable, "-c", WORK, "second"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def state(folder):
    """Every file with its bytes and its time of change."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def held(out, pid):
    return f"error: another process (pid {pid}) still works on {out}; wait for it, or end it (`kill {pid}`)\n"


def test_a_second_process_is_refused_while_the_first_lives_and_the_first_ends_well(tmp_path):
    with stopped(tmp_path, WORK, "first", "stop") as first:
        before = state(tmp_path)
        done = work(tmp_path)
        assert (done.returncode, done.stderr, done.stdout) == (2, held("s.zarr", first.pid), "")
        assert state(tmp_path) == before
        first.send_signal(signal.SIGCONT)
        _, said = first.communicate()
        assert (first.returncode, said) == (0, "")
    assert FeatureStore(tmp_path / "s.zarr", {"by": "first"}).read(["a", "d"]).flatten().tolist() == [1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["s.zarr"]


def test_after_a_kill_the_next_process_goes_on_where_the_first_was(tmp_path):
    with stopped(tmp_path, WORK, "first", "stop") as first:
        first.send_signal(signal.SIGKILL)
        assert first.wait() == -signal.SIGKILL
    assert (tmp_path / ".s.zarr.lock.scratch").exists()
    done = work(tmp_path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "1\n"), "the first shard was there"
    assert FeatureStore(tmp_path / "s.zarr", {"by": "second"}).read(["a", "d"]).flatten().tolist() == [1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["s.zarr"]


def test_a_lock_that_another_made_is_noticed_and_left(tmp_path):
    with alone(tmp_path / "out") as still:
        still()
        (tmp_path / ".out.lock.scratch").unlink()
        with pytest.raises(InputError, match=r"was removed, and another process may work on .*: this one"):
            still()
        with alone(tmp_path / "out") as other:
            other()
            with pytest.raises(InputError, match="was removed"):
                still()
        (tmp_path / ".out.lock.scratch").write_text("somebody's")
    assert (tmp_path / ".out.lock.scratch").read_text() == "somebody's"


def test_of_several_processes_the_first_has_the_lock(tmp_path):
    with alone(tmp_path / "out"), alone(tmp_path / "out", first=False) as still:
        still()


def test_a_store_whose_scratch_folder_was_changed_is_not_put_in_its_place(tmp_path):
    writer = Writer(tmp_path / "scratch", 2, (1, 1, 1))
    writer.write(0, np.ones((2, 1, 1, 1), np.float16))
    (shard,) = [path for path in (tmp_path / "scratch/store").rglob("0") if path.is_file()]
    shard.write_bytes(shard.read_bytes()[:-1])
    for _ in range(2):
        with pytest.raises(InputError, match=r"scratch was changed while it was filled \(shard 0\)"):
            writer.finish(tmp_path / "s.zarr", {"keys": ["a", "b"]})
        shard.unlink(missing_ok=True)
    assert not (tmp_path / "s.zarr").exists()
