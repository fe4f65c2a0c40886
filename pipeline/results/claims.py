"""The papers' claims that one model is better than another or than its ablation, held against the records."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from pipeline.results.record_comparisons import Group
from pipeline.scoring.metric_names import CIDER, CLAIMED, TRUE_CHANGES
from pipeline.statistics.comparisons import Comparison, compare_all, signed


@dataclass(frozen=True)
class Claim:
    """That `better` is better than `worse`, by their names (Group.name)."""

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
HOLDS, FAILS, OPEN, SILENT = "holds", "does not hold", "cannot be told", "not begun"
LEAST_SEEDS = 3  # fewer say nothing of the spread


@dataclass(frozen=True)
class Finding:
    """What one metric says of a claim; `difference` and `margin` are fractions."""

    said: str
    difference: Comparison
    margin: float | None  # what chance over seeds may make of the difference; None where a model has one seed


@dataclass(frozen=True)
class Verdict:
    """What the records say of a claim on one dataset, by CLAIMED."""

    claim: Claim
    dataset: str
    seeds: int  # of the model that has fewer
    by: dict[str, Finding]

    @property
    def disagreement(self) -> str | None:
        """What truth and CIDEr-D say, in a sentence; None where they say the same."""
        truth, cider = self.by[TRUE_CHANGES], self.by[CIDER]
        if truth.said == cider.said:
            return None
        claim = f"{self.claim.better} > {self.claim.worse} ({self.claim.source}) on {self.dataset}"
        told = [f"*{finding.said}* ({signed(finding.difference.difference)})" for finding in (truth, cider)]
        return f"{claim}: by truth {told[0]}, by {CIDER} {told[1]}."


def verdicts(groups: Sequence[Group]) -> list[Verdict]:
    """Of every claim both of whose models are recorded on the groups' dataset.

    By a metric a claim holds, or fails, where the paired bootstrap over test pairs is significant after
    Holm's correction for all claims here, and the difference exceeds its margin over seeds. A model that
    has not begun to learn is a fault of the budget: that it be the better one neither holds nor fails.
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
    return Finding(told if better.begun else SILENT, found, margin)


def seeds_margin(a: Group, b: Group, metric: str = TRUE_CHANGES) -> float | None:
    """Half the 95 % interval of the difference of two means over seeds; None where either has one seed.

    Welch's, for models whose spreads differ: few seeds say little of the spread, too, so that three of each
    want a difference of 2.8 (equal spreads) to 4.3 (all of it one model's) times its standard error.
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
