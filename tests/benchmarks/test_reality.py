"""Scores of rendered pairs beside those of labelled images: rank correlations, intervals and the table."""

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
from pipeline.tabletop.dataset import PICTURES
from tests.small_lab import add_weights, make_lab

SHARES = (0.1, 0.3, 0.5, 0.7)


def row(model, rendered, real, scenes=60):
    """A model whose captions are true of `rendered` of all pairs, and of `real` of the scenes."""
    true = np.arange(scenes) < real * scenes
    return Row(model, dict.fromkeys(reality.RENDERED, rendered), true, ~true)


def rank_correlation(one, other):
    """Spearman's: Pearson's of ranks, written out."""
    one, other = rankdata(one), rankdata(other)
    one, other = one - one.mean(), other - other.mean()
    return (one * other).sum() / np.sqrt((one**2).sum() * (other**2).sum())


def test_models_in_the_same_order_correlate_and_in_the_opposite_order_do_the_contrary():
    same = [row(str(share), share, share**2) for share in SHARES]
    lines = reality.correlations(same)
    assert [line.partition(": ")[2].split()[0] for line in lines] == ["1.00", "1.00", "-1.00"]


def test_the_correlation_is_that_of_ranks():
    shares = (0.2, 0.6, 0.1, 0.9, 0.9)
    rows = [
        row(str(place), share, real)
        for place, (share, real) in enumerate(zip(shares, (0.5, 0.4, 0.1, 0.6, 0.2), strict=True))
    ]
    expected = rank_correlation(shares, [each.changed.mean() for each in rows])
    assert f": {expected:.2f} (" in reality.correlations(rows)[0]


def test_resamples_surround_the_correlation_and_vary():
    rows = [row(str(place), share, share) for place, share in enumerate((0.1, 0.2, 0.3, 0.25, 0.5))]
    found = reality.resampled(
        np.array([each.rendered["changes"] for each in rows]), np.stack([each.changed for each in rows])
    )
    found = found[~np.isnan(found)]
    assert found.min() < found.max()
    assert found.max() <= 1.0 + 1e-9


def test_an_interval_holds_its_share():
    assert reality.interval(np.arange(100) < 40).startswith("40 (3")
    assert reality.interval(np.ones(100)) == "100 (100 to 100)"


def test_the_command_judges_weights_beside_their_metrics(tmp_path, capsys, monkeypatch):
    lab = make_lab(tmp_path / "lab")
    weights = add_weights(lab, "subtraction")
    labelled = drawn(tmp_path / "labelled")
    monkeypatch.setattr("sys.argv", ["reality", str(weights), "--lab", str(lab), "--labelled", str(labelled)])
    with pytest.raises(InputError, match=r"score@tabletop-subtraction-1"):
        reality.main()
    metrics = {subset: {"true": 0.25} for subset in reality.RENDERED.values()}
    place = lab / "results/cells/tabletop/subtraction/1/metrics.json"
    write_json(place, metrics)
    monkeypatch.setattr(
        "sys.argv", [*sys.argv, "--figure", str(tmp_path / "a.svg"), "--out", str(tmp_path / "a.json")]
    )
    reality.main()
    assert "| subtraction | 25.0 | 25.0 | 25.0 | 0 (0 to 0) |" in capsys.readouterr().out
    assert len(json.loads((tmp_path / "a.json").read_text())["subtraction"]["real"]["unchanged"]) == 2
    assert (tmp_path / "a.svg").read_text().count("subtraction") >= 1


def drawn(folder):
    """Two labelled scenes of one red cube each, which becomes blue."""
    thing = {"size": "large", "color": "red", "material": "rubber", "shape": "cube", "x": 40, "y": 30}
    lines = [{"scene": scene, "objects": [thing], "changed": 0, "new_color": "blue"} for scene in range(2)]
    for number, name in itertools.product(range(2), PICTURES):
        path = folder / name.format(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (96, 64), (90, 90, 20 * number)).save(path)
    (folder / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder
