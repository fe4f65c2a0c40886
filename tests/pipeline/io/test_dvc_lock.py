"""A dvc.lock that was cut off by a kill is noticed wherever it ends, and the last good copy replaces it."""

import subprocess
import sys

import pytest
from dvc.utils.serialize import dump_yaml

from pipeline.io import dvc_lock
from tests import shipped
from tests.running import refuse, stage, succeed

WHOLE = shipped.text("dvc.lock")
NAMES = list(dvc_lock._complete_stages(WHOLE))
LINES = WHOLE.splitlines(keepends=True)
FIRST_OF = [number for number, line in enumerate(LINES) if line.startswith("  ") and line[2] != " "]


def end_of(lines):
    return len("".join(LINES[:lines]))


# nothing, the head, within a line, ends of lines, between stages, within the last stage
PLACES = [0, 14, 2 * len(WHOLE) // 3 + 1, len(WHOLE) - 1, end_of(2), end_of(len(LINES) // 2)]
PLACES += [end_of(n) for n in (FIRST_OF[1], FIRST_OF[-1], len(LINES) - 1, len(LINES) - 4)]


@pytest.fixture
def root(tmp_path):
    (tmp_path / "dvc.lock").write_text(WHOLE, encoding="utf-8")
    succeed(tmp_path, "check_lock")
    return tmp_path


@pytest.mark.parametrize("place", PLACES)
def test_a_cut_file_is_replaced_and_kept(root, place):
    (root / "dvc.lock").write_text(WHOLE[:place], encoding="utf-8")
    assert "dvc.lock is cut off" in succeed(root, "check_lock").stderr
    assert (root / "dvc.lock").read_text(encoding="utf-8") == WHOLE
    assert (root / dvc_lock.CUT_COPY).read_text(encoding="utf-8") == WHOLE[:place]
    assert succeed(root, "check_lock").stderr == ""


def test_without_a_kept_copy_the_last_commit_replaces_it(root):
    for command in ("init -q", "add dvc.lock", "-c user.name=a -c user.email=a@b commit -qm x"):
        subprocess.run(["git", *command.split()], cwd=root, check=True)
    (root / dvc_lock.COPY).unlink()
    (root / "dvc.lock").write_text(WHOLE[: end_of(FIRST_OF[3])])
    assert "is cut off" in succeed(root, "check_lock").stderr
    assert (root / "dvc.lock").read_text() == WHOLE


def test_without_a_good_copy_it_is_refused_and_not_changed(root):
    (root / dvc_lock.COPY).unlink()
    (root / "dvc.lock").write_text(WHOLE[:100])
    refuse(root, "check_lock", "dvc.lock")
    assert (root / "dvc.lock").read_text() == WHOLE[:100]


def grown(stages):
    """Add a stage, as DVC does."""
    return stages | {"z": {"cmd": "z", "outs": [{"path": "z", "md5": "0", "size": 1}]}}


def of_another_commit(stages):
    """Remove a stage in the middle, and the first output of the last stage."""
    last = stages[NAMES[-1]]
    return {name: stages[name] for name in NAMES if name != NAMES[3]} | {
        NAMES[-1]: last | {"outs": last["outs"][1:]}
    }


@pytest.mark.parametrize(
    "change",
    [
        grown,
        of_another_commit,
        lambda stages: stages | {NAMES[0]: stages[NAMES[0]] | {"cmd": "another"}},
        lambda stages: {name: stages[name] for name in NAMES if name != NAMES[3]},  # of another commit
    ],
)
def test_a_complete_file_is_not_changed_and_is_the_next_good_copy(root, change):
    dump_yaml(root / "dvc.lock", {"schema": "2.0", "stages": change(dvc_lock._complete_stages(WHOLE))})
    text = (root / "dvc.lock").read_text()
    assert succeed(root, "check_lock").stderr == ""
    assert (root / "dvc.lock").read_text() == text == (root / dvc_lock.COPY).read_text()


@pytest.mark.parametrize("defined", ["ab", "abc"])
def test_a_stage_that_dvc_yaml_no_longer_defines_was_not_cut_off(tmp_path, defined):
    subprocess.run([sys.executable, "-m", "dvc", "init", "--no-scm", "--quiet"], cwd=tmp_path, check=True)
    dump_yaml(tmp_path / "dvc.yaml", {"stages": {name: {"cmd": f"echo {name}"} for name in defined}})
    for names in ("abc", "ab"):
        outs = [{"path": "out", "md5": "0" * 32, "size": 1}]
        entries = {name: {"cmd": name, "outs": outs} for name in names}
        dump_yaml(tmp_path / "dvc.lock", {"schema": "2.0", "stages": entries})
        note = succeed(tmp_path, "check_lock").stderr
    assert ("dvc.lock is cut off" in note) == (defined == "abc")


def test_a_missing_file_is_no_cut_file(tmp_path):
    assert succeed(tmp_path, "check_lock").stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_a_stage_that_dvc_runs_keeps_a_copy_and_notes_forgotten_stages(root, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(root))
    (root / "dvc.lock").write_text("".join(LINES[: FIRST_OF[4]]))
    assert "dvc.lock is cut off" in stage(root, "settings --code c --settings s").stderr
    assert (root / dvc_lock.COPY).read_text() == WHOLE
    dump_yaml(root / "dvc.lock", {"schema": "2.0", "stages": grown(dvc_lock._complete_stages(WHOLE))})
    stage(root, "settings --code c --settings s")
    assert "\n  z:\n" in (root / dvc_lock.COPY).read_text()
