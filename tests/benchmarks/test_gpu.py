"""The command for a GPU: results stay, however a row ends; its rows on a processor."""

import json
import sys

import pytest

from benchmarks import gpu, gpu_rows
from benchmarks.gpu import lines, markdown

RESULT = {"what": "a step", "ours": "1 s", "reference": "2 s", "ratio": "2×", "goal": "≥ 1×", "reached": True}
ENDS = {
    "kernels": ("", "done", ""),
    "types": ("raise SystemExit('it broke')", "failed", "exit code 1: it broke"),
    "step": ("import time; time.sleep(60)", "out of time", "ended after"),
}


def test_results_stay_however_a_row_ends(tmp_path, monkeypatch):
    def command(row, out, small):
        line = json.dumps({"row": row, "machine": "m"} | RESULT)
        write = f"open({str(out / 'rows.jsonl')!r}, 'a').write({line!r} + '\\n')"
        return [sys.executable, "-c", f"{write}\n{ENDS[row][0]}"]

    monkeypatch.setattr(gpu, "command", command)
    for row in [*ENDS, "kernels"]:  # the second run of a row replaces the first
        gpu.run(row, 4.0 if row == "step" else 60.0, tmp_path, small=True)
    for row, (_, status, error) in ENDS.items():
        result, outcome = (line for line in lines(tmp_path) if line["row"] == row)
        assert result.items() >= RESULT.items()
        assert outcome["status"] == status
        assert error in outcome.get("error", "")
    table = markdown(lines(tmp_path))
    assert table.count("| a step | 1 s | 2 s | 2× | ≥ 1× | yes |") == 3
    assert "- types: failed: exit code 1: it broke" in table
    assert "kernels: done" not in table


@pytest.fixture
def few(monkeypatch):
    """Shapes of the kernels' row that two cores check in a moment."""
    small = {"a paper's head": (2, 3, 2, 12, 12, 8), "many against few": (1, 2, 1, 33, 5, 16)}
    monkeypatch.setattr(gpu_rows, "SHAPES", small)


@pytest.mark.slow
@pytest.mark.parametrize("row", ["kernels", "determinism", "matching"])
def test_a_row_has_results_on_a_processor(row, few):
    results = list(gpu_rows.ROWS[row](gpu_rows.SMALL))
    assert results
    assert all(line.reached for line in results if line.goal == gpu_rows.RIGHT)
    assert all(line.what and line.ours and line.ours != "no memory" for line in results)


def test_a_wrong_matching_ends_its_row(monkeypatch, few):
    right = gpu_rows.matching_plain.locate
    monkeypatch.setattr(
        gpu_rows.matching_plain, "locate", lambda q, k: (right(q, k)[0] + 1, *right(q, k)[1:])
    )
    with pytest.raises(AssertionError):
        list(gpu_rows.kernels(gpu_rows.SMALL))


def test_all_rows_fit_into_ten_minutes():
    assert gpu.ROWS.keys() == gpu_rows.ROWS.keys()
    assert sum(gpu.ROWS.values()) <= 60 * 9.5
