"""Run the script of a stage or command in this process, because each import of torch takes seconds."""

import importlib
import io
import sys
from contextlib import chdir, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest

from stages import run
from tests import project_params

ROOT = Path(__file__).parents[1]


@dataclass
class Done:
    returncode: int
    stderr: str


def script(name):
    """Return the module of a stage or command."""
    package = "stages" if (ROOT / f"stages/{name}.py").exists() else "commands"
    return importlib.import_module(f"{package}.{name}")


def stage(folder, command):
    """Run a stage in `folder`; the command is a line or a list of words."""
    name, *arguments = command.split() if isinstance(command, str) else map(str, command)
    stderr = io.StringIO()
    with (
        chdir(folder),
        patch.object(sys, "argv", [name, *arguments]),
        redirect_stderr(stderr),
        pytest.raises(SystemExit) as left,
    ):
        run(script(name).main)
    return Done(left.value.code, stderr.getvalue())


def succeed(folder, command):
    done = stage(folder, command)
    assert done.returncode == 0, done.stderr
    return done


def refuse(folder, command, said):
    """Check that a stage ends with exit code 2 and one error that contains `said`; return the error."""
    done = stage(folder, command)
    assert done.returncode == 2, done.stderr
    errors = [line for line in done.stderr.split("\n") if line.startswith("error: ")]
    assert len(errors) == 1, done.stderr
    assert said in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def set_params(folder, **changes):
    """Write the project's params.yaml for small runs, with `changes`: path (keys joined by __) -> value."""
    small = {
        "features__size": 64,
        "train__iterations": 4,
        "train__batch": 4,
        "train__validate_every": 2,
        "dataset__tabletop__sizes__width": 16,
        "dataset__tabletop__features__stride": 16,  # 4 x 4 cells of such small images
        # synthetic images have no scenes
        "dataset__tabletop__train__select": "CIDEr-D",
        "dataset__tabletop__models__clip__train__select": "CIDEr-D",
    }
    project_params.write(folder, **(small | changes))
