"""Agreement of metrics with truth: rank correlations against SciPy, counts against loops."""

import json
import random
from itertools import combinations
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import spearmanr

from pipeline.results import metric_agreement, record_comparisons, records
from pipeline.scoring.metric_names import ACCURACY, CIDER, TRUE_CHANGES
from tests.recorded import PAIRS, write

CHANCE = random.Random(3)


@pytest.fixture
def groups(tmp_path):
    """Five models; CIDEr-D ranks all but one as truth does, and single captions partly at random."""
    for place, model in enumerate(("rr", "ccr", "scorer", "dirl", "subtraction")):
        for seed in (1, 2):
            wrong = 4 + 6 * place + seed
            write(tmp_path, model, seed, wrong)
            file = tmp_path / f"results/records/tabletop/{model}-{seed}.json"
            record = json.loads(file.read_text())
            for part in record["scores"].values():
                part[CIDER] = 1.0 - wrong / 100 if model != "scorer" else 2.0
            said = [CHANCE.randrange(40) / 10 + (mark == "1") for mark in record["true"]]
            record[CIDER] = records.packed(said, 3)
            file.write_text(json.dumps(record))
    return record_comparisons.read(tmp_path, "tabletop")


def by_name(groups):
    return {own.metric: own for own in metric_agreement.metric_agreements(groups)}


def test_the_correlation_over_runs_is_scipys(groups):
    runs = [one for group in groups for one in group.each()]
    truth = [one.score("total", TRUE_CHANGES).mean for one in runs]
    cider = [one.score("total", CIDER).mean for one in runs]
    found = by_name(groups)[CIDER]
    assert found.runs.value == pytest.approx(spearmanr(cider, truth).statistic)
    assert found.runs.low < found.runs.value < found.runs.high
    assert found.pairs is None
    right = [one.score("total", ACCURACY).mean for one in runs]
    expected = spearmanr(right, truth).statistic  # with ties
    assert by_name(groups)[ACCURACY].runs.value == pytest.approx(expected)


def test_the_interval_resamples_models_with_their_seeds(groups):
    truth, cider = (
        [[one.score("total", metric).mean for one in group.each()] for group in groups]
        for metric in (TRUE_CHANGES, CIDER)
    )
    random_ = np.random.default_rng(metric_agreement.SEED)
    drawn = []
    for models in random_.integers(0, len(groups), (metric_agreement.RESAMPLES, len(groups))):
        a, b = ([value for model in models for value in own[model]] for own in (truth, cider))
        if len(set(a)) > 1 and len(set(b)) > 1:
            drawn.append(slow_spearman(a, b))
    low, high = np.quantile(drawn, [0.025, 0.975])
    found = by_name(groups)[CIDER].runs
    assert (found.low, found.high) == pytest.approx((low, high))


def slow_spearman(a, b):
    def rank(values, value):
        return sum((other < value) + (other == value) / 2 for other in values)

    return np.corrcoef([rank(a, value) for value in a], [rank(b, value) for value in b])[0, 1]


def test_the_correlation_over_captions_is_scipys(groups):
    each = []
    preferred = []
    for group in groups:
        for record in group.records:
            told = [(record[CIDER][place], record["true"][place] == "1") for place in range(0, PAIRS, 2)]
            each.append(spearmanr(*zip(*told, strict=True)).statistic)
            true, false = ([value for value, own in told if own is wanted] for wanted in (True, False))
            preferred.append(fmean((a > b) + (a == b) / 2 for a in true for b in false))
    found = by_name(groups)[metric_agreement.CIDER_CHANGES]
    assert found.pairs.value == pytest.approx(fmean(each))
    assert found.preference == pytest.approx(fmean(preferred))
    assert 0.5 < found.preference < 1


def test_runs_ranked_differently_by_a_loop(groups):
    count, wrong = 0, 0.0
    for a, b in combinations(groups, 2):
        for one in a.each():
            for other in b.each():
                true, cider = (
                    one.score("total", metric).mean - other.score("total", metric).mean
                    for metric in (TRUE_CHANGES, CIDER)
                )
                if true:
                    count += 1
                    wrong += 0.5 if cider == 0 else (true > 0) != (cider > 0)
    found = by_name(groups)
    assert found[CIDER].misranked == pytest.approx(wrong / count)
    assert 0 < found[CIDER].misranked < 0.5
    assert found[ACCURACY].misranked == 0
    assert metric_agreement.misranked([[1.0], [1.0]], [[0.5], [0.7]]) == 0.5
    assert (
        metric_agreement.misranked([[1.0, 2.0]], [[0.5, 0.7]]) is None
    )  # seeds of one model are not compared


def test_an_undefined_correlation_is_unknown(groups):
    assert metric_agreement.metric_agreements(groups[:1]) == []
    silent = [
        record_comparisons.replace(group, records=tuple(r | {"true": "0" * PAIRS} for r in group.records))
        for group in groups
    ]
    found = by_name(silent)[metric_agreement.CIDER_CHANGES]
    assert (found.runs.printed, found.misranked, found.preference) == ("–", None, None)
