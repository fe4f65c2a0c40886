"""The score tables: numbers of the metrics files, means and deviations over seeds."""

import pandas as pd
import pytest

from pipeline.io.errors import InputError
from pipeline.reporting import overview_table
from pipeline.reporting.score_table import means, of_subsets, score
from tests.report_lab import write_json


def made_up(*scores):
    return pd.concat(
        of_subsets({"total": own}, dataset="d", run=f"m/{seed}", model="m", seed=str(seed))
        for seed, own in enumerate(scores)
    )


def rows(scores):
    return overview_table.table("", overview_table.columns(scores), scores, each_seed=True).rows


def test_mean_and_sample_standard_deviation():
    scores = made_up(*({"CIDEr-D": value} for value in (1.0, 1.2, 1.7)))
    own = score(means(scores, ["model"]).loc["m"], ("total", "CIDEr-D"))
    # by hand: the deviations are -.3, -.1 and .4, their squares' sum is .26, and .26 / 2 = .13
    assert (own.mean, own.sd) == pytest.approx((1.3, 0.13**0.5))
    assert rows(scores)[-1] == ["m", "mean", "130.0 ± 36.1"]


def test_a_score_that_some_runs_lack_has_no_mean():
    scores = made_up({"CIDEr-D": 1.0, "SPICE": 0.3}, {"CIDEr-D": 1.2, "SPICE": None})
    assert [row[-1] for row in rows(scores)] == ["30.0", "–", "–"]


def test_scores_are_read_as_they_were_written(tmp_path):
    scores = made_up({"CIDEr-D": 0.1 + 0.2, "mean_length": 1e-17})
    (tmp_path / overview_table.SCORES).write_text(scores.to_csv(index=False))
    write_json(tmp_path / overview_table.NOTES, {"d": ["a line"]})
    found, notes = overview_table.read(tmp_path)
    assert found.equals(scores)
    assert notes == {"d": ["a line"]}


HEAD = "dataset,run,model,seed,subset,metric,value\n"
ROW = "d,r,m,1,total,x,"


@pytest.mark.parametrize("text", ["", "\x00", "a,b\n", f"{HEAD}{ROW}nan\n", f"{HEAD}{ROW}\n"])
def test_damaged_scores_are_refused(tmp_path, text):
    (tmp_path / overview_table.SCORES).write_text(text)
    with pytest.raises(InputError, match=r"scores\.csv.*; run `dvc repro`"):
        overview_table.read(tmp_path)


@pytest.mark.parametrize("value", [[1], {"d": "a line"}])
def test_damaged_notes_are_refused(tmp_path, value):
    (tmp_path / overview_table.SCORES).write_text(f"{HEAD}{ROW}0.5\n")
    write_json(tmp_path / overview_table.NOTES, value)
    with pytest.raises(InputError, match=r"notes\.json: .*; run `dvc repro`"):
        overview_table.read(tmp_path)
