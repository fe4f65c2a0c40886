"""Scratch folders next to an output, and the lock with which one process at a time works on it."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from pipeline.features.store import FeatureStore
from pipeline.features.writer import Writer
from pipeline.io import scratch_folders
from pipeline.io.errors import InputError
from pipeline.io.scratch_folders import output_lock
from tests.running import ROOT


def test_scratch_folders_of_all_keys_are_cleared_but_not_of_other_outputs(tmp_path):
    out = tmp_path / "a[1]"
    for name, key in ((out, "1"), (out, "2"), (tmp_path / "a1", "1")):
        scratch_folders.begin(scratch_folders.scratch(name, key))
    scratch_folders.clear(out)
    assert [file.name for file in tmp_path.iterdir()] == [".a1.1.scratch"]


@pytest.mark.parametrize("what", ["folder", "file", "link"])
def test_what_only_has_the_name_of_a_scratch_folder_is_not_removed(tmp_path, what):
    mine = scratch_folders.scratch(tmp_path / "out", "0123456789abcdef")
    if what == "folder":
        (mine / "below").mkdir(parents=True)
    elif what == "file":
        mine.write_text("mine")
    else:
        scratch_folders.begin(tmp_path / "made")
        mine.symlink_to("made")
    before = {*tmp_path.rglob("*")}
    scratch_folders.begin(mine)
    scratch_folders.clear(tmp_path / "out")
    assert {*tmp_path.rglob("*")} == before


def test_a_link_out_of_dvcs_repository_is_refused_before_the_work(tmp_path, monkeypatch):
    root = tmp_path / "repository"
    (root / ".dvc").mkdir(parents=True)
    (root / "features").symlink_to(tmp_path)
    monkeypatch.chdir(root)
    monkeypatch.setenv("DVC_ROOT", str(root))
    assert scratch_folders.scratch(Path("data/s.zarr"), "1") == Path("data/.s.zarr.1.scratch")
    with pytest.raises(InputError, match=r"^features is reached by a link out of the repository"):
        scratch_folders.scratch(Path("features/s.zarr"), "1")
    (root / ".dvc/config").write_text("[core]\n    no_scm = true\n")
    assert scratch_folders.scratch(Path("features/s.zarr"), "1") == Path("features/.s.zarr.1.scratch")


# a stage that works on a store, and stops before the second shard if its argument is "stop"
WORK = """
import os, signal, sys
from pathlib import Path
import numpy as np
from pipeline.features import store_codec
from pipeline.features.writer import Writer
from pipeline.io.scratch_folders import clear, output_lock, scratch
from stages import run

def main():
    store_codec.SHARD = 2
    out = Path("s.zarr")
    with output_lock(out):
        writer = Writer(scratch(out, "key"), 4, (1, 1, 1))
        for shard in writer.missing:
            if shard == 1 and "stop" in sys.argv:
                os.kill(os.getpid(), signal.SIGSTOP)
            print(shard, flush=True)
            writer.write(shard, np.full((2, 1, 1, 1), shard + 1, np.float16))
        writer.finish(out, {"keys": ["a", "b", "c", "d"], "by": sys.argv[1]})
        clear(out)
run(main)
"""


@contextmanager
def stopped(folder):
    """A process that has stopped in the middle of its work."""
    environment, pipe = os.environ | {"PYTHONPATH": str(ROOT)}, subprocess.PIPE
    command = [sys.executable, "-c", WORK, "first", "stop"]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=pipe) as process:
        try:
            found = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            assert found.si_status == signal.SIGSTOP, process.communicate()
            yield process
        finally:
            process.kill()


def work(folder):
    """Run the same work in another process, to its end."""
    command = [sys.executable, "-c", WORK, "second"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def values(folder, by):
    return FeatureStore(folder / "s.zarr", {"by": by}).read(["a", "d"]).flatten().tolist()


def test_a_second_process_is_refused_while_the_first_works(tmp_path):
    with stopped(tmp_path) as first:
        done = work(tmp_path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert f"another process (pid {first.pid}) still works on s.zarr" in done.stderr
        first.send_signal(signal.SIGCONT)
        assert first.communicate()[1] == b""
        assert first.returncode == 0
    assert values(tmp_path, "first") == [1, 2]
    assert [path.name for path in sorted(tmp_path.iterdir())] == [".s.zarr.made.json", "s.zarr"]


def test_after_a_kill_the_next_process_continues(tmp_path):
    with stopped(tmp_path) as first:
        first.send_signal(signal.SIGKILL)
        assert first.wait() == -signal.SIGKILL
    done = work(tmp_path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "1\n"), "the first shard is not redone"
    assert values(tmp_path, "second") == [1, 2]
    assert [path.name for path in sorted(tmp_path.iterdir())] == [".s.zarr.made.json", "s.zarr"]


def test_in_a_process_group_only_the_first_process_takes_the_lock(tmp_path):
    with output_lock(tmp_path / "out"), output_lock(tmp_path / "out", is_first=False):
        pass


@pytest.mark.parametrize("call", [1, 2])
def test_a_lock_file_that_another_process_removes_is_made_again(tmp_path, monkeypatch, call):
    """The file is removed after this process has locked it, before a call of `Path.stat`."""
    lock, path_stat, calls = tmp_path / ".out.lock.scratch", Path.stat, []

    def stat(path, **options):
        calls.append(path)
        if calls.count(lock) == call and path == lock:
            lock.unlink()
        return path_stat(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    with output_lock(tmp_path / "out", wait=True):
        assert lock.read_text() == str(os.getpid())


def test_those_who_wait_get_the_lock_one_after_the_other(tmp_path):
    inside, most = [], []

    def enter():
        with output_lock(tmp_path / "out", wait=True):
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    threads = [Thread(target=enter) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 20
    assert not list(tmp_path.iterdir())


def test_a_store_whose_scratch_folder_was_changed_is_not_moved_to_its_place(tmp_path):
    writer = Writer(tmp_path / "scratch", 2, (1, 1, 1))
    writer.write(0, np.ones((2, 1, 1, 1), np.float16))
    (shard,) = [path for path in (tmp_path / "scratch/store").rglob("0") if path.is_file()]
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"scratch was changed while it was filled \(shard 0\)"):
        writer.finish(tmp_path / "s.zarr", {"keys": ["a", "b"]})
    assert not (tmp_path / "s.zarr").exists()
