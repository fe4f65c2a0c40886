"""Agreement of metrics with truth: rank correlations against SciPy, counts against loops."""

import json
import random
from itertools import combinations
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import spearmanr

from pipeline.results import metric_agreement, record_tables
from pipeline.scoring.metric_names import ACCURACY, CIDER, TRUE, TRUE_CHANGED
from tests.recorded import PAIRS, edit_pairs, write

CHANCE = random.Random(3)


@pytest.fixture
def groups(tmp_path):
    """Five models; CIDEr-D ranks all but one as truth does, and single captions partly at random."""
    for index, model in enumerate(("rr", "ccr", "scorer", "dirl", "subtraction")):
        for seed in (1, 2):
            wrong = 4 + 6 * index + seed
            write(tmp_path, model, seed, wrong)
            file = tmp_path / f"results/records/tabletop/{model}-{seed}.json"
            record = json.loads(file.read_text())
            for subset in record["scores"].values():
                subset[CIDER] = 1.0 - wrong / 100 if model != "scorer" else 2.0
            file.write_text(json.dumps(record))
            scores = [CHANCE.randrange(40) / 10 + (place >= wrong) for place in range(PAIRS)]
            edit_pairs(file, **{CIDER: scores})
    return [*record_tables.read(tmp_path, "tabletop").groups]


def by_name(groups):
    return {agreement.metric: agreement for agreement in metric_agreement.metric_agreements(groups)}


def test_the_correlation_over_runs_is_scipys(groups):
    truth, cider, right = (
        [value for group in groups for value in group.values(("total", metric))]
        for metric in (TRUE_CHANGED, CIDER, ACCURACY)
    )
    agreement = by_name(groups)[CIDER]
    assert agreement.runs.value == pytest.approx(spearmanr(cider, truth).statistic)
    assert agreement.runs.low < agreement.runs.value < agreement.runs.high
    assert agreement.pairs is None
    expected = spearmanr(right, truth).statistic  # with ties
    assert by_name(groups)[ACCURACY].runs.value == pytest.approx(expected)


def test_the_interval_resamples_models_with_their_seeds(groups):
    truth, cider = ([group.values(("total", metric)) for group in groups] for metric in (TRUE_CHANGED, CIDER))
    random_ = np.random.default_rng(metric_agreement.SEED)
    correlations = []
    for models in random_.integers(0, len(groups), (metric_agreement.RESAMPLES, len(groups))):
        a, b = ([value for model in models for value in scores[model]] for scores in (truth, cider))
        if len(set(a)) > 1 and len(set(b)) > 1:
            correlations.append(slow_spearman(a, b))
    low, high = np.quantile(correlations, [0.025, 0.975])
    correlation = by_name(groups)[CIDER].runs
    assert (correlation.low, correlation.high) == pytest.approx((low, high))


def slow_spearman(a, b):
    def rank(values, value):
        return sum((other < value) + (other == value) / 2 for other in values)

    return np.corrcoef([rank(a, value) for value in a], [rank(b, value) for value in b])[0, 1]


def test_the_correlation_over_captions_is_scipys(groups):
    correlations = []
    preferred = []
    for group in groups:
        for run in group.by_seed():
            rows = [*zip(run.pairs[CIDER], run.pairs[TRUE] == 1, strict=True)]
            scored = [rows[position] for position in range(0, PAIRS, 2)]
            correlations.append(spearmanr(*zip(*scored, strict=True)).statistic)
            true, false = (
                [value for value, is_true in scored if is_true is truth] for truth in (True, False)
            )
            preferred.append(fmean((a > b) + (a == b) / 2 for a in true for b in false))
    agreement = by_name(groups)[metric_agreement.CIDER_CHANGED]
    assert agreement.pairs.value == pytest.approx(fmean(correlations))
    assert agreement.preference == pytest.approx(fmean(preferred))
    assert 0.5 < agreement.preference < 1


def test_runs_ranked_differently_by_a_loop(groups):
    count, wrong = 0, 0.0
    for a, b in combinations(groups, 2):
        for one in a.by_seed():
            for other in b.by_seed():
                true, cider = (
                    one.values(("total", metric))[0] - other.values(("total", metric))[0]
                    for metric in (TRUE_CHANGED, CIDER)
                )
                if true:
                    count += 1
                    wrong += 0.5 if cider == 0 else (true > 0) != (cider > 0)
    agreements = by_name(groups)
    assert agreements[CIDER].misranked == pytest.approx(wrong / count)
    assert 0 < agreements[CIDER].misranked < 0.5
    assert agreements[ACCURACY].misranked == 0
    assert metric_agreement.misranked([[1.0], [1.0]], [[0.5], [0.7]]) == 0.5
    assert (
        metric_agreement.misranked([[1.0, 2.0]], [[0.5, 0.7]]) is None
    )  # seeds of one model are not compared


def test_an_undefined_correlation_is_unknown(groups, tmp_path):
    assert metric_agreement.metric_agreements(groups[:1]) == []
    for file in (tmp_path / "results/records/tabletop").glob("*-?.json"):
        edit_pairs(file, true=0)
    silent = [*record_tables.read(tmp_path, "tabletop").groups]
    agreement = by_name(silent)[metric_agreement.CIDER_CHANGED]
    assert (agreement.runs.printed, agreement.misranked, agreement.preference) == ("–", None, None)
