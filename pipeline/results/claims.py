"""The papers' claims that one model is better than another or than its ablation, held against the records."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from pipeline.results.record_comparisons import Group
from pipeline.scoring.metric_names import CLAIMED, TRUE_CHANGES
from pipeline.statistics.comparisons import Comparison, compare_all


@dataclass(frozen=True)
class Claim:
    """A paper's claim that `better` beats `worse`, both named as Group.name."""

    source: str
    better: str
    worse: str


CLAIMS = (
    Claim("SCORER, Table 6", "rr", "subtraction"),
    Claim("SCORER, Table 6", "scorer", "rr"),
    Claim("SCORER, Table 6", "rr_cbr", "rr"),
    Claim("SCORER, Table 6", "scorer_cbr", "scorer"),
    Claim("SCORER, Table 6", "scorer_cbr", "rr_cbr"),
    Claim("SCORER, Table 1", "scorer_cbr", "subtraction"),
    Claim("SCORER, Figure 3", "scorer", "scorer (mtm single_head)"),
    Claim("SCORER, Figure 3", "scorer", "scorer (mtm max_pool)"),
    Claim("SCORER, Figure 3", "scorer", "scorer (mtm mean_pool)"),
    Claim("SCORER, Figure 13", "scorer", "scorer (contrast distance)"),
    Claim("DIRL, Table 6", "dirl", "transformer"),
    Claim("DIRL, Table 6", "ccr", "transformer"),
    Claim("DIRL, Table 6", "dirl_ccr", "dirl"),
    Claim("DIRL, Table 6", "dirl_ccr", "ccr"),
    Claim("DIRL, Table 1", "dirl_ccr", "scorer_cbr"),
    Claim("DIRL, Table 7", "dirl", "dirl (terms non_perturbation)"),
    Claim("DIRL, Table 7", "dirl", "dirl (terms discrimination)"),
    Claim("CLIP4IDC, Table 4", "clip4idc_no_adapt", "clip_ft"),
    Claim("CLIP4IDC, Table 4", "clip4idc", "clip4idc_no_adapt"),
    Claim("IDC-PCL, Table 3", "idc_pcl", "idc_pcl_no_pretrain"),
    Claim("IDC-PCL, Table 3", "idc_pcl (tasks mlm)", "idc_pcl_no_pretrain"),
    Claim("IDC-PCL, Table 3", "idc_pcl (tasks mlm_mvcl)", "idc_pcl (tasks mlm)"),
    Claim("IDC-PCL, Table 3", "idc_pcl", "idc_pcl (tasks mlm_mvcl)"),
    Claim("IDC-PCL, Table 4", "idc_pcl", "idc_pcl (difference_encoder false)"),
    Claim("IDC-PCL, Table 5", "idc_pcl", "idc_pcl (distractor_judging false)"),
)
HOLDS, FAILS, OPEN, CHANCE = "holds", "does not hold", "undecided", "at chance"
LEAST_SEEDS = 3  # fewer tell nothing about the spread


@dataclass(frozen=True)
class Finding:
    """The verdict of one metric on a claim; `difference` and `margin` are fractions."""

    said: str
    difference: Comparison
    margin: float | None  # half the 95 % interval over seeds; None where a model has one seed

    @property
    def decided(self) -> bool:
        return self.said in (HOLDS, FAILS)


@dataclass(frozen=True)
class Verdict:
    """The verdict of the records of one dataset on a claim, by each metric of CLAIMED."""

    claim: Claim
    dataset: str
    seeds: int  # of the model that has fewer
    by: dict[str, Finding]


def verdicts(groups: Sequence[Group]) -> list[Verdict]:
    """Return a verdict on every claim both of whose models are recorded on the groups' dataset.

    A claim is decided by a metric where the paired bootstrap over test pairs is significant after Holm's
    correction for all claims here, and the difference exceeds its margin over seeds. A model that is still
    at chance was not trained long enough: a claim that it is better neither holds nor fails.
    """
    named = {group.name: group for group in groups}
    asked = [claim for claim in CLAIMS if claim.better in named and claim.worse in named]
    if not asked:
        return []
    between = [(claim.better, claim.worse) for claim in asked]
    found = compare_all({name: group.evidence() for name, group in named.items()}, between=between)
    return [_verdict(claim, named, found[claim.better, claim.worse]) for claim in asked]


def _verdict(claim: Claim, named: dict[str, Group], found: dict[str, Comparison]) -> Verdict:
    better, worse = named[claim.better], named[claim.worse]
    seeds = min(len(better.records), len(worse.records))
    by = {metric: _finding(better, worse, found[metric]) for metric in CLAIMED}
    return Verdict(claim, better.dataset, seeds, by)


def _finding(better: Group, worse: Group, found: Comparison) -> Finding:
    margin = seeds_margin(better, worse, found.metric)
    enough = min(len(better.records), len(worse.records)) >= LEAST_SEEDS
    sure = enough and margin is not None and abs(found.difference) > margin and found.significant
    told = OPEN if not sure else HOLDS if found.difference > 0 else FAILS
    return Finding(told if better.begun else CHANCE, found, margin)


def seeds_margin(a: Group, b: Group, metric: str = TRUE_CHANGES) -> float | None:
    """Return half the 95 % interval of a difference of means over seeds; None where a model has one seed.

    Welch's t, for models whose spreads differ. Few seeds tell little about the spread, too: with three seeds
    each, the margin is 2.8 (equal spreads) to 4.3 (all of it one model's) times the standard error.
    """
    scores = [group.score("total", metric) for group in (a, b)]
    if any(score.sd is None for score in scores):
        return None
    parts = [((score.sd or 0.0) ** 2 / score.runs, score.runs - 1) for score in scores]
    variance = sum(part for part, _ in parts)
    if variance == 0:
        return 0.0
    freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)  # Welch and Satterthwaite
    return math.sqrt(variance) * float(stdtrit(freedom, 0.975))
