"""Dependencies are fixed by hashes, and a value of `make NAME=...` is never executed as a command."""

import re
import subprocess

import pytest
import yaml

from tests.makefile import ROOT, making

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FILES = [".blender", ".venv", "Makefile", "blender.lock", "demo", "requirements.lock"]
HOSTILE = [
    "`touch hit`",
    "' ; touch hit ; '",
    "$(shell touch hit)",
]


@pytest.fixture
def made(tmp_path):
    return making(tmp_path)


@pytest.mark.parametrize("said", HOSTILE)
def test_make_runs_no_command_that_is_in_a_variable(made, said):
    words = "".join(f"[{word}]" for word in said.split())
    for arguments, shown in (
        (
            ("study", f"NAME={said}", "DATASET=t"),
            f"[python][-m][commands.study][--name][{said}][--dataset][t]",
        ),
        (
            ("study", "NAME=s", f"DATASET={said}"),
            f"[python][-m][commands.study][--name][s][--dataset][{said}]",
        ),
        (
            ("study", "NAME=s", "DATASET=t", f"SEEDS={said}"),
            f"[python][-m][commands.study][--name][s][--dataset][t][--seeds]{words}",
        ),
        (("check-data", f"DATASET={said}"), f"[python][-m][commands.check_data][--dataset][{said}]"),
    ):
        assert made(*arguments).stdout == f"{shown}\n"
    made("test", f"TESTS={said}")  # xargs may refuse its quotes
    assert sorted(path.name for path in made.folder.iterdir()) == FILES


def test_makes_variables_reach_their_programs(made):
    done = made("study", "NAME=scorer-table-6", "DATASET=tabletop", "SEEDS=1 2 *")
    assert done.stdout.endswith("[--name][scorer-table-6][--dataset][tabletop][--seeds][1][2][*]\n")
    assert made("study", "NAME=a", "DATASET=b").stdout.endswith("[--name][a][--dataset][b]\n")
    said = "[python][-m][pytest][--numprocesses][auto][--dist][worksteal]"
    assert made("test").stdout == f"{said}\n"
    assert made("test", "TESTS=-m 'not slow' tests/a.py").stdout == f"{said}[-m][not slow][tests/a.py]\n"
    for arguments in (["study"], ["study", "NAME=a"], ["check-data"]):
        assert made(*arguments).returncode == 2


def test_the_environment_is_installed_by_hashes_alone(made):
    done = installing(made)
    installs = [line for line in done.stdout.splitlines() if " install " in line]
    assert len(installs) == 2
    assert all("--require-hashes -r " in line and "pip install" in line for line in installs)
    cut = next(line for line in done.stdout.splitlines() if line.startswith("sed "))
    subprocess.run(cut, shell=True, cwd=made.folder, check=True)
    lines = (made.folder / ".venv/first.lock").read_text().splitlines()
    assert {line.partition("==")[0] for line in lines if "==" in line} == {"uv", "setuptools"}
    rest = [line for line in lines if "==" not in line and not line.startswith("    # via")]
    assert len(rest) >= 4
    assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in rest)


def test_packages_without_a_wheel_are_built_with_locked_tools(made):
    """An isolated build would fetch the newest build tools from an index, without a hash."""
    first, rest = (line for line in installing(made).stdout.splitlines() if " install " in line)
    assert "first.lock" in first  # it has setuptools, with which the next line builds
    assert "--no-build-isolation" in rest


def test_pips_settings_of_a_user_do_not_matter(made):
    assert "PIP_USER=0 " in next(line for line in installing(made).stdout.splitlines() if " install " in line)


def installing(made):
    (made.folder / ".venv/ready").unlink()
    # --dry-run, because `python -m venv --clear` would empty the folder
    return made(".venv/ready", f"PYTHON={made.folder}/.venv/bin/python", "BIN=.venv/bin", "--dry-run")


@pytest.mark.parametrize("git", [True, False])
def test_dvc_works_without_git(made, git):
    """A downloaded ZIP has no git repository."""
    if git:
        subprocess.run(["git", "init", "--quiet", made.folder], check=True)
    (made.folder / ".venv/ready").unlink()
    done = made(".venv/ready", "PYTHON=.venv/bin/python", "BIN=.venv/bin")
    assert done.returncode == 0, done.stderr
    assert ("[dvc][config][--local][core.no_scm][true]" in done.stdout) != git


def test_a_folder_with_a_colon_is_refused_before_anything_is_made(tmp_path):
    (tmp_path / "a:b").mkdir()
    made = making(tmp_path / "a:b")
    (made.folder / ".venv/ready").unlink()
    done = made("repro", "PYTHON=true")
    assert done.returncode == 2
    assert "a:b" in done.stderr.splitlines()[0]
    assert not (made.folder / ".venv/ready").exists()


@pytest.mark.parametrize("name", ["NAME", "DATASET", "SEEDS", "TESTS"])
def test_only_variables_of_makes_own_command_line_count(made, monkeypatch, name):
    """WSL sets NAME in every shell."""
    own = {"NAME": "s", "DATASET": "t"}
    own.pop(name, None)
    done = made("study", *map("=".join, own.items()), **{name: "DESKTOP"})
    assert (done.returncode == 2) == (name in ("NAME", "DATASET"))
    assert "DESKTOP" not in made("test", **{name: "DESKTOP"}).stdout + done.stdout


@pytest.mark.parametrize("given", [{}, {"LOGNAME": "me"}, {"USER": "me"}, {"HOME": "h"}])
def test_dvc_finds_a_users_name_and_home(made, given):
    """DVC ends in a traceback if a user id has no name and HOME is not set."""
    (made.folder / ".venv/bin/dvc").write_text('#!/bin/sh\necho "$LOGNAME,$USER,$HOME"\n')
    environment = {"LOGNAME": "", "USER": "", "HOME": ""} | given
    printed = made("--silent", "repro", **environment).stdout.splitlines()
    name, user, home = next(line for line in printed if "," in line).split(",")
    assert name or user
    assert home
    assert given.items() <= {"LOGNAME": name, "USER": user, "HOME": home}.items()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_only_read_and_use_fixed_actions(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert "permissions" not in job
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), "name it in env, and write $NAME"
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step.get("uses", "a/b@" + "0" * 40))
            if "actions/checkout@" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False


LEFT_OVER = (
    *("PYTHONHOME", "PYTHONPATH", "PYTHONSAFEPATH", "PYTHONWARNINGS", "PYTHONINSPECT"),
    *("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_VIRTUALENV", "PIP_CONSTRAINT", "PIP_DRY_RUN"),
    *("UV_SYSTEM_PYTHON", "UV_PYTHON", "UV_CONSTRAINT", "UV_OVERRIDE", "UV_NO_BINARY", "UV_EXCLUDE_NEWER"),
)
SOURCES = (
    "PIP_INDEX_URL",
    "PIP_CERT",
    "PIP_CACHE_DIR",
    "UV_DEFAULT_INDEX",
    "UV_CACHE_DIR",
    "UV_HTTP_TIMEOUT",
)


def test_only_settings_of_package_sources_reach_the_installation(made):
    """PIP_TARGET, for example, would install elsewhere, and PYTHONHOME would stop Python."""
    (made.folder / ".venv/ready").unlink()
    for name in ("python", "uv"):
        (made.folder / ".venv/bin" / name).write_text("#!/bin/sh\nenv | sed 's/^/seen: /'\n")
    given = dict.fromkeys((*LEFT_OVER, *SOURCES), "left/over")
    done = made(".venv/ready", f"PYTHON={made.folder / '.venv/bin/python'}", **given)
    assert done.returncode == 0, done.stderr
    seen = {line.partition("=")[0].removeprefix("seen: ") for line in done.stdout.splitlines()}
    assert seen & {*LEFT_OVER} == set()
    assert seen >= {*SOURCES}
