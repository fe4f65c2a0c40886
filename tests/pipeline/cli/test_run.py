"""How a stage begins and ends, whatever its environment, its standard streams and its errors are."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest
from rich.table import Table

from pipeline.cli import running
from pipeline.io.errors import InputError, printable
from pipeline.io.progress import PlainConsole
from stages import run
from tests.running import ROOT

SPINS = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ({}, "10000 None"),
        ({"GOMP_SPINCOUNT": "7"}, "7 None"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "None ACTIVE"),
    ],
)
def test_idle_threads_spin_briefly_unless_the_user_decides(given, used):
    inherited = {name: value for name, value in os.environ.items() if name not in SPINS}
    code = f"import os, sys, stages; assert 'torch' not in sys.modules; print(*map(os.environ.get, {SPINS}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=inherited | given,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{used}\n"


def test_a_number_without_a_name_gets_one_and_a_home(monkeypatch):
    def unknown(number):
        raise KeyError(f"getpwuid(): uid not found: {number}")

    for name in ("LOGNAME", "USER", "LNAME", "USERNAME", "HOME"):
        monkeypatch.setenv(name, "before")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    running._name_the_user()
    assert os.environ["LOGNAME"] == str(os.getuid())
    assert Path(os.environ["HOME"]).is_dir()


# prints on both streams, then does what its argument says
PROGRAM = r"""
import sys
from pathlib import Path
from pipeline.io.errors import InputError, printable
from stages import run

def main():
    print("one" * int(sys.argv[2]), "\u00fc\u4e2d\udcdf\x1b[31m")
    print("two", file=sys.stderr)
    Path(sys.argv[3]).write_text("done")
    if sys.argv[1] == "refuse":
        raise InputError("a.json is missing")
    if sys.argv[1] == "fall":
        raise KeyError("a")
    sys.exit(int(sys.argv[1]))

run(main)
"""
CODES = {"0": 0, "1": 1, "refuse": 2, "fall": 1}


def program(tmp_path, order, redirected, length=1, **environment):
    """Run PROGRAM in a shell with its streams redirected; returns its exit code, and what it wrote."""
    (tmp_path / "program.py").write_text(PROGRAM)
    line = f'"{sys.executable}" "{tmp_path}/program.py" {order} {length} "{tmp_path}/done"'
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line} {redirected}"],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr, (tmp_path / "done").exists()


@pytest.mark.parametrize("order", CODES)
@pytest.mark.parametrize("redirected", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_closed_streams_change_no_exit_code(tmp_path, order, redirected):
    code, _, said, done = program(tmp_path, order, redirected)
    assert (code, done) == (CODES[order], True)
    assert b"Traceback" not in said or order == "fall"


def test_a_full_disk_is_said_where_standard_output_ends_there(tmp_path):
    code, _, said, _ = program(tmp_path, "0", ">/dev/full")
    assert code == 2
    assert said.splitlines()[-1].startswith(b"error: cannot write standard output")
    assert b"Traceback" not in said


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("redirected", ["| true", "2>&1 | true", "| head -c 1"])
def test_a_reader_that_goes_away_ends_a_program_quietly(tmp_path, unbuffered, redirected):
    code, _, said, _ = program(tmp_path, "0", redirected, length=100_000, PYTHONUNBUFFERED=unbuffered)
    assert code == 141
    assert b"Traceback" not in said
    assert b"Broken" not in said


def raises(error):
    def main():
        raise error

    return main


def deep():
    deep()


@pytest.mark.parametrize(
    "main",
    [deep, *map(raises, [MemoryError(), KeyError("a"), UnicodeError("\udcdf\x1b"), OSError(5, "x", "y")])],
)
def test_any_other_error_is_a_bug_report(main, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/a/stages/score.py", "--out", "a b\x1b\udcdf"])
    with pytest.raises(SystemExit) as left:
        run(main)
    assert left.value.code == 1
    first, command, version, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith("bug: ")
    assert command == "  command: python -m stages.score --out 'a b\\u001b\\udcdf'"
    assert version.startswith("  version: commit ")
    assert rest[0] == "Traceback (most recent call last):"
    assert "\x1b" not in "".join(rest)


def test_a_users_mistake_is_one_line(capsys):
    with pytest.raises(SystemExit) as left:
        run(raises(InputError("a\x1b\nb.json is missing")))
    assert left.value.code == 2
    assert capsys.readouterr().err == "error: a\\u001b\\nb.json is missing\n"


@pytest.mark.parametrize("text", ["[bold", "[/x]", "[red]a[/red]", "\x1b[31m", "a\rb", ":smile:", "\udcdf"])
def test_a_table_shows_a_users_text_as_it_is(text, capsys):
    table = Table("a", title=text)
    table.add_row(text)
    console = PlainConsole(width=80)
    console.print(table)
    console.print(text)
    assert capsys.readouterr().out.count(printable(text)) == 3
