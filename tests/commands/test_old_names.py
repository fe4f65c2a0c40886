"""Commands by their old names, from when they were in stages/: they run, and say their new name."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import ROOT

COMMANDS = sorted(path.stem for path in (ROOT / "commands").glob("[!_]*.py"))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_found_by_its_old_name(name):
    found = importlib.util.find_spec(f"stages.{name}")
    assert found is not None
    assert Path(found.origin) == ROOT / f"commands/{name}.py"


@pytest.mark.parametrize(("package", "notes"), [("stages", 1), ("commands", 0)])
def test_an_old_name_runs_and_is_one_line_on_standard_error(package, notes):
    command = [sys.executable, "-m", f"{package}.check_lock", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: ")
    said = "note: `python -m stages.check_lock` is now `python -m commands.check_lock`; "
    said += "the next release drops stages.check_lock\n"
    assert done.stderr == said * notes
