"""What runs here that others wrote is fixed by its hash, and what a user types is never run as a command."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PROGRAM = '#!/bin/sh\nfor each in "$@"; do printf "[%s]" "$each"; done\n'
HOSTILE = [
    "x; touch hit",
    "$(touch hit)",
    "`touch hit`",
    "' ; touch hit ; '",
    '"; touch hit; "',
    "$(shell touch hit)",
]


@pytest.fixture
def made(tmp_path):
    """`make` with the Makefile alone, whose python prints its arguments."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copy(ROOT / "requirements.lock", tmp_path)
    program = tmp_path / ".venv/bin/python"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM)
    program.chmod(0o755)
    (tmp_path / ".venv/ready").touch()

    def make(*arguments):
        command = ["make", "--no-print-directory", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    make.folder = tmp_path
    return make


@pytest.mark.parametrize("said", HOSTILE)
def test_make_runs_no_command_that_is_in_a_variable(made, said):
    words = "".join(f"[{word}]" for word in said.split())
    for arguments, shown in (
        (("study", f"NAME={said}", "DATASET=t"), f"[-m][stages.study][--name][{said}][--dataset][t]"),
        (("study", "NAME=s", f"DATASET={said}"), f"[-m][stages.study][--name][s][--dataset][{said}]"),
        (
            ("study", "NAME=s", "DATASET=t", f"SEEDS={said}"),
            f"[-m][stages.study][--name][s][--dataset][t][--seeds]{words}",
        ),
        (("check-data", f"DATASET={said}"), f"[-m][stages.check_data][--dataset][{said}]"),
    ):
        assert made(*arguments).stdout == shown
    made("test", f"TESTS={said}")  # quotes are for xargs, which may refuse them
    assert sorted(path.name for path in made.folder.iterdir()) == [".venv", "Makefile", "requirements.lock"]


def test_makes_variables_reach_their_programs(made):
    done = made("study", "NAME=scorer-table-6", "DATASET=tabletop", "SEEDS=1 2 *")
    assert done.stdout.endswith("[--name][scorer-table-6][--dataset][tabletop][--seeds][1][2][*]")
    assert made("study", "NAME=a", "DATASET=b").stdout.endswith("[--name][a][--dataset][b]")
    said = "[-m][pytest][--numprocesses][auto][--dist][worksteal]"
    assert made("test").stdout == said
    assert made("test", "TESTS=-m 'not slow' tests/a.py").stdout == f"{said}[-m][not slow][tests/a.py]"
    for arguments in (["study"], ["study", "NAME=a"], ["check-data"]):
        assert made(*arguments).returncode == 2


def test_the_environment_is_installed_by_hashes_alone(made):
    (made.folder / ".venv/ready").unlink()
    # `python -m venv --clear` would empty the folder: a program that does nothing stands for all
    done = made(".venv/ready", f"PYTHON={made.folder}/.venv/bin/python", "BIN=.venv/bin", "--dry-run")
    installs = [line for line in done.stdout.splitlines() if " install " in line]
    assert len(installs) == 2
    assert all("--require-hashes -r " in line and "pip install" in line for line in installs)
    cut = next(line for line in done.stdout.splitlines() if line.startswith("sed "))
    subprocess.run(cut, shell=True, cwd=made.folder, check=True)
    lines = (made.folder / ".venv/uv.lock").read_text().splitlines()
    assert re.fullmatch(r"uv==[0-9.]+ \\", lines[0])
    assert lines[-1].startswith("    # via")
    assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in lines[1:-1])
    assert len(lines) > 2


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_may_only_read_and_run_what_is_fixed(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert "permissions" not in job
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), "name it in env, and write $NAME"
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step.get("uses", "a/b@" + "0" * 40))
            if "actions/checkout@" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False
