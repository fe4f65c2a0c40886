"""The sample commands of the pages and the Python code of the cookbook run as they are written."""

import json
import re
import shlex
from contextlib import chdir

import matplotlib as mpl
import pytest
import yaml

from pipeline.study.study_file import Study
from tests import run_by
from tests.running import ROOT, succeed
from tests.test_commands import FENCE, WHOLE, calls, commands

COOKBOOK = (ROOT / "docs/cookbook.md").read_text(encoding="utf-8")
PYTHON = [text for language, text in FENCE.findall(COOKBOOK) if language == "python"]
IMAGE = "images/CLEVR_default_000000.png"


@pytest.mark.parametrize("page", ["README.md", "docs/getting_started.md", "docs/cookbook.md"])
def test_the_sample_pair_is_captioned_by_the_pages_command(page, tmp_path, capsys):
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [line for line in commands(text, whole=True) if "caption docs/sample" in line]
    assert found
    for name in ("docs", "demo"):
        (tmp_path / name).symlink_to(ROOT / name)
    for line in found:
        succeed(tmp_path, shlex.split(line.replace("commands.", ""))[2:])
        caption = capsys.readouterr().out
        assert "turned blue" in caption
        if page == "docs/getting_started.md":
            assert f"`{caption.strip()}`" in text


def test_the_python_of_the_cookbook_runs(prepared, tmp_path):
    mpl.use("Agg")
    store = tmp_path / "data/features/tabletop"
    store.mkdir(parents=True)
    (store / "grid.zarr").symlink_to(prepared.store.location.name)
    for name in ("docs", "demo"):
        (tmp_path / name).symlink_to(ROOT / name)
    run = tmp_path / "results/runs/tabletop/scorer_cbr/1"
    curves = tmp_path / "results/curves/tabletop/scorer_cbr/1"
    for folder in (run, curves):
        folder.mkdir(parents=True)
    (run / "metrics.json").write_text(json.dumps({"change": {"true": 0.5, "CIDEr-D": 1.0}}))
    rows = [
        {"pair_id": f"{n:06d}", "scene_id": f"{n:06d}", "changed": n > 0, "true": n != 1} for n in range(3)
    ]
    (run / "pairs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (curves / "loss.csv").write_text("iteration,cap\n1,2.0\n2,1.5\n")
    names: dict[str, object] = {}
    with chdir(tmp_path):
        for source in PYTHON:
            exec(source.replace(IMAGE, prepared.pairs[0].before), names)
    assert len(PYTHON) == 6
    assert "turned blue" in names["caption"]
    assert names["features"].shape == prepared.store.array.shape[1:]
    assert [*names["pairs"]["scene_id"]] == ["000000", "000001", "000002"]  # not 0, 1, 2
    assert names["true_share"].to_dict() == {False: 1.0, True: 0.5}
    assert (tmp_path / "attention.png").stat().st_size
    assert (tmp_path / "loss.png").stat().st_size


def test_the_study_of_the_cookbook_is_valid():
    (text,) = re.findall(r"^```yml\n(.*?)^```$", COOKBOOK, re.MULTILINE | re.DOTALL)
    study = Study.model_validate(yaml.safe_load(text))
    keys = {*Study.model_fields, *type(study.rows[0]).model_fields}
    assert keys == {*re.findall(r"^\| `(\w+)` \| (?:yes|no)", COOKBOOK, re.MULTILINE)}


def test_every_command_has_a_test_that_runs_it_or_a_reason_why_none_does():
    keys = {
        run_by.key(words)
        for path in WHOLE
        for command in commands(path.read_text(encoding="utf-8"), whole=True)
        for words in calls(command)
    }
    assert keys == {*run_by.RUN_BY} | {*run_by.NOT_RUN}, "enter a new command in tests/run_by.py"
    assert not {*run_by.RUN_BY} & {*run_by.NOT_RUN}
    for command, file in run_by.RUN_BY.items():
        name = command.split()[-1].split(".")[-1]
        assert name in (ROOT / file).read_text(encoding="utf-8"), f"{file} does not name {name}"
