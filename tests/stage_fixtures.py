"""A small dataset, raw and with every stage up to training run."""

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
    """A folder in which every stage up to training has run."""
    return stage_commands.trained(tmp_path_factory.mktemp("trained"), "weights/1", scenes=20)


@pytest.fixture
def copy(trained, tmp_path):
    """A copy of `trained`, to damage."""
    return shutil.copytree(trained, tmp_path / "copy")


@pytest.fixture
def leaves(capsys):
    """Runs a stage in the working folder: its exit code, its standard output and its standard error."""

    def run(*words):
        done = stage(Path.cwd(), words)
        return done.returncode, capsys.readouterr().out, done.stderr

    return run
