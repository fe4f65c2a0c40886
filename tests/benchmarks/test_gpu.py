"""The command for a GPU: what a row found stays, however it ends; the study's stages are dvc.yaml's."""

import json
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import yaml

from benchmarks import gpu, gpu_study
from benchmarks.gpu_table import markdown
from benchmarks.wheels import locked
from pipeline import params

ROOT = Path(__file__).parents[2]
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
        begun, found, ended = (line for line in rows if line["row"] == row)
        assert begun["status"] == "begun"
        assert found.items() >= FOUND.items()
        assert {"device", "versions", "load"} <= found.keys()
        assert ended["status"] == status
        assert error in ended.get("error", "")
    table = markdown(rows)
    assert table.count("| a step | 1 s | 2 s | 2× | ≥ 1× | yes |") == 3
    assert "- types: failed: exit code 1: it broke" in table
    assert "kernels: done" not in table


def test_a_row_that_was_killed_and_run_again_stands_in_the_table_once():
    begun = {"row": "step", "status": "begun", "error": "it has not ended"}
    old, new = ({"row": "step", **FOUND, "what": what} for what in ("old", "new"))
    assert "- step: begun: it has not ended" in markdown([begun, old])
    again = markdown([begun, old, begun, new, {"row": "step", "status": "done"}])
    assert "| old |" not in again
    assert "| new |" in again
    assert "begun" not in again


def test_the_studys_stages_are_dvcs():
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    steps = list(gpu_study.steps([1, 2]))
    assert len({step.name for step in steps}) == len(steps) == 4 + 4 + 2 * 4 * 2
    for step in steps:
        command, outs = step.of(stages[step.stage])
        assert command[:3] == [sys.executable, "-m", f"stages.{step.stage}"]
        assert outs
        assert "$" not in " ".join([*command, *map(str, outs)])


@pytest.mark.parametrize("small", [True, False])
def test_the_studys_settings_are_right(tmp_path, small):
    chosen = Namespace(small=small, iterations=None, compile="off", seeds=[1])
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(gpu_study.parameters(chosen, 1280)))
    found = params.load(tmp_path / "params.yaml")
    own = found.of("tabletop")
    assert (found.tabletop.scenes, found.train.compile) == (1280, "off")
    assert (own.sizes.width, own.train.batch) == ((16, 4) if small else (512, 128))


def test_what_is_packed_is_what_scoring_reads(tmp_path):
    kept = ["params.yaml", "results/cells/tabletop/rr/1/captions.json", "data/pairs/tabletop.jsonl"]
    for name in (*kept, "data/raw/tabletop/a.png", "results/cells/tabletop/rr/1/attention.npz"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    gpu_study.pack(tmp_path)
    with gpu_study.zipfile.ZipFile(tmp_path / "study.zip") as packed:
        assert sorted(packed.namelist()) == sorted(kept)


def test_there_is_a_version_of_every_package_that_is_brought():
    assert {"pydantic", "zarr", "numcodecs", "numpy"} <= locked("3.12").keys()
