"""Fixtures: a small dataset, before the first stage and after the training."""

import shutil
from pathlib import Path

import pytest

from tests import stage_commands
from tests.running import stage


@pytest.fixture
def raw(tmp_path):
    """A folder with params.yaml and raw images."""
    return stage_commands.raw(tmp_path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder in which all stages up to training have run."""
    return stage_commands.trained(tmp_path_factory.mktemp("trained"), "weights/1", scenes=20)


@pytest.fixture
def copy(trained, tmp_path):
    """A copy of `trained`, which a test may change."""
    return shutil.copytree(trained, tmp_path / "copy")


@pytest.fixture
def leaves(capsys):
    """Function that runs a stage and returns its exit code, its output and its errors."""

    def run(*words):
        done = stage(Path.cwd(), words)
        return done.returncode, capsys.readouterr().out, done.stderr

    return run
