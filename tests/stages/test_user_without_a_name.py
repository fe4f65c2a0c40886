"""A number without a name, as `docker run --user 12345` has it: stages and DVC run to the end."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.running import ROOT

NUMBER = ["unshare", "--user", "--map-user=12345", "--map-group=12345"]
NAMES = ("USER", "LOGNAME", "USERNAME", "LNAME")


def possible():
    tried = [*NUMBER, sys.executable, "-c", "pass"]
    return shutil.which("unshare") and not subprocess.run(tried, capture_output=True, check=False).returncode


@pytest.mark.slow
def test_stages_and_the_dvc_that_they_start_run_to_the_end(tmp_path):
    if not possible():
        pytest.skip("this machine lets nobody be another user (unshare --user)")
    own = {name: value for name, value in os.environ.items() if name not in (*NAMES, "HOME")}
    own |= {"PYTHONPATH": str(ROOT)}
    program = (
        "import stages, subprocess, sys, getpass, pathlib; getpass.getuser(); pathlib.Path.home();"
        "sys.exit(subprocess.run([sys.executable, '-m', 'dvc', 'init', '--no-scm', '--quiet']).returncode)"
    )
    done = subprocess.run(
        [*NUMBER, sys.executable, "-c", program],
        cwd=tmp_path,
        env=own,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / ".dvc/config").exists()
