"""Check the papers' claims (claims.yaml) that one model is better than another, against the records."""

import math
from dataclasses import dataclass
from pathlib import Path

import yaml

from pipeline.results.record_tables import Records
from pipeline.scoring.metric_names import CLAIMED, TOTAL, TRUE_CHANGED
from pipeline.statistics.comparisons import Comparison, compare_all


@dataclass(frozen=True)
class PaperClaim:
    """A paper's claim that the model `better` beats the model `worse` (values of Records.name)."""

    source: str
    better: str
    worse: str


FILE = Path(__file__).with_name("claims.yaml")
CLAIMS = tuple(
    PaperClaim(source, *models)
    for source, claims in yaml.safe_load(FILE.read_text(encoding="utf-8")).items()
    for models in claims
)
HOLDS, FAILS, OPEN, CHANCE = "holds", "does not hold", "undecided", "at chance"
LEAST_SEEDS = 3  # fewer seeds do not show the spread


@dataclass(frozen=True)
class Finding:
    """Result of checking a claim "model a is better than model b" with one metric.

    `result` is HOLDS, FAILS, OPEN or CHANCE. `difference` is the score of a minus the score of b, with
    its 95 % interval over test pairs. Scores are fractions.
    """

    result: str
    difference: Comparison
    margin: float | None  # half the 95 % interval over seeds; None if a model has one seed


@dataclass(frozen=True)
class ClaimVerdict:
    """Result of checking one claim of a paper on one dataset, with a Finding for each metric."""

    claim: PaperClaim
    dataset: str
    seeds: int  # number of seeds of the model with fewer seeds
    findings: dict[str, Finding]  # metric of CLAIMED -> finding

    @property
    def decided(self) -> bool:
        return any(finding.result in (HOLDS, FAILS) for finding in self.findings.values())


def verdicts(records: Records) -> list[ClaimVerdict]:
    """Return a verdict on each claim whose two models have records.

    A metric decides a claim if all of these conditions are met:
    - Both models have at least LEAST_SEEDS seeds.
    - The paired bootstrap over test pairs is significant after Holm's correction.
    - The difference between the models' scores is larger than `seeds_margin`.
    - The model that the claim calls better is above chance (Records.above_chance).
    """
    by_name = {group.name: group for group in records.groups}
    known_claims = [claim for claim in CLAIMS if {claim.better, claim.worse} <= by_name.keys()]
    if not known_claims:
        return []
    comparisons = compare_all(
        {name: group.evidence for name, group in by_name.items()},
        between=[(claim.better, claim.worse) for claim in known_claims],
    )
    all_verdicts = []
    for claim in known_claims:
        better, worse = by_name[claim.better], by_name[claim.worse]
        comparison = comparisons[claim.better, claim.worse]
        seeds = min(len(better), len(worse))
        findings = {metric: _finding(better, worse, comparison[metric], seeds) for metric in CLAIMED}
        all_verdicts.append(ClaimVerdict(claim, records.dataset, seeds, findings))
    return all_verdicts


def _finding(better: Records, worse: Records, comparison: Comparison, seeds: int) -> Finding:
    margin = seeds_margin(better, worse, comparison.metric)
    is_sure = seeds >= LEAST_SEEDS and margin is not None and abs(comparison.difference) > margin
    result = (
        OPEN if not (is_sure and comparison.significant) else HOLDS if comparison.difference > 0 else FAILS
    )
    return Finding(result if len(better.above_chance) else CHANCE, comparison, margin)


def seeds_margin(a: Records, b: Records, metric: str = TRUE_CHANGED) -> float | None:
    """Return half of Welch's 95 % interval of the difference of means over seeds; None for one seed."""
    scores = [group.score((TOTAL, metric)) for group in (a, b)]
    terms = [(score.sd**2 / score.runs, score.runs - 1) for score in scores if score and score.sd is not None]
    if len(terms) < 2:
        return None
    variance = sum(term for term, _ in terms)
    if variance == 0:
        return 0.0
    freedom = variance**2 / sum(term**2 / degrees for term, degrees in terms)  # Welch and Satterthwaite
    from scipy.special import stdtrit

    return math.sqrt(variance) * float(stdtrit(freedom, 0.975))
