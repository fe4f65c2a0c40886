"""Verdicts on the papers' claims: they need pairs, seeds and a model above chance."""

import math
from statistics import stdev

import pytest
import yaml

from pipeline.config import resolving
from pipeline.config.params import Params
from pipeline.results import claims, record_tables
from pipeline.scoring.metric_names import ACCURACY, CIDER, TRUE_CHANGED
from tests import project_params
from tests.recorded import PAIRS, groups, write


def by_accuracy(root):
    (verdict,) = claims.verdicts(record_tables.read(root, "tabletop"))
    return verdict.findings[ACCURACY]


def test_a_claim_holds_if_pairs_and_seeds_agree(root):
    (verdict,) = claims.verdicts(record_tables.read(root, "tabletop"))
    assert (verdict.claim.better, verdict.claim.worse, verdict.seeds) == ("rr", "subtraction", 3)
    # of both models: 2 + 2 degrees of freedom, of which t's table has 2.776
    deviations = {ACCURACY: stdev([4, 5, 6]) / PAIRS, CIDER: stdev([0.51, 0.52, 0.53])}
    differences = {ACCURACY: 15 / PAIRS, CIDER: 15 / PAIRS}
    # of 20 changes, the even places, rr is wrong about 2, 3 and 3, subtraction about 10, 11 and 10
    truth = verdict.findings.pop(TRUE_CHANGED)
    assert truth.result == "holds"
    assert truth.difference.difference == pytest.approx((31 - 8) / 3 / 20)
    deviation = stdev([2, 3, 3]) / 20  # as large as subtraction's
    assert truth.margin == pytest.approx(2.776 * math.sqrt(2 * deviation**2 / 3), rel=1e-3)
    for metric, finding in verdict.findings.items():
        assert finding.result == "holds"
        assert finding.difference.metric == metric
        assert finding.difference.difference == pytest.approx(differences[metric])
        assert finding.margin == pytest.approx(2.776 * math.sqrt(2 * deviations[metric] ** 2 / 3), rel=1e-3)


def test_a_claim_fails_if_the_worse_model_is_better(root):
    for seed in (1, 2, 3):
        write(root, "rr", seed, 35)
    finding = by_accuracy(root)
    assert finding.result == "does not hold"


@pytest.mark.parametrize("reason", ["two seeds", "seeds differ more", "few pairs differ"])
def test_a_claim_is_undecided(root, reason):
    if reason == "two seeds":
        (root / "results/records/tabletop/rr-3.json").unlink()
    for seed, wrong in enumerate(
        {"seeds differ more": (0, 0, 36), "few pairs differ": (19, 19, 18)}.get(reason, ()), 1
    ):
        write(root, "rr", seed, wrong)
    finding = by_accuracy(root)
    assert finding.result == "undecided"


def test_the_margin_over_seeds_is_welchs(root):
    """Three seeds each, one model has all the spread: t's table has 4.303 for 2 degrees of freedom."""
    for seed, wrong in enumerate((2, 10, 18), 1):
        write(root, "rr", seed, wrong)
        write(root, "subtraction", seed, 20)
    finding = by_accuracy(root)
    assert finding.margin == pytest.approx(4.303 * 8 / PAIRS / math.sqrt(3), rel=1e-3)
    assert finding.difference.difference == pytest.approx(10 / PAIRS)
    assert finding.result == "undecided"
    assert claims.seeds_margin(*(groups(root)["subtraction"] for _ in range(2))) == 0.0
    assert claims.seeds_margin(next(groups(root)["rr"].by_seed()), groups(root)["rr"]) is None


def test_a_claim_on_an_ablation_names_the_changed_setting(root):
    changes = {"model.idc_pcl.switches.distractor_judging": False}
    for seed in (1, 2, 3):
        write(root, "idc_pcl", seed, 4 + seed)
        write(root, "idc_pcl", seed, 20 + seed, changes=changes)
    verdicts = claims.verdicts(record_tables.read(root, "tabletop"))
    assert [
        (verdict.claim.better, verdict.claim.worse, verdict.findings[ACCURACY].result) for verdict in verdicts
    ] == [
        ("rr", "subtraction", "holds"),
        ("idc_pcl", "idc_pcl (distractor_judging false)", "holds"),
    ]


@pytest.mark.parametrize("name", sorted({name for own in claims.CLAIMS for name in (own.better, own.worse)}))
def test_claims_name_models_and_switches(name):
    tree = project_params.tree()
    model, _, changed = name.partition(" (")
    switch, _, value = changed.removesuffix(")").partition(" ")
    if changed:
        tree["model"][model]["switches"][switch] = yaml.safe_load(value)
    assert resolving.resolve(Params.model_validate(tree), "tabletop", model).model == model


@pytest.mark.parametrize(("silent", "said"), [("rr", "at chance"), ("subtraction", "holds")])
def test_no_claim_on_a_model_at_chance_fails(root, silent, said):
    for seed in (1, 2, 3):
        write(root, silent, seed, 37 + seed % 2)
    assert by_accuracy(root).result == said
