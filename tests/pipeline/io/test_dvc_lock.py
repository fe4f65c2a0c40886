"""dvc.lock cut off by a kill: noticed wherever it ends, and the last good copy takes its place."""

import subprocess

import pytest
from dvc.utils.serialize import dump_yaml

from pipeline.io import dvc_lock
from pipeline.io.errors import InputError
from tests.running import ROOT, refuse, stage, succeed

WHOLE = (ROOT / "dvc.lock").read_text(encoding="utf-8")
NAMES = list(dvc_lock._stages(WHOLE))
LINES = WHOLE.splitlines(keepends=True)
FIRST_OF = [number for number, line in enumerate(LINES) if line.startswith("  ") and line[2] != " "]


def end_of(lines):
    return len("".join(LINES[:lines]))


# ten places and more: nothing, the head, within a line, ends of lines, between stages, within the last stage
PLACES = [0, 14, len(WHOLE) // 3, 2 * len(WHOLE) // 3 + 1, len(WHOLE) - 1, end_of(2), end_of(len(LINES) // 2)]
PLACES += [end_of(n) for n in (FIRST_OF[1], FIRST_OF[7], FIRST_OF[-1], len(LINES) - 1, len(LINES) - 4)]


@pytest.fixture
def root(tmp_path):
    (tmp_path / "dvc.lock").write_text(WHOLE, encoding="utf-8")
    succeed(tmp_path, "check_lock")
    return tmp_path


@pytest.mark.parametrize("place", PLACES)
def test_a_cut_file_is_replaced_and_not_lost(root, place):
    (root / "dvc.lock").write_text(WHOLE[:place], encoding="utf-8")
    assert "dvc.lock is cut off" in succeed(root, "check_lock").stderr
    assert (root / "dvc.lock").read_text(encoding="utf-8") == WHOLE
    assert (root / ".scratch/dvc.lock.cut").read_text(encoding="utf-8") == WHOLE[:place]
    assert succeed(root, "check_lock").stderr == ""


def test_without_a_kept_copy_the_last_commit_is_the_good_one(root):
    for command in ("init -q", "add dvc.lock", "-c user.name=a -c user.email=a@b commit -qm x"):
        subprocess.run(["git", *command.split()], cwd=root, check=True)
    (root / dvc_lock.KEPT).unlink()
    for place in (10, end_of(FIRST_OF[3])):
        (root / "dvc.lock").write_text(WHOLE[:place])
        assert "is cut off" in succeed(root, "check_lock").stderr
        assert (root / "dvc.lock").read_text() == WHOLE
        (root / dvc_lock.KEPT).unlink(missing_ok=True)


def test_without_any_good_copy_the_remedy_is_said_and_nothing_is_changed(root):
    (root / dvc_lock.KEPT).unlink()
    (root / "dvc.lock").write_text(WHOLE[:100])
    done = stage(root, "check_lock")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "dvc.lock" in done.stderr
    assert (root / "dvc.lock").read_text() == WHOLE[:100]


def grown(stages):
    """One more stage, as DVC adds it."""
    return stages | {"z": {"cmd": "z", "outs": [{"path": "z", "md5": "0", "size": 1}]}}


@pytest.mark.parametrize(
    "change",
    [
        grown,
        lambda stages: stages | {NAMES[0]: stages[NAMES[0]] | {"cmd": "another"}},
        lambda stages: {name: stages[name] for name in NAMES if name != NAMES[3]},  # of another commit
        lambda stages: {},
    ],
)
def test_a_whole_file_is_left_alone_and_kept(root, change):
    stages = change(dvc_lock._stages(WHOLE))
    dump_yaml(root / "dvc.lock", {"schema": "2.0", "stages": stages})
    if not stages:
        (root / dvc_lock.KEPT).unlink()
    text = (root / "dvc.lock").read_text()
    assert succeed(root, "check_lock").stderr == ""
    assert (root / "dvc.lock").read_text() == text == (root / dvc_lock.KEPT).read_text()


def test_a_missing_file_is_none_that_was_cut(tmp_path):
    assert succeed(tmp_path, "check_lock").stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_dvc_is_writing_is_not_replaced(root, monkeypatch):
    (root / "dvc.lock").write_text(WHOLE[:500])
    monkeypatch.setattr(dvc_lock, "PATIENCE", 0.2)
    with dvc_lock._no_dvc(root), pytest.raises(InputError, match="DVC is at work"):
        dvc_lock.check(root)
    assert (root / "dvc.lock").read_text() == WHOLE[:500]


def test_a_stage_that_dvc_runs_keeps_the_copy_and_tells_of_forgotten_stages(root, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(root))
    (root / "dvc.lock").write_text("".join(LINES[: FIRST_OF[4]]))
    done = stage(root, "settings --code c --settings s")
    assert "dvc.lock is cut off" in done.stderr
    assert (root / dvc_lock.KEPT).read_text() == WHOLE
    dump_yaml(root / "dvc.lock", {"schema": "2.0", "stages": grown(dvc_lock._stages(WHOLE))})
    stage(root, "settings --code c --settings s")
    assert "\n  z:\n" in (root / dvc_lock.KEPT).read_text()


def merged(text, style):
    """A text as `git merge` leaves it where both sides changed a line in the middle."""
    lines = text.splitlines(keepends=True)
    place = len(lines) // 2
    base = ["||||||| base\n", lines[place]] if style == "diff3" else []
    sides = ["<<<<<<< HEAD\n", lines[place], *base, "=======\n", lines[place], ">>>>>>> theirs\n"]
    return "".join([*lines[:place], *sides, *lines[place + 1 :]])


@pytest.mark.parametrize("style", ["merge", "diff3", "half removed"])
def test_conflict_markers_are_told_and_the_file_stays(root, style, monkeypatch):
    text = merged(WHOLE, style)
    if style == "half removed":
        text = text.replace("<<<<<<< HEAD\n", "")
    (root / "dvc.lock").write_text(text, encoding="utf-8")
    said = refuse(root, "check_lock", "dvc.lock holds git's conflict markers (line ")
    assert "git checkout --ours dvc.lock" in said
    assert (root / "dvc.lock").read_text(encoding="utf-8") == text
    assert (root / dvc_lock.KEPT).read_text(encoding="utf-8") == WHOLE
    assert not (root / ".scratch/dvc.lock.cut").exists()
    monkeypatch.setenv("DVC_ROOT", str(root))  # within `dvc repro`
    said = stage(root, "settings --code c --settings s").stderr
    assert "conflict markers" in said
    assert "make repro" not in said
