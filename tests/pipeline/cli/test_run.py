"""How a stage begins and ends: environment, standard streams, errors and exit codes."""

import os
import subprocess
import sys

import pytest
from rich.table import Table

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


def test_an_import_of_the_library_changes_no_setting_of_the_program():
    code = """
import os, sys, warnings
import cv2, numpy, ruamel.yaml  # these set filters of their own
from PIL import TiffImagePlugin
def settings():
    return dict(os.environ), list(warnings.filters), TiffImagePlugin.READ_LIBTIFF
before = settings()
import pipeline.cli.running, pipeline.datasets.images, pipeline.io.inputs
assert settings() == before, [(a, b) for a, b in zip(settings(), before) if a != b]
"""
    inherited = {name: value for name, value in os.environ.items() if name not in SPINS}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=inherited, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


# prints on both streams, then does what its argument says
PROGRAM = r"""
import sys
from pipeline.io.errors import InputError
from stages import run

def main():
    print("one" * int(sys.argv[2]), "\u00fc\u4e2d\udcdf\x1b[31m")
    print("two", file=sys.stderr)
    if sys.argv[1] == "refuse":
        raise InputError("a.json is missing")
    if sys.argv[1] == "fall":
        raise KeyError("a")
    sys.exit(int(sys.argv[1]))

run(main)
"""


def program(tmp_path, order, redirected, length=1):
    """Run PROGRAM in a shell with its streams redirected; return its exit code, output and errors."""
    (tmp_path / "program.py").write_text(PROGRAM)
    line = f'"{sys.executable}" "{tmp_path}/program.py" {order} {length}'
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line} {redirected}"],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("order", "code"), [("0", 0), ("3", 3), ("refuse", 2), ("fall", 1)])
def test_exit_codes_and_characters_that_the_terminal_lacks(tmp_path, order, code):
    assert program(tmp_path, order, "")[:2] == (code, "one \\xfc\\u4e2d\\udcdf\\u001b[31m\n")


@pytest.mark.parametrize(
    ("redirected", "code", "said"),
    [
        (">/dev/full", 2, "error: cannot write standard output"),
        ("| true", 141, ""),
        ("| head -c 1", 141, ""),
    ],
)
def test_a_full_disk_or_a_reader_that_has_ended_gives_no_traceback(tmp_path, redirected, code, said):
    found, _, errors = program(tmp_path, "0", redirected, length=100_000)
    assert found == code
    assert said in errors
    assert "Traceback" not in errors
    assert "Broken" not in errors


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
