"""Scores on rendered pairs and on labelled images: rank correlations, intervals and the table."""

import itertools
import json
import sys

import numpy as np
import pytest
from PIL import Image
from scipy.stats import rankdata

from benchmarks import reality
from benchmarks.reality import Row
from pipeline.io.errors import InputError
from pipeline.io.outputs import write_json
from pipeline.tabletop.dataset import IMAGES
from tests.small_lab import add_weights, make_lab


def row(model, rendered, real, scenes=60):
    """Return a model with these shares of true captions on rendered and on real pairs."""
    true = np.arange(scenes) < real * scenes
    return Row(
        model, dict.fromkeys(reality.RENDERED, rendered), {"real": {"changes": true, "unchanged": ~true}}
    )


def test_the_correlation_compares_the_order_of_the_models(monkeypatch):
    monkeypatch.setattr(reality, "RESAMPLES", 100)
    shares, real = (0.2, 0.6, 0.1, 0.9, 0.9), (0.5, 0.4, 0.1, 0.6, 0.2)
    rows = [
        row(str(index), *model_shares) for index, model_shares in enumerate(zip(shares, real, strict=True))
    ]
    changed = np.stack([model_row.true["real"]["changes"] for model_row in rows])
    ranks = [rankdata(shares), rankdata(changed.mean(1))]
    expected = np.corrcoef(ranks)[0, 1]
    assert [line.partition(": ")[2].split()[0] for line in reality.correlations(rows)] == [
        f"{expected:.2f}",
        f"{expected:.2f}",
        f"{-expected:.2f}",  # of the unchanged pairs, those with a true caption are the others
    ]
    correlations = reality.resampled(np.array(shares)[:, None], changed)
    assert np.nanmin(correlations) < expected < np.nanmax(correlations) <= 1.0 + 1e-9


def test_an_interval_contains_its_share():
    assert reality.interval(np.arange(100) < 40).startswith("40 (3")
    assert reality.interval(np.ones(100)) == "100 (100 to 100)"


def test_every_two_sets_are_compared_on_their_pairs_of_one_side():
    rows = [row(str(index), index / 10, index / 9) for index in range(5)]
    for each in rows:
        each.true["Blender"] = {
            "changes": ~each.true["real"]["changes"],
            "unchanged": each.true["real"]["changes"],
        }
    signs = {
        line.split(": ")[0].removeprefix("rank correlation, "): line.split(": ")[1].split()[0]
        for line in reality.correlations(rows)
    }
    assert signs == {
        "rendered changes and real changes": "1.00",
        "rendered changes and Blender changes": "-1.00",
        "rendered color and real changes": "1.00",
        "rendered color and Blender changes": "-1.00",
        "rendered unchanged and real unchanged": "-1.00",
        "rendered unchanged and Blender unchanged": "1.00",
        "real changes and Blender changes": "-1.00",
        "real unchanged and Blender unchanged": "-1.00",
    }


def test_new_scenes_have_columns_of_their_own(tmp_path, capsys, monkeypatch):
    lab = make_lab(tmp_path / "lab")
    weights = add_weights(lab, "subtraction")
    write_json(
        lab / "results/runs/tabletop/subtraction/1/metrics.json",
        {subset: {"true": 0.25} for subset in reality.RENDERED.values()},
    )
    asked = []

    def judged(captioner, settings, scenes, search, kept):
        asked.append((settings.look, settings.assets, settings.seed, scenes, kept))
        return reality.judging.judged_labelled(captioner, tmp_path / "labelled", search)

    monkeypatch.setattr(reality.drawn_scenes, "judge_new_scenes", judged)
    folders = {"--labelled": drawn(tmp_path / "labelled"), "--lab": lab, "--assets": tmp_path}
    arguments = [text for key, folder in folders.items() for text in (key, str(folder))]
    monkeypatch.setattr("sys.argv", ["reality", str(weights), *arguments, "--scenes", "7", "--seed", "3"])
    reality.main()
    assert (
        "| subtraction | 25.0 | 25.0 | 25.0 | 0 (0 to 0) | 0 (0 to 0) | 0 (0 to 0) |"
        in capsys.readouterr().out
    )
    assert asked == [("blender", str(tmp_path), 3, 7, None)]


def test_the_command_compares_real_images_with_the_metrics(tmp_path, capsys, monkeypatch):
    lab = make_lab(tmp_path / "lab")
    weights = add_weights(lab, "subtraction")
    labelled = drawn(tmp_path / "labelled")
    monkeypatch.setattr("sys.argv", ["reality", str(weights), "--lab", str(lab), "--labelled", str(labelled)])
    with pytest.raises(InputError, match=r"score@tabletop-subtraction-1"):
        reality.main()
    metrics = {subset: {"true": 0.25} for subset in reality.RENDERED.values()}
    metrics_file = lab / "results/runs/tabletop/subtraction/1/metrics.json"
    write_json(metrics_file, metrics)
    monkeypatch.setattr(
        "sys.argv", [*sys.argv, "--figure", str(tmp_path / "a.svg"), "--out", str(tmp_path / "a.json")]
    )
    reality.main()
    assert "| subtraction | 25.0 | 25.0 | 25.0 | 0 (0 to 0) | 0 (0 to 0) |" in capsys.readouterr().out
    assert len(json.loads((tmp_path / "a.json").read_text())["subtraction"]["real"]["unchanged"]) == 2
    assert (tmp_path / "a.svg").read_text().count("subtraction") >= 1


def drawn(folder):
    """Write two labelled scenes of one red cube each, which becomes blue."""
    cube = {"size": "large", "color": "red", "material": "rubber", "shape": "cube", "x": 40, "y": 30}
    lines = [{"scene": scene, "objects": [cube], "changed": 0, "new_color": "blue"} for scene in range(2)]
    for number, name in itertools.product(range(2), IMAGES):
        path = folder / name.format(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (96, 64), (90, 90, 20 * number)).save(path)
    (folder / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder
