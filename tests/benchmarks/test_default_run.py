"""The benchmark of the default run notes for each stage what it takes. A failed stage ends it."""

import re
import shlex
import subprocess
import sys

import pytest

from benchmarks import default_run, first_answer
from pipeline.io.errors import InputError

PIPELINE = """
stages:
  small: {cmd: "python -c \\"import yaml; open('small.txt', 'w')\\"", outs: [small.txt]}
  large:
    cmd: python -c "import time; kept = b'1' * 300_000_000; time.sleep(0.3); open('large.txt', 'w')"
    outs: [large.txt]
"""


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with a pipeline of two stages; commit a change of dvc.yaml with the returned function."""
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text("[core]\nanalytics = false\n")

    def commit(pipeline):
        (tmp_path / "dvc.yaml").write_text(pipeline)
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "a"]):
            subprocess.run([*git, *command], cwd=tmp_path, check=True)

    commit(PIPELINE)
    monkeypatch.setattr(first_answer, "ROOT", tmp_path)
    return commit


@pytest.mark.slow
def test_each_stage_has_its_own_time_and_memory(repository, monkeypatch, capsys):
    repository(PIPELINE.replace("300_000_000", "100_000_000"))
    monkeypatch.setattr(sys, "argv", ["default_run", "--reference", "HEAD~1", "--runs", "1"])
    default_run.main()
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in capsys.readouterr().out.splitlines()]
    cells = {name: [numbers(text) for text in both] for name, *both in rows[2:]}
    assert list(cells) == ["small", "large", "dvc repro"]
    earlier, ours = cells["large"]
    assert earlier[2] - ours[2] == pytest.approx(200_000_000 / 2**20, abs=10)
    assert ours[0] > 0.3 > ours[1] > 0
    small = cells["small"][1]
    assert small[2] < 50
    wall, processor, memory = cells["dvc repro"][1]
    assert wall > ours[0] + small[0]
    assert processor == pytest.approx(ours[1] + small[1], abs=0.02)
    assert memory == ours[2]


def numbers(text):
    return [float(number) for number in re.findall(r"[\d.]+", text)]


def test_the_median_is_of_each_number():
    runs = [{"a": first_answer.Run(*took)} for took in ((1, 5, 3), (2, 4, 9), (7, 6, 6))]
    assert default_run.median(runs) == {"a": (2, 5, 6)}


def test_a_python_with_spaces_in_its_path(repository, tmp_path, monkeypatch):
    link = tmp_path / "My Lab's" / "python"
    link.parent.mkdir()
    link.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    link.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(link))
    assert list(default_run.measured("HEAD")) == ["small", "large", default_run.ALL]


def test_a_failed_stage_ends_the_benchmark(repository):
    repository(PIPELINE.replace("kept =", "import absent_module;"))
    with pytest.raises(InputError, match="absent_module"):
        default_run.measured("HEAD")


def test_a_commit_that_git_lacks_is_refused(repository):
    with pytest.raises(InputError, match="--reference 0123abc"):
        default_run.measured("0123abc")
