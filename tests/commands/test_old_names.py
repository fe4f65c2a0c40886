"""Commands can also be called by their old names in stages/, with a line that says the new name."""

import subprocess
import sys

import pytest

from tests.running import ROOT


@pytest.mark.parametrize("package", ["stages", "commands"])
def test_an_old_name_works_and_the_new_name_is_printed(package):
    command = [sys.executable, "-m", f"{package}.check_lock", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: ")
    assert ("commands.check_lock" in done.stderr) == (package == "stages")
    assert done.stderr.count("\n") == (package == "stages")
