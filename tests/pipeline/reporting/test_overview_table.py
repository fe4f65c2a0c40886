"""The score tables: numbers of the metrics files, means and deviations over seeds."""

import pytest

from pipeline.io.errors import InputError
from pipeline.reporting import overview_table
from tests.report_lab import write_json


def made_up(*values):
    return [
        {"dataset": "d", "model": "m", "seed": seed, "subset": "total", "CIDEr-D": value}
        for seed, value in enumerate(values)
    ]


def test_mean_and_sample_standard_deviation():
    *_, last = overview_table.rows(made_up(1.0, 1.2, 1.7), "d")
    # by hand: the deviations are -.3, -.1 and .4, their squares' sum is .26, and .26 / 2 = .13
    assert last.seed == "mean"
    own = last.scores["total", "CIDEr-D"]
    assert (own.mean, own.sd) == pytest.approx((1.3, 0.13**0.5))
    assert last.printed("total", "CIDEr-D") == "130.0 ± 36.1"


def test_a_score_that_some_runs_lack_has_no_mean():
    records = made_up(1.0, 1.2)
    records[0]["SPICE"] = 0.3
    first, second, last = overview_table.rows(records, "d")
    assert [row.printed("total", "SPICE") for row in (first, second, last)] == ["30.0", "–", "–"]


@pytest.mark.parametrize("value", [{}, [1], [{"model": "m"}], [made_up(0.5)[0] | {"CIDEr-D": "x"}]])
def test_damaged_scores_are_refused(tmp_path, value):
    write_json(tmp_path / "scores.json", value)
    with pytest.raises(InputError, match=r"scores\.json: .*; run `dvc repro`"):
        overview_table.read(tmp_path / "scores.json")
