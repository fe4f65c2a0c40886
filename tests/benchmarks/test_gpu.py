"""The command for a GPU: what a row found stays, however it ends; its rows on a processor."""

import ast
import json
import subprocess
import sys
from argparse import Namespace
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from benchmarks import gpu, gpu_rows
from benchmarks.gpu import markdown
from benchmarks.wheels import THERE, WANTED, locked

OURS = {"benchmarks", "models", "pipeline", "stages", "commands"}
KNOWN = {*WANTED, *THERE, "typing-extensions"}  # which pydantic brings
FOUND = {"what": "a step", "ours": "1 s", "reference": "2 s", "ratio": "2×", "goal": "≥ 1×", "reached": True}
ENDS = {
    "kernels": ("", "done", ""),
    "types": ("raise SystemExit('it broke')", "failed", "exit code 1: it broke"),
    "step": ("import time; time.sleep(60)", "out of time", "ended after"),
}


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """What is left of three rows that find one thing each and then end differently."""

    def command(row, small):
        return [sys.executable, "-c", f"print({json.dumps(FOUND)!r}, flush=True)\n{ENDS[row][0]}"]

    monkeypatch.setattr(gpu, "command", command)
    for row in ENDS:
        gpu._run(row, 4.0 if row == "step" else 60.0, Namespace(out=tmp_path, small=True))
    return gpu._lines(tmp_path)


def test_what_was_found_stays_however_a_row_ends(rows):
    for row, (_, status, error) in ENDS.items():
        found, ended = (line for line in rows if line["row"] == row)
        assert found.items() >= FOUND.items()
        assert {"machine", "load"} <= found.keys()
        assert ended["status"] == status
        assert error in ended.get("error", "")
    table = markdown(rows)
    assert table.count("| a step | 1 s | 2 s | 2× | ≥ 1× | yes |") == 3
    assert "- types: failed: exit code 1: it broke" in table
    assert "kernels: done" not in table


def test_a_row_that_is_run_again_stands_in_the_table_once(rows, tmp_path):
    gpu._forget(tmp_path, "kernels")
    assert "| kernels |" not in markdown(gpu._lines(tmp_path))
    gpu._run("kernels", 60.0, Namespace(out=tmp_path, small=True))
    assert len(gpu._lines(tmp_path)) == len(rows)
    assert markdown(gpu._lines(tmp_path)).count("| kernels |") == 1


@pytest.fixture
def few(monkeypatch):
    """The shapes of the kernels' row that two cores check in a moment."""
    small = {"a paper's head": (2, 3, 2, 12, 12, 8), "many against few": (1, 2, 1, 33, 5, 16)}
    monkeypatch.setattr(gpu_rows, "SHAPES", small)


@pytest.mark.slow
@pytest.mark.parametrize("row", ["kernels", "determinism", "matching"])
def test_a_row_finds_what_it_says_on_a_processor(row, few):
    found = list(gpu_rows.ROWS[row](gpu_rows.SMALL))
    assert found
    assert all(line.reached for line in found if line.goal == gpu_rows.RIGHT)
    assert all(line.what and line.ours and line.ours != "no memory" for line in found)


def test_a_matching_that_is_wrong_ends_its_row(monkeypatch, few):
    right = gpu_rows.matching_plain.locate
    monkeypatch.setattr(
        gpu_rows.matching_plain, "locate", lambda q, k: (right(q, k)[0] + 1, *right(q, k)[1:])
    )
    with pytest.raises(AssertionError):
        list(gpu_rows.kernels(gpu_rows.SMALL))


def test_every_row_has_a_time_and_all_fit_into_a_lease():
    assert gpu.ROWS.keys() == gpu_rows.ROWS.keys()
    assert sum(gpu.ROWS.values()) <= 60 * 9.5


def test_there_is_a_version_of_every_package_that_is_brought():
    assert {"pydantic", "zarr", "numcodecs", "numpy"} <= locked("3.12").keys()


def test_what_the_rows_import_is_there_or_brought():
    """A machine without an index: what our own modules ask for is in its packages or among the wheels."""
    listed = (
        "import benchmarks.gpu_rows, stages.train, stages.decode, stages.extract, sys; print(*sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True).stdout
    ours = [name for name in said.split() if name.partition(".")[0] in OURS]
    assert "models.kernels.matching" in ours
    wanted = {top for name in ours for top in at_the_top(Path(find_spec(name).origin))}
    packages = packages_distributions()
    missing = {top: packages[top] for top in wanted if top in packages and not KNOWN & names(packages[top])}
    assert not missing


def at_the_top(path):
    """The packages that a module's own lines import when it is imported."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.partition(".")[0]


def names(packages):
    return {canonicalize_name(name) for name in packages}
